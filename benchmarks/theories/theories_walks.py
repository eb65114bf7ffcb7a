"""The theory grammar generates only gauge-invariant theories within the limits, and never gets stuck.

The benchmark takes 100,000 random walks from every kind of prompt, with budgets from the tightest upwards. A parser and
group-theory code that do not use the grammar check every output. The grammar and the parser must agree on texts with
one changed word, on all theories within limits that are small enough to enumerate, and on the known models.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result
from benchmarks.theories.theory_texts import SMALL, changed, every_text, is_valid_theory_text
from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import Walk, members
from steelyard.domains.theories.grammar.automaton import TheoryGrammar
from steelyard.domains.theories.grammar.starting_points import STARTING_POINTS, StartingPoint
from steelyard.domains.theories.grammar.text import rounded, write
from steelyard.domains.theories.model.known_models import models
from steelyard.types import Task

WALKS = 100_000
LONGEST = 300
WORDS = 20
"""Number of words in the longest enumerated theories."""
END = "<eos>"


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes 500 walks and enumerates theories of up to 15 words."""
    rows = walks(500 if quick else WALKS, progress)
    listed = enumerated(15 if quick else WORDS, progress)
    accepted = {name: accepts(write(rounded(model)), TheoryGrammar()) for name, model in models().items()}
    figures = (
        Figure("random walks", float(sum(int(row["walks"]) for row in rows)), ">=", 500 if quick else WALKS),
        Figure("walks that got stuck", float(sum(int(row["stuck"]) for row in rows)), "<=", 0.0),
        Figure("invalid texts generated", float(sum(int(row["wrong"]) for row in rows)), "<=", 0.0),
        Figure("disagreements on mutated texts", float(sum(int(row["disagreements"]) for row in rows)), "<=", 0.0),
        Figure("small theories missing or in excess", float(listed["differing"]), "<=", 0.0),
        Figure("known models accepted", float(sum(accepted.values())), ">=", float(len(accepted))),
    )
    note = (
        f"{listed['theories']} theories of up to {listed['words']} words within the small limits, "
        f"enumerated without the grammar. Known models, with numbers rounded to the vocabulary: "
        f"{', '.join(accepted)}."
    )
    return Result("theories-walks", figures, rows, note)


def walks(count: int, progress: Progress) -> list[dict[str, Cell]]:
    """Return one row for each kind of prompt."""
    grammar = TheoryGrammar()
    constraint, bar = constraint_of(grammar), progress.add_task("walks", total=count)
    rows: list[dict[str, Cell]] = []
    for kind, beginnings in STARTING_POINTS.items():
        rng, found = random.Random(kind), list(beginnings(grammar.limits))
        texts: list[str] = []
        stuck = wrong = disagreements = right = 0
        for number in range(count // len(STARTING_POINTS)):
            task = task_of(found[number % len(found)])
            least = constraint.begin(task).shortest_end()
            budget = least + min(int(rng.expovariate(0.02)), LONGEST - least)
            text = walk(constraint, task, budget, rng)
            progress.advance(bar)
            if text is None:
                stuck += 1
                continue
            texts.append(text)
            fits = len(text.split()) < budget and f"{text} ".startswith(f"{task.spec['given']} ")
            wrong += not (fits and is_valid_theory_text(text, grammar.limits))
            mutant = changed(text, grammar.alphabet(), rng)
            valid = is_valid_theory_text(mutant, grammar.limits)
            disagreements += valid != accepts(mutant, grammar)
            right += valid
        counts = {"stuck": stuck, "wrong": wrong, "mutants still valid": right, "disagreements": disagreements}
        rows.append({"start": kind, "walks": len(texts) + stuck, **_statistics(texts), **counts})
    return rows


def _statistics(texts: Sequence[str]) -> dict[str, Cell]:
    lengths = [len(text.split()) for text in texts]
    mean = sum(lengths) / max(len(lengths), 1)
    return {"distinct": len(set(texts)), "mean words": mean, "max words": max(lengths, default=0)}


def walk(constraint: WordConstraint[Any], task: Task, budget: int, rng: random.Random) -> str | None:
    """Draw each word uniformly from those allowed; return None if no word is allowed or the budget is used up."""
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
    return text_of(constraint, tokens)


def enumerated(words: int, progress: Progress) -> dict[str, Cell]:
    """Enumerate all theories within small limits, with and without the grammar."""
    bar = progress.add_task("small theories", total=2)
    independent = every_text(SMALL, words)
    progress.advance(bar)
    constraint = constraint_of(TheoryGrammar(SMALL))
    generated = list(_every(constraint, constraint.begin(Task("small", "")), (), words + 1))
    progress.advance(bar)
    differing = len(set(generated) ^ independent) + len(generated) - len(set(generated))
    return {"words": words, "theories": len(independent), "differing": differing}


def accepts(text: str, grammar: TheoryGrammar) -> bool:
    """Whether the grammar accepts the text, word by word."""
    state = grammar.start(Task("any", ""))
    for word in text.split():
        after = grammar.moves(state).get(word)
        if after is None:
            return False
        state = after
    return grammar.may_end(state)


def constraint_of(grammar: TheoryGrammar) -> WordConstraint[Any]:
    return WordConstraint(grammar, (END, *grammar.alphabet()), 0)


def text_of(constraint: WordConstraint[Any], tokens: Sequence[int]) -> str:
    """Return the words for the given tokens, the last of which is the end token."""
    words = tuple(constraint.automaton.alphabet())
    return " ".join(words[token - 1] for token in tokens[:-1])


def task_of(beginning: StartingPoint) -> Task:
    return Task(beginning.id, beginning.kind, beginning.spec)


def _drawn(following: Walk, left: int, rng: random.Random) -> list[int]:
    choices = members(following.allowed(left)).tolist()
    return [rng.choice(choices)] if choices else []


def _every(constraint: WordConstraint[Any], at: Any, tokens: tuple[int, ...], left: int) -> Iterator[str]:
    if at.ended:
        yield text_of(constraint, tokens)
        return
    choices = members(at.allowed(left)).tolist()
    if not choices:
        raise RuntimeError(f"dead end after {text_of(constraint, (*tokens, 0))!r}")
    for token in choices:
        following = at.copy()
        following.advance(token)
        yield from _every(constraint, following, (*tokens, token), left - 1)
