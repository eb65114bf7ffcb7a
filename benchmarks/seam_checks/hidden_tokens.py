"""Tokens that a text cannot show: never sampled, and absent from log-probs, entropy and KL."""

from __future__ import annotations

import tempfile
from functools import cache
from typing import Any

import numpy as np

from benchmarks.seam_checks import SeamCheck

UNUSED = 4
"""Logits that no token stands for, in the model whose scores are checked."""
LIMIT = 8
"""Tokens of a sample in the README's run."""
CUTS = ({}, {"top_k": 10}, {"top_p": 0.9})


def evens(task: Any, text: str) -> float:
    """The README's first checker: as many numbers as requested, all of them even."""
    numbers, count = text.split(), task.spec["count"]
    right = sum(number in "02468" for number in numbers)
    return min(right, count) / max(len(numbers), count)


@cache
def trained(steps: int) -> list[Any]:
    """400 samples of the README's first run after some steps."""
    from steelyard import config as configs
    from steelyard.compose import Supplied, build_trainer
    from steelyard.sampling.base import Decoding
    from steelyard.training.phases import requests_for, sample

    tables = {
        "run": {"folder": tempfile.gettempdir(), "name": "evens", "steps": steps, "supplied": ["tasks", "verifier"]},
        "model": {
            "scratch": {"layers": 2, "width": 64, "max_length": 16, "vocabulary": ["write", *"0123456789"]},
            "device": "cpu",
        },
        "sampling": {"max_new_tokens": LIMIT},
        "optimiser": {"lr": 3e-3},
        "verify": {"pool": "inline"},
        "tracking": {"console": False},
    }
    tasks = [{"prompt": f"write {count}", "count": count} for count in range(2, 7)]
    trainer = build_trainer(configs.build(tables, source="seams"), Supplied(tasks=tasks, verifier=evens))
    for _ in range(steps):
        trainer.train_step()
    drawn = sample(trainer.sampler, requests_for(trainer.source.draw(0, 5), steps, 80), Decoding(max_new_tokens=LIMIT))
    trainer.close()
    return drawn


def steps_of(quick: bool) -> int:
    return 5 if quick else 60


def hiding(quick: bool) -> float:
    """Samples with a sampled token that is neither in the text nor the end."""
    samples = trained(steps_of(quick))
    shown = [len(sample.text.split()) + (sample.finish == "stop") for sample in samples]
    return float(np.mean([len(sample.completion_ids) > count for sample, count in zip(samples, shown, strict=True)]))


def cut_short(quick: bool) -> float:
    """Of the samples reported as truncated, those whose text is shorter than the limit."""
    truncated = [sample for sample in trained(steps_of(quick)) if sample.finish == "length"]
    return float(np.mean([len(sample.text.split()) < LIMIT for sample in truncated])) if truncated else 0.0


def score_gap(quick: bool) -> float:
    """Largest |Δ| of the policy's log-prob, entropy and exact KL, and of the sampler's log-prob, to values worked out
    from the model's own logits on the tokens that a text can show.
    """
    import torch

    from steelyard.policies.causal import CausalPolicy
    from steelyard.policies.reference import CopyReference
    from steelyard.policies.scratch import Architecture, closed_vocabulary_tokenizer, scratch_model
    from steelyard.sampling.base import Decoding, SampleRequest
    from steelyard.sampling.local import LocalSampler
    from steelyard.types import CutRule, Task

    words = [f"w{number}" for number in range(25)]
    tokenizer = closed_vocabulary_tokenizer(words)
    model = scratch_model(Architecture(2, 64, 2, 1, max_length=64), tokenizer, 0)
    model.resize_token_embeddings(len(tokenizer) + UNUSED, mean_resizing=False)
    policy = CausalPolicy(model.double(), tokenizer)
    reference = CopyReference(policy)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(number)
            parameter.mul_(3).add_(0.02 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    shown_S = torch.tensor([tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(words)])
    worst = 0.0
    for cut in CUTS:
        rule = CutRule(0.9, **cut)
        requests = [SampleRequest(Task("t", "w1 w2"), 0, slot, 4) for slot in range(2 if quick else 8)]
        samples = list(LocalSampler(policy, seed=0).sample(requests, Decoding(rule, 16)))
        batch = policy.collate(samples)
        with torch.no_grad():
            scores = policy.evaluate(batch, reference)
            own_NS, other_NS = (
                one(input_ids=batch.input_ids).logits[batch.row_N, batch.column_N][:, shown_S] / rule.temperature
                for one in (model, reference._copy.model)
            )
        if batch.supports is not None:
            blocked_NS = batch.supports.blocked(slice(None), policy.vocabulary)[:, shown_S]
            own_NS, other_NS = (one.masked_fill(blocked_NS, -1e30) for one in (own_NS, other_NS))
        logp_NS, other_NS = own_NS.log_softmax(-1), other_NS.log_softmax(-1)
        p_NS = logp_NS.exp()
        drawn_NS = batch.token_N[:, None] == shown_S
        logp_N = torch.where(drawn_NS.any(-1), (drawn_NS * logp_NS).sum(-1), -torch.inf)
        behaviour_N = torch.from_numpy(np.concatenate([sample.decisions.logp_N for sample in samples]))
        entropy_N, kl_N = -(p_NS * logp_NS).sum(-1), (p_NS * (logp_NS - other_NS)).sum(-1)
        pairs = ((scores.logp_N, logp_N), (behaviour_N, logp_N), (scores.entropy_N, entropy_N), (scores.kl_N, kl_N))
        gaps = [(found - true)[torch.isfinite(true)].abs().max() for found, true in pairs]
        worst = max(worst, *map(float, gaps))
    return worst


CHECKS = (
    SeamCheck("hidden tokens", "samples with a token that the text hides", 0.99, hiding, "<=", 0.0),
    SeamCheck("hidden tokens", "truncated samples whose text is shorter than the limit", 1.0, cut_short, "<=", 0.0),
    SeamCheck("hidden tokens", "log-probs, entropy, KL: max |Δ| on shown tokens", 1.0, score_gap, "<=", 1e-5, "nat"),
)
