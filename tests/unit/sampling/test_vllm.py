"""vLLM as the sampler: its log-probs match the learner, and new weights take effect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steelyard import config as configs
from steelyard.compose import build_trainer
from steelyard.compose.sampling import AdapterFolder, shape_of
from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import Constraint, members
from steelyard.constraints.examples.brackets import Brackets
from steelyard.errors import PolicyError
from steelyard.folders import run_folder
from steelyard.policies import adapters
from steelyard.policies.adapters import Lora, plain_tensors
from steelyard.policies.causal import CausalPolicy
from steelyard.policies.scratch import Architecture
from steelyard.sampling.base import Decoding, NextTurn, SampleRequest
from steelyard.sampling.partial_sample import PartialSample
from steelyard.sampling.vllm import Engine, EngineOptions, VllmSampler
from steelyard.sampling.vllm.engine import open_engine
from steelyard.training.supports import find_supports
from steelyard.types import CutRule, Sample, SampleKey, Task
from tests.scripted_episodes import Lengthening, Script, play
from tests.tiny import support_sets, tiny_policy

pytest.importorskip("vllm", reason="vLLM is not installed (docs/vllm.md)")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]

WORDS = ("(", ")", "[", "]", *(f"w{number}" for number in range(9)))
SHAPE = Architecture(layers=2, width=64, heads=2, kv_heads=1, max_length=256)
TASKS = (Task("short", "w1"), Task("middle", "w2 ( w3 ]"), Task("long", " ".join(WORDS * 11)))
"""The last prompt is longer than a block of the cache, so its block is reused."""
LIMIT = 14
RULES = (CutRule(), CutRule(0.7, top_p=0.9), CutRule(1.3, top_k=3), CutRule(1.0, top_p=0.8, min_p=0.1))
EXACT, CHANGED = 2e-5, 1e-2


def make_policy(**options: Any) -> CausalPolicy:
    return tiny_policy(words=WORDS, shape=SHAPE, sharpness=3.0, **options)


SHARED: list[Engine] = []
"""The engine shared by most tests, while it is open; a process can have only one at a time."""


@pytest.fixture
def engine() -> Engine:
    """Fewer rows than samples, so that requests enter, leave and move within the batch."""
    if not SHARED:
        SHARED.append(open_engine(shape_of(make_policy().model), EngineOptions(cache_gib=0.05, max_rows=5)))
    return SHARED[0]


@pytest.fixture
def alone() -> None:
    """Close the shared engine, for tests that need their own."""
    while SHARED:
        SHARED.pop().close()


@pytest.fixture(scope="module", autouse=True)
def closing() -> Iterator[None]:
    yield
    while SHARED:
        SHARED.pop().close()


@pytest.fixture
def policy() -> CausalPolicy:
    return make_policy()


def sampler_of(engine: Engine, policy: CausalPolicy, *, seed: int = 1) -> VllmSampler:
    sampler = VllmSampler(
        engine, policy.codec, policy.constraint, seed=seed, weights=lambda: plain_tensors(policy.model)
    )
    sampler.publish(0)
    return sampler


def brackets(policy: CausalPolicy) -> Constraint:
    return WordConstraint(
        Brackets(3, "()[]", 4), policy.tokenizer.get_vocab(), end_id=policy.end_id, vocabulary=policy.vocabulary
    )


def drawn(sampler: VllmSampler, rule: CutRule = CutRule(), *, count: int = 4, **decoding: Any) -> list[Sample]:
    requests = [SampleRequest(task, 3, slot, count) for slot, task in enumerate(TASKS)]
    settings = {"max_new_tokens": LIMIT, **decoding}
    return sorted(sampler.sample(requests, Decoding(rule, **settings)), key=lambda sample: sample.key)


@torch.no_grad()
def gap(policy: CausalPolicy, samples: Sequence[Sample]) -> float:
    """Return the largest |learner's log-prob - sampler's log-prob|."""
    kept = [sample for sample in samples if len(sample.decisions)]
    logp_N = policy.evaluate(policy.collate(kept)).logp_N.numpy()
    return float(np.abs(logp_N - np.concatenate([sample.decisions.logp_N for sample in kept])).max())


def disturb(policy: CausalPolicy, scale: float = 0.2, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in policy.trainable():
            parameter.add_(scale * parameter.abs().mean() * torch.randn(parameter.shape, generator=generator))


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_sampler_and_learner_agree(engine: Engine, policy: CausalPolicy, rule: CutRule, constrained: bool) -> None:
    policy.constraint = brackets(policy) if constrained else None
    samples = drawn(sampler_of(engine, policy), rule)
    assert [tuple(sample.key) for sample in samples] == [(3, slot, 0, index) for slot in range(3) for index in range(4)]
    assert gap(policy, samples) < EXACT
    assert not np.isin(np.concatenate([sample.completion_ids for sample in samples]), policy.excluded).any()
    assert not engine.tracked_samples


def test_decisions_are_the_choices_and_supports_the_allowed_tokens(engine: Engine, policy: CausalPolicy) -> None:
    policy.constraint = brackets(policy)
    samples = drawn(sampler_of(engine, policy))
    assert any(len(sample.decisions) < len(sample.completion_ids) for sample in samples)  # some tokens were forced
    for sample in samples:
        walk, places, sets = policy.constraint.begin(TASKS[sample.key.slot]), list[int](), list[list[int]]()
        for place, token in enumerate(sample.completion_ids.tolist()):
            options = members(walk.allowed(LIMIT - place)).tolist()
            assert token in options
            if len(options) > 1:
                places.append(place)
                sets.append(options)
            walk.advance(token)
        assert sample.finish == "stop"
        assert (sample.decisions.position_N - sample.prompt_length).tolist() == places
        assert support_sets(sample) == sets


def test_recomputed_supports_equal_stored_ones(engine: Engine, policy: CausalPolicy) -> None:
    policy.constraint, rule = brackets(policy), CutRule(0.7, top_k=2)
    sampler = sampler_of(engine, policy)
    stored = drawn(sampler, rule)
    again = find_supports(policy, drawn(sampler, rule, supports="recomputed"), 512)
    assert any(len(sample.decisions) for sample in stored)
    for one, other in zip(stored, again, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert support_sets(one) == support_sets(other)


def test_samples_depend_on_the_seed_and_differ_within_a_group(engine: Engine, policy: CausalPolicy) -> None:
    sampler = sampler_of(engine, policy)
    texts = [[sample.text for sample in drawn(each)] for each in (sampler, sampler, sampler_of(engine, policy, seed=2))]
    assert texts[0] == texts[1] != texts[2]
    assert len(set(texts[0])) > len(texts[0]) // 2


def test_a_sample_ends_at_an_end_token_or_at_the_limit(engine: Engine, policy: CausalPolicy) -> None:
    samples = drawn(sampler_of(engine, policy), count=12)
    assert {sample.finish for sample in samples} == {"stop", "length"}
    for sample in samples:
        ended = int(sample.completion_ids[-1]) in policy.end_ids
        assert sample.finish == ("stop" if ended else "length")
        assert ended or len(sample.completion_ids) == LIMIT
        assert sample.text == policy.decode(sample.completion_ids)
        assert (
            sample.token_ids[: sample.prompt_length].tolist() == policy.encode(TASKS[sample.key.slot].prompt).tolist()
        )


class Published:
    """A policy before and after an update; the updated weights are published."""

    def __init__(self, engine: Engine) -> None:
        self.before, self.after = make_policy(), make_policy()
        disturb(self.after)
        drawn(sampler_of(engine, self.before))  # fills the prefix cache with keys and values from the old weights
        sampler = sampler_of(engine, self.after)
        sampler.publish(7)
        self.samples = drawn(sampler)


def test_published_weights_update_head_and_cache(engine: Engine) -> None:
    published = Published(engine)
    assert {sample.policy_version for sample in published.samples} == {7}
    assert gap(published.after, published.samples) < EXACT
    assert gap(published.before, published.samples) > CHANGED


def test_a_stale_prefix_cache_would_be_detected(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine._reset_cache()
    monkeypatch.setattr(Engine, "_reset_cache", lambda _: None)
    published = Published(engine)
    long = [sample for sample in published.samples if sample.key.slot == 2]
    assert gap(published.after, long) > CHANGED
    assert gap(published.after, [sample for sample in published.samples if sample.key.slot < 2]) < EXACT
    monkeypatch.undo()
    engine._reset_cache()


@pytest.mark.usefixtures("alone")
def test_a_tied_head_is_reloaded_and_a_stale_one_would_be_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is large enough that vLLM repacks the head; a small head is used directly."""
    words, shape = [*WORDS, *(f"x{number}" for number in range(200))], replace(SHAPE, width=128, heads=4)
    policy = tiny_policy(words=words, shape=shape, sharpness=3.0)
    engine = open_engine(shape_of(policy.model), EngineOptions(cache_gib=0.05, max_rows=8))
    try:
        sampler = sampler_of(engine, policy)
        disturb(policy)
        sampler.publish(1)
        assert gap(policy, drawn(sampler)) < EXACT
        monkeypatch.setattr(Engine, "_reload_head", lambda *_: None)
        disturb(policy, seed=1)
        sampler.publish(2)
        assert gap(policy, drawn(sampler)) > CHANGED
    finally:
        engine.close()


def test_a_merged_adapter_is_sampled_from(engine: Engine) -> None:
    policy = make_policy(lora=Lora(rank=4, alpha=8))
    sampler = sampler_of(engine, policy)
    assert gap(policy, drawn(sampler)) < EXACT
    with torch.no_grad():
        for name, parameter in policy.trainable():
            if "lora_B" in name:
                parameter.normal_(std=0.2, generator=torch.Generator().manual_seed(0))
    sampler.publish(1)
    samples = drawn(sampler)
    assert gap(policy, samples) < EXACT
    with policy.model.disable_adapter():
        assert gap(policy, samples) > CHANGED


@pytest.mark.usefixtures("alone")
def test_a_served_adapter_is_swapped(tmp_path: Path) -> None:
    policy = make_policy(lora=Lora(rank=4, alpha=8))
    rank = adapters.rank_of(policy.model)
    engine = open_engine(shape_of(policy.model), EngineOptions(cache_gib=0.05, max_rows=8, adapter_rank=rank))
    try:
        sampler = VllmSampler(engine, policy.codec, None, seed=1, weights=AdapterFolder(policy))
        sampler.load(plain_tensors(policy.model, merged=False), 0)
        for version in (1, 2):
            disturb(policy, 0.5, seed=version)
            with torch.no_grad():
                for name, parameter in policy.trainable():
                    if "lora_B" in name:
                        parameter.normal_(std=0.2, generator=torch.Generator().manual_seed(version))
            sampler.publish(version)
            samples = drawn(sampler)
            assert gap(policy, samples) < EXACT
            assert {sample.policy_version for sample in samples} == {version}
            with policy.model.disable_adapter():
                assert gap(policy, samples) > CHANGED
    finally:
        engine.close()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("staleness", [0, 1])
def test_a_run_samples_with_vllm_in_turn_or_ahead(tmp_path: Path, staleness: int) -> None:
    tables = {
        "run": {"folder": str(tmp_path), "steps": 3},
        "model": {
            "scratch": {"layers": 1, "width": 64, "heads": 2, "kv_heads": 1, "max_length": 64},
            "device": "cpu",
        },
        "domain": {"name": "sequences"},
        "sampling": {"max_new_tokens": 6, "tasks_per_step": 2, "group_size": 4, "staleness": staleness}
        | {"engine": "vllm", "vllm": {"cache_gib": 0.05}},
        "optimiser": {"lr": 0.01},
        "evaluate": {"every": 0},
        "tracking": {"console": False},
    }
    config = configs.build(tables, source="test")
    trainer: Any = build_trainer(config)
    try:
        trainer.train()
    finally:
        trainer.close()
        trainer.close()
    assert trainer.parts.sampler.engine.llm is None, "the next trainer of this process can start its own engine"
    rows = [json.loads(line) for line in (run_folder(config) / "metrics.jsonl").read_text().splitlines()]
    assert trainer.learner.objective.importance_cap == 2.0
    assert trainer.parts.sampler.version == 3
    apart = [row["importance/log_abs_max"] for row in rows]
    assert len(apart) == 3
    assert (max(apart) < EXACT) == (staleness == 0)


def test_closing_a_stream_early_aborts_its_requests(engine: Engine, policy: CausalPolicy) -> None:
    policy.constraint = brackets(policy)
    sampler = sampler_of(engine, policy)
    requests = [SampleRequest(task, 0, slot, 6) for slot, task in enumerate(TASKS)]
    stream = sampler.sample(requests, Decoding(max_new_tokens=LIMIT))
    next(stream)
    with pytest.raises(PolicyError, match="while samples are being drawn"):
        sampler.publish(1)
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not engine.tracked_samples
    sampler.publish(1)
    assert gap(policy, drawn(sampler)) < EXACT


def test_impossible_requests_are_rejected_with_a_solution(engine: Engine, policy: CausalPolicy) -> None:
    sampler = sampler_of(engine, policy)
    with pytest.raises(PolicyError, match=r"exceeds the engine's 256 positions.*sampling\.max_new_tokens"):
        drawn(sampler, max_new_tokens=250)
    with pytest.raises(PolicyError, match=r"0\.01 or more"):
        drawn(sampler, CutRule(0.001))
    with pytest.raises(PolicyError, match="load"):
        VllmSampler(engine, policy.codec, None, seed=0).publish(1)


def test_the_process_can_still_set_its_threads(engine: Engine) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before + 1
    torch.set_num_threads(before)


def test_masks_follow_requests_through_the_batch() -> None:
    from vllm import SamplingParams
    from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality

    from steelyard.sampling.vllm.masks import RowMasks
    from steelyard.sampling.vllm.tracked_sample import TRACKED_KEY, TrackedSample

    policy = make_policy()
    constraint, ends = brackets(policy), frozenset(policy.end_ids)
    tracked_samples = {}
    for number in range(3):
        request = SampleRequest(TASKS[number], 0, number, 1)
        ids = policy.encode(TASKS[number].prompt)
        row = PartialSample(request, SampleKey(0, number, 0, 0), ids, Decoding(), ends, constraint, policy.vocabulary)
        tracked_samples[number] = TrackedSample(row)
    masks = type("Own", (RowMasks,), {"tracked_samples": tracked_samples})(None, torch.device("cpu"), False)

    def added(place: int, number: int | None) -> Any:
        extra = None if number is None else {TRACKED_KEY: number}
        return place, SamplingParams(extra_args=extra), None, []

    def at() -> dict[int, int]:
        return {place: [*tracked_samples.values()].index(entry.tracked) for place, entry in masks.entries.items()}

    masks.update_state(BatchUpdate(4, (), [added(0, 0), added(1, None), added(2, 1)], ()))
    assert at() == {0: 0, 2: 1}
    masks.update_state(BatchUpdate(4, (), (), [(0, 1, MoveDirectionality.SWAP)]))
    assert at() == {1: 0, 2: 1}
    masks.update_state(BatchUpdate(4, (), (), [(1, 2, MoveDirectionality.SWAP)]))
    assert at() == {2: 0, 1: 1}
    masks.update_state(BatchUpdate(3, [2], [added(2, 2)], [(2, 0, MoveDirectionality.UNIDIRECTIONAL)]))
    assert at() == {0: 2, 1: 1}
    masks.update_state(None)
    logits = torch.zeros(3, policy.vocabulary)
    out = masks.apply(logits)
    opening = policy.tokenizer.convert_tokens_to_ids(["(", "["])
    assert [torch.isfinite(out[place]).nonzero()[:, 0].tolist() for place in (0, 1)] == [sorted(opening)] * 2
    assert torch.isfinite(out[2]).all()


# --- episodes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES[:2])
def test_every_turn_of_an_episode_agrees_with_the_learner(engine: Engine, policy: CausalPolicy, rule: CutRule) -> None:
    sampler = sampler_of(engine, policy)
    requests = [SampleRequest(task, 3, slot, 4) for slot, task in enumerate(TASKS)]
    played = play(sampler, requests, Decoding(rule, 6), delays=np.random.default_rng(0))
    assert {len(turns) for turns in played.values()} == {1, 2, 3, 4, 5}
    assert gap(policy, [turn for turns in played.values() for turn in turns]) < EXACT
    assert not engine.tracked_samples


def test_later_turns_use_the_prefix_cache(engine: Engine, policy: CausalPolicy) -> None:
    """The prompt fills a block of the cache, so a later turn computes only the tokens after that block."""
    sampler = sampler_of(engine, policy)
    ((_, turns),) = play(sampler, [SampleRequest(TASKS[2], 3, 4, 1)], Decoding(max_new_tokens=6)).items()
    assert len(turns) == 5
    assert sampler.prompt_tokens == sum(turn.prompt_length for turn in turns)
    assert sampler.cached_tokens >= 4 * 128


def test_each_turn_has_its_own_seed(engine: Engine, policy: CausalPolicy) -> None:
    sampler, ids = sampler_of(engine, policy), policy.encode(TASKS[1].prompt)
    texts = []
    for drawn_before in (0, 3, 3, 4):
        request = SampleRequest(TASKS[1], 0, 0, 1, next_turn=NextTurn(0, ids, drawn_before, LIMIT))
        (played,) = play(sampler, [request], Decoding(max_new_tokens=LIMIT), script=Script(turns=1)).values()
        texts.append(played[0].completion_ids.tolist())
    assert texts[1] == texts[2]
    assert texts[0] != texts[1] != texts[3]


def test_each_turn_has_its_own_constraint(engine: Engine, policy: CausalPolicy) -> None:
    policy.constraint = WordConstraint(
        Lengthening(WORDS), policy.tokenizer.get_vocab(), end_id=policy.end_id, vocabulary=policy.vocabulary
    )
    requests = [SampleRequest(task, 3, slot, 4) for slot, task in enumerate(TASKS)]
    played = play(sampler_of(engine, policy), requests, Decoding(max_new_tokens=8))
    for turns in played.values():
        for number, turn in enumerate(turns):
            assert set(turn.text.split()) <= set(WORDS[: number + 1])
            assert len(turn.decisions) == number
    assert gap(policy, [turn for turns in played.values() for turn in turns]) < EXACT
