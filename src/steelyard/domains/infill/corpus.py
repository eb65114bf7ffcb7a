"""The texts of the infill domain, read from files or, by default, from the Python standard library.

A *document* is a file in a folder, a paragraph of a text file, or a line of a JSONL file. A hash of its name assigns
the document and all its texts to a split. Texts that differ only in whitespace or in a function's name are
deduplicated. A held-out text therefore never occurs in training under another name, although parts of it may.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
import sysconfig
import textwrap
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from steelyard.domains.base import Split
from steelyard.domains.infill.tokenization import open_tokenizer, split_text
from steelyard.errors import DataError
from steelyard.special_tokens import MASK, SPECIAL_TOKENS
from steelyard.text import shown

Unit = Literal["function", "chunk"]
RESERVED_TOKENS = (*SPECIAL_TOKENS, MASK)
"""Texts that contain these strings are skipped, because a tokenizer would treat them as special tokens."""
SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""Each of these splits gets one tenth of the documents; the rest are used for training."""
EXCLUDED_FOLDERS = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})
"""Standard library folders that contain third-party code or tests, or are missing on some machines."""
_FUNCTION = re.compile(r"^([ \t]*)(?:async )?def .*\n(?:\1[ \t]+.*\n|[ \t]*\n)*", re.MULTILINE)
_NAME = re.compile(r"^((?:async )?def )\w+")


class Text(NamedTuple):
    """A piece of text and its source."""

    source: str
    """Document and line."""
    text: str
    split: Split


class TextFilter(NamedTuple):
    """The allowed lengths and characters of texts."""

    min_length: int
    max_length: int
    characters: frozenset[str]
    tokenizer: str = ""
    """Tokenizer that must reproduce the text; empty if units are characters."""

    def reason_to_skip(self, text: str) -> str | None:
        """Return the reason to skip a text, or ``None`` to keep it."""
        if not self.min_length <= len(text) <= self.max_length:
            return f"shorter than min_length={self.min_length} or longer than max_length={self.max_length} characters"
        if other := set(text) - self.characters:
            return f"with {min(other)!r}, which is not in `characters`"
        if any(token in text for token in RESERVED_TOKENS):
            return f"with one of {' '.join(RESERVED_TOKENS)}"
        if self.tokenizer and "".join(split_text(text, self.tokenizer)) != text:
            return "with characters that span several tokens"
        return None


@lru_cache(maxsize=4)
def load_texts(files: str, unit: Unit, keep: TextFilter) -> dict[Split, tuple[Text, ...]]:
    """Load all distinct texts into memory, grouped by split; :func:`iter_texts` streams them instead."""
    found: dict[Split, list[Text]] = {"train": [], "validation": [], "held_out": []}
    skipped = Counter[str]()
    for text in iter_texts(files, unit, keep, skipped):
        found[text.split].append(text)
    if not all(found.values()):
        kept = ", ".join(f"{len(texts)} for {split}" for split, texts in found.items())
        reasons = "; ".join(f"{count} {reason}" for reason, count in skipped.most_common(4)) or "none"
        raise DataError(
            f"infill: {files or 'the standard library'} has too few texts ({kept}); add documents (files in a "
            f"folder, paragraphs in a text file or lines in a JSONL file). Texts skipped: {reasons}"
        )
    return {split: tuple(texts) for split, texts in found.items()}


def iter_texts(files: str, unit: Unit, keep: TextFilter, skipped: Counter[str] | None = None) -> Iterator[Text]:
    """Yield distinct texts, holding in memory one document and a hash per text. ``skipped`` counts skipped texts by
    reason.
    """
    seen: set[int] = set()
    read = functions if unit == "function" else chunks
    for name, content in documents(files, unit, keep.tokenizer):
        split = split_of(name)
        for line, text in read(content, keep.max_length):
            if reason := keep.reason_to_skip(text):
                if skipped is not None:
                    skipped[reason] += 1
            elif (key := hash(deduplication_key(text))) not in seen:
                seen.add(key)
                yield Text(f"{name}:{line}", text, split)


def deduplication_key(text: str) -> str:
    """Return the text without whitespace and function name; texts with equal keys are duplicates."""
    return "".join(_NAME.sub(r"\1", text).split())


def documents(files: str, unit: Unit, tokenizer: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and contents of the documents at a path. The names do not depend on the location of the path."""
    root = Path(files or sysconfig.get_paths()["stdlib"])
    if root.is_file() and root.suffix == ".jsonl":
        yield from _records(root, tokenizer)
    elif root.is_file():
        if unit == "function":
            raise DataError(
                f"infill: files={files!r} is a single file, but functions are split by file; pass a folder with "
                f'several files, or a JSONL file with one source per line: {{"text": "..."}}'
            )
        yield from _paragraphs(root)
    elif root.is_dir():
        for path in sorted(root.rglob("*.py" if unit == "function" else "*")):
            name = path.relative_to(root)
            if path.is_file() and (files or EXCLUDED_FOLDERS.isdisjoint(name.parts)):
                yield name.as_posix(), _content(path)
    else:
        raise DataError(f"infill: files={files!r} is not an existing file or folder (working directory: {Path.cwd()})")


def _paragraphs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the paragraphs of a file, separated by blank lines."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for filled, block in itertools.groupby(enumerate(lines, 1), key=lambda line: bool(line[1].strip())):
            if filled:
                first, *others = block
                yield f"{path.name}:{first[0]}", "".join([first[1], *(line for _, line in others)])


def _records(path: Path, tokenizer: str) -> Iterator[tuple[str, str]]:
    """Yield one document per line: ``{"text": "..."}`` or ``{"tokens": [...]}``, with tokens as strings or ids."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                name = f"{path.name}:{number}"
                yield name, _text_of(name, line, tokenizer)


def _text_of(name: str, line: str, tokenizer: str) -> str:
    try:
        record: Any = json.loads(line)
        if "text" in record:
            return str(record["text"])
        tokens: list[Any] = list(record["tokens"])
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f'infill: {name} must be {{"text": "..."}} or {{"tokens": [...]}}, not {shown(line, 60)}'
        ) from None
    if all(isinstance(token, str) for token in tokens):
        return "".join(tokens)
    if not tokenizer:
        raise DataError(f"infill: {name} contains token ids; set domain.options.tokenizer to decode them")
    return open_tokenizer(tokenizer).decode(tokens, skip_special_tokens=True)


def split_of(name: str) -> Split:
    """Return the split of a document, which depends only on its name."""
    return SPLIT_OF_TENTH.get(zlib.crc32(name.encode()) % 10, "train")


def functions(content: str, longest: int) -> Iterator[tuple[int, str]]:
    """Yield complete Python functions, dedented, with their line numbers. Functions longer than ``longest`` are yielded
    unchecked because the filter skips them anyway.
    """
    for match in _FUNCTION.finditer(content):
        line = content.count("\n", 0, match.start()) + 1
        text = match[0] if len(match[0]) > 4 * longest else textwrap.dedent(match[0]).rstrip() + "\n"
        if len(text) > longest or is_function(text):
            yield line, text


def is_function(text: str) -> bool:
    """Whether a text consists of exactly one Python function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    return len(body) == 1 and isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef)


def chunks(content: str, longest: int) -> Iterator[tuple[int, str]]:
    """Yield runs of complete lines of at most ``longest`` characters; a longer line forms its own run."""
    start, run = 1, ""
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        if run and len(run) + len(line) > longest:
            yield start, run
            start, run = number, ""
        run += line
    if run:
        yield start, run


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
