"""llguidance compiles grammars and masks tokens faster than xgrammar, and rejects schemas it cannot enforce.

Both engines follow the same samples over SmolLM2's 49,152 tokens on one thread. Each token is drawn uniformly from the
tokens both engines allow. Their masks differ where the next characters are forced: llguidance then allows only the
tokenizer's own tokenisation. xgrammar is faster on small grammars, llguidance much faster on bounded strings.
``UNENFORCED`` holds schemas with one keyword each and an instance that violates it: an engine that accepts both the
schema and the instance ignores the keyword.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from benchmarks.framework.result import Cell, Figure, Result

SAMPLES = 8
TOKENS = 64
VOCABULARY = 49152
END = 2

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 60},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
    },
    "required": ["name", "tags", "age"],
    "additionalProperties": False,
}
ORDERS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
            "status": {"enum": ["open", "paid", "shipped", "returned"]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "maxItems": 4},
        },
        "required": ["id", "status", "lines"],
        "additionalProperties": False,
    },
    "minItems": 1,
    "maxItems": 5,
    "$defs": {
        "line": {
            "type": "object",
            "properties": {"item": {"type": "string"}, "count": {"type": "integer"}, "gift": {"type": "boolean"}},
            "required": ["item", "count"],
            "additionalProperties": False,
        }
    },
}
SUM_LARK = """
start: sum
sum: product (("+" | "-") product)*
product: atom (("*" | "/") atom)*
atom: NUMBER | "(" sum ")"
NUMBER: /[0-9]{1,9}/
"""
SUM_EBNF = """
root ::= sum
sum ::= product (("+" | "-") product)*
product ::= atom (("*" | "/") atom)*
atom ::= number | "(" sum ")"
number ::= [0-9]{1,9}
"""
QUERY_LARK = """
start: "SELECT " columns " FROM " NAME (" WHERE " test (" AND " test)*)? ";"
columns: "*" | NAME (", " NAME)*
test: NAME (" = " | " < " | " > ") (NUMBER | TEXT)
NAME: /[a-z][a-z_]{0,15}/
NUMBER: /[0-9]{1,6}/
TEXT: /'[^'\\n]{0,20}'/
"""
QUERY_EBNF = """
root ::= "SELECT " columns " FROM " name (" WHERE " test (" AND " test)*)? ";"
columns ::= "*" | name (", " name)*
test ::= name (" = " | " < " | " > ") (number | text)
name ::= [a-z] [a-z_]{0,15}
number ::= [0-9]{1,6}
text ::= "'" [^'\\n]{0,20} "'"
"""


@dataclass(frozen=True)
class Case:
    """A grammar in each engine's notation."""

    name: str
    kind: str
    source: Any
    other: Any = None
    """The xgrammar notation, if different."""


CASES = (
    Case("json: person", "json", PERSON),
    Case("json: orders", "json", ORDERS),
    Case("regex: date", "regex", r"[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]Z"),
    Case("regex: words", "regex", r"[A-Z][a-z]{2,40}( [a-z]{1,12}){0,30}\."),
    Case("cfg: sums", "cfg", SUM_LARK, SUM_EBNF),
    Case("cfg: query", "cfg", QUERY_LARK, QUERY_EBNF),
)
UNENFORCED = (
    ("uniqueItems", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,1]"),
    ("not", {"not": {"type": "string"}}, '"a"'),
    ("if/then", {"if": {"type": "string"}, "then": {"minLength": 3}}, '"a"'),
    ("oneOf", {"oneOf": [{"type": "number"}, {"type": "integer"}]}, "1"),
    ("maxLength and pattern", {"type": "string", "pattern": "^a+$", "maxLength": 3}, '"aaaaa"'),
    ("unknown format", {"type": "string", "format": "no such"}, '"x"'),
)

Bits = NDArray[np.uint8]


class Matcher(Protocol):
    """The state of one sample in an engine."""

    def mask(self) -> Bits: ...
    def advance(self, token: int) -> None: ...
    def forced(self) -> int:
        """Return the number of forced bytes."""
        ...

    def takes(self, text: str) -> bool: ...


@dataclass
class Timing:
    """Seconds spent by one engine on one grammar."""

    compile: list[float] = field(default_factory=list[float])
    mask: list[float] = field(default_factory=list[float])
    advance: list[float] = field(default_factory=list[float])
    forced: int = 0

    def timed(self, what: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        done = work()
        getattr(self, what).append(time.perf_counter() - start)
        return done


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version takes two samples per grammar instead of eight."""
    bar = progress.add_task("tokenizers", total=len(CASES) + 1)
    engines = {"llguidance": Guidance(), "xgrammar": Xgrammar()}
    progress.advance(bar)
    times: dict[str, dict[str, Timing]] = {}
    rows: list[dict[str, Cell]] = []
    for case in CASES:
        progress.update(bar, description=case.name)
        times[case.name], equal = compare(case, engines, 2 if quick else SAMPLES)
        rows += [row(case, name, timing, equal) for name, timing in times[case.name].items()]
        progress.advance(bar)
    ignored = {name: ignored_keywords(engine) for name, engine in engines.items()}
    return Result("grammar-engines", figures(times, ignored), rows, note=note(engines, ignored))


def figures(times: dict[str, dict[str, Timing]], ignored: dict[str, list[str]]) -> tuple[Figure, ...]:
    """Compare two sums over the grammars: median compile times and mean mask times."""

    def total(engine: str, what: Callable[[Timing], float]) -> float:
        return sum(what(timing[engine]) for timing in times.values())

    def ratio(what: Callable[[Timing], float]) -> float:
        return total("llguidance", what) / total("xgrammar", what)

    return (
        Figure("compile time / xgrammar", ratio(lambda timing: statistics.median(timing.compile)), "<=", 0.2),
        Figure("mask time / xgrammar", ratio(lambda timing: statistics.mean(timing.mask)), "<=", 1.5),
        Figure("keywords silently ignored", len(ignored["llguidance"]), "<=", 0),
    )


def row(case: Case, engine: str, timing: Timing, equal: float) -> dict[str, Cell]:
    mask = np.asarray(timing.mask) * 1e6
    return {
        "grammar": case.name,
        "engine": engine,
        "compile ms": statistics.median(timing.compile) * 1e3,
        "mask mean µs": float(mask.mean()),
        "mask p99 µs": float(np.quantile(mask, 0.99)),
        "advance µs": statistics.mean(timing.advance) * 1e6,
        "masks": len(mask),
        "bytes forced": timing.forced,
        "equal masks": equal,
    }


def note(engines: dict[str, Any], ignored: dict[str, list[str]]) -> str:
    parts = [f"{name} silently ignores: {', '.join(keywords) or 'nothing'}" for name, keywords in ignored.items()]
    specials = {name: engine.special_tokens_allowed() for name, engine in engines.items()}
    parts += [f"special tokens that {name} allows as text: {number}" for name, number in specials.items()]
    return "; ".join(parts)


def compare(case: Case, engines: dict[str, Any], samples: int) -> tuple[dict[str, Timing], float]:
    """Run both engines along the same samples; return their times and how often their masks are equal."""
    times = {name: Timing() for name in engines}
    equal: list[bool] = []
    for name, engine in engines.items():
        for _ in range(3):
            times[name].timed("compile", lambda engine=engine: engine.compile(case))
    for seed in range(samples):
        walks: dict[str, Matcher] = {name: engine.begin(case) for name, engine in engines.items()}
        equal += follow(walks, times, np.random.default_rng(seed))
    return times, statistics.mean(equal)


def follow(walks: dict[str, Matcher], times: dict[str, Timing], generator: np.random.Generator) -> list[bool]:
    equal: list[bool] = []
    for _ in range(TOKENS):
        masks: Sequence[Bits] = [times[name].timed("mask", walk.mask) for name, walk in walks.items()]
        text = [mask & TEXT_TOKENS for mask in masks]
        equal.append(bool(np.array_equal(*text)))
        shared = np.flatnonzero(np.unpackbits(text[0] & text[1], bitorder="little"))
        if not shared.size:
            break
        token = int(generator.choice(shared))
        for name, walk in walks.items():
            times[name].timed("advance", lambda walk=walk, token=token: walk.advance(token))
            times[name].forced += walk.forced()
    return equal


def ignored_keywords(engine: Any) -> list[str]:
    """Return the keywords of :data:`UNENFORCED` that the engine accepts but does not enforce."""
    found: list[str] = []
    for name, schema, instance in UNENFORCED:
        try:
            if engine.begin(Case(name, "json", schema)).takes(instance):
                found.append(name)
        except ValueError:
            continue
    return found


def _text_tokens() -> Bits:
    """Return all tokens except SmolLM2's 17 special tokens, which come first."""
    member_V = np.ones(VOCABULARY, np.bool_)
    member_V[:17] = False
    return np.packbits(member_V, bitorder="little")


TEXT_TOKENS = _text_tokens()


class Guidance:
    """llguidance, configured as in ``steelyard.constraints.grammar``."""

    def __init__(self) -> None:
        import llguidance

        from benchmarks.framework.smollm import model_folder

        self.module = llguidance
        self.tokenizer = llguidance.LLTokenizer(str(model_folder() / "tokenizer.json"), eos_token=END)

    def compile(self, case: Case) -> Any:
        make: Any = self.module.LLMatcher
        if case.kind == "json":
            text = make.grammar_from_json_schema(case.source, overrides={"whitespace_flexible": False})
        else:
            text = make.grammar_from_regex(case.source) if case.kind == "regex" else make.grammar_from_lark(case.source)
        matcher = make(self.tokenizer, text, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def begin(self, case: Case) -> Matcher:
        return GuidanceMatcher(self.compile(case), self.tokenizer)

    def special_tokens_allowed(self) -> int:
        mask = self.begin(Case("", "regex", "(.|\\n)*")).mask() & ~TEXT_TOKENS
        return int(np.bitwise_count(mask).sum()) - 1


@dataclass
class GuidanceMatcher:
    matcher: Any
    tokenizer: Any

    def mask(self) -> Bits:
        return np.frombuffer(self.matcher.compute_bitmask(), np.uint8)[: VOCABULARY // 8]

    def advance(self, token: int) -> None:
        self.matcher.consume_token(token)

    def forced(self) -> int:
        return len(self.matcher.compute_ff_bytes())

    def takes(self, text: str) -> bool:
        tokens = self.tokenizer.greedy_tokenize(text)
        return self.matcher.try_consume_tokens(tokens) == len(tokens) and self.matcher.is_accepting()


class Xgrammar:
    """xgrammar on one thread without its cache of compiled grammars, which would hide the compile time."""

    def __init__(self) -> None:
        import xgrammar
        from transformers import AutoTokenizer

        from benchmarks.framework.smollm import model_folder

        tokenizer = AutoTokenizer.from_pretrained(model_folder())
        information = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=VOCABULARY, stop_token_ids=[END])
        self.module = xgrammar
        self.compiler = xgrammar.GrammarCompiler(information, max_threads=1, cache_enabled=False)
        self.compiled: dict[str, Any] = {}

    def compile(self, case: Case) -> Any:
        make: Any = self.compiler
        if case.kind == "json":
            schema = json.dumps(case.source)
            done = make.compile_json_schema(schema, any_whitespace=False, separators=(",", ":"))
        else:
            done = make.compile_regex(case.source) if case.kind == "regex" else make.compile_grammar(case.other)
        self.compiled[case.name] = done
        return done

    def begin(self, case: Case) -> Matcher:
        try:
            compiled = self.compiled.get(case.name) or self.compile(case)
        except RuntimeError as error:
            raise ValueError(str(error)) from error
        return XgrammarMatcher(self.module.GrammarMatcher(compiled), self.module.allocate_token_bitmask(1, VOCABULARY))

    def special_tokens_allowed(self) -> int:
        mask = self.begin(Case("any", "regex", "(.|\\n)*")).mask() & ~TEXT_TOKENS
        return int(np.bitwise_count(mask).sum()) - 1


@dataclass
class XgrammarMatcher:
    matcher: Any
    bitmask: Any

    def mask(self) -> Bits:
        self.matcher.fill_next_token_bitmask(self.bitmask, 0)
        return self.bitmask.numpy()[0].view(np.uint8).copy()

    def advance(self, token: int) -> None:
        if not self.matcher.accept_token(token):
            raise ValueError(f"xgrammar rejects token {token}, which its mask allows")

    def forced(self) -> int:
        return len(self.matcher.find_jump_forward_string().encode())

    def takes(self, text: str) -> bool:
        return self.matcher.accept_string(text) and self.matcher.accept_token(END)
