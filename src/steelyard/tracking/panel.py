"""Renders the live training panel with rich. docs/metrics.md explains its terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.text import Text

from steelyard.text import one_line
from steelyard.tracking.figures import FALLING, RISING, count, duration, number, percent, shares, sparkline, trend
from steelyard.tracking.progress import HISTORY, Progress

_LABEL_WIDTH = 10
_CLOCK_WIDTH = 16
"""Room for the elapsed and remaining time of a phase, so that the bar before it rarely changes length."""
_PHASES = (("sample", "cyan"), ("verify", "yellow"), ("score", "magenta"), ("update", "green"))
_Format = Callable[[float], str]
_Figure = tuple[str, str, _Format]
_REWARD = (("std", "reward/std", number), ("best", "reward/best", number))
_EVALUATION = (("success", "eval/success", percent), ("reward", "eval/reward", number), ("best", "eval/best", number))
_GROUPS = (("dead", "groups/dead", percent),)
_RARE = (("refilled", "groups/refilled", count), ("dropped", "groups/dropped", percent))
_LENGTH = (("turns", "episode/turns", number), ("length", "length/mean", count), ("cut", "length/truncated", percent))
_POLICY = (
    ("KL", "kl", number),
    ("entropy", "entropy", number),
    ("clip", "clip/share", percent),
    ("grad", "gradient/norm", number),
    ("lr", "lr", number),
)
_SPEED = (
    ("tokens/s", "time/tokens_per_second", count),
    ("sampling tokens/s", "time/sample_tokens_per_second", count),
    ("s/step", "time/step", number),
)
_ARROW_STYLE = {RISING: "bold green", FALLING: "bold red"}


class TrainingPanel:
    """Renders the current progress at each refresh, to the width of the console."""

    def __init__(self, progress: Progress, title: str) -> None:
        self.progress = progress
        self.title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, 120)
        rows = rows_of(self.progress, width - 4)
        title = Text(" · ".join(part for part in ("steelyard", self.title) if part), style="bold")
        yield Panel(Text("\n").join(rows), title=title, title_align="left", border_style="dim", width=width)


def rows_of(progress: Progress, width: int) -> list[Text]:
    """Return the rows of the panel, without those whose metrics were not logged."""
    room = width - _LABEL_WIDTH
    rows = [
        _steps(progress, width),
        _now(progress, width),
        _curve(progress, width, "reward", "reward/mean", number, _figures(progress, _REWARD)),
        _line("parts", fitted(_parts(progress), room)),
        _curve(progress, width, "success", "success", percent, ()),
        _line("eval", fitted(_evaluation(progress), room, gap="  ")),
        _line("verdicts", fitted(_verdicts(progress), room, gap="  ")),
        _line("failures", fitted(_failures(progress), room)),
        _line("groups", fitted(_groups(progress), room)),
        _line("policy", fitted(_figures(progress, _POLICY), room)),
        _line("speed", fitted(_figures(progress, _SPEED), room)),
        _line("time", _split(progress, room)),
    ]
    rows = [row for row in rows if row.plain]
    for row in rows:
        row.no_wrap, row.overflow = True, "ellipsis"
        row.truncate(width, overflow="ellipsis")
    return rows


def fitted(pieces: Iterable[Text], room: int, gap: str = "   ") -> Text:
    """Join as many pieces as fit without cutting any; ``…`` replaces the rest."""
    row, waiting = Text(), list(pieces)
    for place, piece in enumerate(waiting):
        space = gap if place else ""
        dots = 0 if piece is waiting[-1] else len(" …")
        if place and row.cell_len + len(space) + piece.cell_len + dots > room:
            return row.append(" …", style="dim")
        row = row.append(space).append_text(piece)
    return row


def _steps(progress: Progress, width: int) -> Text:
    left = progress.seconds_left
    total = max(1, progress.total_steps)
    share = min(1.0, progress.step / total)
    head = f"step {progress.step}/{progress.total_steps}"
    tail = f"{100 * share:3.0f}%  {duration(progress.elapsed)}"
    tail += " · waiting for the first step" if left is None else f" · {duration(left)} left"
    cells = width - len(head) - len(tail) - 4
    bar = _bar(share, cells).append("  ") if cells >= 4 else ""
    return Text.assemble((head, "bold"), "  ", bar, tail)


def _now(progress: Progress, width: int) -> Text:
    """Show the current phase, its progress, and its elapsed and remaining time."""
    running = progress.running
    if running is None:
        return Text()
    row = _label("now").append(str(running.activity)).append("  ")
    left, activity = progress.phase_left(running), running.activity
    clock = duration(progress.phase_elapsed(running)) + (f" · {duration(left)} left" if left else "")
    cells = min(HISTORY, width - row.cell_len - max(len(clock), _CLOCK_WIDTH) - 2)
    if activity.total and cells >= 4:
        row.append_text(_bar(activity.done / activity.total, cells)).append("  ")
    return row.append(clock)


def _bar(share: float, cells: int) -> Text:
    done = int(min(1.0, share) * cells)
    return Text().append("━" * done, style="green").append("─" * (cells - done), style="dim")


def _curve(progress: Progress, width: int, label: str, name: str, form: _Format, notes: Sequence[Text]) -> Text:
    value = progress.get(name)
    if value is None:
        return Text()
    history = progress.history(name)
    arrow = trend(history)
    cells = min(HISTORY, max(8, width - _LABEL_WIDTH - 12 - 28))
    row = _label(label).append(f"{form(value):<8} ", style="bold")
    row.append(f"{arrow:<2}", style=_ARROW_STYLE.get(arrow, "dim"))
    row.append(f"{sparkline(history, cells):<{cells}}", style="cyan").append("  ")
    room = width - row.cell_len
    return row.append_text(fitted(notes, room)) if notes and notes[0].cell_len + len(" …") <= room else row


def _parts(progress: Progress) -> list[Text]:
    """Show the parts of the reward, each with its mean in the last evaluation."""
    pieces: list[Text] = []
    for name in progress.parts:
        value, found = progress.get(f"parts/{name}/mean"), progress.get(f"eval/parts/{name}")
        piece = Text.assemble((f"{one_line(name)} ", "dim"), "–" if value is None else number(value))
        pieces.append(piece if found is None else piece.append(" eval ", style="dim").append(number(found)))
    return pieces


def _evaluation(progress: Progress) -> list[Text]:
    """Show the last evaluation; if it is from an earlier step, the first figure names that step."""
    passed = [name for name in progress.with_prefix("eval/pass@") if name != "eval/pass@1"]  # same as success
    facts = [*_EVALUATION, *((name.removeprefix("eval/"), name, percent) for name in passed)]
    if progress.get("eval/unscored"):
        facts.append(("unscored", "eval/unscored", percent))
    named = [fact for fact in facts if fact[1] in progress]
    found = _figures(progress, named)
    if found:
        found[0].append(progress.step_note(named[0][1]), style="yellow")
    return found


def _verdicts(progress: Progress) -> list[Text]:
    named = (("scored", "green"), ("rejected", "yellow"), ("unscored", "red"))
    if not any(f"share/{name}" in progress for name, _ in named):
        return []
    values = [progress.get(f"share/{name}") or 0.0 for name, _ in named]
    bar = Text()
    for (_, style), cells in zip(named, shares(values, 8), strict=True):
        bar.append("━" * cells, style=style)
    return [
        bar,
        *(
            Text().append(percent(value), style=style if value else "dim").append(f" {name}", style="dim")
            for (name, style), value in zip(named, values, strict=True)
        ),
    ]


def _failures(progress: Progress) -> list[Text]:
    """Show the verifier's failures so far by cause, most frequent first."""
    found = progress.failures.most_common()
    return [Text(f"{count(number)} × {one_line(cause)}", style="red") for cause, number in found]


def _groups(progress: Progress) -> list[Text]:
    rare = [fact for fact in _RARE if progress.get(fact[1])]
    facts = _figures(progress, (*_GROUPS, *rare, *_LENGTH))
    return [Text(f"skipped {progress.skipped}", style="bold red"), *facts] if progress.skipped else facts


def _split(progress: Progress, room: int) -> Text:
    """Show each phase's share of the time of the last step."""
    seconds = [progress.get(f"time/{name}") or 0.0 for name, _ in _PHASES]
    total = sum(seconds)
    if total <= 0:
        return Text()
    legend = [
        Text.assemble(("■ ", style), f"{name} {100 * value / total:.0f}%")
        for (name, style), value in zip(_PHASES, seconds, strict=True)
    ]
    words = fitted(legend, room - 6, gap="  ")
    bar = Text()
    for (_, style), cells in zip(_PHASES, shares(seconds, min(HISTORY, room - 2 - words.cell_len)), strict=True):
        bar.append("━" * cells, style=style)
    return bar.append("  ").append_text(words)


def _figures(progress: Progress, named: Iterable[_Figure]) -> list[Text]:
    """Format those of the metrics that were logged as ``label value``."""
    found = [(label, form(value)) for label, name, form in named if (value := progress.get(name)) is not None]
    return [Text.assemble((f"{label} ", "dim"), value) for label, value in found]


def _line(label: str, content: Text) -> Text:
    """Return a labelled row, or an empty one if there is no content."""
    return _label(label).append_text(content) if content.plain else content


def _label(name: str) -> Text:
    return Text().append(f"{name:<{_LABEL_WIDTH}}", style="dim")
