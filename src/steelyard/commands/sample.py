"""Sample from a run or a model on held-out tasks and score the samples, or sample from your own prompt.

With --prompt, no verifier is imported unless --score requests the run's verifier.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from steelyard.commands.inputs.artifact_files import json_object
from steelyard.commands.inputs.groups import NOT_SCORED, add_split, sample_groups, tasks_note, temperature_note
from steelyard.commands.inputs.target import Target, add_target, resolve
from steelyard.commands.output.files import write_file
from steelyard.commands.output.screen import positive, print_line, stdout
from steelyard.config import Config
from steelyard.data.tasks import fill_template
from steelyard.defaults import SHOWN_SAMPLES, SHOWN_TASKS
from steelyard.domains.artifacts import TextSpan
from steelyard.domains.base import Domain
from steelyard.domains.registry import make_domain
from steelyard.errors import ConfigError, SteelyardError
from steelyard.text import printable
from steelyard.tracking.artifacts import verdict_line
from steelyard.tracking.shown import prompt_of, prompt_text
from steelyard.tracking.transcript import limit_note, shown_turns, transcript_lines
from steelyard.types import Group, Sample, Task, Verdict

STYLES = {"plain": "", "given": "", "right": "bold green", "made": "bold yellow"}
"""Style of each kind of text span: unmarked, given in the prompt, same as the original, or different."""
WITH_PROMPT = ("tasks", "eval_tasks")
PROMPT_ALONE = (*WITH_PROMPT, "verifier")
"""Parts of a run that are not needed for a user's own prompt, with scoring and without."""
_MISSING_KEY = re.compile(r"^KeyError: '([^']+)'$", re.MULTILINE)


def configure(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "--n", type=positive, default=SHOWN_SAMPLES, metavar="N", help="samples per task (default: %(default)s)"
    )
    parser.add_argument(
        "--tasks", type=positive, default=SHOWN_TASKS, metavar="N", help="number of tasks (default: %(default)s)"
    )
    add_split(parser)
    parser.add_argument(
        "--prompt", metavar="TEXT", help="sample from this prompt instead of the tasks, without scoring"
    )
    parser.add_argument("--chat", action="store_true", help="send the prompt as a chat message, overriding tasks.chat")
    parser.add_argument(
        "--page",
        metavar="FILE",
        help="for a run with a domain: write samples recorded during training to an .html file instead of "
        "drawing new ones",
    )
    parser.add_argument("--score", action="store_true", help="with --prompt: score the samples with the verifier")
    parser.add_argument(
        "--spec",
        metavar="JSON",
        help="task columns: with --prompt, passed to the verifier (implies --score); otherwise filled into "
        "tasks.template",
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    own_prompt = arguments.prompt is not None or arguments.spec is not None
    if (arguments.chat and arguments.prompt is None) or (arguments.score and not own_prompt):
        raise ConfigError("--score and --chat apply only to your own prompt; add --prompt TEXT")
    scored = not own_prompt or arguments.score or (arguments.prompt is not None and arguments.spec is not None)
    target = resolve(arguments, overrides, unused=() if not own_prompt else WITH_PROMPT if scored else PROMPT_ALONE)
    own = _own_task(arguments, target.config)
    if own is None and "tasks" in target.config.run.supplied:
        raise ConfigError(f"{arguments.target} is not a run: add --prompt TEXT, or --recipe RECIPE for tasks")
    if own is not None and scored and "verifier" in target.config.run.supplied:
        raise ConfigError(
            f"{arguments.target} has no verifier to score with; set one with --verify.verifier or --recipe"
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
    notes = [] if own is not None else [tasks_note(len(groups), target.config, arguments.split, domain)]
    console.print(", ".join([*notes, temperature_note(target.config)]), style="dim", markup=False)
    for group in groups:
        _show(console, opened.label, group, domain)
    if own is not None and scored and (missing := _missing_columns(target.config, own, groups, domain)):
        spec = json.dumps({**own.spec, **dict.fromkeys(missing, "…")}, ensure_ascii=False)
        hint = f"The verifier failed; it may need these columns: {', '.join(missing)}"
        console.print(f"{hint}. Pass them: --spec '{spec}'", style="yellow", markup=False, soft_wrap=True)
    return 0


def _own_task(arguments: argparse.Namespace, config: Config) -> Task | None:
    """Build the task given on the command line: a prompt, or columns for tasks.template."""
    template = None if config.tasks is None else config.tasks.template
    spec = None if arguments.spec is None else json_object(arguments.spec, "--spec")
    if arguments.prompt is not None:
        chat = ({"role": "user", "content": arguments.prompt},)
        return Task("prompt", chat if arguments.chat else arguments.prompt, spec or {})
    if spec is None:
        return None
    if template is None:
        raise ConfigError(
            "--spec needs --prompt, because there is no tasks.template to build a prompt from; add --prompt TEXT"
        )
    return Task("prompt", fill_template(template, spec, "--spec"), spec)


def _missing_columns(config: Config, own: Task, groups: Sequence[Group], domain: Domain | None) -> list[str]:
    """If the verifier raised an error, list the columns that ``own`` may lack, such as those of the run's tasks."""
    raised = [verdict for group in groups for verdict in group.verdicts if verdict.cause == "exception"]
    if not raised:
        return []
    missing_keys = [name for verdict in raised for name in _MISSING_KEY.findall(verdict.reason)]
    return sorted({*_columns(config, domain), *missing_keys} - own.spec.keys())


def _columns(config: Config, domain: Domain | None) -> Iterable[str]:
    """Return the columns of the run's tasks, or nothing if the tasks cannot be read."""
    from steelyard.compose import Supplied, tasks_of_split

    try:
        return tasks_of_split(config, "train", 1, Supplied(domain=domain))[0].spec
    except SteelyardError:
        return ()


def _write_page(target: Target, domain: Domain | None, path: Path) -> int:
    from steelyard.commands.output.page import page, read_shown

    if target.run is None or domain is None:
        raise ConfigError(
            f"--page {path} shows samples recorded during training; pass the folder of a run that has a domain"
        )
    write_file(path, page(f"{target.run}: samples over training", read_shown(target.run), domain).encode())
    print_line(f"wrote {path}")
    return 0


def _show(console: Console, label: str, group: Group, domain: Domain | None) -> None:
    """Print the prompt and its samples. Samples with highlights are sorted by reward and coloured."""
    console.print(Rule(Text(f"{label} · task {group.task.id}", style="bold"), align="left"))
    console.print(Text(printable(prompt_text(prompt_of(group.task, group.samples[0]))), style="dim"))
    spans = [_spans(group.task, sample.text, domain) for sample in group.samples]
    shown = list(zip(group.samples, group.verdicts, spans, strict=True))
    if any(span.kind != "plain" for own in spans for span in own):
        shown.sort(key=lambda one: (not one[1].has_reward, -one[1].reward, one[0].key))
    for number, (sample, verdict, own) in enumerate(shown, start=1):
        head = Text(f"\n{number}  ", style="bold")
        if verdict.cause != NOT_SCORED:
            colour = "green" if verdict.success else "red" if verdict.status == "unscored" else "yellow"
            head.append(_one_line(verdict), style=colour)
        if sample.truncated and not sample.turns:
            head.append("  (cut off at the length limit)", style="dim")
        if sample.turns:
            _show_episode(console, head, sample, verdict)
            continue
        console.print(head)
        console.print(Text.assemble(*((printable(span.text), STYLES[span.kind]) for span in own)))


def _show_episode(console: Console, head: Text, sample: Sample, verdict: Verdict) -> None:
    """Print an episode turn by turn, with its replies dimmed."""
    turns = shown_turns(sample, verdict)
    if note := limit_note(turns, sample.finish, verdict):
        head.append(f"  ({note})", style="dim")
    console.print(head)
    for line in transcript_lines(turns):
        shown = Text.assemble((line.mark, "cyan" if line.by_policy else "dim"))
        console.print(shown.append(line.text, style="" if line.by_policy else "dim").append(line.note, style="dim"))


def _spans(task: Task, text: str, domain: Domain | None) -> list[TextSpan]:
    if not text:
        return [TextSpan("(empty)")]
    return [TextSpan(text)] if domain is None else domain.highlights(task, text)


def _one_line(verdict: Verdict) -> str:
    """Describe a verdict in one line; for a traceback, show its last line."""
    line = printable(verdict_line(verdict)).strip()
    if verdict.status != "unscored":
        return line.replace("\n", " ")
    last = printable(verdict.reason).strip().splitlines()[-1:]
    return ": ".join([f"unscored ({verdict.cause})", *last])
