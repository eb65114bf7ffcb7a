"""Plain lines about a run, without control characters, for logs and pipes."""

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
    ("turns", "episode/turns", number),
    ("rejected", "share/rejected", percent),
    ("unscored", "share/unscored", percent),
    ("tok/s", "time/tokens_per_second", count),
    ("s/step", "time/step", number),
)


def step_line(progress: Progress) -> str:
    """Format the newest figures; a figure from an earlier step, such as an evaluation, names that step."""
    words = [f"step {progress.step}/{progress.total_steps}"]
    words += [
        f"{label} {form(value)}{progress.step_note(name)}"
        for label, name, form in _FIGURES
        if (value := progress.get(name)) is not None
    ]
    if progress.failures:
        causes = [f"{n} × {one_line(cause)}" for cause, n in progress.failures.most_common()]
        words.append(f"failures {', '.join(causes)}")
    if progress.skipped:
        words.append(f"skipped {progress.skipped}")
    if (left := progress.seconds_left) is not None:
        words.append(f"left {duration(left)}")
    return "  ".join(words)


def phase_line(progress: Progress) -> str | None:
    """Format the current phase with its time, or return None between phases."""
    running = progress.running
    if running is None:
        return None
    words = [f"step {progress.step}/{progress.total_steps}", " ".join(str(running.activity).split())]
    words.append(f"{duration(progress.phase_elapsed(running))} elapsed")
    if (left := progress.phase_left(running)) is not None:
        words.append(f"about {duration(left)} left")
    return "  ".join(words)
