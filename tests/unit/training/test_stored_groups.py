"""Groups can be stored completely: training on groups loaded from files reproduces the original run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from steelyard.errors import DataError
from steelyard.sampling.base import Decoding
from steelyard.training.loop import Trainer
from steelyard.training.metrics import Metrics
from steelyard.training.phases import Stopwatch
from steelyard.training.rollouts import RolloutParts, StepGroups, SynchronousRollouts
from steelyard.training.rollouts.base import find_groups
from steelyard.training.sample_files import load_groups, save_groups
from steelyard.types import CutRule, Group, GroupSummary, Task, Verdict
from tests.tiny import digit_share, sample_of, tiny_trainer, weights_of

STEPS = 3


class RecordingRollouts(SynchronousRollouts):
    """Writes the groups of every step into a folder."""

    def __init__(self, parts: RolloutParts, folder: Path) -> None:
        super().__init__(parts)
        self.folder = folder

    def take(self, step: int, watch: Stopwatch) -> StepGroups:
        taken = super().take(step, watch)
        save_groups(self.folder / str(step), self.fetch(taken.groups))
        return taken


class StoredRollouts:
    """Reads the groups of every step from a folder instead of sampling them."""

    def __init__(self, parts: RolloutParts, folder: Path) -> None:
        self.parts, self.folder = parts, folder
        self.groups: list[Group] = []
        self.observed: list[GroupSummary] = []

    def take(self, step: int, watch: Stopwatch) -> StepGroups:
        self.groups = load_groups(self.folder / str(step))
        return StepGroups([group.summary() for group in self.groups], [])

    def fetch(self, groups: Sequence[GroupSummary]) -> list[Group]:
        return find_groups(self.groups, groups)

    def publish(self, version: int) -> None: ...

    def observe(self, groups: Sequence[GroupSummary]) -> None:
        self.observed += groups

    def metrics(self) -> Metrics:
        return {}

    def paused(self) -> AbstractContextManager[None]:
        return nullcontext()

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def close(self, within: float | None = None) -> None: ...


def checker(task: Task, text: str) -> Verdict:
    """Return verdicts with parts, reasons and rejections, so that the test covers all their fields."""
    if not text:
        return Verdict.rejected("nothing was written")
    share = digit_share(task, text)
    return Verdict.scored(share, success=share > 0.5, parts={"length": float(len(text))})


def trainer(folder: Path, supports: Any) -> Trainer:
    decoding = Decoding(CutRule(temperature=0.9, top_k=5), max_new_tokens=6, supports=supports)
    return tiny_trainer(folder, steps=STEPS, verifier=checker, decoding=decoding)


@pytest.mark.parametrize("supports", ["stored", "recomputed"])
def test_training_on_stored_groups_is_bitwise_identical(tmp_path: Path, supports: str) -> None:
    first, again = trainer(tmp_path / "a", supports), trainer(tmp_path / "b", supports)
    first.rollouts = RecordingRollouts(first.parts, tmp_path / "groups")
    again.rollouts = stored = StoredRollouts(again.parts, tmp_path / "groups")
    first.train()
    again.train()
    one, other = weights_of(first.policy), weights_of(again.policy)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(
        not torch.equal(one[name], start) for name, start in weights_of(trainer(tmp_path, "stored").policy).items()
    )
    assert len(stored.observed) == STEPS * first.parts.tasks_per_step


def test_a_group_survives_a_round_trip(tmp_path: Path) -> None:
    task = Task("é1", [{"role": "user", "content": "2 + 2"}], {"answer": 4, "list": [1, "x"]}, 0.5)
    verdicts = (
        Verdict.scored(1.0, success=True, parts={"form": 0.5}, steps=[(2, 0.25), (4, 0.75)]),
        Verdict.rejected("no \ud800 digit"),
        Verdict.unscored("timeout", "3 s", detail="SIGKILL", tries=2),
    )
    group = Group(task, tuple(sample_of([1, 2, 3 + number], 1) for number in range(3)), verdicts)
    save_groups(tmp_path, [group])
    (loaded,) = load_groups(tmp_path)
    assert (loaded.task, loaded.verdicts) == (group.task, group.verdicts)
    assert [sample.token_ids.tolist() for sample in loaded.samples] == [[1, 2, 3], [1, 2, 4], [1, 2, 5]]


def test_a_spec_that_is_not_json_data_is_rejected(tmp_path: Path) -> None:
    group = Group(Task("t", "", {"compute": checker}), (sample_of([1, 2], 1),), (Verdict.scored(1.0),))
    with pytest.raises(DataError, match=r"Task\.spec"):
        save_groups(tmp_path, [group])
