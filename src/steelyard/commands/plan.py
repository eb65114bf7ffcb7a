"""Estimate whether a run fits in memory, how long a step takes, and what limits its speed. Nothing is loaded or run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from steelyard import config as configs
from steelyard import defaults
from steelyard.commands.inputs.target import add_trust
from steelyard.commands.output.screen import amount, positive, stdout
from steelyard.config import Config
from steelyard.domains import make_domain
from steelyard.errors import ConfigError
from steelyard.memory.footprint import TrainingSetup, footprint
from steelyard.memory.model_shape import (
    KNOWN_SHAPES,
    SPECIAL_TOKEN_COUNT,
    ModelShape,
    decoder,
    feed_forward_width,
    find_shape,
)
from steelyard.planning.hardware import ACCELERATORS, GIGA, Machines, parse_machines, read_accelerators
from steelyard.planning.plan import (
    SAMPLER_SHARE,
    Deployment,
    PlannedRun,
    Prediction,
    cores_needed,
    learning,
    plan_memory,
    predict,
)
from steelyard.planning.rates import Efficiency
from steelyard.planning.simulation import Spread
from steelyard.text import with_unit
from steelyard.trust import DOMAIN, load_recipe

LARGE = 20_000
"""At or above this many samples per step, fewer steps are simulated."""
HALF_NODE = "4xh100"
"""Default layout: half of a node's GPUs learn while the other half sample."""


def configure(parser: argparse.ArgumentParser) -> None:
    shipped = ", ".join(configs.recipes())
    parser.add_argument(
        "recipe",
        nargs="?",
        default="text",
        metavar="RECIPE|FILE",
        help=f"a recipe ({shipped}) or a TOML file (default: text)",
    )
    _add_machines(parser)
    _add_workload(parser)
    add_trust(parser)
    parser.epilog = f"Models known without access to a hub, for --model.path: {', '.join(KNOWN_SHAPES)}."


def _add_machines(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("machines, written as 8xh100", f"known: {', '.join(ACCELERATORS)}")
    where.add_argument("--learners", metavar="MACHINES", help=f"GPUs for the learner (default: {HALF_NODE})")
    where.add_argument(
        "--samplers",
        metavar="MACHINES",
        help=f"GPUs for sampling (default: {HALF_NODE}); with sampling.staleness, they sample while the learner trains",
    )
    where.add_argument(
        "--gpus",
        metavar="MACHINES",
        help="alternative: GPUs that alternate between sampling and learning (only one GPU is supported so far)",
    )
    where.add_argument(
        "--hardware", metavar="FILE", help="TOML file describing your own machines, one table per machine"
    )
    where.add_argument(
        "--tensor",
        type=positive,
        default=1,
        metavar="N",
        help="GPUs per sampler replica (default: 1; larger values are not supported yet)",
    )
    where.add_argument(
        "--cores",
        type=positive,
        default=defaults.CORES,
        metavar="N",
        help="CPU cores for verification (default: %(default)s)",
    )
    where.add_argument(
        "--publish-gbs",
        type=_number,
        default=defaults.PUBLISH_GBS,
        metavar="X",
        help="bandwidth in GB/s for sending weights to samplers (default: %(default)g)",
    )
    where.add_argument(
        "--efficiency",
        type=_shares,
        default=Efficiency(),
        metavar="S,L,B",
        help="achieved fractions of the datasheet values: sampling FLOP/s, learning FLOP/s, bandwidth "
        "(default: 0.5,0.4,0.7)",
    )


def _add_workload(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("workload")
    what.add_argument(
        "--prompt-tokens", type=positive, default=256, metavar="N", help="tokens per prompt (default: 256)"
    )
    what.add_argument(
        "--tokens", type=positive, metavar="N", help="mean tokens per completion (default: the longest allowed)"
    )
    what.add_argument("--tokens-p99", type=positive, metavar="N", help="99th percentile of tokens per completion")
    what.add_argument(
        "--check-seconds",
        type=_number,
        default=defaults.CHECK_SECONDS,
        metavar="X",
        help="mean core-seconds needed to verify a sample (default: %(default)g)",
    )
    what.add_argument(
        "--check-p99", type=_number, metavar="X", help="99th percentile of the seconds needed to verify a sample"
    )


def run(arguments: argparse.Namespace, overrides: Sequence[str]) -> int:
    config = load_recipe(arguments.recipe, overrides, uses=DOMAIN, trust=arguments.trust)
    work, site = run_of(config, arguments), site_of(config, arguments)
    if site.tensor > site.sampling.count:
        raise ConfigError(
            f"--tensor {site.tensor} must not exceed the number of sampling GPUs ({site.sampling.count}); lower it"
        )
    steps = (6 if work.samples < LARGE else 3) + 2 * site.staleness
    show(stdout(), config, work, site, predict(work, site, steps), steps)
    return 0


# --- input -----------------------------------------------------------------------------------------------------------


def run_of(config: Config, arguments: argparse.Namespace) -> PlannedRun:
    sampling, optimiser = config.sampling, config.optimiser
    longest = sampling.max_new_tokens
    mean = min(arguments.tokens or longest, longest)
    return PlannedRun(
        shape=_shape(config),
        training=training_of(config),
        tasks=sampling.tasks_per_step,
        group=sampling.group_size,
        prompt=arguments.prompt_tokens,
        length=_spread("tokens", mean, arguments.tokens_p99, longest),
        updates=optimiser.epochs * optimiser.minibatches,
        epochs=optimiser.epochs,
        max_rows=sampling.max_rows,
        microbatch=optimiser.microbatch_tokens,
    )


def training_of(config: Config) -> TrainingSetup:
    """Select the parts of the configuration that determine memory and time."""
    model, weight = config.model, 4 if config.model.dtype == "float32" else 2
    bits = {None: None, "8bit": 1.0, "4bit": 0.5}
    return TrainingSetup(
        weight=weight,
        rank=model.lora.rank if model.lora is not None else 0,
        base=bits[model.quantize],
        state=_state_bytes(config),
        reference=config.loss.kl.active or config.loss.kl.adaptive is not None,
        checkpointing=model.gradient_checkpointing,
        eager=model.attention == "eager",
    )


def _state_bytes(config: Config) -> float | None:
    """Return the bytes of optimiser state per trained weight; None means two moments in the weight's precision."""
    eight, master = config.optimiser.name == "adamw_8bit", config.optimiser.rounding == "master"
    if not master:
        return 2 if eight else None
    return 4 + (2 if eight else 8)


def _shape(config: Config) -> ModelShape:
    scratch = config.model.scratch
    if scratch is None:
        return find_shape(config.model.path or "")
    words = scratch.vocabulary
    if words is None and config.domain is not None:
        words = make_domain(config.domain.name, **config.domain.options).vocabulary()
    return decoder(
        layers=scratch.layers,
        width=scratch.width,
        feed_forward=scratch.feed_forward or feed_forward_width(scratch.width),
        heads=scratch.heads,
        kv_heads=scratch.kv_heads,
        vocabulary=len(words or ()) + SPECIAL_TOKEN_COUNT,
        tied=scratch.tie_embeddings,
    )


def site_of(config: Config, arguments: argparse.Namespace) -> Deployment:
    known = read_accelerators(Path(arguments.hardware)) if arguments.hardware else ACCELERATORS
    if (arguments.learners is None) != (arguments.samplers is None) or (arguments.gpus and arguments.learners):
        raise ConfigError(
            "pass either --gpus (GPUs that alternate between sampling and learning) or both --learners and --samplers"
        )
    learners = parse_machines(arguments.learners or arguments.gpus or HALF_NODE, known)
    samplers: Machines | None = None if arguments.gpus else parse_machines(arguments.samplers or HALF_NODE, known)
    seconds = config.verify.limits.seconds or math.inf
    vllm = _vllm(config)
    return Deployment(
        learners=learners,
        samplers=samplers,
        tensor=arguments.tensor,
        sharded=_sharding(config) == "fsdp",
        share=None if vllm is None else vllm.memory,
        cache=None if vllm is None or vllm.cache_gib is None else vllm.cache_gib * 2**30,
        cores=arguments.cores,
        check=_spread("check", arguments.check_seconds, arguments.check_p99, seconds),
        staleness=config.sampling.staleness,
        publish=arguments.publish_gbs * GIGA,
        efficiency=arguments.efficiency,
    )


def _vllm(config: Config) -> configs.VllmConfig | None:
    sampling = config.sampling
    return (sampling.vllm or configs.VllmConfig()) if sampling.engine == "vllm" else None


def _sharding(config: Config) -> str:
    """Return how multiple learners share the model; quantised weights cannot be sharded."""
    given = config.cluster.learners or configs.LearnersConfig()
    return given.sharding if config.model.quantize is None else "ddp"


def _spread(what: str, mean: float, p99: float | None, limit: float) -> Spread:
    try:
        return Spread(mean, p99, limit)
    except ConfigError as error:
        raise ConfigError(f"--{what}-p99: {error}") from error


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0 or math.isinf(value):
        raise argparse.ArgumentTypeError(f"{text} must be a non-negative number")
    return value


def _shares(text: str) -> Efficiency:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if len(shares) != 3 or not all(0 < share <= 1 for share in shares):
        raise argparse.ArgumentTypeError(f"{text} must be three fractions between 0 and 1, such as 0.5,0.4,0.7")
    return Efficiency(*shares)


# --- output ----------------------------------------------------------------------------------------------------------


def show(console: Console, config: Config, work: PlannedRun, site: Deployment, found: Prediction, steps: int) -> None:
    trained = work.training.trained(work.shape)
    console.print(
        f"[bold]{config.model.path or 'from scratch'}[/bold]: {work.shape.parameters / 1e6:,.0f}M parameters, "
        f"{trained / 1e6:,.0f}M trained; {work.tasks:,} x {work.group} samples per step, {work.prompt:,} + "
        f"{work.length.mean:,.0f} tokens each"
    )
    for what in missing(config, site):
        console.print(f"[bold red]not runnable yet[/bold red]: {what}")
    _show_memory(console, site, found)
    _show_step(console, work, site, found)
    cores = cores_needed(found.pipeline, steps)
    enough = "[green]enough[/green]" if cores <= site.cores else "[yellow]too few[/yellow]"
    console.print(
        f"[bold]verifier cores[/bold]  {cores:,} keep the GPUs busy ({site.cores:,} given: {enough}); "
        f"{found.outcome.timeouts} of {found.outcome.verified:,} verifications timed out"
    )
    console.print(f"[bold]bottleneck[/bold]      {BOTTLENECKS[found.outcome.bottleneck]}")
    for hint in hints(work, site, found):
        console.print(f"[bold]hint[/bold]            {hint}")
    assumed = assumptions(config, work, site, found)
    console.print("\n".join(["", "Assumed:", *(f"  {line}" for line in assumed)]), style="dim")


BOTTLENECKS = {
    "samplers": "sampling: use more sampler GPUs, shorter completions, or constraints that force tokens",
    "verifiers": "verification: use more cores, a verdict cache, a shorter time limit, or sampling.staleness",
    "learner": "the learner: use more learner GPUs, shorter prompts, or no gradient checkpointing if memory allows",
    "controller": "the controller: use batch or group verifiers, which need fewer calls per sample",
    "publication": "publishing weights: use a faster network, or sampling.staleness = 1, which hides it",
}


def missing(config: Config, site: Deployment) -> list[str]:
    """List the features that the layout needs but Steelyard does not support yet."""
    lines: list[str] = []
    if site.tensor > 1:
        lines.append(f"a replica on {site.tensor} GPUs, because the vLLM sampler does not support tensor parallelism")
    if site.samplers is None and site.learners.count > 1:
        lines.append(
            "several GPUs that sample and learn in turn, because a learner takes a whole GPU and leaves no room for a "
            "replica; pass --learners and --samplers, or use one GPU"
        )
    if site.samplers is not None and config.model.quantize is not None:
        lines.append("separate samplers for quantised weights, because vLLM would sample from other weights")
    return lines


def hints(work: PlannedRun, site: Deployment, found: Prediction) -> list[str]:
    """Suggest settings that would make better use of these machines."""
    lines: list[str] = []
    copies = replace(site, sharded=False)
    replicated = plan_memory(work, copies)
    scoring, updating, traffic = learning(work, copies, replicated)
    learn = max(scoring + updating, traffic)
    if found.memory.sharded and replicated.fits and learn < 0.95 * found.pipeline.learn:
        lines.append(
            f'cluster.learners.sharding = "ddp": full copies fit ({amount(replicated.wanted)}), and the learner takes '
            f"{learn:.3g} s instead of {found.pipeline.learn:.3g} s"
        )
    rows = plan_memory(work, replace(site, share=SAMPLER_SHARE)).rows
    if site.samplers is not None and rows > found.memory.rows:
        lines.append(
            f"sampling.vllm.memory = {SAMPLER_SHARE}: samplers do not share their GPUs, and could cache {rows:,} "
            f"rows instead of {found.memory.rows:,}"
        )
    return lines


def _show_memory(console: Console, site: Deployment, found: Prediction) -> None:
    memory, learner = found.memory, found.memory.learner
    how = f"sharded over {site.learners.count}" if memory.sharded else "a full copy"
    table = Table("on each learner GPU", how, title="memory", title_justify="left", title_style="bold")
    rows = {
        "weights": learner.weights,
        "reference": learner.reference,
        "optimiser": learner.optimiser,
        "gradients": learner.gradients,
        "activations": learner.activations,
        "logits": learner.logits,
    }
    if site.samplers is None:
        rows["sampler's weights" if site.share is None else "sampler's share"] = memory.sampler_bytes
    for name, size in rows.items():
        table.add_row(name, amount(size))
    table.add_section()
    table.add_row("total", f"{amount(memory.wanted)} of {amount(memory.room)}: {_verdict(memory.learns)}")
    cache = f"{memory.rows:,} (with {amount(memory.sampler_weights)} of weights)"
    table.add_row("rows that fit in a sampler's cache", cache if memory.rows else f"{cache}: {_verdict(False)}")
    console.print(table)
    if not memory.rows:
        console.print("[yellow]a sampler has no room for its cache; the times below assume one row.[/yellow]")
    if not memory.learns:
        console.print(
            "[yellow]To reduce memory: model.gradient_checkpointing = true, a smaller optimiser.microbatch_tokens, "
            "optimiser.name = adamw_8bit, \\[model.lora] or more GPUs. The times below assume that it fits.[/yellow]"
        )


def _verdict(fits: bool) -> str:
    return "[green]fits[/green]" if fits else "[red]does not fit[/red]"


def _show_step(console: Console, work: PlannedRun, site: Deployment, found: Prediction) -> None:
    outcome, pipeline = found.outcome, found.pipeline
    table = Table("phase", "seconds", "busy", "by", title="time per step", title_justify="left", title_style="bold")
    replicas = f"{with_unit(site.replicas, 'replica')} of {with_unit(site.tensor, 'GPU')} on {site.sampling}"
    replicas += f", {with_unit(pipeline.rows, 'row')} each"
    checks = f"{site.cores:,} cores, after the last sample"
    ranks = f"{site.learners}: scoring {found.score:.3g}, update {found.update:.3g}, traffic {found.traffic:.3g}"
    sent = f"{amount(found.published)} to {with_unit(site.sampling.nodes, 'node')}{', by a tree' if site.tree else ''}"
    for phase, by in {"samplers": replicas, "verifiers": checks, "learner": ranks, "publication": sent}.items():
        table.add_row(phase, f"{outcome.phases[phase]:.3g}", f"{outcome.busy[phase]:.0%}", by)
    table.add_row("controller", "", f"{outcome.busy['controller']:.0%}", f"{1e3 * site.controller:.2g} ms per sample")
    table.add_section()
    tokens = work.samples * work.length.mean / outcome.step
    overlapped = f"overlapped, at most {outcome.stale} behind" if pipeline.staleness else "in turn"
    table.add_row("[bold]step[/bold]", f"[bold]{outcome.step:.3g}[/bold]", "", f"{overlapped}; {tokens:,.0f} tokens/s")
    console.print(table)


def assumptions(config: Config, work: PlannedRun, site: Deployment, found: Prediction) -> list[str]:
    """List the assumptions behind the estimates."""
    has, kind = site.efficiency, site.sampling.kind
    lengths = f"99% below {work.length.p99:,.0f}" if work.length.p99 else "all equal (--tokens-p99)"
    checks = f"99% below {site.check.p99:.3g} s" if site.check.p99 else "all equal (--check-p99)"
    sheet = f"{kind.name} {kind.flops / 1e12:,.0f} TFLOP/s bfloat16, {kind.bandwidth / 1e12:.3g} TB/s"
    reached = f"{has.sampling_flops:.0%} (sampling), {has.learning_flops:.0%} (learning) and {has.bandwidth:.0%}"
    lines = [
        f"data sheets: {sheet}; {reached} of these values are reached",
        "2 FLOPs per token and parameter forward, 4 backward (2 under LoRA), 2 more with gradient checkpointing",
        f"completions of {work.length.mean:,.0f} tokens, {lengths}; verification in {site.check.mean:.3g} s, {checks}",
        f"samplers process a prompt once per {with_unit(found.pipeline.subgroup, 'sample')}, the learner for each one",
        f"weights are sent at {site.publish / GIGA:.3g} GB/s; learners exchange {_speed(site):.3g} GB/s while working",
        _engine(config, site),
    ]
    if site.samplers is not None:
        lines.append("samplers receive the full weights, with any adapter merged")
    if site.learners.count > 1:
        copy = amount(footprint(work.shape, work.training).weights)
        lines.append(f'learners with cluster.learners.sharding = "{_sharding(config)}"')
        lines.append(f"not counted: the main process keeps another copy of the policy on a GPU ({copy})")
    lines.append(
        "python -m benchmarks plan compares memory and step times with real runs on a CPU; see docs/scaling.md"
    )
    return lines


def _engine(config: Config, site: Deployment) -> str:
    """Describe the sampling engine and its memory."""
    if site.cache is not None:
        return f"vLLM has its weights and {amount(site.cache)} of cache (sampling.vllm.cache_gib)"
    if site.share is not None:
        return f"vLLM has {site.share:.0%} of a GPU's memory (sampling.vllm.memory)"
    return (
        f"vLLM samples, with up to {SAMPLER_SHARE:.0%} of a GPU's memory, though sampling.engine is "
        f"{config.sampling.engine}: set it, and sampling.vllm.memory"
    )


def _speed(site: Deployment) -> float:
    kind = site.learners.kind
    return (kind.link if site.learners.nodes == 1 else kind.network) * site.efficiency.bandwidth / GIGA
