"""TRL-style reward functions run unchanged. The functions here follow the TRL documentation."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from steelyard.types import Verdict
from steelyard.verification import InlinePool, as_verifier, for_run, safe_verify
from steelyard.verification.trl import TRLVerifier
from tests.verifying import verdicts_of

CHAT = ({"role": "system", "content": "be brief"}, {"role": "user", "content": "What is 1+2?"})


def format_reward(completions, **kwargs):
    contents = [completion[0]["content"] for completion in completions]
    return [1.0 if re.fullmatch(r"<think>.*?</think>.*", content) else 0.0 for content in contents]


def answer_reward(prompts, completions, ground_truth, **kwargs):
    return [1.0 if text.endswith(truth) else 0.0 for text, truth in zip(completions, ground_truth, strict=True)]


def ids_reward(completion_ids, completions):
    return [float(len(ids)) for ids in completion_ids]


def test_string_prompts_give_string_completions_and_columns_as_lists(group) -> None:
    items = [*group("it is 3", "it is 4", ground_truth="3"), *group("13", slot=1, ground_truth="13")]
    verdicts = as_verifier(answer_reward).verify(items)
    assert verdicts == [Verdict.scored(1.0, success=True), Verdict.scored(0.0), Verdict.scored(1.0, success=True)]


def test_chat_prompts_give_message_lists(group) -> None:
    verdicts = safe_verify(as_verifier(format_reward), group("<think>1+2</think>3", "3", prompt=CHAT))
    assert [verdict.reward for verdict in verdicts] == [1.0, 0.0]


def test_all_arguments_of_trl_are_passed(group) -> None:
    seen: dict[str, Any] = {}

    def spy(completions, **kwargs):
        seen.update(kwargs, completions=completions)
        return [0.0 for _ in completions]

    safe_verify(as_verifier(spy), group("a", "b", prompt=CHAT, answer=3, prompt_id="q", completion="not a column"))
    assert seen["prompts"] == [[dict(message) for message in CHAT]] * 2
    assert seen["completions"] == [[{"role": "assistant", "content": text}] for text in "ab"]
    assert seen["completion_ids"] == [[3, 4, 5]] * 2
    assert type(seen["completion_ids"][0][0]) is int
    assert (seen["answer"], seen["prompt_id"]) == ([3, 3], ["q", "q"])
    assert set(seen) == {
        *("prompts", "completions", "completion_ids", "answer", "prompt_id"),
        *("trainer_state", "log_extra", "log_metric"),
    }


def test_a_function_without_var_keywords_gets_only_what_it_names(group) -> None:
    verdicts = safe_verify(as_verifier(ids_reward), group("a", "b", other=1))
    assert [verdict.reward for verdict in verdicts] == [3.0, 3.0]


def test_a_column_that_some_tasks_lack_is_none_there(item) -> None:
    def seen(completions, level, **kwargs):
        return [2.0 if value is None else value for value in level]

    verdicts = TRLVerifier(seen).verify([item("a", level=0.5), item("b")])
    assert [verdict.reward for verdict in verdicts] == [0.5, 2.0]


def test_a_missing_column_is_named(group) -> None:
    (verdict,) = safe_verify(as_verifier(answer_reward), group("a", answer="3"))
    assert verdict.cause == "exception"
    assert "answer_reward needs 'ground_truth'" in verdict.reason
    assert "'answer'" in verdict.reason


def test_coroutine_functions(group) -> None:
    async def scored_by_a_model(prompts, completions, **kwargs):
        await asyncio.sleep(0)
        return [len(text) for text in completions]

    assert [verdict.reward for verdict in safe_verify(as_verifier(scored_by_a_model), group("a", "bcd"))] == [1.0, 3.0]


def test_none_is_no_score_and_does_not_affect_the_others(group) -> None:
    def sometimes(completions, **kwargs):
        return [None if text == "skip" else 1.0 for text in completions]

    first, second = safe_verify(as_verifier(sometimes), group("skip", "take"))
    assert (first.status, first.cause) == ("unscored", "no score")
    assert second.reward == 1.0


def test_the_trainer_state_has_the_progress(item) -> None:
    def shaped(completions, trainer_state, **kwargs):
        return [trainer_state.global_step / trainer_state.max_steps] * len(completions)

    assert TRLVerifier(shaped, max_steps=10).verify([item(key=(5, 0, 0, 0))])[0].reward == 0.5


def test_every_part_learns_the_number_of_steps(item) -> None:
    def shaped(completions, trainer_state, **kwargs):
        return [trainer_state.global_step / trainer_state.max_steps] * len(completions)

    weighted = for_run(as_verifier({"shaped": shaped, "plain": lambda task, text: 1.0}), 20)
    assert verdicts_of(weighted, [item(key=(5, 0, 0, 0))])[0].parts == {"shaped": 0.25, "plain": 1.0}
    assert for_run(as_verifier(shaped), 50).verify([item(key=(5, 0, 0, 0))])[0].reward == 0.1


def test_logged_values_become_reward_parts(group) -> None:
    def logging(completions, log_extra, log_metric, **kwargs):
        log_extra("chars", [len(text) for text in completions])
        log_extra("text", list(completions))
        log_metric("mean_chars", 1.0)
        log_metric("mean_chars", 2.0)
        return [None, 0.5]

    skipped, scored = safe_verify(as_verifier(logging), group("a", "bb"))
    assert skipped.parts == {}
    assert scored.parts == {"chars": 2.0, "mean_chars": 1.5}


@pytest.mark.parametrize("returned", [[1.0], "ab", None])
def test_a_wrong_return_is_unscored_for_the_group(returned: object, group) -> None:
    def wrong(completions, **kwargs):
        return returned

    assert [verdict.cause for verdict in safe_verify(as_verifier(wrong), group("a", "b"))] == ["bad return"] * 2


def test_in_a_pool_a_function_receives_whole_groups(group) -> None:
    sizes: list[int] = []

    def reward(completions, **kwargs):
        sizes.append(len(completions))
        return [0.0 for _ in completions]

    pool = InlinePool(as_verifier(reward))
    first, second = group("a", "b", "c"), group("d", "e", "f", slot=1)
    for pair in zip(first, second, strict=True):
        pool.submit(pair)
    assert sizes == [3, 3]
