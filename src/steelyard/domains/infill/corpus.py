"""Texts to make holes in, from any files; without any, the Python sources of the standard library.

A *document* is a file. It belongs to one split by the hash of its name, with every text in it, and a text that occurs
again, there or elsewhere, is taken once: so nothing that is held out was seen in training.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import textwrap
import warnings
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

from steelyard.domains.base import Split
from steelyard.errors import DataError

Unit = Literal["function", "chunk"]
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<mask>")
"""No text has these in it: a tokenizer would take them for its own."""
SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""A tenth of the documents each; the rest is for training."""
LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})
"""Folders of the standard library that are no library, or that not every machine has."""
_FUNCTION = re.compile(r"^([ \t]*)(?:async )?def .*\n(?:\1[ \t]+.*\n|[ \t]*\n)*", re.MULTILINE)


class Text(NamedTuple):
    """One text and where it stands."""

    place: str
    """Document and line."""
    text: str
    split: Split


class Sizes(NamedTuple):
    """How many characters a text has, and which."""

    shortest: int
    longest: int
    characters: frozenset[str]

    def fit(self, text: str) -> bool:
        if not self.shortest <= len(text) <= self.longest or not self.characters.issuperset(text):
            return False
        return not any(token in text for token in SPECIAL_TOKENS)


@lru_cache(maxsize=4)
def texts(files: str, unit: Unit, sizes: Sizes) -> dict[Split, tuple[Text, ...]]:
    """All texts by split, each once."""
    found: dict[Split, list[Text]] = {"train": [], "validation": [], "held_out": []}
    for text in stream(files, unit, sizes):
        found[text.split].append(text)
    if not all(found.values()):
        raise DataError(
            f"infill: {files or 'the standard library'} has too few files with texts of {sizes.shortest} to "
            f"{sizes.longest} characters: a split by file needs one for training, validation and held-out each"
        )
    return {split: tuple(own) for split, own in found.items()}


def stream(files: str, unit: Unit, sizes: Sizes) -> Iterator[Text]:
    """Texts one after the other; no more than a file is in memory, and a number for each text that came."""
    seen: set[int] = set()
    read = functions if unit == "function" else chunks
    for name, path in documents(files, "*.py" if unit == "function" else "*"):
        split = split_of(name)
        for line, text in read(_content(path), sizes.longest):
            number = hash(text)
            if sizes.fit(text) and number not in seen:
                seen.add(number)
                yield Text(f"{name}:{line}", text, split)


def documents(files: str, pattern: str) -> Iterator[tuple[str, Path]]:
    """The files that a path means, a folder with all below it, by names that do not depend on where it is."""
    root = Path(files or sysconfig.get_paths()["stdlib"])
    if root.is_file():
        raise DataError(f"infill: files={files!r} is one file, and texts are split by file; give a folder with several")
    if not root.is_dir():
        raise DataError(f"infill: files={files!r} is no folder (looked in {Path.cwd()})")
    for path in sorted(root.rglob(pattern)):
        name = path.relative_to(root)
        if path.is_file() and (files or LEFT_OUT.isdisjoint(name.parts)):
            yield name.as_posix(), path


def split_of(name: str) -> Split:
    """The split of a document, by its name alone."""
    return SPLIT_OF_TENTH.get(zlib.crc32(name.encode()) % 10, "train")


def functions(content: str, longest: int) -> Iterator[tuple[int, str]]:
    """Whole Python functions with their lines, moved to the left margin; longer ones are passed over."""
    for match in _FUNCTION.finditer(content):
        if len(match[0]) <= 4 * longest:
            text = textwrap.dedent(match[0]).rstrip() + "\n"
            if len(text) <= longest and is_function(text):
                yield content.count("\n", 0, match.start()) + 1, text


def is_function(text: str) -> bool:
    """Whether a text is one Python function and nothing else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    return len(body) == 1 and isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef)


def chunks(content: str, longest: int) -> Iterator[tuple[int, str]]:
    """Runs of whole lines of at most ``longest`` characters; lines longer than that are passed over."""
    start, run = 1, ""
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        if len(run) + len(line) > longest:
            if run:
                yield start, run
            start, run = number, ""
        if len(line) <= longest:
            run += line
        else:
            start = number + 1
    if run:
        yield start, run


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
