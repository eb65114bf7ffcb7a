"""What the grammar of theories lets through is gauge-invariant and within limits, and nothing gets stuck.

100,000 random walks from every kind of beginning under budgets from the tightest on, each judged by a reader and by
group theory that know nothing of the grammar; texts with one word changed, which grammar and judge must turn down
alike; all theories within limits small enough to write down every one; and the known models, word by word.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from rich.progress import Progress

from benchmarks.result import Cell, Figure, Result
from benchmarks.theory_texts import SMALL, changed, every_text, is_right
from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import Walk, members
from steelyard.domains.theories.grammar.automaton import TheoryGrammar
from steelyard.domains.theories.grammar.starting_points import BEGINNINGS, Beginning
from steelyard.domains.theories.grammar.text import rounded, write
from steelyard.domains.theories.model.known_models import models
from steelyard.types import Task

WALKS = 100_000
LONGEST = 300
WORDS = 20
"""Of the longest theories that are written down by the thousand."""
END = "<eos>"


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: 500 walks, and small theories of up to 15 words."""
    rows = walks(500 if quick else WALKS, progress)
    listed = exhausted(15 if quick else WORDS, progress)
    accepted = {name: accepts(write(rounded(model)), TheoryGrammar()) for name, model in models().items()}
    figures = (
        Figure("random walks", float(sum(int(row["walks"]) for row in rows)), ">=", 500 if quick else WALKS),
        Figure("walks stuck", float(sum(int(row["stuck"]) for row in rows)), "<=", 0.0),
        Figure("texts that are no theory within limits", float(sum(int(row["wrong"]) for row in rows)), "<=", 0.0),
        Figure("changed texts judged otherwise", float(sum(int(row["judged otherwise"]) for row in rows)), "<=", 0.0),
        Figure("small theories missing or too many", float(listed["differing"]), "<=", 0.0),
        Figure("known models accepted", float(sum(accepted.values())), ">=", float(len(accepted))),
    )
    note = (
        f"{listed['theories']} theories of up to {listed['words']} words within the small limits, "
        f"written down without the grammar. Known models, rounded to the numbers there are words for: "
        f"{', '.join(accepted)}."
    )
    return Result("theories-walks", figures, rows, note)


def walks(count: int, progress: Progress) -> list[dict[str, Cell]]:
    """A row for each kind of beginning."""
    grammar = TheoryGrammar()
    constraint, bar = constraint_of(grammar), progress.add_task("walks", total=count)
    rows: list[dict[str, Cell]] = []
    for kind, beginnings in BEGINNINGS.items():
        rng, found = random.Random(kind), list(beginnings(grammar.limits))
        texts: list[str] = []
        stuck = wrong = otherwise = right = 0
        for number in range(count // len(BEGINNINGS)):
            task = task_of(found[number % len(found)])
            least = constraint.begin(task).shortest_end()
            budget = least + min(int(rng.expovariate(0.02)), LONGEST - least)
            said = walk(constraint, task, budget, rng)
            progress.advance(bar)
            if said is None:
                stuck += 1
                continue
            texts.append(said)
            fits = len(said.split()) < budget and f"{said} ".startswith(f"{task.spec['given']} ")
            wrong += not (fits and is_right(said, grammar.limits))
            other = changed(said, grammar.alphabet(), rng)
            valid = is_right(other, grammar.limits)
            otherwise += valid != accepts(other, grammar)
            right += valid
        lengths = [len(text.split()) for text in texts]
        rows.append(
            {
                "beginning": kind,
                "walks": len(texts) + stuck,
                "different": len(set(texts)),
                "mean words": sum(lengths) / max(len(lengths), 1),
                "most words": max(lengths, default=0),
                "stuck": stuck,
                "wrong": wrong,
                "changed, still right": right,
                "judged otherwise": otherwise,
            }
        )
    return rows


def walk(constraint: WordConstraint[Any], task: Task, budget: int, rng: random.Random) -> str | None:
    """A text drawn evenly among what is allowed at each word; ``None`` if nothing is allowed or the budget is spent."""
    following, tokens = constraint.begin(task), list[int]()
    while not following.ended:
        if len(tokens) >= budget:
            return None
        left = budget - len(tokens)
        run = list(following.forced(left)) or _drawn(following, left, rng)
        if not run:
            return None
        for token in run:
            following.advance(token)
            tokens.append(token)
    return said_by(constraint, tokens)


def exhausted(words: int, progress: Progress) -> dict[str, Cell]:
    """All theories within small limits, by the grammar and without it."""
    bar = progress.add_task("small theories", total=2)
    written_down = every_text(SMALL, words)
    progress.advance(bar)
    constraint = constraint_of(TheoryGrammar(SMALL))
    let_through = list(_every(constraint, constraint.begin(Task("small", "")), (), words + 1))
    progress.advance(bar)
    differing = len(set(let_through) ^ written_down) + len(let_through) - len(set(let_through))
    return {"words": words, "theories": len(written_down), "differing": differing}


def accepts(text: str, grammar: TheoryGrammar) -> bool:
    """Whether the grammar lets a text through, word by word."""
    state = grammar.start(Task("any", ""))
    for word in text.split():
        after = grammar.moves(state).get(word)
        if after is None:
            return False
        state = after
    return grammar.may_end(state)


def constraint_of(grammar: TheoryGrammar) -> WordConstraint[Any]:
    return WordConstraint(grammar, (END, *grammar.alphabet()), 0)


def said_by(constraint: WordConstraint[Any], tokens: Sequence[int]) -> str:
    """The words of some tokens, of which the last is the end."""
    words = tuple(constraint.automaton.alphabet())
    return " ".join(words[token - 1] for token in tokens[:-1])


def task_of(beginning: Beginning) -> Task:
    return Task(beginning.id, beginning.kind, beginning.spec)


def _drawn(following: Walk, left: int, rng: random.Random) -> list[int]:
    choices = members(following.allowed(left)).tolist()
    return [rng.choice(choices)] if choices else []


def _every(constraint: WordConstraint[Any], at: Any, said: tuple[int, ...], left: int) -> Iterator[str]:
    if at.ended:
        yield said_by(constraint, said)
        return
    choices = members(at.allowed(left)).tolist()
    if not choices:
        raise RuntimeError(f"a dead end after {said_by(constraint, (*said, 0))}")
    for token in choices:
        following = at.copy()
        following.advance(token)
        yield from _every(constraint, following, (*said, token), left - 1)
