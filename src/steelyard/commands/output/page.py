"""An HTML page of the samples that a run recorded during training, step by step."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.domains.artifacts import TextSpan
from steelyard.domains.base import Domain
from steelyard.errors import DataError
from steelyard.text import printable
from steelyard.tracking.artifacts import verdict_line
from steelyard.tracking.transcript import ShownTurn, TranscriptLine, limit_note, transcript_lines
from steelyard.types import Task, Verdict

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #222; }
h2 { border-bottom: 1px solid #ddd; margin: 2rem 0 .5rem; font-size: 1.05rem; }
.row { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; border: 1px solid #ddd; border-left: 4px solid #c77; border-radius: 4px; padding: .5rem .75rem; }
figure.good { border-left-color: #6a6; }
figcaption { color: #666; font-size: .85rem; }
pre { margin: .4rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; }
.right { background: #d5efd5; } .made { background: #ffe2b8; } .given { color: #555; }
.reply { color: #777; } .note { color: #999; }
"""
LEGEND = '<p><span class="right">same as the original</span> <span class="made">different</span></p>'


def read_shown(run: Path) -> list[dict[str, Any]]:
    """Read the samples that a run recorded for display, in step order."""
    files = sorted((run / "artifacts").glob("samples-*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    if not rows:
        raise DataError(
            f"{run} has not recorded any samples yet; tracking.samples_every sets how often samples are recorded"
        )
    return rows


def page(title: str, rows: Iterable[Mapping[str, Any]], domain: Domain) -> str:
    """Build the page, with one section per step and one card per sample."""
    by_step: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_step.setdefault(int(row["step"]), []).append(row)
    sections = [
        f'<h2>step {step}</h2>\n<div class="row">\n{"".join(_card(row, domain) for row in own)}</div>'
        for step, own in sorted(by_step.items())
    ]
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>'
    highlighted = any('<span class="made">' in section or '<span class="right">' in section for section in sections)
    opening = f"{head}\n<style>{STYLE}</style>\n<h1>{html.escape(title)}</h1>\n{LEGEND if highlighted else ''}"
    return "\n".join([opening, *sections, "</html>\n"])


def _card(row: Mapping[str, Any], domain: Domain) -> str:
    verdict = Verdict.from_json(row["verdict"])
    task = Task(row["task_id"], row["prompt"], row.get("spec", {}))
    turns = tuple(ShownTurn(**turn) for turn in row.get("turns", ()))
    filled = _episode(turns, row, verdict) if turns else "".join(map(_span, domain.highlights(task, str(row["text"]))))
    words = html.escape(f"{row['label']} · {row['task_id']} · {printable(verdict_line(verdict))}")
    good = ' class="good"' if verdict.success else ""
    return f"<figure{good}><figcaption>{words}</figcaption><pre>{filled}</pre></figure>\n"


def _episode(turns: Sequence[ShownTurn], row: Mapping[str, Any], verdict: Verdict) -> str:
    note = limit_note(turns, row.get("finish", "stop"), verdict)
    ending = f'\n<span class="note">({html.escape(note)})</span>' if note else ""
    return "\n".join(map(_line, transcript_lines(turns))) + ending


def _line(line: TranscriptLine) -> str:
    kind = "plain" if line.by_policy else "reply"
    note = f'<span class="note">{html.escape(line.note)}</span>' if line.note else ""
    return f'<span class="{kind}">{html.escape(line.mark + line.text)}</span>{note}'


def _span(span: TextSpan) -> str:
    return f'<span class="{span.kind}">{html.escape(printable(span.text))}</span>'
