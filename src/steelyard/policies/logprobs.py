r"""Computes the log-prob, entropy and exact KL of decisions on their supports, in chunks.

A decision with logits z, temperature T and support S has the distribution

    log p_v = z_v / T - logsumexp_{u in S} z_u / T   for v in S,   p_v = 0 elsewhere,

which gives the log-prob of the sampled token, the entropy :math:`H = -\sum_{v \in S} p_v \log p_v`, and, with a
reference q on the same support and temperature, the exact :math:`KL(p \| q) = \sum_{v \in S} p_v (\log p_v - \log
q_v)`.

No ``[B, T, V]`` tensor is ever created: hidden states of decisions go through the output layer in chunks, the forward
pass stores nothing of size V, and the backward pass recomputes a chunk's logits and uses

    d log p_y / dz_v = (1[v = y] - p_v) / T
    d H / dz_v       = -p_v (log p_v + H) / T
    d KL / dz_v      = p_v (log p_v - log q_v - KL) / T.

With blocked tokens, p is computed by a softmax, because ``exp`` on a CPU is five times slower when it underflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from steelyard.policies.batch import Batch

OFF_SUPPORT = -1e30
"""Used instead of minus infinity: its exponential is exactly 0, and 0 times it is 0, not NaN."""

Head = Callable[[Tensor], Tensor]
"""Output layer: hidden ``[C, D]`` -> logits ``[C, V]``."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probs, entropies and optionally KL of a batch's decisions."""

    logp_N: Tensor
    entropy_N: Tensor
    kl_N: Tensor | None = None
    """Exact KL to the reference, if one was given."""


@dataclass(frozen=True, slots=True)
class ScoringJob:
    """The scoring inputs that have no gradient."""

    batch: Batch
    head: Head
    chunk: int
    reference_head: Head | None = None
    reference_hidden_ND: Tensor | None = None
    complete: bool = True
    """Whether to compute entropy and KL, which need the complete distribution, in addition to log-probs."""
    excluded_X: Tensor | None = None
    """Tokens that both heads set to minus infinity."""

    def chunks(self) -> list[slice]:
        return [slice(at, at + self.chunk) for at in range(0, self.batch.decisions, self.chunk)]

    def blocked(self, rows: slice, vocabulary: int) -> Tensor | None:
        return None if self.batch.supports is None else self.batch.supports.blocked(rows, vocabulary)

    def log_distribution(self, logits_CV: Tensor, rows: slice, blocked_CV: Tensor | None) -> Tensor:
        """Return log p on the support at the temperature, in at least float32; ``OFF_SUPPORT`` elsewhere."""
        dtype = torch.promote_types(logits_CV.dtype, torch.float32)
        temperature_C1 = self.batch.temperature_N[rows, None].to(dtype)
        scaled_CV = logits_CV.to(dtype) if (temperature_C1 == 1).all() else logits_CV.to(dtype) / temperature_C1
        if blocked_CV is not None:
            own = scaled_CV is not logits_CV  # do not overwrite the caller's logits
            fill = scaled_CV.masked_fill_ if own else scaled_CV.masked_fill
            scaled_CV = fill(blocked_CV, OFF_SUPPORT)
        logp_CV = torch.log_softmax(scaled_CV, dim=-1)
        return logp_CV if self.excluded_X is None else logp_CV.index_fill_(-1, self.excluded_X, OFF_SUPPORT)

    def reference(self, rows: slice, blocked_CV: Tensor | None) -> Tensor | None:
        if self.reference_hidden_ND is None or self.reference_head is None:
            return None
        with torch.no_grad():
            return self.log_distribution(self.reference_head(self.reference_hidden_ND[rows]), rows, blocked_CV)


class _ChunkedScores(torch.autograd.Function):
    """(job, hidden, output-layer parameters) -> log-prob, entropy and KL of every decision."""

    @staticmethod
    def forward(ctx: Any, job: ScoringJob, hidden_ND: Tensor, *head_parameters: Tensor) -> tuple[Tensor, ...]:
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for rows in job.chunks():
            logits_CV = job.head(hidden_ND[rows])
            blocked_CV = job.blocked(rows, logits_CV.shape[-1])
            logp_CV = job.log_distribution(logits_CV, rows, blocked_CV)
            del logits_CV
            logp_C = logp_CV.gather(-1, job.batch.token_N[rows, None])[:, 0]
            entropy_C = kl_C = torch.zeros_like(logp_C)
            if job.complete:
                p_CV = logp_CV.exp() if blocked_CV is None else torch.softmax(logp_CV, dim=-1)
                entropy_C = -torch.linalg.vecdot(p_CV, logp_CV)
                reference_CV = job.reference(rows, blocked_CV)
                kl_C = kl_C if reference_CV is None else torch.linalg.vecdot(p_CV, logp_CV - reference_CV)
            parts.append((logp_C, entropy_C, kl_C))
        ctx.job, ctx.head_parameters = job, head_parameters
        logp_N, entropy_N, kl_N = (torch.cat(column) for column in zip(*parts, strict=True))
        ctx.save_for_backward(hidden_ND, entropy_N, kl_N)
        return logp_N, entropy_N, kl_N

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        job: ScoringJob = ctx.job
        hidden_ND, entropy_N, kl_N = ctx.saved_tensors
        trained = [p for p in ctx.head_parameters if p.requires_grad]
        grad_hidden_ND = torch.zeros_like(hidden_ND)
        grad_trained = [torch.zeros_like(p) for p in trained]
        for rows in job.chunks():
            with torch.enable_grad():
                hidden_CD = hidden_ND[rows].detach().requires_grad_()
                logits_CV = job.head(hidden_CD)
            grad_logits_CV = _logit_gradient(job, rows, logits_CV.detach(), entropy_N, kl_N, gradients)
            grads = torch.autograd.grad(logits_CV, [hidden_CD, *trained], grad_logits_CV.to(logits_CV.dtype))
            grad_hidden_ND[rows] = grads[0]
            for index, grad in enumerate(grads[1:]):
                grad_trained[index] += grad
        by_parameter = iter(grad_trained)
        return None, grad_hidden_ND, *(next(by_parameter) if p.requires_grad else None for p in ctx.head_parameters)


def _logit_gradient(
    job: ScoringJob, rows: slice, logits_CV: Tensor, entropy_N: Tensor, kl_N: Tensor, gradients: tuple[Tensor, ...]
) -> Tensor:
    """Compute the closed-form gradient (see the module docstring) for one chunk."""
    grad_logp_C, grad_entropy_C, grad_kl_C = (gradient[rows] for gradient in gradients)
    blocked_CV = job.blocked(rows, logits_CV.shape[-1])
    logp_CV = job.log_distribution(logits_CV, rows, blocked_CV)
    weight_CV: Tensor = grad_logp_C[:, None]
    if bool(grad_entropy_C.any()):
        weight_CV = weight_CV + grad_entropy_C[:, None] * (logp_CV + entropy_N[rows, None])
    reference_CV = job.reference(rows, blocked_CV) if bool(grad_kl_C.any()) else None
    if reference_CV is not None:
        weight_CV = weight_CV - grad_kl_C[:, None] * (logp_CV - reference_CV - kl_N[rows, None])
    p_CV = logp_CV.exp_() if blocked_CV is None else torch.softmax(logp_CV, dim=-1)
    grad_CV = p_CV.mul_(weight_CV).neg_()
    grad_CV.scatter_add_(-1, job.batch.token_N[rows, None], grad_logp_C[:, None])
    return grad_CV.div_(job.batch.temperature_N[rows, None].to(grad_CV.dtype))


def score_decisions(job: ScoringJob, hidden_ND: Tensor, head_parameters: list[Tensor]) -> Scores:
    """Compute the log-prob, entropy and (with a reference) exact KL of every decision, differentiably."""
    logp_N, entropy_N, kl_N = _ChunkedScores.apply(job, hidden_ND, *head_parameters)
    return Scores(logp_N, entropy_N, kl_N if job.reference_hidden_ND is not None else None)
