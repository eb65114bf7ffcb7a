"""From a run and its machines to what fits, how long a step takes, and what holds it up."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from steelyard import defaults
from steelyard.memory.footprint import (
    Batch,
    Footprint,
    Training,
    base_bytes,
    comfortable_chunk,
    comfortable_tokens,
    footprint,
)
from steelyard.memory.model_shape import Shape
from steelyard.planning.hardware import GIGA, Machines
from steelyard.planning.rates import Efficiency, Rates, learning_rates, sampling_rates
from steelyard.planning.simulation import Outcome, Pipeline, Spread, simulate
from steelyard.planning.work import Work, decode, prefill, score, update

SAMPLER_SHARE = 0.9
"""Of an accelerator's memory that a sampling engine may take."""
ROOMY = 0.75
"""Share of the memory up to which whole copies are preferred to shards."""
EXCHANGE = 10e-6
"""Seconds of an exchange between the accelerators of a replica, two a layer."""
CONTROLLER = 0.5e-3
"""Seconds of the controller for a sample, both ways; ``python -m benchmarks scaling`` measures it."""
ENOUGH = 1.02
"""Cores are enough when a step takes no more than this times what it takes with a core for every sample."""


QUICK_CHECK = Spread(defaults.CHECK_SECONDS)
USUAL = Efficiency()


@dataclass(frozen=True, slots=True)
class Run:
    """What is done in a step."""

    shape: Shape
    training: Training
    tasks: int
    group: int
    prompt: int
    length: Spread
    updates: int = 1
    """Optimiser steps on a rollout; with more than one the old log-probs are computed too."""
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
class Site:
    """Where it is done."""

    learners: Machines
    samplers: Machines | None = None
    """None: the same accelerators sample and learn, in turns."""
    tensor: int = 1
    """Accelerators of a sampler replica (tensor parallel)."""
    sharded: bool | None = None
    """Whether several learners share weights and optimiser (FSDP); None: if whole copies would be too large."""
    share: float | None = None
    """Of the memory that a sampling engine takes from the start; None: 0.9, less what a learner beside it needs."""
    cache: float | None = None
    """Bytes for its keys and values, if they are not what the share leaves beside the weights."""
    cores: int = defaults.CORES
    """For checking."""
    check: Spread = QUICK_CHECK
    staleness: int = 0
    controller: float = CONTROLLER
    publish: float = defaults.PUBLISH_GBS * GIGA
    """Bytes a second from node to node, and from a node's memory into its engine."""
    tree: bool = True
    """Nodes that have the weights pass them on; otherwise the learner sends them to one node after the other."""
    efficiency: Efficiency = USUAL

    @property
    def sampling(self) -> Machines:
        return self.samplers or self.learners

    @property
    def replicas(self) -> int:
        return max(self.sampling.count // self.tensor, 1)


@dataclass(frozen=True, slots=True)
class Memory:
    """One accelerator of each kind."""

    learner: Footprint
    sharded: bool
    """Whether the ranks share weights and optimiser (FSDP) or each has its own."""
    sampler_weights: float
    rows: int
    """Sequences that a replica has cache for."""
    beside: float
    """What the sampler takes of a learner's accelerator, if it is there too: its weights, or its share."""
    room: float

    @property
    def wanted(self) -> float:
        """What has to fit on a learner's accelerator."""
        return self.learner.update + self.beside

    @property
    def learns(self) -> bool:
        return self.wanted <= self.room

    @property
    def fits(self) -> bool:
        return self.learns and self.rows >= 1


@dataclass(frozen=True, slots=True)
class Prediction:
    """A plan, worked out."""

    memory: Memory
    pipeline: Pipeline
    outcome: Outcome
    score: float
    """Seconds of the learner before the update."""
    update: float
    traffic: float
    """Seconds of traffic between the learner's ranks, hidden as far as they are shorter than its work."""
    published: float
    """Bytes."""


def predict(run: Run, site: Site, steps: int = 6) -> Prediction:
    memory = plan_memory(run, site)
    scoring, updating, traffic = learning(run, site, memory)
    published = published_bytes(run, site)
    pipeline = replace(
        sampling(run, site, max(memory.rows, 1)),
        learn=max(scoring + updating, traffic),
        publish=publication(published, site),
    )
    return Prediction(memory, pipeline, simulate(pipeline, steps), scoring, updating, traffic, published)


def plan_memory(run: Run, site: Site) -> Memory:
    """Of a learner, and what a sampling engine has left for its cache."""
    ranks, room = site.learners.count, site.learners.kind.memory
    own = sampler_bytes(run) / site.tensor
    taken = _taken(site, own)
    beside = 0.0 if site.samplers is not None else own if taken is None else taken
    one = footprint(run.shape, run.training, _batch(run, room))
    divided = footprint(run.shape, run.training, _batch(run, room), ranks=ranks)
    crowded = one.update + beside > ROOMY * room
    sharded = ranks > 1 and (crowded if site.sharded is None else site.sharded)
    learner = divided if sharded else one
    if taken is None:
        taken = SAMPLER_SHARE * site.sampling.kind.memory - (learner.update if site.samplers is None else 0.0)
    piece = min(run.group, max(run.samples // site.replicas, 1))
    row = run.training.weight * run.shape.cached * (run.prompt / piece + run.length.mean)
    free = max(taken - own, 0.0) if taken <= site.sampling.kind.memory else 0.0
    rows = min(run.max_rows, int(free * site.tensor // row))
    return Memory(learner, sharded, own, rows, beside, room)


def _taken(site: Site, own: float) -> float | None:
    """Bytes that the engine takes from the start, of which its weights are a part; None: what there is."""
    if site.cache is not None:
        return own + site.cache
    return None if site.share is None else site.share * site.sampling.kind.memory


def _batch(run: Run, room: float) -> Batch:
    return Batch(
        rows=0,
        length=run.sequence,
        microbatch=microbatch(run, room),
        chunk=comfortable_chunk(run.shape.vocabulary, cpu=False),
    )


def microbatch(run: Run, room: float) -> int:
    """Tokens of a pass: what was asked for, or what suits the memory, and one sequence at least."""
    tokens = run.microbatch or comfortable_tokens(
        run.shape.width,
        run.shape.layers,
        adapted=bool(run.training.rank),
        weight=int(run.training.weight),
        memory=int(room),
    )
    return max(tokens // run.sequence, 1) * run.sequence


def learning(run: Run, site: Site, memory: Memory) -> tuple[float, float, float]:
    """Seconds of scoring and of the update, and of the traffic between ranks that runs beside both.

    Sharded weights are gathered for every pass, forward and backward, and gradients scattered; whole copies exchange
    the gradients of what is trained, once a step.
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


def learner_seconds(run: Run, rates: Rates, passes: tuple[float, float]) -> tuple[float, float]:
    """Seconds of scoring (reference, and old log-probs where needed) and of the update, in so many passes each."""
    scored, learnt = learner_work(run, passes)
    return rates.seconds(scored), rates.seconds(learnt)


def learner_work(run: Run, passes: tuple[float, float]) -> tuple[Work, Work]:
    sequence, decisions = run.sequence, math.ceil(run.length.mean)
    scored = score(run.shape, run.training, run.samples, sequence, decisions, passes[0])
    learnt = update(run.shape, run.training, run.samples, sequence, decisions, passes[1])
    forwards = run.training.reference + (run.updates > 1)
    stepped = Work(state=learnt.state * run.updates)
    return scored.times(forwards), replace(learnt, state=0.0).times(run.epochs) + stepped


def sampling(run: Run, site: Site, rows: int) -> Pipeline:
    """The pipeline but for the learner. Adapters are merged, or served as cheaply; a row reads its own cache."""
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
        decode=none + exchanges * EXCHANGE,
        decode_row=one - none + exchanges * sampled.weight * shape.width / kind.link,
        cores=site.cores,
        check=site.check,
        controller=site.controller,
        learn=0.0,
        publish=0.0,
        staleness=0 if site.samplers is None else site.staleness,
    )


def sampler_bytes(run: Run) -> float:
    """The weights of a sampling engine: whole, an adapter merged or beside them, and not quantised."""
    return base_bytes(run.shape, replace(run.training, base=None))


def published_bytes(run: Run, site: Site) -> float:
    """Samplers of their own get whole weights, an adapter merged; beside the learner an adapter alone is handed on."""
    if run.training.rank and site.samplers is None:
        return run.training.trained_weight * run.training.trained(run.shape)
    return sampler_bytes(run)


def publication(size: float, site: Site) -> float:
    """Gathered by the learner, sent to every node with samplers, and taken up there.

    By a tree ceil(log2(nodes + 1)) sendings follow one another, otherwise as many as there are nodes.
    """
    nodes = site.sampling.nodes
    sendings = math.ceil(math.log2(nodes + 1)) if site.tree else nodes
    hops = 0 if site.samplers is None and nodes == 1 else sendings
    return (1 + hops) * size / site.publish


def cores_needed(pipeline: Pipeline, steps: int = 4) -> int:
    """The fewest verifier cores with which a step takes no longer than with one for every sample (2% are granted)."""
    most = pipeline.samples * (pipeline.staleness + 1)
    free = simulate(replace(pipeline, cores=most), steps).step

    def enough(cores: int) -> bool:
        return simulate(replace(pipeline, cores=cores), steps).step <= ENOUGH * free

    low = max(1, int(pipeline.check.mean * pipeline.samples / free / ENOUGH))
    low = min(low, most)
    high = low
    while high < most and not enough(high):
        low, high = high, min(2 * high, most)
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
