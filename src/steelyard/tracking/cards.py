"""Selected samples as short cards on the console: prompt, sample and verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import chop_cells
from rich.console import Console, ConsoleOptions, RenderResult
from rich.rule import Rule
from rich.text import Text

from steelyard.text import one_line, printable
from steelyard.tracking.figures import number
from steelyard.tracking.shown import ShownSample, prompt_text
from steelyard.tracking.transcript import ShownTurn, limit_note, transcript_lines
from steelyard.types import Verdict

_LABEL_STYLE = {"best": "bold green", "median": "bold cyan", "worst": "bold red"}
_INDENT = "  "
_FIRST_TURNS, _LAST_TURNS = 5, 4
"""Number of turns of a long episode shown on its card; the others are only counted."""


class SampleCards:
    """Renders samples with rich, clipped to the width of the console."""

    def __init__(self, step: int, shown: Sequence[ShownSample]) -> None:
        self.step = step
        self.shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, 120)
        yield Rule(Text(f"samples at step {self.step}", style="dim"), align="left", style="dim")
        for sample in self.shown:
            yield from _card(sample, width)


def _card(sample: ShownSample, width: int) -> Iterator[Text]:
    head = Text.assemble((f"{sample.label:<7}", _LABEL_STYLE.get(sample.label, "bold")), _verdict(sample.verdict))
    head.append(f"  task {one_line(sample.task_id)}", style="dim")
    yield _fit(head, width)
    for line in clip(prompt_text(sample.prompt), width - len(_INDENT), head=1, tail=1):
        yield _fit(Text(_INDENT + line, style="dim"), width)
    if sample.turns:
        yield from _episode(sample, width)
        return
    for line in clip(sample.text, width - len(_INDENT) - 2, head=3, tail=2) or ["(empty)"]:
        yield _fit(Text.assemble(_INDENT, ("│ ", "cyan"), (line, "dim" if line.startswith("… ") else "")), width)


def _episode(sample: ShownSample, width: int) -> Iterator[Text]:
    """Show the turns: the policy's text after a bar, and dimmed replies after ``>``."""
    omitted = len(sample.turns) - _FIRST_TURNS - _LAST_TURNS
    if omitted > 1:
        yield from _turns(sample.turns[:_FIRST_TURNS], width)
        yield _fit(Text(f"{_INDENT}… {omitted} more turns …", style="dim"), width)
        yield from _turns(sample.turns[-_LAST_TURNS:], width)
    else:
        yield from _turns(sample.turns, width)
    if note := limit_note(sample.turns, sample.finish, sample.verdict):
        yield _fit(Text(f"{_INDENT}({note})", style="yellow"), width)


def _turns(turns: Sequence[ShownTurn], width: int) -> Iterator[Text]:
    room = width - len(_INDENT) - 2
    for line in transcript_lines(turns, lambda text, note: clip(text, room - len(note), head=3, tail=2)):
        dimmed = not line.by_policy or line.text.startswith("… ")
        shown = Text.assemble(_INDENT, (line.mark, "cyan" if line.by_policy else "dim"))
        yield _fit(shown.append(line.text, style="dim" if dimmed else "").append(line.note, style="dim"), width)


def _verdict(verdict: Verdict) -> Text:
    if verdict.status == "unscored":
        return Text(f" unscored ({one_line(verdict.cause)}) {one_line(verdict.reason)}", style="red")
    words = Text.assemble(" ", (number(verdict.reward), "bold"))
    if verdict.status == "rejected":
        return words.append(f"  rejected: {one_line(verdict.reason)}", style="yellow")
    words.append(" ✓" if verdict.success else " ✗", style="green" if verdict.success else "red")
    for name, value in verdict.parts.items():
        words.append(f"  {one_line(name)} ", style="dim").append(number(value))
    return words


def clip(text: str, width: int, *, head: int, tail: int) -> list[str]:
    """Wrap text to ``width`` and keep its first and last lines, with the number of omitted lines between them."""
    lines = [part for line in printable(text).strip("\n").split("\n") for part in chop_cells(line, width) or [""]]
    if lines == [""]:
        return []
    if len(lines) <= head + tail + 1:
        return lines
    return [*lines[:head], f"… {len(lines) - head - tail} more lines …", *lines[-tail:]]


def _fit(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line
