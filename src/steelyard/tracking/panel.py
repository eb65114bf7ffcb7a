"""The training panel and its plain one-line form: from a :class:`Progress` to something rich can print."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.text import Text

from steelyard.text import one_line
from steelyard.tracking.figures import FALLING, RISING, count, duration, number, percent, shares, sparkline, trend
from steelyard.tracking.progress import KEPT, Progress

_LABEL_WIDTH = 10
_PHASES = (("sample", "cyan"), ("verify", "yellow"), ("score", "magenta"), ("update", "green"))
_Form = Callable[[float], str]
_ARROW_STYLE = {RISING: "bold green", FALLING: "bold red"}


class TrainingPanel:
    """Rendered anew at each refresh, to the width there is."""

    def __init__(self, progress: Progress, title: str) -> None:
        self.progress = progress
        self.title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, 120)
        rows = rows_of(self.progress, width - 4)
        title = Text(" · ".join(part for part in ("steelyard", self.title) if part), style="bold")
        yield Panel(Text("\n").join(rows), title=title, title_align="left", border_style="dim", width=width)


def rows_of(progress: Progress, width: int) -> list[Text]:
    """The lines of the panel; a line whose metrics were not logged is left out."""
    rows = [_steps(progress, width)]
    if progress.step or "reward/mean" in progress:
        rows += [
            _curve(progress, width, "reward", "reward/mean", number, _reward_notes(progress)),
            _curve(progress, width, "success", "success", percent, _eval_notes(progress)),
            _verdicts(progress),
            _line("accidents", _accidents(progress)),
            _line("groups", _groups(progress)),
            _line("policy", _policy(progress)),
            _line("speed", _speed(progress)),
            _split(progress, width),
        ]
    rows = [row for row in rows if row.plain]
    for row in rows:
        row.no_wrap, row.overflow = True, "ellipsis"
        row.truncate(width, overflow="ellipsis")
    return rows


def plain_line(progress: Progress) -> str:
    """The same figures as one line without control characters, for logs and pipes."""
    words = [f"step {progress.step}/{progress.total_steps}"]
    named = (
        ("reward", "reward/mean", number),
        ("std", "reward/std", number),
        ("success", "success", percent),
        ("eval", "eval/success", percent),
        ("kl", "kl", number),
        ("entropy", "entropy", number),
        ("clip", "clip/share", percent),
        ("dead", "groups/dead", percent),
        ("rejected", "share/rejected", percent),
        ("unscored", "share/unscored", percent),
        ("tok/s", "time/tokens_per_second", count),
        ("s/step", "time/step", number),
    )
    words += [f"{label} {form(value)}" for label, name, form in named if (value := progress.get(name)) is not None]
    if progress.accidents:
        words.append(
            "accidents " + ", ".join(f"{n} × {one_line(cause)}" for cause, n in progress.accidents.most_common())
        )
    if progress.skipped:
        words.append(f"skipped {progress.skipped}")
    if (left := progress.seconds_left) is not None:
        words.append(f"left {duration(left)}")
    return "  ".join(words)


def _steps(progress: Progress, width: int) -> Text:
    left = progress.seconds_left
    total = max(1, progress.total_steps)
    share = min(1.0, progress.step / total)
    head = f"step {progress.step}/{progress.total_steps}"
    tail = f"{100 * share:3.0f}%  {duration(progress.elapsed)}"
    tail += " · waiting for the first step" if left is None else f" · {duration(left)} left"
    cells = max(4, width - len(head) - len(tail) - 4)
    done = int(share * cells)
    bar = Text().append("━" * done, style="green").append("─" * (cells - done), style="dim")
    return Text.assemble((head, "bold"), "  ", bar, "  ", tail)


def _curve(progress: Progress, width: int, label: str, name: str, form: _Form, notes: Text) -> Text:
    value = progress.get(name)
    if value is None:
        return Text()
    history = progress.history(name)
    arrow = trend(history)
    cells = min(KEPT, max(8, width - _LABEL_WIDTH - 12 - 28))
    row = _label(label).append(f"{form(value):<8}", style="bold")
    row.append(f"{arrow:<3}", style=_ARROW_STYLE.get(arrow, "dim"))
    row.append(f"{sparkline(history, cells):<{cells}}", style="cyan")
    return row.append("  ").append_text(notes)


def _reward_notes(progress: Progress) -> Text:
    return _facts(progress, (("std", "reward/std", number), ("best", "reward/best", number)))


def _eval_notes(progress: Progress) -> Text:
    name = next((name for name in ("eval/success", "eval/reward") if name in progress), None)
    if name is None:
        return Text()
    value = progress.get(name) or 0.0
    shown = percent(value) if name == "eval/success" else number(value)
    return Text.assemble(("eval ", "dim"), (shown, "bold"), (f" at step {progress.measured_at(name)}", "dim"))


def _verdicts(progress: Progress) -> Text:
    named = (("scored", "green"), ("rejected", "yellow"), ("unscored", "red"))
    if not any(f"share/{name}" in progress for name, _ in named):
        return Text()
    values = [progress.get(f"share/{name}") or 0.0 for name, _ in named]
    row = _label("verdicts")
    for (_, style), cells in zip(named, shares(values, 8), strict=True):
        row.append("━" * cells, style=style)
    for (name, style), value in zip(named, values, strict=True):
        row.append(f"  {percent(value)}", style=style if value else "dim").append(f" {name}", style="dim")
    return row


def _accidents(progress: Progress) -> Text:
    """What went wrong with the checker since the start, the most frequent first."""
    found = [f"{count(number)} × {one_line(cause)}" for cause, number in progress.accidents.most_common()]
    return Text("   ".join(found), style="red")


def _groups(progress: Progress) -> Text:
    rare = (("refilled", "groups/refilled", count), ("dropped", "groups/dropped", percent))
    rare = tuple(fact for fact in rare if progress.get(fact[1]))
    dead = (("dead", "groups/dead", percent),)
    length = (("length", "length/mean", count), ("cut", "length/truncated", percent))
    facts = _facts(progress, dead + rare + length)
    if progress.skipped:
        return Text().append(f"skipped {progress.skipped}   ", style="bold red").append_text(facts)
    return facts


def _policy(progress: Progress) -> Text:
    return _facts(
        progress,
        (
            ("KL", "kl", number),
            ("entropy", "entropy", number),
            ("clip", "clip/share", percent),
            ("grad", "gradient/norm", number),
            ("lr", "lr", number),
        ),
    )


def _speed(progress: Progress) -> Text:
    return _facts(
        progress,
        (
            ("tokens/s", "time/tokens_per_second", count),
            ("sampling tokens/s", "time/sample_tokens_per_second", count),
            ("s/step", "time/step", number),
        ),
    )


def _split(progress: Progress, width: int) -> Text:
    """Where the seconds of the last step went."""
    seconds = [progress.get(f"time/{name}") or 0.0 for name, _ in _PHASES]
    total = sum(seconds)
    if total <= 0:
        return Text()
    legend = Text()
    for (name, style), value in zip(_PHASES, seconds, strict=True):
        legend.append("  ■ ", style=style).append(f"{name} {100 * value / total:.0f}%")
    row = _label("time")
    cells = shares(seconds, min(KEPT, max(4, width - _LABEL_WIDTH - legend.cell_len)))
    for (_, style), n in zip(_PHASES, cells, strict=True):
        row.append("━" * n, style=style)
    return row.append_text(legend)


def _facts(progress: Progress, named: tuple[tuple[str, str, _Form], ...]) -> Text:
    """``label value`` pairs of what was logged."""
    found = [(label, form(value)) for label, name, form in named if (value := progress.get(name)) is not None]
    return Text("   ").join(Text.assemble((f"{label} ", "dim"), value) for label, value in found)


def _line(label: str, content: Text) -> Text:
    """A labelled row, or nothing if there is nothing to show."""
    return _label(label).append_text(content) if content.plain else content


def _label(name: str) -> Text:
    return Text().append(f"{name:<{_LABEL_WIDTH}}", style="dim")
