"""Independent checkers accept everything sampled under a constraint, even with tight token budgets.

Automata produce a million sequences: most are drawn uniformly from the allowed tokens, the rest by random policies
through the real sampler. Each text grammar produces 20,000 sequences of SmolLM2's tokens. The checkers are jsonschema,
``re.fullmatch``, Lark, a stack, and a packer that marks cells one by one. Each of them must also reject mutated
sequences.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from rich.progress import Progress

from benchmarks.constraints import box_packing
from benchmarks.constraints.constrained_policies import CHOICES, GRAMMAR, PATTERN, SCHEMA
from benchmarks.framework.result import Cell, Figure, Result
from steelyard.types import Task

AUTOMATA = 1_000_000
SAMPLED = 50_000
"""Number of sequences drawn by random policies through the sampler."""
GRAMMARS = 20_000
KINDS = "()[]{}"
SCHEMAS: tuple[dict[str, Any], ...] = (
    SCHEMA,
    {"type": "array", "items": {"type": "integer", "minimum": -50, "maximum": 50}, "minItems": 1, "maxItems": 5},
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "note": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
        "required": ["ok"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True)
class Family:
    """A constraint with its tasks, its range of token budgets and its independent checker."""

    name: str
    constraint: Any
    end_id: int
    text_of: Callable[[list[int]], str]
    accepts: Callable[[Task, str], bool]
    tasks: list[Task]
    budgets: tuple[int, int]
    mutate: Callable[[random.Random, str], str]


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses 1/1000 of the automaton sequences and 1/50 of the grammar sequences."""
    families = [*automata(), *grammars()]
    shares = {"brackets": AUTOMATA // 2, "boxes": AUTOMATA // 2 - SAMPLED}
    rows = [through_the_sampler(SAMPLED // 100 if quick else SAMPLED, progress)]
    for family in families:
        count = shares.get(family.name, GRAMMARS)
        count = (count // 1000 if family.name in shares else count // 50) if quick else count
        rows.append(examine(family, count, progress))
    checked = sum(int(row["sequences"]) for row in rows)
    wrong = sum(int(row["rejected"]) for row in rows)
    caught = min(int(row["mutants rejected"]) / max(int(row["mutants"]), 1) for row in rows if row["mutants"])
    figures = (
        Figure("sequences rejected by the checker", float(wrong), "<=", 0.0),
        Figure("sequences checked", float(checked), ">=", float(checked if quick else AUTOMATA + GRAMMARS * 6)),
        Figure("smallest share of mutants rejected", caught, ">=", 0.9),
    )
    note = (
        "Mutants: a sequence of an automaton loses a symbol or gets one exchanged, which is sometimes valid again; a "
        "text gets a control character, which is never valid."
    )
    return Result("constraints-valid", figures, rows, note)


def examine(family: Family, count: int, progress: Progress) -> dict[str, Cell]:
    """Draw and check sequences, and mutate every tenth one."""
    bar = progress.add_task(family.name, total=count)
    rng, rejected, mutants, caught, cut_off, longest = random.Random(family.name), 0, 0, 0, 0, 0
    for number in range(count):
        task = family.tasks[number % len(family.tasks)]
        tokens, ended = draw(family, task, rng)
        longest = max(longest, len(tokens))
        cut_off += not ended
        if ended:
            text = family.text_of(tokens)
            rejected += not family.accepts(task, text)
            if number % 10 == 0:
                other = family.mutate(rng, text)
                mutants += other != text
                caught += other != text and not family.accepts(task, other)
        if number % 500 == 0:
            progress.update(bar, completed=number)
    progress.update(bar, completed=count)
    return {
        "constraint": family.name,
        "sequences": count,
        "rejected": rejected,
        "cut off": cut_off,
        "longest": longest,
        "mutants": mutants,
        "mutants rejected": caught,
    }


def draw(family: Family, task: Task, rng: random.Random) -> tuple[list[int], bool]:
    """Draw uniformly from the allowed tokens, with at least the smallest feasible budget; return (tokens, ended)."""
    from steelyard.constraints.base import members

    walk = family.constraint.begin(task)
    least = walk.shortest_end() or family.budgets[0]
    budget = max(rng.randint(*family.budgets), least)
    tokens: list[int] = []
    while len(tokens) < budget:
        run = list(walk.forced(budget - len(tokens)))
        if not run:
            options = members(walk.allowed(budget - len(tokens)))
            if not len(options):
                return tokens, False
            run = [int(options[rng.randrange(len(options))])]
        for token in run:
            walk.advance(token)
        tokens += run
        if tokens[-1] == family.end_id:
            return tokens, True
    return tokens, False


# --- families ---------------------------------------------------------------------------------------------------------


def automata() -> Iterator[Family]:
    from steelyard.constraints.automaton import WordConstraint
    from steelyard.constraints.examples.boxes import Boxes
    from steelyard.constraints.examples.brackets import Brackets

    families: tuple[tuple[Any, list[str], Any, Any, list[Task], tuple[int, int]], ...] = (
        (Brackets(3, KINDS), list(KINDS), balanced, swap_character, [Task("t", "")], (1, 17)),
        (
            Boxes(box_packing.SIDE, box_packing.SIDE),
            list(box_packing.WORDS),
            packs,
            swap_word,
            [Task(str(n), "", row) for n, row in enumerate(box_packing.tasks("valid", 200))],
            (1, box_packing.NEW_TOKENS),
        ),
    )
    for automaton, words, accepts, mutate, tasks, budgets in families:
        numbers = {word: number + 1 for number, word in enumerate(words)}
        constraint = WordConstraint(cast("Any", automaton), numbers, end_id=0, vocabulary=len(words) + 1)
        glue = "" if isinstance(automaton, Brackets) else " "
        name = type(automaton).__name__.lower()
        yield Family(name, constraint, 0, _speller(words, glue), accepts, tasks, budgets, mutate)


def _speller(words: list[str], glue: str) -> Callable[[list[int]], str]:
    return lambda tokens: glue.join(words[token - 1] for token in tokens if token)


def grammars() -> Iterator[Family]:
    import lark
    from transformers import AutoTokenizer

    from benchmarks.framework.smollm import model_folder
    from steelyard.constraints.grammar import GrammarConstraint

    tokenizer: Any = AutoTokenizer.from_pretrained(model_folder())
    parser = lark.Lark(GRAMMAR, start="start")
    kinds: list[tuple[str, Any, Any, Callable[[Task, str], bool], tuple[int, int]]] = [
        ("regex", "regex", PATTERN, lambda _, text: re.fullmatch(PATTERN, text) is not None, (48, 64)),
        ("Lark", "lark", GRAMMAR, lambda _, text: _parses(parser, text), (24, 64)),
        ("choices", "choices", list(CHOICES), lambda _, text: text in CHOICES, (8, 8)),
    ]
    for number, schema in enumerate(SCHEMAS):
        kinds.append((f"JSON schema {number + 1}", "json_schema", schema, _fits(schema), (96, 96)))
    for name, kind, source, accepts, budgets in kinds:
        end = int(tokenizer.eos_token_id)
        constraint = GrammarConstraint(
            kind, source, tokenizer, end_id=end, vocabulary=len(tokenizer), max_tokens=budgets[1]
        )
        yield Family(name, constraint, end, _decoder(tokenizer), accepts, [Task("t", "")], budgets, insert_control)


def _decoder(tokenizer: Any) -> Callable[[list[int]], str]:
    return lambda tokens: tokenizer.decode(tokens, skip_special_tokens=True)


def through_the_sampler(count: int, progress: Progress) -> dict[str, Cell]:
    """Pack boxes with randomly initialised policies in the real sampler."""
    from benchmarks.constraints.constraints_matter import build
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for

    bar, rejected, drawn, seed = progress.add_task("random policies", total=count), 0, 0, 0
    while drawn < count:
        trainer = build(seed, 1, "unused")
        tasks = trainer.parts.source.draw(0, 64)
        decoding = Decoding(max_new_tokens=box_packing.BOXES_PER_TASK + 1 + seed % box_packing.BOXES_PER_TASK)
        for sample in trainer.parts.sampler.sample(requests_for(tasks, seed, 16), decoding):
            rejected += sample.finish != "stop" or not packs(tasks[sample.key.slot], sample.text)
            drawn += 1
        seed += 1
        progress.update(bar, completed=drawn)
    return {
        "constraint": f"boxes, {seed} random policies",
        "sequences": drawn,
        "rejected": rejected,
        "cut off": 0,
        "longest": 2 * box_packing.BOXES_PER_TASK + 1,
        "mutants": 0,
        "mutants rejected": 0,
    }


# --- checkers and mutations -------------------------------------------------------------------------------------------


def balanced(_: Task, text: str) -> bool:
    stack: list[str] = []
    for character in text:
        if character in KINDS[::2]:
            stack.append(KINDS[KINDS.index(character) + 1])
            if len(stack) > 3:
                return False
        elif not stack or stack.pop() != character:
            return False
    return not stack


def packs(task: Task, text: str) -> bool:
    return box_packing.parse_packing(task.spec["boxes"], text) is not None


def _parses(parser: Any, text: str) -> bool:
    import lark

    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


def _fits(schema: dict[str, Any]) -> Callable[[Task, str], bool]:
    import jsonschema

    validator = jsonschema.Draft202012Validator(schema)

    def accepts(_: Task, text: str) -> bool:
        try:
            return validator.is_valid(json.loads(text))
        except json.JSONDecodeError:
            return False

    return accepts


def swap_character(rng: random.Random, text: str) -> str:
    """Swap two adjacent characters, or remove one."""
    if len(text) < 2:
        return text + text + "x"
    place = rng.randrange(len(text) - 1)
    if rng.random() < 0.5:
        return text[:place] + text[place + 1 :]
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def insert_control(rng: random.Random, text: str) -> str:
    """Insert a control character, which no pattern contains and JSON does not allow."""
    place = rng.randrange(len(text) + 1)
    return text[:place] + "\x01" + text[place:]


def swap_word(rng: random.Random, text: str) -> str:
    """Remove a word, or replace it with another."""
    words = text.split()
    place = rng.randrange(len(words))
    other = list(box_packing.WORDS[2:])
    replacement = [] if rng.random() < 0.5 else [other[rng.randrange(len(other))]]
    return " ".join(words[:place] + replacement + words[place + 1 :])
