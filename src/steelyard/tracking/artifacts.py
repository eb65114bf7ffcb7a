"""Writes selected samples: ``samples-00000010.md`` for people, ``.jsonl`` for programs, ``.svg`` if drawable."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from steelyard.text import one_line, printable
from steelyard.tracking.base import Metric
from steelyard.tracking.shown import ShownSample, prompt_text
from steelyard.tracking.transcript import sample_text
from steelyard.types import Verdict

Picture = Callable[[Sequence[ShownSample]], bytes]
"""Draws samples and returns an SVG."""

_NAME = re.compile(r"samples-(\d+)\.(?:md|jsonl|svg)")
log = logging.getLogger("steelyard.tracking")


class ArtifactTracker:
    def __init__(self, folder: Path, picture: Picture | None = None) -> None:
        self.folder, self.picture = Path(folder), picture

    def log(self, step: int, metrics: Mapping[str, Metric]) -> None:
        """Do nothing: only samples are written."""

    def samples(self, step: int, shown: Sequence[ShownSample]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"samples-{step:08d}"
        picture = f"{name}.svg" if self._draw(step, shown, self.folder / f"{name}.svg") else ""
        write_atomically(self.folder / f"{name}.jsonl", "".join(_line(step, sample) for sample in shown).encode())
        write_atomically(self.folder / f"{name}.md", markdown(step, shown, picture=picture).encode())

    def rewind(self, step: int) -> None:
        if not self.folder.is_dir():
            return
        for path in list(self.folder.iterdir()):
            if (match := _NAME.fullmatch(path.name)) and int(match[1]) > step:
                path.unlink()

    def close(self) -> None: ...

    def _draw(self, step: int, shown: Sequence[ShownSample], path: Path) -> bool:
        """Draw the samples and return whether that succeeded; a failure must not stop the run."""
        if self.picture is None or not shown:
            return False
        try:
            write_atomically(path, self.picture(shown))
        except Exception as error:  # noqa: BLE001 - on any error, the samples are still written as text
            log.warning("the samples of step %d could not be rendered: %s: %s", step, type(error).__name__, error)
            return False
        return True


def markdown(step: int, shown: Sequence[ShownSample], *, picture: str = "") -> str:
    """Format the samples of one step as a Markdown page, with their picture if there is one."""
    image = [f"![the samples]({picture})\n"] if picture else []
    return "\n".join([f"# Samples at step {step}\n", *image, *(_section(sample) for sample in shown)])


def verdict_line(verdict: Verdict) -> str:
    """Format a verdict as printable text: reward and parts, or the failure."""
    if verdict.status == "unscored":
        return f"unscored ({one_line(verdict.cause)}) {printable(verdict.reason)}".rstrip()
    words = [f"reward {verdict.reward:.4g}", "success" if verdict.success else "failed"]
    if verdict.status == "rejected":
        words[1] = f"rejected: {printable(verdict.reason)}"
    return " · ".join([*words, *(f"{one_line(name)} {value:.4g}" for name, value in verdict.parts.items())])


def _section(sample: ShownSample) -> str:
    what, text = ("Episode", sample_text(sample)) if sample.turns else ("Sample", sample.text)
    return (
        f"## {sample.label.capitalize()} · task {one_line(sample.task_id)}\n\n{verdict_line(sample.verdict)}\n\n"
        f"Prompt:\n\n{_block(prompt_text(sample.prompt))}\n\n{what}:\n\n{_block(text)}\n"
    )


def _block(text: str) -> str:
    """Format a fenced block; the fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{printable(text)}\n{fence}"


def _line(step: int, sample: ShownSample) -> str:
    prompt = sample.prompt if isinstance(sample.prompt, str) else [dict(message) for message in sample.prompt]
    row = {
        "step": step,
        "label": sample.label,
        "task_id": sample.task_id,
        "prompt": prompt,
        "text": sample.text,
        "verdict": sample.verdict.to_json(),
    }
    if sample.turns:
        row |= {"turns": [turn._asdict() for turn in sample.turns], "finish": sample.finish}
    return json.dumps(row) + "\n"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically; if the process is killed midway, the old file remains."""
    temporary = path.with_name(f".{path.name}.writing")
    temporary.write_bytes(content)
    temporary.replace(path)
