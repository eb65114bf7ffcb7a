"""Collect the sentences people read, and draw a random sample of them for review.

``python tests/prose.py --seed 1`` prints 60 sentences, the same number of each kind: documentation, error messages,
help texts, docstrings and comments. A reviewer who sees only these sentences decides which ones a native engineer
would have written.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE_FOLDERS = ("src", "benchmarks", "examples", "deploy", "tests")
KINDS = ("documentation", "error", "help", "docstring", "comment")
FEWEST_WORDS = 4
ERROR_CALLS = re.compile(r"(Error|Problem|Warning|Rejection|Rejected|warning|error|fail|reject|problem)$")
HELP_ARGUMENTS = {"help", "description", "epilog"}
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(`*\[]*[A-Z])")
DIRECTIVE = re.compile(r"^(noqa|type:|pyright:|ruff:|pragma|!|-+$|=+$)")


@dataclass(frozen=True)
class Sentence:
    """A sentence and its location."""

    kind: str
    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def sentences() -> list[Sentence]:
    """All sentences in the repository, in file order."""
    found: list[Sentence] = []
    for path in sorted((ROOT / "docs").rglob("*.md")) + sorted(ROOT.glob("*.md")):
        found += markdown_sentences(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    for folder in CODE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found += python_sentences(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    return found


def markdown_sentences(source: str, path: str) -> list[Sentence]:
    """Return the sentences of paragraphs, list items and table cells; code blocks are omitted."""
    found: list[Sentence] = []
    for line, block in _markdown_blocks(source):
        found += _split("documentation", path, line, block)
    return found


def _markdown_blocks(source: str) -> Iterator[tuple[int, str]]:
    block: list[str] = []
    start, in_code = 1, False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        item = re.match(r"\s*([-*#>]|\d+\.)\s+|\s*\|", line)
        if block and (fence or item or not line.strip()):
            yield start, " ".join(block)
            block = []
        if fence:
            in_code = not in_code
        elif in_code or not line.strip() or line.startswith(("<", "![")):
            continue
        elif line.lstrip().startswith("|"):
            for cell in line.strip().strip("|").split("|"):
                yield number, cell.strip()
        else:
            start = start if block else number
            block.append(re.sub(r"^\s*([-*#>]+|\d+\.)\s+", "", line).strip())


def python_sentences(source: str, path: str) -> list[Sentence]:
    """Return the sentences of a module's docstrings, comments, error messages and help texts."""
    tree = ast.parse(source)
    found: list[Sentence] = []
    for node in ast.walk(tree):
        for kind, line, text in _texts(node):
            found += _split(kind, path, line, text)
    for line, text in _comments(source):
        found += _split("comment", path, line, text)
    return sorted(found, key=lambda sentence: sentence.line)


def _texts(node: ast.AST) -> Iterator[tuple[str, int, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        for statement in node.body:  # docstrings, and the strings below attributes and constants
            if isinstance(statement, ast.Expr) and (text := _string(statement.value)) is not None:
                yield "docstring", statement.lineno, text
    if isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg in HELP_ARGUMENTS and (text := _string(keyword.value)) is not None:
                yield "help", keyword.value.lineno, text
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if ERROR_CALLS.search(name):
            for argument in node.args:
                if (text := _string(argument)) is not None:
                    yield "error", argument.lineno, text


def _string(node: ast.expr) -> str | None:
    """Return the text of a literal; the expressions of an f-string stay as ``{expression}``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(value) for value in node.values)
    return None


def _part(value: ast.expr) -> str:
    return f"{{{ast.unparse(value.value)}}}" if isinstance(value, ast.FormattedValue) else _string(value) or ""


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each comment; adjacent lines that hold nothing else are one comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [
        (token.start[0], token.line.lstrip().startswith("#"), token.string.lstrip("# ").strip())
        for token in tokens
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string.lstrip("# "))
    ]
    alone = [(line, text) for line, whole_line, text in comments if whole_line]
    for _, run in groupby(enumerate(alone), key=lambda item: item[1][0] - item[0]):
        block = [entry for _, entry in run]
        yield block[0][0], " ".join(text for _, text in block)
    yield from ((line, text) for line, whole_line, text in comments if not whole_line)


def _split(kind: str, path: str, line: int, text: str) -> list[Sentence]:
    """Split text into sentences; fragments of fewer than four words are omitted."""
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*|>]|\d+\.)\s)", text)
    pieces = [piece for paragraph in paragraphs for piece in SENTENCE_END.split(" ".join(paragraph.split()))]
    return [
        Sentence(kind, path, line, piece)
        for piece in pieces
        if len(re.findall(r"\b[A-Za-z]{2,}\b", re.sub(r"`[^`]*`|\{[^}]*\}|https?://\S+", "x", piece))) >= FEWEST_WORDS
    ]


def draw(everything: list[Sentence], seed: int, count: int) -> list[Sentence]:
    """Draw the same number of each kind, without replacement."""
    generator = random.Random(seed)
    drawn: list[Sentence] = []
    for kind in KINDS:
        candidates = sorted({sentence.text: sentence for sentence in everything if sentence.kind == kind}.items())
        drawn += [sentence for _, sentence in generator.sample(candidates, count // len(KINDS))]
    return drawn


def main() -> None:
    """Print the drawn sentences, numbered, without their locations."""
    parser = argparse.ArgumentParser(description="Draw a random sample of reader-facing sentences for review.")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: %(default)s)")
    parser.add_argument("--count", type=int, default=60, help="number of sentences (default: %(default)s)")
    parser.add_argument("--places", action="store_true", help="print the file and line before each sentence")
    options = parser.parse_args()
    for number, sentence in enumerate(draw(sentences(), options.seed, options.count), 1):
        print(f"{number}. [{sentence.kind}] {sentence if options.places else sentence.text}")


if __name__ == "__main__":
    main()
