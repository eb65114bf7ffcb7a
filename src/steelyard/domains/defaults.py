"""Default presentation of a domain's artifacts: pictures, reports and summaries of plain text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from statistics import fmean

import numpy as np

from steelyard.domains.artifacts import Artifact, Report, Row, Summary, verdict_lines
from steelyard.drawing import Label, Scene, framed, png, svg
from steelyard.drawing.scene import INK
from steelyard.drawing.sheet import Card, contact_sheet
from steelyard.environments import Environment, EnvironmentVerifier
from steelyard.errors import ConfigError, DataError
from steelyard.text import printable, with_unit
from steelyard.types import NO_DECISIONS, Sample, SampleKey, Task, Turn, Verdict
from steelyard.verification import AnyVerifier, Blame, InlinePool, Item, pool_for

COLUMNS, LINES = 48, 24
"""Maximum size of a text picture, in characters and lines; longer text is truncated."""
FONT_SIZE, MARGIN = 13.0, 10.0
CAPTION_WIDTH = 33
"""Characters per caption line on a sheet."""
UNFINISHED = (
    "no verdict: the text is the first turn of an episode, and the environment answers it; `steelyard sample RUN` "
    "plays whole episodes"
)
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c1c1c; }
h1 { font-size: 1.3rem; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td { padding: .2rem .7rem; border-bottom: 1px solid #e2e2e2; } tr:first-child { font-weight: 600; }
"""
MAX_CELL_LENGTH = 80
"""Maximum number of characters in a table cell."""


def draw_text(text: str) -> Scene:
    """Draw the text line by line."""
    lines = [part for line in printable(text).split("\n") for part in textwrap.wrap(line, COLUMNS) or [""]]
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], "…"]
    shown = lines if any(lines) else ["(empty)"]
    return framed(
        (Label((0.0, 1.3 * FONT_SIZE * row), line, FONT_SIZE, INK) for row, line in enumerate(shown, 1)), MARGIN
    )


def draw_sheet(artifacts: Sequence[Artifact], scenes: Sequence[Scene]) -> Scene:
    """Arrange pictures of artifacts on a sheet, each with its title and verdict."""
    cards = [
        Card(scene, caption(one.title, [] if one.verdict is None else verdict_lines(one.verdict)), _good(one))
        for one, scene in zip(artifacts, scenes, strict=True)
    ]
    return contact_sheet(cards)


def caption(title: str, lines: Sequence[str]) -> str:
    """Wrap and truncate the caption of a picture on a sheet."""
    wrapped = textwrap.wrap(title, CAPTION_WIDTH, max_lines=3, placeholder=" …")
    wrapped += [part for line in lines for part in textwrap.wrap(line, CAPTION_WIDTH, max_lines=2, placeholder=" …")]
    return "\n".join(wrapped)


def picture_file(scene: Scene, form: str, scale: float) -> bytes:
    """Encode a scene as SVG or PNG; raise ``ConfigError`` if the picture is too large."""
    if form == "svg":
        return svg(scene if scale == 1.0 else scene.placed(scale, 0.0, 0.0)).encode()
    try:
        return png(scene, scale=scale)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def require_format(what: str, domain: str, form: str, known: Sequence[str]) -> None:
    if form not in known:
        raise ConfigError(f"{domain}: {what} format {form!r} is not supported; choose one of {', '.join(known)}")


def verify_text(verifier: AnyVerifier, task: Task, text: str) -> Verdict:
    """Verify text that was not sampled by a policy."""
    return _verdict(verifier, task, _sample(text))


def first_answer(environment: Environment, task: Task, text: str) -> Verdict:
    """Return an environment's answer to text given as the first turn of an episode: a verdict or a reply."""
    sample = replace(_sample(text), turns=(Turn("assistant", text, 0, 0),))
    return _verdict(EnvironmentVerifier(environment, max_sessions=0), task, sample)  # a session is closed right away


def _sample(text: str) -> Sample:
    return Sample(SampleKey(0, 0, 0, 0), np.zeros(0, np.int32), 0, text, "stop", NO_DECISIONS)


def _verdict(verifier: AnyVerifier, task: Task, sample: Sample) -> Verdict:
    pool = pool_for(verifier, lambda one: InlinePool(one, Blame(tries=1)))
    pool.submit([Item(task, sample, 1)])
    ((_, verdict),) = pool.completed(wait=True)
    return verdict


def report_on(verdict: Verdict) -> Report:
    """Convert a verdict to a report with one row per reward part."""
    if verdict.status == "unscored":
        raise DataError(
            f"the verifier failed: {verdict.reason}\nIf it reads columns of the task, pass them as JSON with --spec."
        )
    if verdict.reply is not None:
        said = tuple(f"> {line}" for message in verdict.reply.messages for line in message["content"].splitlines())
        return Report(("part", "value"), (), said, (UNFINISHED,), good=False)
    rows = tuple(Row((name, f"{value:.4g}"), good=True) for name, value in verdict.parts.items())
    flaws = (verdict.reason,) if verdict.reason else ()
    result = "success" if verdict.success else verdict.status if verdict.status == "rejected" else "failed"
    return Report(("part", "value"), rows, flaws, (f"{result}: reward {verdict.reward:.4g}",), good=verdict.success)


def summarise(artifacts: Sequence[Artifact], title: str, first: Sequence[str] = ()) -> Summary:
    """Count the distinct texts and how often each occurs, most frequent first. ``first``: lines to start with.

    Samples are counted per task, because the reward of a text depends on its task.
    """
    times = Counter(map(_task_and_text, artifacts))
    verdicts = {_task_and_text(one): one.verdict for one in artifacts}
    scored = [one.verdict for one in artifacts if one.verdict is not None and one.verdict.has_reward]
    lines = [*first, f"{with_unit(len({one.text for one in artifacts}), 'distinct text')} among {len(artifacts)}"]
    if scored:
        successes, reward = sum(verdict.success for verdict in scored), fmean(verdict.reward for verdict in scored)
        lines.append(f"{successes} of {len(scored)} succeed, mean reward {reward:.4g}")
    with_tasks = any(task for task, _ in times)
    columns = (*(("task",) if with_tasks else ()), "text", "times", "reward")
    rows = tuple(
        Row(
            (*((_short(key[0]),) if with_tasks else ()), _short(key[1]), str(count), _reward(verdicts[key])),
            good=_succeeds(verdicts[key]),
        )
        for key, count in times.most_common()
    )
    return Summary(tuple(lines), columns, rows, _page(title, lines, columns, rows))


def _task_and_text(artifact: Artifact) -> tuple[str, str]:
    """Return the title of a sample's task, or an empty string for a file, and the text."""
    return "" if artifact.verdict is None else artifact.title, artifact.text


def _good(artifact: Artifact) -> bool | None:
    return None if artifact.verdict is None else artifact.verdict.success


def _succeeds(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.success


def _reward(verdict: Verdict | None) -> str:
    return "" if verdict is None or not verdict.has_reward else f"{verdict.reward:.4g}"


def _short(text: str) -> str:
    return textwrap.shorten(printable(text), MAX_CELL_LENGTH, placeholder=" …") or "(empty)"


def _page(title: str, lines: Sequence[str], columns: Sequence[str], rows: Sequence[Row]) -> str:
    cells = [list(columns), *(list(row.cells) for row in rows)]
    table = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in cells)
    body = "".join(f"<p>{escape(line)}</p>\n" for line in lines)
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
    head += f"<style>{STYLE}</style>\n"
    return f"{head}<h1>{escape(title)}</h1>\n{body}<table>\n{table}</table>\n</html>\n"
