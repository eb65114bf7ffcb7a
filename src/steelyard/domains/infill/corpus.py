"""Texts to make holes in, from any files; without any, the Python sources of the standard library.

A *document* is a file of a folder, a paragraph of a text file, or a line of a JSONL file. It belongs to one split by
the hash of its name, with every text in it. Of texts that differ only in white space or in a function's name one is
taken. So no text that is held out is one of training's under another name; parts of it can be.
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
from steelyard.domains.infill.cutting import cut, open_tokenizer
from steelyard.errors import DataError
from steelyard.special_tokens import MASK, SPECIAL_TOKENS
from steelyard.text import shown

Unit = Literal["function", "chunk"]
NOT_IN_TEXTS = (*SPECIAL_TOKENS, MASK)
"""No text has these in it: a tokenizer would take them for its own."""
SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""A tenth of the documents each; the rest is for training."""
LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})
"""Folders of the standard library that are no library, or that not every machine has."""
_FUNCTION = re.compile(r"^([ \t]*)(?:async )?def .*\n(?:\1[ \t]+.*\n|[ \t]*\n)*", re.MULTILINE)
_NAME = re.compile(r"^((?:async )?def )\w+")


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
    tokenizer: str = ""
    """Whose tokens make up a text; empty: characters."""

    def flaw(self, text: str) -> str | None:
        """Why a text is left out, None if it is not."""
        if not self.shortest <= len(text) <= self.longest:
            return f"of less than {self.shortest} or more than {self.longest} characters (shortest, longest)"
        if other := set(text) - self.characters:
            return f"with {min(other)!r}, which is not among `characters`"
        if any(token in text for token in NOT_IN_TEXTS):
            return f"with one of {' '.join(NOT_IN_TEXTS)}"
        if self.tokenizer and "".join(cut(text, self.tokenizer)) != text:
            return "with characters that tokens divide"
        return None


@lru_cache(maxsize=4)
def texts(files: str, unit: Unit, sizes: Sizes) -> dict[Split, tuple[Text, ...]]:
    """All texts by split, each once. They are held in memory; :func:`stream` is for what is not to be."""
    found: dict[Split, list[Text]] = {"train": [], "validation": [], "held_out": []}
    dropped = Counter[str]()
    for text in stream(files, unit, sizes, dropped):
        found[text.split].append(text)
    if not all(found.values()):
        kept = ", ".join(f"{len(own)} for {split}" for split, own in found.items())
        out = "; ".join(f"{count} {why}" for why, count in dropped.most_common(4)) or "none"
        raise DataError(
            f"infill: {files or 'the standard library'} has too few texts ({kept}); texts are split by document, which "
            f"is a file of a folder, a paragraph of a text file or a line of a JSONL file. Texts left out: {out}"
        )
    return {split: tuple(own) for split, own in found.items()}


def stream(files: str, unit: Unit, sizes: Sizes, dropped: Counter[str] | None = None) -> Iterator[Text]:
    """Texts one after the other; no more than a document is in memory, and a number for each text that came.
    ``dropped`` counts those that are left out, by reason.
    """
    seen: set[int] = set()
    read = functions if unit == "function" else chunks
    for name, content in documents(files, unit, sizes.tokenizer):
        split = split_of(name)
        for line, text in read(content, sizes.longest):
            if flaw := sizes.flaw(text):
                if dropped is not None:
                    dropped[flaw] += 1
            elif (number := hash(essence(text))) not in seen:
                seen.add(number)
                yield Text(f"{name}:{line}", text, split)


def essence(text: str) -> str:
    """A text without white space and, of a function, without its name: equal for what is the same to learn."""
    return "".join(_NAME.sub(r"\1", text).split())


def documents(files: str, unit: Unit, tokenizer: str = "") -> Iterator[tuple[str, str]]:
    """Names and contents of what a path means, by names that do not depend on where it is."""
    root = Path(files or sysconfig.get_paths()["stdlib"])
    if root.is_file() and root.suffix == ".jsonl":
        yield from _records(root, tokenizer)
    elif root.is_file():
        if unit == "function":
            raise DataError(
                f"infill: files={files!r} is one file, and functions are split by file; give a folder with several, or "
                f'a JSONL file with a source a line: {{"text": "..."}}'
            )
        yield from _paragraphs(root)
    elif root.is_dir():
        for path in sorted(root.rglob("*.py" if unit == "function" else "*")):
            name = path.relative_to(root)
            if path.is_file() and (files or LEFT_OUT.isdisjoint(name.parts)):
                yield name.as_posix(), _content(path)
    else:
        raise DataError(f"infill: files={files!r} is no folder and no file (looked in {Path.cwd()})")


def _paragraphs(path: Path) -> Iterator[tuple[str, str]]:
    """What stands between blank lines."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        for filled, block in itertools.groupby(enumerate(lines, 1), key=lambda line: bool(line[1].strip())):
            if filled:
                first, *others = block
                yield f"{path.name}:{first[0]}", "".join([first[1], *(line for _, line in others)])


def _records(path: Path, tokenizer: str) -> Iterator[tuple[str, str]]:
    """A line each: ``{"text": "..."}`` or ``{"tokens": [...]}``, as texts or as numbers of the tokenizer."""
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
        pieces: list[Any] = list(record["tokens"])
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f'infill: {name} is neither {{"text": "..."}} nor {{"tokens": [...]}}: {shown(line, 60)}'
        ) from None
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if not tokenizer:
        raise DataError(f"infill: {name} has tokens by number; say whose they are with the option tokenizer")
    return open_tokenizer(tokenizer).decode(pieces, skip_special_tokens=True)


def split_of(name: str) -> Split:
    """The split of a document, by its name alone."""
    return SPLIT_OF_TENTH.get(zlib.crc32(name.encode()) % 10, "train")


def functions(content: str, longest: int) -> Iterator[tuple[int, str]]:
    """Whole Python functions with their lines, moved to the left margin; of those that are longer, only that much is
    known.
    """
    for match in _FUNCTION.finditer(content):
        line = content.count("\n", 0, match.start()) + 1
        text = match[0] if len(match[0]) > 4 * longest else textwrap.dedent(match[0]).rstrip() + "\n"
        if len(text) > longest or is_function(text):
            yield line, text


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
    """Runs of whole lines of at most ``longest`` characters; a line that is longer is a run by itself."""
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
