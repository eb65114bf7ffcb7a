"""A run as plain lines without control characters, for logs and pipes."""

from __future__ import annotations

from steelyard.text import one_line
from steelyard.tracking.figures import count, duration, number, percent
from steelyard.tracking.progress import Progress

_FIGURES = (
    ("reward", "reward/mean", number),
    ("std", "reward/std", number),
    ("success", "success", percent),
    ("eval", "eval/success", percent),
    ("eval reward", "eval/reward", number),
    ("kl", "kl", number),
    ("entropy", "entropy", number),
    ("clip", "clip/share", percent),
    ("dead", "groups/dead", percent),
    ("rejected", "share/rejected", percent),
    ("unscored", "share/unscored", percent),
    ("tok/s", "time/tokens_per_second", count),
    ("s/step", "time/step", number),
)


def plain_line(progress: Progress) -> str:
    """The newest figures. One that is older than the step, as of an evaluation, says which step it is of."""
    words = [f"step {progress.step}/{progress.total_steps}"]
    words += [
        f"{label} {form(value)}{progress.age(name)}"
        for label, name, form in _FIGURES
        if (value := progress.get(name)) is not None
    ]
    if progress.accidents:
        causes = [f"{n} × {one_line(cause)}" for cause, n in progress.accidents.most_common()]
        words.append(f"accidents {', '.join(causes)}")
    if progress.skipped:
        words.append(f"skipped {progress.skipped}")
    if (left := progress.seconds_left) is not None:
        words.append(f"left {duration(left)}")
    return "  ".join(words)


def plain_activity(progress: Progress) -> str | None:
    """What is under way; nothing between two phases."""
    started = progress.started
    if started is None:
        return None
    words = [f"step {progress.step}/{progress.total_steps}", " ".join(str(started.activity).split())]
    words.append(f"{duration(progress.phase_elapsed(started))} so far")
    if (left := progress.phase_left(started)) is not None:
        words.append(f"about {duration(left)} left")
    return "  ".join(words)
