"""What every policy shares: a transformers model, and the scoring of decisions on their supports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from steelyard.constraints.base import Bits, Constraint
from steelyard.errors import PolicyError
from steelyard.memory.footprint import default_chunk, comfortable_tokens
from steelyard.policies import adapters, cuts, device, weights
from steelyard.policies.batch import Batch
from steelyard.policies.logprobs import Scores, ScoringJob, score_decisions
from steelyard.policies.positions import positions
from steelyard.policies.tokens.excluded import excluded_ids
from steelyard.types import CutRule, Prompt, Sample, SampleKey, Task

Pass = Callable[..., Any]
"""``(work, *arguments) -> work(*arguments)``, with all weights at hand meanwhile."""


def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
    """A pass of a model whose weights are all in this process."""
    return work(*arguments)


class Policy:
    """A model, plain or with a PEFT adapter, whose logits are computed for decisions alone, a chunk at a time.

    A kind of policy says how a prompt becomes tokens (``encode``), how samples become rows of a forward pass
    (``collate``), what the hidden state of a decision is (``hidden``), and how a given answer becomes a sample
    (``given``).
    """

    body: nn.Module
    """Everything up to the last hidden state."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        autocast: torch.dtype | None = None,
        chunk: int | None = None,
        attention: tuple[str, str] | None = None,
        excluded: Sequence[str] | None = None,
    ) -> None:
        adapters.require_supported(model)
        self.model = model
        self.tokenizer = tokenizer
        self.autocast_dtype = autocast
        self.attention = attention
        """Attention kernels for sampling and for scoring and updates; None: leave the model's own."""
        self.constraint: Constraint | None = None
        """What samples must look like. It is part of the policy: sampled under it, and scored on the same supports."""
        self.one_pass: Pass = at_once
        """Runs body and head as one forward pass; a sharded model gathers its weights around it."""
        self.give_back: Callable[[], None] = lambda: None
        self.runs_on: torch.device | None = None
        """Where it computes, if its weights rest elsewhere."""
        base = adapters.base_model(model)
        self._output: Any = base.get_output_embeddings()
        self._config = base.config
        self._base = base
        self._excluded_names = excluded
        self.excluded = excluded_ids(tokenizer, self.vocabulary, self.end_ids, excluded)
        """Tokens that are never sampled: ``excluded`` by name, or those that a text cannot show; and unused ids."""
        self._excluded_X = torch.tensor(self.excluded, dtype=torch.int64)
        self.chunk = chunk or self._default_chunk()
        silence_dropout(model)

    # --- what a kind of policy says -------------------------------------------------------------------------------

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Token ids of a prompt."""
        raise NotImplementedError

    def collate(self, samples: Sequence[Sample]) -> Batch:
        raise NotImplementedError

    def hidden(self, batch: Batch) -> Tensor:
        """Last hidden state at every decision, ``[N, D]``."""
        raise NotImplementedError

    def given(self, task: Task, text: str, key: SampleKey) -> Sample:
        """The text as if the policy had made it for the task."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of a completion. It shows every token that was sampled, except the one that ended the sample."""
        raise NotImplementedError

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end a sample; none if the length is given."""
        return ()

    # --- what is the same for all ---------------------------------------------------------------------------------

    def beside(self, model: Any) -> Self:
        """A policy of the same kind around another model with the same tokenizer."""
        names = self._excluded_names
        return type(self)(model, self.tokenizer, autocast=self.autocast_dtype, chunk=self.chunk, excluded=names)

    @property
    def base(self) -> Any:
        """The transformers model, under an adapter or not."""
        return self._base

    @property
    def device(self) -> torch.device:
        return self._output.weight.device if self.runs_on is None else self.runs_on

    @property
    def vocabulary(self) -> int:
        """How many logits there are; a model may have more than its tokenizer has tokens."""
        return self._output.weight.shape[0]

    @cached_property
    def vocabulary_digest(self) -> str:
        """SHA-256 of all tokens with their numbers: the weights mean nothing under another one."""
        tokens = sorted(self.tokenizer.get_vocab().items(), key=lambda token: token[1])
        return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()

    @cached_property
    def longest(self) -> int | None:
        """How many tokens a row may have, None if the model does not say."""
        return positions(self._base)

    @property
    def attention_kernel(self) -> str:
        """The attention implementation in use now, as transformers names it."""
        return self._config._attn_implementation

    @property
    def needs_loss_scaling(self) -> bool:
        """Whether gradients pass through float16, in which small ones vanish."""
        return torch.float16 in (self.autocast_dtype, self._output.weight.dtype)

    def precision(self):
        """Context of mixed precision, or nothing."""
        return device.autocast(self.device, self.autocast_dtype)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits of hidden states, minus infinity for the tokens that are never sampled. Samplers, log-probs, entropy
        and KL all start from here.
        """
        logits = self.model_logits(hidden)
        return logits.index_fill_(-1, self._excluded_on(logits.device), -torch.inf) if self.excluded else logits

    def model_logits(self, hidden: Tensor) -> Tensor:
        """Logits of the model itself, with the scaling or soft cap some architectures apply to them."""
        with self.precision():
            logits = self._output(hidden)
        config = self._config
        if (scale := getattr(config, "logit_scale", None)) is not None:
            logits = logits * scale
        if (divisor := getattr(config, "logits_scaling", None)) is not None:
            logits = logits / divisor
        if (cap := getattr(config, "final_logit_softcapping", None)) is not None:
            logits = torch.tanh(logits / cap) * cap
        return logits

    def evaluate(self, batch: Batch, reference: Any = None) -> Scores:
        """Log-prob and entropy of every decision on its support, and the exact KL to ``reference`` if given."""
        return Scores(*self.one_pass(self._evaluate, batch, reference))

    def _evaluate(self, batch: Batch, reference: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """The scores as plain tensors, which is what sharding looks for in the output of a pass."""
        reference_hidden_ND, reference_head = (None, None) if reference is None else reference.distribution(batch)
        hidden_ND = self.hidden(batch)
        excluded_X = self._excluded_on(self.device)
        job = ScoringJob(batch, self.head, self.chunk, reference_head, reference_hidden_ND, excluded_X=excluded_X)
        scores = score_decisions(job, hidden_ND, list(self._output.parameters()))
        return scores.logp_N, scores.entropy_N, scores.kl_N

    @torch.no_grad()
    def kept(self, batch: Batch, rule: CutRule) -> list[Bits]:
        """What the rule keeps at every decision with the weights as they are now, the drawn token always included."""
        hidden_ND, found = self.hidden(batch), list[Bits]()
        for at in range(0, batch.decisions, self.chunk):
            rows = slice(at, at + self.chunk)
            blocked_CV = None if batch.supports is None else batch.supports.blocked(rows, self.vocabulary)
            scaled_CV = cuts.scaled(self.head(hidden_ND[rows]), rule, blocked_CV)
            _, token_CK, keep_CK = cuts.kept(scaled_CV, rule)
            kept_CV = torch.zeros_like(scaled_CV, dtype=torch.bool)
            kept_CV[keep_CK.nonzero()[:, 0], token_CK[keep_CK]] = True
            kept_CV.scatter_(-1, batch.token_N[rows, None], True)
            found += list(np.packbits(kept_CV.cpu().numpy(), axis=-1, bitorder="little"))
        return found

    def _excluded_on(self, device: torch.device) -> Tensor:
        self._excluded_X = self._excluded_X.to(device)
        return self._excluded_X

    def _default_chunk(self) -> int:
        return default_chunk(self.vocabulary, cpu=self.device.type == "cpu")

    def comfortable_tokens(self) -> int:
        """How many tokens to run forward and backward at once."""
        config = self._config
        return comfortable_tokens(
            config.hidden_size,
            config.num_hidden_layers,
            adapted=self._base is not self.model,
            weight=self._output.weight.element_size(),
            memory=device.memory(self.device) if self.device.type == "cuda" else None,
        )

    def trainable(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, p) for name, p in self.model.named_parameters() if p.requires_grad)

    def train(self, mode: bool = True) -> None:
        """Dropout is silenced; the mode matters only to gradient checkpointing, which works in train mode alone.

        Scoring and updates share one attention kernel, so that old and current log-probs differ by the weights alone.
        """
        self.model.train(mode)
        if self.attention is not None:
            self._base.set_attn_implementation(self.attention[1])

    def sample_mode(self) -> None:
        """Ready to decode, with the attention kernel that is fastest for it."""
        self.model.train(False)
        if self.attention is not None:
            self._base.set_attn_implementation(self.attention[0])

    def settle(self) -> None:
        """Give back what passes have gathered from other ranks."""
        self.give_back()

    def save_pretrained(self, folder: Path, tensors: Mapping[str, Tensor] | None = None) -> None:
        """A folder that ``from_pretrained`` opens (a model, or a PEFT adapter), of ``tensors`` if given."""
        given = {} if tensors is None else {"state_dict": dict(tensors)}
        self._suppress_excluded()
        self.model.save_pretrained(folder, **adapters.save_options(self.model), **given)
        self.tokenizer.save_pretrained(folder)

    def save_merged(self, folder: Path) -> None:
        """A folder that ``AutoModel…from_pretrained`` opens without PEFT: the adapter is merged into the weights, in
        their type.
        """
        self._suppress_excluded()
        merged = adapters.plain_tensors(self.model, rounded=self._output.weight.dtype)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in merged}
        self._base.save_pretrained(folder, state_dict=tensors)
        self.tokenizer.save_pretrained(folder)

    def _suppress_excluded(self) -> None:
        """``generate()`` samples the same policy."""
        if (generation := getattr(self._base, "generation_config", None)) is not None:
            generation.suppress_tokens = list(self.excluded) or None

    def load_weights(self, folder: Path) -> None:
        weights.load_into(self.model, folder)

    def require_agreement(self, whole: Tensor, apart: Tensor) -> None:
        """The head on a hidden state must say what the whole model says."""
        if not torch.allclose(whole.float(), apart.float(), rtol=1e-2, atol=1e-2):
            raise PolicyError(
                f"{self._config.model_type}: this architecture changes its logits in a way Steelyard does not know "
                f"(largest difference {(whole - apart).abs().max():.3g}); please report it"
            )


def silence_dropout(model: nn.Module) -> None:
    """Set every dropout probability to 0: sampling and scoring must be the same function."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        probabilities = [name for name, value in vars(module).items() if "drop" in name and isinstance(value, float)]
        for name in probabilities:
            setattr(module, name, 0.0)
