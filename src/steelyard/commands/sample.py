"""Sample a run or a model on held-out tasks and score the samples, or sample a prompt of your own.

A --prompt needs no verifier, and none is imported; --score scores it with the run's verifier.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from steelyard.commands.inputs.artifact_files import json_object
from steelyard.commands.inputs.groups import NOT_SCORED, sample_groups, temperature_note
from steelyard.commands.inputs.target import Target, add_target, resolve
from steelyard.commands.output.files import write_file
from steelyard.commands.output.screen import positive, stdout, tell
from steelyard.config import Config
from steelyard.data.tasks import filled
from steelyard.defaults import SHOWN_SAMPLES, SHOWN_TASKS
from steelyard.domains.artifacts import TextSpan
from steelyard.domains.base import Domain, Split
from steelyard.domains.registry import make_domain
from steelyard.errors import ConfigError, SteelyardError
from steelyard.text import printable
from steelyard.tracking.artifacts import verdict_line
from steelyard.tracking.shown import prompt_text
from steelyard.types import Group, Task, Verdict

STYLES = {"plain": "", "given": "", "right": "bold green", "made": "bold yellow"}
"""What was there, what is as in the original, and what is the policy's own."""
WITH_PROMPT = ("tasks", "eval_tasks")
PROMPT_ALONE = (*WITH_PROMPT, "verifier")
"""Parts of a run that a prompt of one's own does without, with and without scoring."""
_MISSING_KEY = re.compile(r"^KeyError: '([^']+)'$", re.MULTILINE)


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--n", type=positive, default=SHOWN_SAMPLES, metavar="N", help="samples a task (%(default)s)")
    parser.add_argument("--tasks", type=positive, default=SHOWN_TASKS, metavar="N", help="how many tasks (%(default)s)")
    parser.add_argument("--split", choices=get_args(Split), default="held_out", help="which tasks (held_out)")
    parser.add_argument("--prompt", metavar="TEXT", help="a prompt of your own instead of tasks; not scored")
    parser.add_argument(
        "--chat", action="store_true", help="send the prompt as a chat message, whatever tasks.chat says"
    )
    parser.add_argument(
        "--page", metavar="FILE", help="of a run with a domain: write the samples it showed as .html instead"
    )
    parser.add_argument("--score", action="store_true", help="with --prompt: score the samples with the verifier")
    parser.add_argument(
        "--spec",
        metavar="JSON",
        help="with --prompt: columns that the verifier reads, and --score; alone: those of tasks.template",
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    asked = arguments.prompt is not None or arguments.spec is not None
    if (arguments.chat and arguments.prompt is None) or (arguments.score and not asked):
        raise ConfigError("--score and --chat go with --prompt")
    scored = not asked or arguments.score or (arguments.prompt is not None and arguments.spec is not None)
    target = resolve(arguments, overrides, unused=() if not asked else WITH_PROMPT if scored else PROMPT_ALONE)
    own = _own_task(arguments, target.config)
    if own is None and "tasks" in target.config.run.supplied:
        raise ConfigError(f"{arguments.target} is not a run: give a --prompt, or a --recipe with tasks")
    if own is not None and scored and "verifier" in target.config.run.supplied:
        raise ConfigError(
            f"{arguments.target} has no verifier to score with: name one with --verify.verifier or --recipe"
        )
    table = target.config.domain
    domain = None if table is None else make_domain(table.name, **table.options)
    if arguments.page is not None:
        return _write_page(target, domain, Path(arguments.page))
    tasks = [] if own is None else [own]
    opened, groups = sample_groups(
        target, arguments.n, split=arguments.split, count=arguments.tasks, own=tasks, scored=scored, domain=domain
    )
    console = stdout()
    console.print(temperature_note(target.config), style="dim", markup=False)
    for group in groups:
        _show(console, opened.label, group, domain)
    if own is not None and scored and (missing := _missing_columns(target.config, own, groups, domain)):
        spec = json.dumps({**own.spec, **dict.fromkeys(missing, "…")}, ensure_ascii=False)
        hint = f"The verifier failed; it may need these columns: {', '.join(missing)}"
        console.print(f"{hint}. Pass them: --spec '{spec}'", style="yellow", markup=False, soft_wrap=True)
    return 0


def _own_task(arguments: argparse.Namespace, config: Config) -> Task | None:
    """The task of the command line: a prompt, or columns for the template of the tasks."""
    template = None if config.tasks is None else config.tasks.template
    spec = None if arguments.spec is None else json_object(arguments.spec, "--spec")
    if arguments.prompt is not None:
        chat = ({"role": "user", "content": arguments.prompt},)
        return Task("prompt", chat if arguments.chat else arguments.prompt, spec or {})
    if spec is None:
        return None
    if template is None:
        raise ConfigError("--spec goes with --prompt: these tasks have no tasks.template to build a prompt with")
    return Task("prompt", filled(template, spec, "--spec"), spec)


def _missing_columns(config: Config, own: Task, groups: Sequence[Group], domain: Domain | None) -> list[str]:
    """If the verifier raised: columns of the run's tasks, or looked up by the verifier, that are not in ``own``."""
    raised = [verdict for group in groups for verdict in group.verdicts if verdict.cause == "exception"]
    if not raised:
        return []
    looked_up = [name for verdict in raised for name in _MISSING_KEY.findall(verdict.reason)]
    return sorted({*_columns(config, domain), *looked_up} - own.spec.keys())


def _columns(config: Config, domain: Domain | None) -> Iterable[str]:
    """The columns of the run's tasks, as far as they can be read here."""
    from steelyard.compose import Supplied, tasks_of_split

    try:
        return tasks_of_split(config, "train", 1, Supplied(domain=domain))[0].spec
    except SteelyardError:
        return ()


def _write_page(target: Target, domain: Domain | None, path: Path) -> int:
    from steelyard.commands.output.page import page, read_shown

    if target.run is None or domain is None:
        raise ConfigError(f"--page {path} shows the samples that a run showed while it trained: give a run of a domain")
    write_file(path, page(f"{target.run}: samples over training", read_shown(target.run), domain).encode())
    tell(f"wrote {path}")
    return 0


def _show(console: Console, label: str, group: Group, domain: Domain | None) -> None:
    """The prompt and its samples. Samples with highlights are ranked, with the policy's own part in colour."""
    console.print(Rule(Text(f"{label} · task {group.task.id}", style="bold"), align="left"))
    console.print(Text(printable(prompt_text(group.task.prompt)), style="dim"))
    spans = [_spans(group.task, sample.text, domain) for sample in group.samples]
    shown = list(zip(group.samples, group.verdicts, spans, strict=True))
    if any(span.kind != "plain" for own in spans for span in own):
        shown.sort(key=lambda one: (not one[1].counts, -one[1].reward, one[0].key))
    for number, (sample, verdict, own) in enumerate(shown, start=1):
        head = Text(f"\n{number}  ", style="bold")
        if verdict.cause != NOT_SCORED:
            colour = "green" if verdict.success else "red" if verdict.status == "unscored" else "yellow"
            head.append(_one_line(verdict), style=colour)
        if sample.truncated:
            head.append("  (cut off at the length limit)", style="dim")
        console.print(head)
        console.print(Text.assemble(*((printable(span.text), STYLES[span.kind]) for span in own)))


def _spans(task: Task, text: str, domain: Domain | None) -> list[TextSpan]:
    if not text:
        return [TextSpan("(empty)")]
    return [TextSpan(text)] if domain is None else domain.highlights(task, text)


def _one_line(verdict: Verdict) -> str:
    """The verdict; of a traceback its last line, which says what happened."""
    line = printable(verdict_line(verdict)).strip()
    if verdict.status != "unscored":
        return line.replace("\n", " ")
    last = printable(verdict.reason).strip().splitlines()[-1:]
    return ": ".join([f"unscored ({verdict.cause})", *last])
