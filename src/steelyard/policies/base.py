"""The base class of policies: a transformers model, and the scoring of decisions on their supports."""

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
from steelyard.memory.footprint import default_chunk, default_microbatch_tokens
from steelyard.policies import adapters, cuts, device, weights
from steelyard.policies.batch import Batch
from steelyard.policies.logprobs import Scores, ScoringJob, score_decisions
from steelyard.policies.positions import positions
from steelyard.policies.tokens.excluded import excluded_ids
from steelyard.types import CutRule, Prompt, Sample, SampleKey, Task

Pass = Callable[..., Any]
"""``(work, *arguments) -> work(*arguments)``, with all weights gathered during the call."""


def call_directly(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run one pass of a model whose weights are all in this process."""
    return work(*arguments)


class Policy:
    """A model, with or without a PEFT adapter. Logits are computed only for decisions, in chunks.

    A subclass defines how a prompt becomes tokens (``encode``), how samples become rows of a forward pass
    (``collate``), how to get the hidden state of a decision (``hidden``), and how an example answer becomes a sample
    (``sample_from_text``).
    """

    body: nn.Module
    """The part of the model up to the last hidden state."""

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
        """Attention kernels for sampling, and for scoring and updates; None keeps the model's own."""
        self.constraint: Constraint | None = None
        """Constraint on samples; it belongs to the policy so that sampling and scoring use the same supports."""
        self.one_pass: Pass = call_directly
        """Runs the body and head as one forward pass; a sharded model gathers its weights for the duration."""
        self.release_gathered: Callable[[], None] = lambda: None
        self.compute_device: torch.device | None = None
        """Device used for computation if the weights are offloaded to another one."""
        base = adapters.base_model(model)
        self._output: Any = base.get_output_embeddings()
        self._config = base.config
        self._base = base
        self._excluded_names = excluded
        self.excluded = excluded_ids(tokenizer, self.vocabulary, self.end_ids, excluded)
        """Ids that are never sampled: the tokens named in ``excluded`` (default: padding, start, mask) and unused ids.
        """
        self._excluded_X = torch.tensor(self.excluded, dtype=torch.int64)
        self.chunk = chunk or self._default_chunk()
        disable_dropout(model)

    # --- defined by subclasses ------------------------------------------------------------------------------------

    def encode(self, prompt: Prompt) -> np.ndarray:
        """Return the token ids of a prompt."""
        raise NotImplementedError

    def collate(self, samples: Sequence[Sample]) -> Batch:
        raise NotImplementedError

    def hidden(self, batch: Batch) -> Tensor:
        """Return the last hidden state at every decision, ``[N, D]``."""
        raise NotImplementedError

    def sample_from_text(self, task: Task, text: str, key: SampleKey) -> Sample:
        """Convert the text to a sample, as if the policy had produced it for the task."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Return the text of a completion with every sampled token except the one that ended the sample."""
        raise NotImplementedError

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Tokens that end a sample; empty if the length is fixed."""
        return ()

    # --- shared by all policies -----------------------------------------------------------------------------------

    def with_model(self, model: Any) -> Self:
        """Return a policy of the same kind with another model and the same tokenizer."""
        names = self._excluded_names
        return type(self)(model, self.tokenizer, autocast=self.autocast_dtype, chunk=self.chunk, excluded=names)

    @property
    def base(self) -> Any:
        """The transformers model without its adapter."""
        return self._base

    @property
    def device(self) -> torch.device:
        return self._output.weight.device if self.compute_device is None else self.compute_device

    @property
    def vocabulary(self) -> int:
        """Number of logits; a model may have more logits than its tokenizer has tokens."""
        return self._output.weight.shape[0]

    @cached_property
    def vocabulary_digest(self) -> str:
        """SHA-256 of all tokens and their ids. Weights are only valid with the vocabulary they were trained with."""
        tokens = sorted(self.tokenizer.get_vocab().items(), key=lambda token: token[1])
        return hashlib.sha256(json.dumps(tokens).encode()).hexdigest()

    @cached_property
    def max_length(self) -> int | None:
        """Maximum tokens per row, or None if the model does not specify it."""
        return positions(self._base)

    @property
    def attention_kernel(self) -> str:
        """The current attention implementation, by its transformers name."""
        return self._config._attn_implementation

    @property
    def needs_loss_scaling(self) -> bool:
        """Whether gradients pass through float16, where small values underflow."""
        return torch.float16 in (self.autocast_dtype, self._output.weight.dtype)

    def precision(self):
        """Return the mixed-precision context; it does nothing without autocast."""
        return device.autocast(self.device, self.autocast_dtype)

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, with minus infinity for excluded tokens. Sampling, log-probs, entropy and
        KL all start from these logits.
        """
        logits = self.model_logits(hidden)
        return logits.index_fill_(-1, self._excluded_on(logits.device), -torch.inf) if self.excluded else logits

    def model_logits(self, hidden: Tensor) -> Tensor:
        """Return the model's own logits, with the scaling or soft cap of its architecture."""
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
        """Compute each decision's log-prob and entropy on its support, and the exact KL to ``reference`` if given."""
        return Scores(*self.one_pass(self._evaluate, batch, reference))

    def _evaluate(self, batch: Batch, reference: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the scores as plain tensors, because sharding hooks expect a pass to output tensors."""
        reference_hidden_ND, reference_head = (None, None) if reference is None else reference.distribution(batch)
        hidden_ND = self.hidden(batch)
        excluded_X = self._excluded_on(self.device)
        job = ScoringJob(batch, self.head, self.chunk, reference_head, reference_hidden_ND, excluded_X=excluded_X)
        scores = score_decisions(job, hidden_ND, list(self._output.parameters()))
        return scores.logp_N, scores.entropy_N, scores.kl_N

    @torch.no_grad()
    def kept_tokens(self, batch: Batch, rule: CutRule) -> list[Bits]:
        """Return the tokens that the rule keeps at each decision under the current weights, always including the
        sampled one.
        """
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

    def default_microbatch_tokens(self) -> int:
        """Choose the number of tokens per forward and backward pass."""
        config = self._config
        return default_microbatch_tokens(
            config.hidden_size,
            config.num_hidden_layers,
            adapted=self._base is not self.model,
            weight=self._output.weight.element_size(),
            memory=device.memory(self.device) if self.device.type == "cuda" else None,
        )

    def trainable(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, p) for name, p in self.model.named_parameters() if p.requires_grad)

    def train(self, mode: bool = True) -> None:
        """Switch to scoring and updates. Dropout is always 0; train mode only enables gradient checkpointing.

        Scoring and updates share one attention kernel, so old and current log-probs differ only because of the weights.
        """
        self.model.train(mode)
        if self.attention is not None:
            self._base.set_attn_implementation(self.attention[1])

    def sample_mode(self) -> None:
        """Switch to decoding, with the fastest attention kernel."""
        self.model.train(False)
        if self.attention is not None:
            self._base.set_attn_implementation(self.attention[0])

    def release_gathered_weights(self) -> None:
        """Release the weights that were gathered from other ranks."""
        self.release_gathered()

    def save_pretrained(self, folder: Path, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Save the model or PEFT adapter as a folder for ``from_pretrained``, with ``tensors`` as weights if given."""
        given = {} if tensors is None else {"state_dict": dict(tensors)}
        self._suppress_excluded()
        self.model.save_pretrained(folder, **adapters.save_options(self.model), **given)
        self.tokenizer.save_pretrained(folder)

    def save_merged(self, folder: Path) -> None:
        """Save the model with the adapter merged into the weights, in their dtype, as a folder that
        ``AutoModel…from_pretrained`` loads without PEFT.
        """
        self._suppress_excluded()
        merged = adapters.plain_tensors(self.model, rounded=self._output.weight.dtype)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in merged}
        self._base.save_pretrained(folder, state_dict=tensors)
        self.tokenizer.save_pretrained(folder)

    def _suppress_excluded(self) -> None:
        """Make ``generate()`` exclude the same tokens."""
        if (generation := getattr(self._base, "generation_config", None)) is not None:
            generation.suppress_tokens = list(self.excluded) or None

    def load_weights(self, folder: Path) -> None:
        weights.load_into(self.model, folder)

    def require_agreement(self, whole: Tensor, apart: Tensor) -> None:
        """Raise if applying the head to hidden states gives different logits from the complete model."""
        if not torch.allclose(whole.float(), apart.float(), rtol=1e-2, atol=1e-2):
            raise PolicyError(
                f"{self._config.model_type}: this architecture transforms its logits in an unknown way (largest "
                f"difference {(whole - apart).abs().max():.3g}); use another model and report this problem"
            )


def disable_dropout(model: nn.Module) -> None:
    """Set every dropout probability to 0, so that sampling and scoring compute the same function."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        probabilities = [name for name, value in vars(module).items() if "drop" in name and isinstance(value, float)]
        for name in probabilities:
            setattr(module, name, 0.0)
