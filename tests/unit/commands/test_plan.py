"""`steelyard plan`: a node with a 14B model, a cluster with hundreds of GPUs, and rejected arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.cli import main
from steelyard.commands.plan import BOTTLENECKS
from steelyard.errors import ConfigError
from steelyard.planning.hardware import ACCELERATORS, parse_machines, read_accelerators
from steelyard.planning.simulation import Pipeline, Spread, simulate

NODE = (
    "plan text --model.path qwen2.5-14b --model.gradient_checkpointing true --optimiser.name adamw_8bit "
    "--sampling.tasks_per_step 8 --sampling.group_size 64 --sampling.max_new_tokens 1200 --prompt-tokens 3440 "
    "--check-seconds 9 --check-p99 30"
)
"""512 samples of 1.2k tokens per step, with rank-64 LoRA on all linear layers."""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")


def output_of(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(line.split()) == 0
    return capsys.readouterr().out


def test_a_14b_model_with_lora_fits_on_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, f"{NODE} --gpus 8xh100 --cores 512")
    assert "14,770M parameters, 275M trained; 8 x 64 samples per step, 3,440 + 1,200 tokens" in text
    assert "of 80 GB: fits" in text
    for part in ("samplers", "verifiers", "learner", "publication", "verifier cores", "bottleneck", "Assumed:"):
        assert part in text
    assert "(512 given: enough)" in text


def test_a_node_split_into_learners_and_samplers_can_run_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, f"{NODE} --cores 512")
    assert text == output_of(capsys, f"{NODE} --cores 512 --learners 4xh100 --samplers 4xh100")
    assert "of 80 GB: fits" in text
    assert "4 replicas of 1 GPU on 4xh100" in text
    assert "in turn; " in text
    assert "not runnable yet" not in text
    assert "not runnable yet" not in output_of(capsys, f"{NODE} --gpus 1xh100")


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ("--gpus 8xh100", "several GPUs that sample and learn in turn"),
        ("--tensor 2", "a replica on 2 GPUs"),
        ("--model.quantize 4bit", "separate samplers for quantised weights"),
    ],
)
def test_a_layout_that_cannot_be_run_is_reported(capsys: pytest.CaptureFixture[str], words: str, missing: str) -> None:
    text = output_of(capsys, f"{NODE} {words}")
    assert f"not runnable yet: {missing}" in " ".join(text.split())
    assert "time per step" in text


def test_a_model_larger_than_a_gpu_has_no_sampler(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, "plan text --model.path llama-3.1-70b --model.gradient_checkpointing true")
    assert "of 80 GB: fits" in text
    assert "0 (with 141 GB of weights): does not fit" in text
    assert "4 replicas of 1 GPU" in text


def test_without_checkpointing_it_does_not_fit_and_a_solution_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, NODE.replace("--model.gradient_checkpointing true", ""))
    assert "does not fit" in text
    assert "model.gradient_checkpointing = true" in text


def test_a_cluster_overlaps_phases(capsys: pytest.CaptureFixture[str]) -> None:
    scaled = NODE.replace("tasks_per_step 8", "tasks_per_step 64")
    text = output_of(capsys, f"{scaled} --learners 64xh100 --samplers 64xh100 --cores 4000 --sampling.staleness 1")
    assert "overlapped, at most 1 behind" in text
    assert "29.5 GB to 8 nodes, by a tree" in text


APART = f"{NODE} --learners 16xh100 --samplers 16xh100 --cores 512"


def test_the_plan_matches_the_configuration_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """By default learners shard the weights and vLLM takes 40% of the memory; hints state the cost."""
    text = output_of(capsys, f"{APART} --sampling.engine vllm")
    assert "sharded over 16" in text
    assert "29.5 GB to 2 nodes" in text
    assert 'cluster.learners.sharding = "ddp": full copies fit (42.2 GB)' in text
    assert "sampling.vllm.memory = 0.9: " in text
    assert "could cache 165 rows" in text
    chosen = f"{APART} --sampling.engine vllm --sampling.vllm.memory 0.9 --cluster.learners.sharding ddp"
    text = output_of(capsys, chosen)
    assert "a full copy" in text
    assert "165 (with 29.5 GB of weights)" in text
    assert "hint" not in text
    assert "vLLM has 90% of a GPU's memory (sampling.vllm.memory)" in text


def test_the_assumed_engine_is_named_if_the_recipe_does_not_set_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "with up to 90% of a GPU's memory, though sampling.engine is local" in output_of(capsys, APART)


def test_quantised_weights_are_not_sharded(capsys: pytest.CaptureFixture[str]) -> None:
    assert "a full copy" in output_of(capsys, f"{APART} --model.quantize 4bit")


def test_too_few_cores_are_the_bottleneck(capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, f"{NODE} --gpus 8xh100 --cores 8")
    assert BOTTLENECKS["verifiers"].partition(":")[0] in text
    assert "(8 given: too few)" in text


def test_custom_machines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "machines.toml"
    file.write_text("[mine]\nmemory_gb = 80\nbandwidth_gbs = 3350\ntflops = 989\nlink_gbs = 450\nnetwork_gbs = 50\n")
    known = read_accelerators(file)
    assert parse_machines("8xMine", known).kind.bandwidth == ACCELERATORS["h100"].bandwidth
    ours, theirs = (
        output_of(capsys, f"{NODE} {where}") for where in (f"--hardware {file} --gpus 8xmine", "--gpus 8xh100")
    )
    assert ours.replace("8xmine", "8xh100").replace("mine 989", "h100 989") == theirs


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--gpus 8xh99", "8xh100"),
        ("--gpus eight", "8xh100"),
        ("--samplers 8xh100", "--learners and --samplers"),
        ("--gpus 1xh100 --tensor 2", "--tensor 2"),
        ("--hardware nowhere.toml", "nowhere.toml"),
        ("--check-seconds 0.1 --check-p99 30", "--check-p99"),
        ("--check-seconds 9 --check-p99 5", "--check-p99"),
        ("--tokens-p99 20", "--tokens-p99"),
    ],
)
def test_invalid_arguments_are_rejected(capsys: pytest.CaptureFixture[str], words: str, expected: str) -> None:
    assert main(["plan", "text", "--model.path", "smollm2-135m", *words.split()]) != 0
    assert expected in capsys.readouterr().err


def test_efficiencies_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    usual = output_of(capsys, f"{NODE} --gpus 8xh100 --cores 512")
    assert output_of(capsys, f"{NODE} --gpus 8xh100 --cores 512 --efficiency 0.5,0.4,0.7") == usual
    assert "60% (sampling), 30% (learning) and 80%" in output_of(
        capsys, f"{NODE} --gpus 8xh100 --efficiency 0.6,0.3,0.8"
    )


@pytest.mark.parametrize("shares", ["0.5", "0.5,0.4,2", "a,b,c"])
def test_shares_are_three_numbers(capsys: pytest.CaptureFixture[str], shares: str) -> None:
    with pytest.raises(SystemExit):
        main(["plan", "text", "--efficiency", shares])
    assert "three fractions" in capsys.readouterr().err


def test_an_incomplete_machine_table_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "machines.toml"
    file.write_text("[mine]\nmemory = 80\n")
    with pytest.raises(ConfigError, match="bandwidth_gbs"):
        read_accelerators(file)


def test_every_bottleneck_has_a_suggestion() -> None:
    outcome = simulate(Pipeline(1, 1, 1, 1, Spread(1), 0.1, 0.1, 0.1, 1, Spread(0.1), 0.1, 0.1, 0.1))
    assert set(BOTTLENECKS) == set(outcome.busy)


def test_a_model_from_scratch_can_be_planned(capsys: pytest.CaptureFixture[str]) -> None:
    assert "from scratch" in output_of(capsys, "plan sequences --gpus 1xrtx4090 --cores 8")
