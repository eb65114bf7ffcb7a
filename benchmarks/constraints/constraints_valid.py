"""Everything sampled under a constraint is accepted by a checker that knows nothing of it, under tight budgets too.

A million sequences under automata (most by drawing evenly among what is allowed, the rest by random policies through
the real sampler) and 20,000 for each text grammar, over SmolLM2's tokens. The checkers are jsonschema,
``re.fullmatch``, Lark, a stack, and a packer that marks cells one by one; each of them must also turn down sequences
that were changed.
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
"""How many of them come from random policies through the sampler."""
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
    """A constraint, tasks for it, budgets to be drawn from, and who checks."""

    name: str
    constraint: Any
    end_id: int
    text_of: Callable[[list[int]], str]
    accepts: Callable[[Task, str], bool]
    tasks: list[Task]
    budgets: tuple[int, int]
    change: Callable[[random.Random, str], str]


def measure(quick: bool, progress: Progress) -> Result:
    """Quick: a thousandth of the automata's sequences and a fiftieth of the grammars'."""
    families = [*automata(), *grammars()]
    shares = {"brackets": AUTOMATA // 2, "boxes": AUTOMATA // 2 - SAMPLED}
    rows = [through_the_sampler(SAMPLED // 100 if quick else SAMPLED, progress)]
    for family in families:
        count = shares.get(family.name, GRAMMARS)
        count = (count // 1000 if family.name in shares else count // 50) if quick else count
        rows.append(examine(family, count, progress))
    judged = sum(int(row["sequences"]) for row in rows)
    wrong = sum(int(row["refused"]) for row in rows)
    caught = min(int(row["changed, refused"]) / max(int(row["changed"]), 1) for row in rows if row["changed"])
    figures = (
        Figure("sequences refused by a checker", float(wrong), "<=", 0.0),
        Figure("sequences judged", float(judged), ">=", float(judged if quick else AUTOMATA + GRAMMARS * 6)),
        Figure("changed sequences refused, smallest share", caught, ">=", 0.9),
    )
    note = (
        "Changed: for automata one symbol lost or exchanged, which now and then is valid again; for text a control "
        "character written into it, which never is."
    )
    return Result("constraints-valid", figures, rows, note)


def examine(family: Family, count: int, progress: Progress) -> dict[str, Cell]:
    """Draw, check, and change every tenth."""
    bar = progress.add_task(family.name, total=count)
    rng, refused, changed, caught, cut_off, longest = random.Random(family.name), 0, 0, 0, 0, 0
    for number in range(count):
        task = family.tasks[number % len(family.tasks)]
        tokens, whole = draw(family, task, rng)
        longest = max(longest, len(tokens))
        cut_off += not whole
        if whole:
            text = family.text_of(tokens)
            refused += not family.accepts(task, text)
            if number % 10 == 0:
                other = family.change(rng, text)
                changed += other != text
                caught += other != text and not family.accepts(task, other)
        if number % 500 == 0:
            progress.update(bar, completed=number)
    progress.update(bar, completed=count)
    return {
        "constraint": family.name,
        "sequences": count,
        "refused": refused,
        "cut off": cut_off,
        "longest": longest,
        "changed": changed,
        "changed, refused": caught,
    }


def draw(family: Family, task: Task, rng: random.Random) -> tuple[list[int], bool]:
    """Evenly among what is allowed, from the shortest budget that can work upwards; (tokens, came to an end)."""
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
    for automaton, words, accepts, change, tasks, budgets in families:
        numbers = {word: number + 1 for number, word in enumerate(words)}
        constraint = WordConstraint(cast("Any", automaton), numbers, end_id=0, vocabulary=len(words) + 1)
        glue = "" if isinstance(automaton, Brackets) else " "
        name = type(automaton).__name__.lower()
        yield Family(name, constraint, 0, _speller(words, glue), accepts, tasks, budgets, change)


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
        yield Family(name, constraint, end, _decoder(tokenizer), accepts, [Task("t", "")], budgets, spoil)


def _decoder(tokenizer: Any) -> Callable[[list[int]], str]:
    return lambda tokens: tokenizer.decode(tokens, skip_special_tokens=True)


def through_the_sampler(count: int, progress: Progress) -> dict[str, Cell]:
    """Boxes packed by policies with random weights of their own, in the real sampler."""
    from benchmarks.constraints.constraints_matter import build
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for

    bar, refused, made, seed = progress.add_task("random policies", total=count), 0, 0, 0
    while made < count:
        trainer = build(seed, 1, "unused")
        tasks = trainer.parts.source.draw(0, 64)
        decoding = Decoding(max_new_tokens=box_packing.BOXES_PER_TASK + 1 + seed % box_packing.BOXES_PER_TASK)
        for sample in trainer.parts.sampler.sample(requests_for(tasks, seed, 16), decoding):
            refused += sample.finish != "stop" or not packs(tasks[sample.key.slot], sample.text)
            made += 1
        seed += 1
        progress.update(bar, completed=made)
    return {
        "constraint": f"boxes, {seed} random policies",
        "sequences": made,
        "refused": refused,
        "cut off": 0,
        "longest": 2 * box_packing.BOXES_PER_TASK + 1,
        "changed": 0,
        "changed, refused": 0,
    }


# --- checkers and changes ---------------------------------------------------------------------------------------------


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
    return box_packing.placed(task.spec["boxes"], text) is not None


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
    """Two neighbours exchanged, or one character lost."""
    if len(text) < 2:
        return text + text + "x"
    place = rng.randrange(len(text) - 1)
    if rng.random() < 0.5:
        return text[:place] + text[place + 1 :]
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


def spoil(rng: random.Random, text: str) -> str:
    """A control character written in: neither a letter of any pattern nor allowed in JSON."""
    place = rng.randrange(len(text) + 1)
    return text[:place] + "\x01" + text[place:]


def swap_word(rng: random.Random, text: str) -> str:
    """One word lost, or another one in its place."""
    words = text.split()
    place = rng.randrange(len(words))
    other = list(box_packing.WORDS[2:])
    replacement = [] if rng.random() < 0.5 else [other[rng.randrange(len(other))]]
    return " ".join(words[:place] + replacement + words[place + 1 :])
