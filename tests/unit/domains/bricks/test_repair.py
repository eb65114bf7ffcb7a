"""Repair: feedback between builds, rewards per turn, and examples of later turns."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from steelyard.domains import make_domain
from steelyard.domains.bricks.briefs import Tower
from steelyard.domains.bricks.domain import Bricks
from steelyard.domains.bricks.repair import BricksRepair, Repair, finding_words, last_build
from steelyard.errors import ConfigError
from steelyard.types import Reply, Task, Verdict

pytest.importorskip("highspy")

OPTIONS: dict[str, Any] = {
    "action": "relative",
    "kinds": ("tower", "cantilever"),
    "world_size": (10, 8, 8),
    "max_difficulty": 6.0,
    "max_bricks": 12,
}
TOWER = Tower(height=3, length=2, width=2)
TASK = Task(TOWER.id, " ".join(TOWER.words()), TOWER.spec)
LOW, RIGHT = "z0 4,4 2x2 z1 +0+0 2x2", "z0 4,4 2x2 z1 +0+0 2x2 z2 +0+0 2x2"


def domain(**options: Any) -> BricksRepair:
    return BricksRepair(**{**OPTIONS, **options})


def turns(*texts: str) -> tuple[dict[str, str], ...]:
    return tuple(
        {"role": "assistant" if place % 2 == 0 else "user", "content": text} for place, text in enumerate(texts)
    )


def test_a_failed_build_is_answered_with_its_findings() -> None:
    answer = domain().verifier().reply(TASK, turns(LOW))
    assert isinstance(answer, Reply)
    (message,) = answer.messages
    assert message["content"] == "findings purpose=6 x=2 y=2 z=2 whole stands rebuild"
    assert set(message["content"].split()) <= set(domain().vocabulary() or ())
    loose = domain().verifier().reply(TASK, turns("z0 4,4 2x2 z0 -3+0 2x2"))
    assert "x=5 y=2 z=1 loose" in loose.messages[0]["content"]


def test_the_rewards_of_the_turns_add_up_to_that_of_the_last_build() -> None:
    environment = domain().verifier()
    scorer = environment.scorer
    first = environment.reply(TASK, turns(LOW))
    second = environment.reply(TASK, turns(LOW, "…", LOW))
    last = environment.reply(TASK, turns(LOW, "…", LOW, "…", RIGHT))
    assert isinstance(last, Verdict)
    assert (first.reward, second.reward) == (pytest.approx(scorer(TASK, LOW).reward), 0.0)
    assert first.reward + second.reward + last.reward == pytest.approx(scorer(TASK, RIGHT).reward)
    assert (last.success, last.parts["builds"]) == (True, 3)


def test_an_episode_ends_with_a_success_or_with_the_last_build() -> None:
    environment = domain(builds=2).verifier()
    assert environment.reply(TASK, turns(RIGHT)).success
    last = environment.reply(TASK, turns(LOW, "…", LOW))
    assert isinstance(last, Verdict)
    assert not last.success


def test_a_limit_ends_an_episode_with_its_last_complete_build() -> None:
    environment = domain().verifier()
    ended = environment.cut_off(TASK, turns(LOW, "findings"), "turns")
    assert (ended.status, ended.reward, ended.parts["builds"]) == ("scored", 0.0, 1)
    assert environment.cut_off(TASK, turns(LOW, "findings", "z0 4,4"), "length").status == "rejected"


def test_the_vocabulary_only_adds_words_so_that_other_checkpoints_stay_valid() -> None:
    plain, extended = Bricks(**OPTIONS).vocabulary(), domain().vocabulary()
    assert plain is not None
    assert extended is not None
    assert extended[: len(plain)] == plain
    assert set(extended) - set(plain) == set(finding_words(domain().action_space))
    assert domain(builds=1).vocabulary() == extended


def test_examples_of_later_turns_start_from_failed_builds() -> None:
    examples = list(itertools.islice(domain().examples(seed=0), 40))
    plain = list(itertools.islice(Bricks(**OPTIONS).examples(seed=0), 40))
    assert [text for _, text in examples] == [text for _, text in plain]
    counts = [str(task.prompt).count("rebuild") for task, _ in examples]
    assert set(counts) == {0, 1, 2}
    words = set(domain().vocabulary() or ())
    for (task, _), (bare, _) in zip(examples, plain, strict=True):
        assert str(task.prompt).startswith(str(bare.prompt))
        assert set(str(task.prompt).split()) <= words
        assert str(task.prompt).count("<eos>") == str(task.prompt).count("rebuild")
        assert replace(task, prompt="") == replace(bare, prompt="")
    assert list(itertools.islice(domain().examples(seed=0), 5)) == examples[:5]


def test_files_and_pictures_show_the_last_build() -> None:
    repair = domain()
    episode = f"{LOW}findings purpose=6 x=2 y=2 z=2 whole stands rebuild{RIGHT}"
    assert last_build(episode) == RIGHT
    assert last_build(LOW) == LOW
    assert repair.to_text(episode) == "2x2 (4,4,0)\n2x2 (4,4,1)\n2x2 (4,4,2)\n"


def test_a_language_model_reads_sentences() -> None:
    repair = domain(action="text", prompt_form="chat")
    text = "2x2 (4,4,0)\n2x2 (4,4,1)\n"
    answer = repair.verifier().reply(TASK, turns(text))
    content = answer.messages[0]["content"]
    assert "2 by 2 studs and 2 layers" in content
    assert "67% of the brief" in content
    assert last_build(text + content + text) == text
    prompts = [task.prompt for task, _ in itertools.islice(repair.examples(seed=0), 12)]
    later = [prompt for prompt in prompts if len(prompt) > 2]
    assert later
    assert [message["role"] for message in later[0][:4]] == ["system", "user", "assistant", "user"]  # type: ignore[index]


def test_impossible_options_are_rejected() -> None:
    with pytest.raises(ConfigError, match="builds=0"):
        domain(builds=0)
    with pytest.raises(ConfigError, match="step_rewards"):
        domain(reward={"step_rewards": True})


def test_the_domain_is_registered() -> None:
    found = make_domain("bricks-repair", **OPTIONS)
    assert (found.name, isinstance(found.verifier(), Repair)) == ("bricks-repair", True)
