"""Task sources: order, epochs, mixtures, and exact continuation from a saved state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.data import (
    GeneratedSource,
    ListSource,
    MixtureSource,
    Source,
    as_source,
    domain_source,
    domain_tasks,
)
from steelyard.data.tasks import checksum
from steelyard.domains import make_domain
from steelyard.errors import DataError
from steelyard.types import Group, Task


def tasks(count: int, prefix: str = "t") -> list[Task]:
    return [Task(f"{prefix}{index}", f"prompt {index}") for index in range(count)]


def ids(drawn: Sequence[Task]) -> list[str]:
    return [task.id for task in drawn]


def mixture(seed: int = 0) -> MixtureSource:
    return MixtureSource(
        {"list": ListSource(tasks(5), seed=1), "generated": GeneratedSource(lambda index: Task(str(index), "p"))},
        {"list": 1.0, "generated": 3.0},
        seed=seed,
    )


MAKERS: dict[str, Callable[[], Source]] = {
    "list": lambda: ListSource(tasks(7), seed=3),
    "unshuffled": lambda: ListSource(tasks(7), shuffle=False),
    "generated": lambda: GeneratedSource(lambda index: Task(str(index), f"p{index}")),
    "mixture": mixture,
    "domain": lambda: domain_source(make_domain("sequences", symbols=3), seed=2),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("stop", [0, 1, 2, 5])
def test_a_state_restored_from_json_continues_exactly(make: Callable[[], Source], stop: int) -> None:
    uninterrupted, before, after = make(), make(), make()
    assert isinstance(uninterrupted, Source)
    expected = [ids(uninterrupted.draw(step, 3)) for step in range(8)]
    assert [ids(before.draw(step, 3)) for step in range(stop)] == expected[:stop]
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert [ids(after.draw(step, 3)) for step in range(stop, 8)] == expected[stop:]


def test_an_epoch_has_every_task_once_in_an_order_set_by_seed_and_epoch() -> None:
    source = ListSource(tasks(6), seed=4)
    epochs = [ids(source.draw(step, 6)) for step in range(2)]
    for epoch, drawn in enumerate(epochs):
        order = np.random.default_rng([4, epoch]).permutation(6)
        assert drawn == [f"t{index}" for index in order]
    assert epochs[0] != epochs[1]
    assert ids(ListSource(tasks(6), seed=5).draw(0, 6)) != epochs[0]


def test_a_draw_may_span_several_epochs() -> None:
    source = ListSource(tasks(3), shuffle=False)
    assert ids(source.draw(0, 2)) == ["t0", "t1"]
    assert ids(source.draw(1, 2)) == ["t2", "t0"]
    assert ids(source.draw(2, 7)) == ["t1", "t2", "t0", "t1", "t2", "t0", "t1"]
    assert source.state_dict()["epoch"] == 3


def test_the_state_of_different_tasks_is_rejected() -> None:
    state = ListSource(tasks(3)).state_dict()
    for other in (tasks(4), tasks(3, prefix="u")):
        with pytest.raises(DataError, match="tasks changed since the checkpoint"):
            ListSource(other).load_state_dict(state)


def test_a_task_file_edited_since_the_checkpoint_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    lines = ['{"prompt": "1 + 1", "answer": 2, "hint": "add"}', '{"prompt": "1 + 2", "answer": 3}']
    file.write_text("\n".join(lines))
    state = json.loads(json.dumps(as_source(file).state_dict()))
    for edited in ([lines[0], lines[1].replace("1 + 2", "2 + 1")], [lines[0].replace("2,", "3,"), lines[1]]):
        file.write_text("\n".join(edited))
        with pytest.raises(DataError, match=r"2 tasks.*ids, prompts or specs differ.*new run"):
            as_source(file).load_state_dict(state)
    file.write_text("\n".join(['{"hint": "add", "answer": 2, "prompt": "1 + 1"}', lines[1], ""]))
    as_source(file).load_state_dict(state)


def test_the_state_of_another_function_is_rejected() -> None:
    def generated(largest: int) -> GeneratedSource:
        return GeneratedSource(lambda index: Task(str(index), "p", {"size": min(index, largest)}))

    source = generated(9)
    source.draw(0, 3)
    generated(9).load_state_dict(source.state_dict())
    with pytest.raises(DataError, match="first 16 generated tasks differ"):
        generated(8).load_state_dict(source.state_dict())


PLAIN_NAMES, OTHER_NAMES = 4276261235, 3957427318


class Handle:
    """An object whose ``repr`` contains its memory address."""


def test_a_checksum_is_the_same_in_every_process() -> None:
    spec: dict[Any, Any] = {"a": {"x", "y"}, "b": Handle(), (1, 2): np.arange(3), "c": [None, 0.5, {"d": b"e"}]}
    again = {"c": spec["c"], (1, 2): np.arange(3), "b": Handle(), "a": {"z"}}
    assert checksum([Task("t", "p", spec)]) == checksum([Task("t", "p", again)]) == 2503972510
    chat = Task("t", ({"role": "user", "content": "p"},), {"n": 1})
    others = [replace(chat, id="u"), replace(chat, prompt="p"), replace(chat, spec={"n": 1.0}), replace(chat, spec={})]
    others += [replace(chat, spec={"n": np.array(value)}) for value in (1, 2)]
    others += [replace(chat, difficulty=0.5), replace(chat, spec={"m": 1})]
    assert len({checksum([task]) for task in [chat, *others]}) == 9
    assert checksum([chat, others[0]]) != checksum([others[0], chat])


def test_checksums_stay_the_same_for_all_column_names() -> None:
    """Simple names use a faster code path; the expected values predate it, so old checkpoints still match."""
    plain = {"b": [1, {"z": None, "a_1": "x"}], "ab": 0.5, "a": "answer", "_": True, "B": 3}
    assert checksum([Task("t", "p", plain)]) == PLAIN_NAMES
    assert checksum([Task("t", "p", dict(reversed(plain.items())))]) == PLAIN_NAMES
    assert checksum([Task("t", "p", {"it's": 1, 'a "b"': 2, "é": 3, "a": 4})]) == OTHER_NAMES


def test_an_empty_list_is_rejected() -> None:
    with pytest.raises(DataError, match="empty"):
        ListSource([])


def test_a_mixture_follows_its_weights_and_prefixes_task_ids() -> None:
    counts = Counter(task.id.split("/")[0] for task in mixture().draw(0, 4000))
    assert counts["generated"] / 4000 == pytest.approx(0.75, abs=0.03)
    assert ids(mixture(seed=0).draw(0, 50)) != ids(mixture(seed=1).draw(0, 50))


def test_a_mixture_draws_the_same_tasks_in_one_call_or_many() -> None:
    one, other = mixture(), mixture()
    assert ids(one.draw(0, 20)) == [task_id for step in range(20) for task_id in ids(other.draw(step, 1))]


class Observer(ListSource):
    """Records the ids of the tasks it observes."""

    def __init__(self, tasks: list[Task]) -> None:
        super().__init__(tasks)
        self.seen: list[str] = []

    def observe(self, groups: Sequence[Group]) -> None:
        self.seen.extend(group.task.id for group in groups)


def test_observations_reach_their_source_with_the_original_ids() -> None:
    children = {"a": Observer(tasks(2)), "ab": Observer(tasks(2))}
    source = MixtureSource(children, {"a": 1, "ab": 1})
    source.observe([Group(Task(task_id, "p"), (), ()) for task_id in ("a/t0", "ab/t1", "ab/x/y")])
    assert children["a"].seen == ["t0"]
    assert children["ab"].seen == ["t1", "x/y"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"a": 1.0}, "one weight per source"), ({"a": -1, "b": 2}, "non-negative"), ({"a": 0, "b": 0}, "not all zero")],
)
def test_invalid_mixture_weights_are_rejected(weights: Mapping[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        MixtureSource({"a": ListSource(tasks(1)), "b": ListSource(tasks(1))}, weights)


def test_names_with_a_slash_and_states_of_other_mixtures_are_rejected() -> None:
    with pytest.raises(DataError, match="'/'"):
        MixtureSource({"a/b": ListSource(tasks(1))}, {"a/b": 1})
    state: dict[str, Any] = {"counter": 0, "sources": {"other": {}}}
    with pytest.raises(DataError, match=r"\['other'\].*\['generated', 'list'\].*same sources"):
        mixture().load_state_dict(state)


class InfiniteDomain:
    """A domain with infinitely many tasks."""

    name = "infinite"

    def vocabulary(self) -> None:
        return None

    def size(self, split: str) -> None:
        return None

    def task(self, split: str, index: int) -> Task:
        return Task(f"{split}-{index}", "p")

    def verifier(self) -> Any:
        raise NotImplementedError


def test_domains_are_converted_to_tasks_and_sources() -> None:
    assert ids(domain_source(InfiniteDomain(), "train").draw(0, 2)) == ["train-0", "train-1"]
    assert ids(domain_tasks(InfiniteDomain(), "held_out", 2)) == ["held_out-0", "held_out-1"]
    with pytest.raises(DataError, match="infinitely many train tasks"):
        domain_tasks(InfiniteDomain(), "train")
    sequences = make_domain("sequences", symbols=3)
    assert len(domain_tasks(sequences, "train")) == sequences.size("train")
    assert len(domain_tasks(sequences, "train", 10**6)) == sequences.size("train")


def test_sources_files_and_iterables_are_converted_to_sources(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    source = ListSource(tasks(1))
    assert as_source(source) is source
    assert sorted(ids(as_source(str(file)).draw(0, 2))) == ["1", "2"]
    assert ids(as_source(file, shuffle=False).draw(0, 2)) == ["1", "2"]
    assert ids(as_source(iter(["x", "y"]), shuffle=False).draw(0, 2)) == ["0", "1"]
