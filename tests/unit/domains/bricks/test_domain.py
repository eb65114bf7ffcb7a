"""The bricks domain: tasks, splits, prompts and options."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.config import load
from steelyard.data import domain_source, domain_tasks
from steelyard.domains import make_domain
from steelyard.domains.bricks.briefs import GRID_KINDS, brief_of, split_of
from steelyard.domains.bricks.domain import Bricks
from steelyard.errors import ConfigError


def test_tasks_depend_only_on_split_and_index() -> None:
    for split in ("train", "validation", "held_out"):
        for index in (0, 5, 40):
            assert Bricks().task(split, index) == Bricks().task(split, index)


def test_every_task_belongs_to_its_split_and_has_a_brief() -> None:
    bricks = Bricks()
    for split in ("train", "validation", "held_out"):
        for index in range(60):
            task = bricks.task(split, index)
            brief = brief_of(json.loads(json.dumps(task.spec)))
            assert split_of(brief) == split
            assert (task.id, task.difficulty) == (brief.id, brief.difficulty)
            assert brief.difficulty <= bricks.max_difficulty


def test_held_out_parameters_never_occur_in_training_whatever_the_seed() -> None:
    held_out = {task.id for task in domain_tasks(Bricks(), "held_out")}
    assert held_out == {task.id for task in domain_tasks(Bricks(seed=5), "held_out")}
    assert len(held_out) == Bricks().size("held_out")
    for bricks in (Bricks(), Bricks(seed=5)):
        assert not held_out & {bricks.task("train", index).id for index in range(2000)}


def test_training_is_endless_and_cycles_through_the_kinds() -> None:
    bricks = Bricks()
    assert bricks.size("train") is None
    kinds = [bricks.task("train", index).spec["kind"] for index in range(3 * len(GRID_KINDS))]
    assert tuple(kinds) == 3 * GRID_KINDS
    assert len(domain_source(bricks).draw(0, 5)) == 5


def test_a_kind_is_exhausted_before_it_is_reshuffled() -> None:
    bricks = Bricks(kinds=("tower",))
    count = sum(1 for _ in bricks._briefs["train"]["tower"])
    first, second = ([bricks.task("train", n).id for n in range(start, start + count)] for start in (0, count))
    assert set(first) == set(second)
    assert len(set(first)) == count
    assert first != second


def test_the_seed_determines_the_order() -> None:
    first, second = ([bricks.task("train", n).id for n in range(20)] for bricks in (Bricks(), Bricks(seed=1)))
    assert first != second


def test_language_models_get_an_instruction_as_a_chat() -> None:
    bricks = Bricks(kinds=("tower",), world_size=(20, 10, 12), action="text")
    system, user = bricks.task("train", 0).prompt
    assert isinstance(system, dict)
    assert isinstance(user, dict)
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"].startswith("Build a tower exactly ")
    assert user["content"].endswith(" along y.")
    assert "hxw (x,y,z)" in system["content"]
    assert "World: 20x10x12." in system["content"]
    assert "1x1/2/4/6/8, 2x2/4/6." in system["content"]
    assert bricks.vocabulary() is None


def test_the_same_instruction_in_one_message_or_as_plain_text() -> None:
    chat, message, plain = (
        Bricks(kinds=("tower",), action="text", prompt_form=form).task("train", 0).prompt
        for form in ("chat", "message", "plain")
    )
    assert isinstance(chat, tuple)
    assert isinstance(message, tuple)
    (only,) = message
    assert only == {"role": "user", "content": f"{chat[1]['content']}\n{chat[0]['content']}"}
    assert plain == only["content"] + "\n"


def test_the_token_limit_of_the_text_recipe_fits_every_answer() -> None:
    recipe = load("bricks-text")
    assert recipe.domain is not None
    bricks = make_domain("bricks", **recipe.domain.options)
    assert isinstance(bricks, Bricks)
    assert recipe.sampling.max_new_tokens == bricks.max_bricks * bricks.action_space.tokens_per_brick + 1
    for task, text in itertools.islice(bricks.examples(), 60):
        assert isinstance(task.prompt, tuple)
        assert len(text.splitlines()) <= bricks.max_bricks
        assert all(len(line) == len("2x4 (0,0,0)") for line in text.splitlines())


@pytest.mark.parametrize("action", ["relative", "two_step", "absolute", "text"])
def test_the_constraint_can_be_disabled(action: str) -> None:
    automaton = Bricks(action=action).automaton()
    assert automaton is not None
    assert set(automaton.alphabet()) <= set(Bricks(action=action).vocabulary() or "0123456789x(), \n")
    assert Bricks(action=action, constrained=False).automaton() is None


@pytest.mark.parametrize(
    "closed", [Bricks(action="relative"), Bricks(action="absolute"), Bricks(action_options={"joint": True}), Bricks()]
)
def test_closed_vocabularies_contain_all_words(closed: Bricks) -> None:
    words = closed.vocabulary()
    assert words is not None
    assert words[:3] == ("<pad>", "<bos>", "<eos>")
    assert len(set(words)) == len(words)
    assert {"2x4", "height=3", *GRID_KINDS} <= set(words)
    tasks = [*domain_tasks(closed, "held_out"), *(closed.task("train", index) for index in range(100))]
    assert all(set(str(task.prompt).split()) <= set(words) for task in tasks)
    assert [word.rpartition("=")[2] for word in str(tasks[0].prompt).split()] == tasks[0].id.split("-")
    for _, text in itertools.islice(closed.examples(), 100):
        assert set(text.split()) <= set(words)
        assert not closed.action_space.read(text).flaws


def test_the_verifier_uses_the_reward_settings() -> None:
    bricks = make_domain("bricks", kinds=["tower"], reward={"weights": {"quality": 0.5}, "strict": True})
    assert isinstance(bricks, Bricks)
    verifier = bricks.verifier()
    assert (verifier.name, verifier.floor, verifier.deterministic) == ("bricks", -0.5, True)
    assert verifier.version != Bricks().verifier().version


def test_captions_come_from_a_file(tmp_path: Path) -> None:
    rows = [
        {"structure_id": f"s{n}", "object_id": f"o{n}", "captions": [f"thing {n}"], "bricks": "2x2 (0,0,0)\n"}
        for n in range(40)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    bricks = Bricks(kinds=("caption",), captions=str(path), action="text")
    prompt = bricks.task("train", 0).prompt
    assert isinstance(prompt, tuple)
    assert prompt[-1]["content"].startswith("Build thing ")
    counts = [len(bricks._briefs[split].get("caption", [])) for split in ("train", "validation", "held_out")]
    assert sum(counts) == 40
    assert min(counts) > 0
    some = Bricks(kinds=("caption",), captions=str(path), max_captions=30, action="text")
    assert sum(len(kinds.get("caption", [])) for kinds in some._briefs.values()) == 30
    with pytest.raises(ConfigError, match="captions are free text"):
        Bricks(kinds=("caption",), captions=str(path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["castle"]}, r"kinds=\['castle'\] .* choose from tower, wall"),
        ({"kinds": []}, "choose from"),
        ({"kinds": ["tower", "tower"]}, "at most once"),
        ({"action": "telepathy"}, "action='telepathy' .* choose one of relative, two_step, absolute, text"),
        ({"action": "text", "action_options": {"reach": 3}}, "action 'text': .*'reach'; its options are: may_float"),
        ({"action_options": {"reach": [-1, 0, 0]}}, "action 'two_step': reach ="),
        ({"max_bricks": 0}, "max_bricks = 0"),
        ({"prompt_form": "letter"}, "prompt_form='letter' .* choose one of chat, message, plain"),
        ({"kinds": ["caption"]}, "captions='' with kinds=.* set a caption file"),
        ({"captions": "rows.jsonl"}, "the kind 'caption' together"),
        ({"reward": {"weigths": {}}}, "did you mean 'weights'"),
        ({"world_size": [0, 4, 4]}, r"world_size=\[0, 4, 4\]"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_domain("bricks", **options)


def test_a_world_without_any_brief_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"no brief of .* fits into world_size="):
        Bricks(kinds=("bridge",), world_size=(4, 4, 4)).task("train", 0)
