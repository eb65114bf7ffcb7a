"""Predicts what fits in memory, how long a step takes, and which part limits it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from steelyard import defaults
from steelyard.memory.footprint import (
    BatchSize,
    Footprint,
    TrainingSetup,
    base_bytes,
    default_chunk,
    default_microbatch_tokens,
    footprint,
)
from steelyard.memory.model_shape import ModelShape
from steelyard.planning.hardware import GIGA, Machines
from steelyard.planning.rates import Efficiency, Rates, learning_rates, sampling_rates
from steelyard.planning.simulation import Outcome, Pipeline, Spread, simulate
from steelyard.planning.work import Work, decode, prefill, score, update

SAMPLER_SHARE = 0.9
"""Default share of an accelerator's memory for a sampling engine."""
REPLICA_SHARE = 0.75
"""Share of memory up to which learners keep complete copies of the weights instead of shards."""
EXCHANGE_SECONDS = 10e-6
"""Latency in seconds of an exchange between the accelerators of a replica; each layer has two."""
CONTROLLER_SECONDS = 0.5e-3
"""Controller time in seconds per sample, both ways; measured by ``python -m benchmarks scaling``."""
CORES_TOLERANCE = 1.02
"""Cores are sufficient if a step takes at most this many times as long as with one core per sample."""


DEFAULT_CHECK = Spread(defaults.CHECK_SECONDS)
DEFAULT_EFFICIENCY = Efficiency()


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """The workload of one step."""

    shape: ModelShape
    training: TrainingSetup
    tasks: int
    group: int
    prompt: int
    length: Spread
    updates: int = 1
    """Optimiser steps per rollout; with more than one, old log-probs are computed too."""
    epochs: int = defaults.EPOCHS
    max_rows: int = defaults.MAX_ROWS
    microbatch: int | None = None

    @property
    def samples(self) -> int:
        return self.tasks * self.group

    @property
    def sequence(self) -> int:
        return self.prompt + math.ceil(self.length.mean)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The machines that a run uses, and how it uses them."""

    learners: Machines
    samplers: Machines | None = None
    """Accelerators that only sample, or None if the learners alternate between sampling and learning."""
    tensor: int = 1
    """Accelerators per sampler replica (tensor parallel)."""
    sharded: bool | None = None
    """Whether learners shard weights and optimiser state (FSDP); by default, only if complete copies are too large."""
    share: float | None = None
    """Share of memory that a sampling engine reserves; defaults to 0.9 minus the share of a co-located learner."""
    cache: float | None = None
    """Bytes of the engine's KV cache; defaults to its share of memory minus the weights."""
    cores: int = defaults.CORES
    """Cores for verification."""
    check: Spread = DEFAULT_CHECK
    staleness: int = 0
    controller: float = CONTROLLER_SECONDS
    publish: float = defaults.PUBLISH_GBS * GIGA
    """Bytes per second from node to node, and from a node's memory into its engine."""
    tree: bool = True
    """Whether nodes forward the weights to each other; otherwise the learner sends them to one node after another."""
    efficiency: Efficiency = DEFAULT_EFFICIENCY

    @property
    def sampling(self) -> Machines:
        return self.samplers or self.learners

    @property
    def replicas(self) -> int:
        return max(self.sampling.count // self.tensor, 1)


@dataclass(frozen=True, slots=True)
class Memory:
    """Predicted memory of one learner and one sampler accelerator."""

    learner: Footprint
    sharded: bool
    """Whether ranks shard the weights and optimiser state (FSDP) instead of each keeping a copy."""
    sampler_weights: float
    rows: int
    """Number of sequences that fit in the KV cache of a replica."""
    sampler_bytes: float
    """Bytes that a sampler uses on the learner's accelerator: its weights or its reserved share."""
    room: float

    @property
    def wanted(self) -> float:
        """Bytes that must fit on a learner's accelerator."""
        return self.learner.update + self.sampler_bytes

    @property
    def learns(self) -> bool:
        return self.wanted <= self.room

    @property
    def fits(self) -> bool:
        return self.learns and self.rows >= 1


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted memory, phase times and outcome of a run."""

    memory: Memory
    pipeline: Pipeline
    outcome: Outcome
    score: float
    """Seconds spent on scoring before the update."""
    update: float
    traffic: float
    """Seconds of traffic between the learner's ranks, which overlaps with computation."""
    published: float
    """Bytes of weights sent to samplers after each update."""


def predict(run: PlannedRun, site: Deployment, steps: int = 6) -> Prediction:
    memory = plan_memory(run, site)
    scoring, updating, traffic = learning(run, site, memory)
    published = published_bytes(run, site)
    pipeline = replace(
        sampling(run, site, max(memory.rows, 1)),
        learn=max(scoring + updating, traffic),
        publish=publication(published, site),
    )
    return Prediction(memory, pipeline, simulate(pipeline, steps), scoring, updating, traffic, published)


def plan_memory(run: PlannedRun, site: Deployment) -> Memory:
    """Predict the memory of a learner and the memory left for the KV cache of a sampling engine."""
    ranks, room = site.learners.count, site.learners.kind.memory
    own = sampler_bytes(run) / site.tensor
    reserved = _reserved(site, own)
    beside = 0.0 if site.samplers is not None else own if reserved is None else reserved
    one = footprint(run.shape, run.training, _batch(run, room))
    shard = footprint(run.shape, run.training, _batch(run, room), ranks=ranks)
    crowded = one.update + beside > REPLICA_SHARE * room
    sharded = ranks > 1 and (crowded if site.sharded is None else site.sharded)
    learner = shard if sharded else one
    if reserved is None:
        reserved = SAMPLER_SHARE * site.sampling.kind.memory - (learner.update if site.samplers is None else 0.0)
    subgroup = min(run.group, max(run.samples // site.replicas, 1))
    row = run.training.weight * run.shape.cached * (run.prompt / subgroup + run.length.mean)
    free = max(reserved - own, 0.0) if reserved <= site.sampling.kind.memory else 0.0
    rows = min(run.max_rows, int(free * site.tensor // row))
    return Memory(learner, sharded, own, rows, beside, room)


def _reserved(site: Deployment, own: float) -> float | None:
    """Return the bytes that the engine reserves at start, including weights, or None if it uses all free memory."""
    if site.cache is not None:
        return own + site.cache
    return None if site.share is None else site.share * site.sampling.kind.memory


def _batch(run: PlannedRun, room: float) -> BatchSize:
    return BatchSize(
        rows=0,
        length=run.sequence,
        microbatch=microbatch(run, room),
        chunk=default_chunk(run.shape.vocabulary, cpu=False),
    )


def microbatch(run: PlannedRun, room: float) -> int:
    """Return the tokens per pass: the configured number or the default for this memory, but at least one sequence."""
    tokens = run.microbatch or default_microbatch_tokens(
        run.shape.width,
        run.shape.layers,
        adapted=bool(run.training.rank),
        weight=int(run.training.weight),
        memory=int(room),
    )
    return max(tokens // run.sequence, 1) * run.sequence


def learning(run: PlannedRun, site: Deployment, memory: Memory) -> tuple[float, float, float]:
    """Predict the seconds spent on scoring, on the update, and on the traffic between ranks that overlaps with both.

    Shards are gathered for every forward and backward pass, and gradients are scattered. Complete copies exchange the
    gradients of trained parameters once per optimiser step.
    """
    ranks, kind = site.learners.count, site.learners.kind
    rates = learning_rates(kind, ranks, site.efficiency)
    scoring, updating = learner_seconds(run, rates, (0, 0))
    tokens = run.samples * run.sequence
    passes = math.ceil(tokens / ranks / microbatch(run, kind.memory))
    speed = (kind.link if site.learners.nodes == 1 else kind.network) * site.efficiency.bandwidth
    trained = run.training.trained_weight * run.training.trained(run.shape)
    moved = 2 * trained * run.updates
    if memory.sharded:
        whole = base_bytes(run.shape, run.training)
        forwards = run.training.reference + (run.updates > 1)
        moved += passes * whole * (2 * run.epochs + forwards)
    return scoring, updating, moved * (ranks - 1) / ranks / speed


def learner_seconds(run: PlannedRun, rates: Rates, passes: tuple[float, float]) -> tuple[float, float]:
    """Return the seconds spent on scoring (the reference, and old log-probs where needed) and on the update.

    ``passes`` is the number of passes in each phase.
    """
    scored, learnt = learner_work(run, passes)
    return rates.seconds(scored), rates.seconds(learnt)


def learner_work(run: PlannedRun, passes: tuple[float, float]) -> tuple[Work, Work]:
    sequence, decisions = run.sequence, math.ceil(run.length.mean)
    scored = score(run.shape, run.training, run.samples, sequence, decisions, passes[0])
    learnt = update(run.shape, run.training, run.samples, sequence, decisions, passes[1])
    forwards = run.training.reference + (run.updates > 1)
    stepped = Work(state=learnt.state * run.updates)
    return scored.times(forwards), replace(learnt, state=0.0).times(run.epochs) + stepped


def sampling(run: PlannedRun, site: Deployment, rows: int) -> Pipeline:
    """Build the sampling part of the pipeline. Adapters are merged or add no cost; every row reads its own cache."""
    kind, shape = site.sampling.kind, run.shape
    rates = sampling_rates(kind, site.tensor, site.efficiency)
    sampled = replace(run.training, rank=0, base=None)
    context = run.prompt + run.length.mean / 2
    none, one = (rates.seconds(decode(shape, sampled, count, context)) for count in (0, 1))
    exchanges = 2 * shape.layers if site.tensor > 1 else 0
    return Pipeline(
        tasks=run.tasks,
        group=run.group,
        replicas=site.replicas,
        rows=rows,
        length=run.length,
        prefill=rates.seconds(prefill(shape, sampled, 1, run.prompt)),
        decode=none + exchanges * EXCHANGE_SECONDS,
        decode_row=one - none + exchanges * sampled.weight * shape.width / kind.link,
        cores=site.cores,
        check=site.check,
        controller=site.controller,
        learn=0.0,
        publish=0.0,
        staleness=0 if site.samplers is None else site.staleness,
    )


def sampler_bytes(run: PlannedRun) -> float:
    """Return the bytes of a sampling engine's weights: complete, not quantised, including the adapter."""
    return base_bytes(run.shape, replace(run.training, base=None))


def published_bytes(run: PlannedRun, site: Deployment) -> float:
    """Return the bytes published per update: merged weights for separate samplers, only the adapter on shared ones."""
    if run.training.rank and site.samplers is None:
        return run.training.trained_weight * run.training.trained(run.shape)
    return sampler_bytes(run)


def publication(size: float, site: Deployment) -> float:
    """Return the seconds to gather the weights, send them to every node with samplers, and load them there.

    A tree needs ceil(log2(nodes + 1)) consecutive transfers; otherwise there is one per node.
    """
    nodes = site.sampling.nodes
    sendings = math.ceil(math.log2(nodes + 1)) if site.tree else nodes
    hops = 0 if site.samplers is None and nodes == 1 else sendings
    return (1 + hops) * size / site.publish


def cores_needed(pipeline: Pipeline, steps: int = 4) -> int:
    """Find the smallest number of verifier cores that is as fast as one core per sample, to within 2%."""
    most = pipeline.samples * (pipeline.staleness + 1)
    free = simulate(replace(pipeline, cores=most), steps).step

    def enough(cores: int) -> bool:
        return simulate(replace(pipeline, cores=cores), steps).step <= CORES_TOLERANCE * free

    low = max(1, int(pipeline.check.mean * pipeline.samples / free / CORES_TOLERANCE))
    low = min(low, most)
    high = low
    while high < most and not enough(high):
        low, high = high, min(2 * high, most)
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
