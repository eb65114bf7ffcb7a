"""Tasks from rows, and the split into training and held-out tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.data import as_tasks, split
from steelyard.errors import DataError
from steelyard.types import Task

CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]


def test_strings_dicts_and_tasks_may_be_mixed() -> None:
    own = Task("mine", "c")
    row = {"prompt": "b", "answer": 4, "difficulty": 2}
    assert as_tasks(["a", row, own]) == [Task("0", "a"), Task("1", "b", {"answer": 4}, 2.0), own]


def test_an_id_column_names_the_task() -> None:
    assert [task.id for task in as_tasks([{"prompt": "a", "id": 17}, {"prompt": "b", "id": None}])] == ["17", "1"]


def test_chat_messages_become_a_tuple_of_messages() -> None:
    (task,) = as_tasks([{"question": CHAT, "prompt": "kept"}], prompt_column="question")
    assert task.prompt == tuple(CHAT)
    assert task.spec == {"prompt": "kept"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"promt": "a"}, r"task 0: no column 'prompt' among \['promt'\]; did you mean prompt_column='promt'"),
        ({"text": "a"}, r"\['text'\]; set prompt_column"),
        ({"prompt": ""}, "task 0: the prompt is empty"),
        ({"prompt": []}, "a string or a list of chat messages"),
        ({"prompt": 3}, "a string or a list of chat messages"),
        ({"prompt": None}, "a string or a list of chat messages"),
        ({"prompt": [{"role": "user"}]}, "task 0, message 0: .*'role' and 'content'"),
        ({"prompt": ["hi"]}, "message 0"),
        ({"prompt": [{"role": "user", "content": [{"type": "image"}]}]}, "must be strings"),
        ({"prompt": "a", "difficulty": "hard"}, "difficulty must be a number, got 'hard'"),
        ({"prompt": "a", "difficulty": True}, "difficulty must be a number"),
        (3, "expected a Task, a dict or a prompt, got int"),
    ],
)
def test_the_error_for_an_invalid_row_names_the_problem(row: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_tasks([row])


def test_a_template_builds_prompts_from_columns_and_keeps_them_in_the_spec() -> None:
    row = {"a": 1, "b": [2, 3], "prompt": "kept", "id": "x"}
    (task,) = as_tasks([row], template="{a} and {b}: {{{prompt}}} {a}")
    assert task == Task("x", "1 and [2, 3]: {kept} 1", {"a": 1, "b": [2, 3], "prompt": "kept"})
    strings = as_tasks(["one", Task("own", "two", {"n": 2})], template="say {prompt}")
    assert [task.prompt for task in strings] == ["say one", "say two"]
    assert strings[1].spec == {"n": 2}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"questions": "a"}, r"task 0: .*'question'.*is missing.*columns questions; did you mean \{questions\}"),
        ({"question": None, "n": 1}, "task 0: .*'question'.*is empty.*columns question, n"),
        ({"question": CHAT}, "task 0: .*'question' holds chat messages.*tasks.system"),
        ({"question": "\ud800"}, "lone surrogate"),
    ],
)
def test_the_error_for_a_template_names_the_column(row: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        as_tasks([row], template="Q: {question}")


@pytest.mark.parametrize("rows", ["one prompt", {"prompt": "a"}, 3, b"bytes"])
def test_values_that_are_not_an_iterable_of_rows_are_rejected(rows: object) -> None:
    with pytest.raises(DataError, match="must be an iterable"):
        as_tasks(rows)


def test_a_data_frame_is_rejected_with_the_conversion() -> None:
    class Frame(list[str]):
        def iterrows(self) -> None: ...

    with pytest.raises(DataError, match="to_dict"):
        as_tasks(Frame(["prompt", "answer"]))


def test_duplicate_ids_are_rejected() -> None:
    with pytest.raises(DataError, match="'a' in rows 0 and 2"):
        as_tasks([Task("a", "x"), Task("b", "x"), Task("a", "y")])


@given(repeats=st.lists(st.integers(1, 3), min_size=6, max_size=12), share=st.floats(0.1, 0.5), seed=st.integers(0, 5))
def test_a_split_is_complete_and_disjoint_by_prompt(repeats: list[int], share: float, seed: int) -> None:
    prompts = [prompt for prompt, count in enumerate(repeats) for _ in range(count)]
    tasks = [Task(str(index), f"prompt {prompt}") for index, prompt in enumerate(prompts)]
    training, held_out = split(tasks, share, seed=seed)
    assert sorted(int(task.id) for task in [*training, *held_out]) == list(range(len(tasks)))
    assert not {task.prompt for task in training} & {task.prompt for task in held_out}
    assert round(share * len(tasks)) <= len(held_out) < round(share * len(tasks)) + 3
    assert split(tasks, share, seed=seed) == (training, held_out)


def test_a_split_accepts_a_number_or_a_fraction_and_depends_on_the_seed() -> None:
    tasks = [Task(str(index), str(index)) for index in range(40)]
    assert len(split(tasks, 10)[1]) == len(split(tasks, 0.25)[1]) == 10
    assert split(tasks, 10, seed=0)[1] != split(tasks, 10, seed=1)[1]
    training, _ = split(tasks, 10)
    assert [int(task.id) for task in training] == sorted(int(task.id) for task in training), "the order is kept"


def test_chat_prompts_split_by_content() -> None:
    tasks = [Task(str(index), ({"role": "user", "content": str(index % 2)},)) for index in range(10)]
    training, held_out = split(tasks, 3)
    assert (len(training), len(held_out)) == (5, 5), "tasks with the same prompt stay together"


@pytest.mark.parametrize("held_out", [0, 0.0, 4, 9, 1.0, -1])
def test_a_split_with_an_empty_side_is_rejected(held_out: float) -> None:
    with pytest.raises(DataError, match=rf"tasks\.held_out = {held_out} of 4 tasks"):
        split([Task(str(index), str(index)) for index in range(4)], held_out)


def test_a_single_prompt_cannot_be_split() -> None:
    with pytest.raises(DataError, match=r"tasks\.held_out = 2 .*1 distinct prompt"):
        split([Task(str(index), "same") for index in range(4)], 2)
