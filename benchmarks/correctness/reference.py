"""Three trainer steps match three steps of the single-file reference loop on the same rollouts.

Both start from the same weights and use the same rollouts and microbatches; each has its own credit, loss, clipping and
optimiser. The figure is the distance between the final weights, relative to how far they moved.
"""

from __future__ import annotations

import copy
import importlib.util
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from rich.progress import Progress

from benchmarks.framework.process import ROOT
from benchmarks.framework.result import Cell, Figure, Result

STEPS = 3
SEEDS = (0, 1, 2, 3, 4)
LEARNING_RATE = 1e-3
KL = 0.05
BAR = 1e-3


def measure(quick: bool, progress: Progress) -> Result:
    """Run the benchmark; the quick version uses one seed instead of five."""
    seeds = SEEDS[:1] if quick else SEEDS
    task = progress.add_task("reference", total=len(seeds))
    details: list[dict[str, Cell]] = []
    for seed in seeds:
        progress.update(task, description=f"seed {seed}")
        details += compare(seed)
        progress.advance(task)
    finals = [float(row["share"]) for row in details if row["step"] == STEPS]
    spread = max(finals) - min(finals)
    return Result("reference", (Figure("distance / weight change", max(finals), "<=", BAR, spread=spread),), details)


def compare(seed: int, **overrides: Any) -> list[dict[str, Cell]]:
    """Return the distance after each step on the trainer's rollouts; ``overrides`` apply only to the trainer."""
    import torch

    from steelyard.training.phases import Stopwatch

    loop = load_reference_loop()
    trainer = build(seed, overrides)
    model = copy.deepcopy(trainer.policy.model)
    frozen = copy.deepcopy(model).requires_grad_(False)
    start = _flat(model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    excluded = trainer.policy.excluded
    config = loop.Config(kl_coefficient=KL, learning_rate=LEARNING_RATE, temperature=0.9, never_sampled=excluded)
    rows: list[dict[str, Cell]] = []
    for step in range(STEPS):
        groups = trainer.rollouts.fetch(trainer.rollouts.take(step, Stopwatch()).groups)
        rollouts = reference_rollouts(loop, groups)
        ours = trainer_step(trainer, groups)
        with torch.no_grad():
            reference_logps = [loop.answer_logps(frozen, [rollout], config) for rollout in rollouts]
        theirs = loop.update(
            model, optimizer, rollouts, reference_logps, config, trainer_microbatches(trainer, rollouts)
        )
        moved = float((_flat(model.parameters()) - start).norm())
        apart = float((_flat(model.parameters()) - _flat(trainer.policy.model.parameters())).norm())
        rows.append(
            {
                "seed": seed,
                "step": step + 1,
                "weight change": moved,
                "distance": apart,
                "share": apart / moved,
                "gradient norm": ours["gradient/norm"],
                "reference gradient norm": theirs["grad_norm"],
            }
        )
    return rows


def reference_rollouts(loop: Any, groups: Any) -> list[Any]:
    """Convert the trainer's groups to the reference loop's rollouts."""
    return [
        loop.Rollout(sample.token_ids.tolist(), sample.prompt_length, verdict.reward, number)
        for number, group in enumerate(groups)
        for sample, verdict in zip(group.samples, group.verdicts, strict=True)
    ]


def trainer_step(trainer: Any, groups: Any) -> dict[str, float]:
    """Score, assign credit and update, as ``train_step`` does after the rollout."""
    samples = [sample for group in groups for sample in group.samples]
    batch = trainer.assign_credit(groups, samples, trainer.learner.score(samples))
    metrics = trainer.learner.update(batch, trainer.step)
    trainer.step += 1
    return metrics


def trainer_microbatches(trainer: Any, rollouts: Any) -> list[list[int]]:
    """Return how the trainer's learner divides these rollouts into microbatches."""
    from steelyard.training.learner_samples import by_length

    return by_length([len(rollout.token_ids) for rollout in rollouts], trainer.learner.rule.microbatch_tokens)


def build(seed: int, overrides: dict[str, Any]) -> Any:
    """Build a 0.4M-parameter policy on the sequences domain, with several small microbatches per step."""
    from steelyard import config as configs
    from steelyard.compose import build_trainer

    tables: dict[str, Any] = {
        "run": {"folder": tempfile.gettempdir(), "seed": seed},
        "model": {"scratch": {"layers": 2, "width": 128, "max_length": 64}, "device": "cpu"},
        "domain": {"name": "sequences"},
        "sampling": {"tasks_per_step": 4, "group_size": 8, "max_new_tokens": 8, "temperature": 0.9},
        "loss": {"kl": {"coefficient": KL, "estimator": "k3"}},
        "optimiser": {"lr": LEARNING_RATE, "microbatch_tokens": 128},
        "tracking": {"console": False},
    }
    for section, values in overrides.items():
        tables[section] = {**tables.get(section, {}), **values}
    return build_trainer(configs.build(tables, source="reference"))


def load_reference_loop() -> Any:
    """Import ``examples/reference_loop.py`` as a module."""
    spec = importlib.util.spec_from_file_location("reference_loop", ROOT / "examples" / "reference_loop.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"examples/reference_loop.py is missing from {ROOT}; run from a full checkout")
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference_loop"] = module
    spec.loader.exec_module(module)
    return module


def _flat(parameters: Iterable[Any]) -> Any:
    import torch

    return torch.cat([parameter.detach().double().reshape(-1) for parameter in parameters])
