from __future__ import annotations

import pytest

from steelyard.config import load
from steelyard.errors import ConfigError


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("--loss.kl.coeficient=1", "loss.kl.coeficient = 1: unknown key; did you mean loss.kl.coefficient?"),
        ("--optimizer.lr=1", "optimizer = {'lr': 1}: unknown key; did you mean optimiser?"),
        ("--sampling.group-size=4", "sampling.group-size = 4: unknown key; did you mean sampling.group_size?"),
        ("--lr=1", "lr = 1: unknown key; did you mean judge.lr or optimiser.lr or warmstart.lr?"),
        ("--sampling.lr=1", "sampling.lr = 1: unknown key; did you mean judge.lr or optimiser.lr or warmstart.lr?"),
        ("--run.epochs=1", "run.epochs = 1: unknown key; did you mean optimiser.epochs?"),
        ("--loss.epoch=1", "loss.epoch = 1: unknown key; did you mean optimiser.epochs?"),
        ("--tracking.steps=1", "tracking.steps = 1: unknown key; did you mean run.steps or "),
        ("--model.lora.dropout=0.1", "model.lora.dropout = 0.1: unknown key"),
        ("--loss.surrogate=pp_clip", "must be one of ppo_clip, gspo, cispo, reinforce; did you mean ppo_clip?"),
        ("--credit.advantage=group_nrom", "or your own as module:function; did you mean group_norm?"),
        ("--run.steps=ten", "run.steps = 'ten': must be an integer"),
        ("--run.steps=2.5", "run.steps = 2.5: must be an integer"),
        ("--run.steps=true", "run.steps = True: must be an integer"),
        ("--run.steps=0", "run.steps = 0: must be at least 1"),
        ("--run.name=a/b", "run.name = 'a/b': must be a valid folder name"),
        ("--tracking.wandb=maybe", "tracking.wandb = 'maybe': must be true or false"),
        ("--optimiser.lr=nan", "optimiser.lr = nan: must be finite"),
        ("--optimiser.lr=0", "optimiser.lr = 0: must be greater than 0"),
        ("--optimiser.betas=[0.9]", "optimiser.betas.1: is required"),
        ("--sampling.top_p=0", "sampling.top_p = 0: must be greater than 0"),
        ("--sampling.top_p=1.5", "sampling.top_p = 1.5: must be at most 1"),
        ("--sampling.min_p=1", "sampling.min_p = 1: must be less than 1"),
        ("--loss.clip_low=1", "loss.clip_low = 1: must be less than 1"),
        ("--loss.clip_high=0", "loss.clip_high = 0: must be greater than 0"),
        ("--sampling.group_size=1", "must be at least 2: a sample is credited relative to its group"),
        ("--sampling.group_size=x", "sampling.group_size = 'x': must be an integer"),
        ("--sampling.temperature=0", "greedy decoding makes every sample of a group the same"),
        ("--loss.dual_clip=1.0", "loss.dual_clip = 1.0: must be greater than 1"),
        ("--model.scratch.architecture=llama", "model.scratch.architecture = 'llama': was removed: model.kind selects"),
        ("--sampling.fill_order=confidence", "fill_order = 'confidence': was removed"),
        ("--model.lora=3", "model.lora = 3: must be a table"),
        ("--model.lora.targets=3", "model.lora.targets = 3: must be text or a list"),
        ("--loss.kl.coefficient=high", "loss.kl.coefficient = 'high': must be a number or a schedule table"),
        ("--loss.kl.coefficient=-1", "loss.kl.coefficient.start = -1: must be at least 0"),
        ("--loss.kl.coefficient={end=1}", "loss.kl.coefficient.start: is required"),
        ("--verify.verifier=checker", "must be an import path such as my_module:my_function"),
        ("--verify.verifiers=[{weight='x'}]", "verify.verifiers.0.weight = 'x': must be a number"),
        ("--evaluate.ks=[]", "evaluate.ks = []: must have at least 1 entry"),
        ("--tasks.file=''", "tasks.file = '': must not be empty"),
        ("--tasks.held_out=1.5", "tasks.held_out = 1.5: must be an integer or a fraction below 1"),
        ("--domain={name='x', options={a=1}}", "domain provides its own tasks"),
    ],
)  # fmt: skip
def test_each_problem_names_key_value_and_solution(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load("text", [override])
    assert message in str(caught.value)


def test_one_error_lists_every_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        load("text", ["--run.steps", "0", "--sampling.top_k=-1", "--los.x", "1"])
    text = str(caught.value)
    assert text.startswith("text: 3 problems\n")
    assert all(key in text for key in ("run.steps", "sampling.top_k", "los = "))


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(ConfigError) as caught:
        load("text", {"run.steps": "x" * 500})
    assert len(str(caught.value)) < 150
