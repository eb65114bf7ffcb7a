"""Models that score samples: a sequence classifier, or a causal model's likelihood of the completion.

Both kinds of judge are batch verifiers. The model is loaded at the first call, so a judge is cheap to build and uses
memory only where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from steelyard.errors import PolicyError
from steelyard.policies.device import choose_device, choose_dtype
from steelyard.policies.kernels import reject_hub_kernels
from steelyard.policies.positions import positions
from steelyard.policies.tokens.chat_template import template_ids
from steelyard.pretrained.catalogue import resolve
from steelyard.types import Verdict
from steelyard.verification import BatchMode, Item, Verifier
from steelyard.verification.returns import verdict_of

Kind = Literal["classifier", "likelihood"]


@dataclass(frozen=True, eq=False)
class Judge(Verifier):
    """Base class of judges: the model, its tokenizer, and the conversion of text to token ids."""

    path: str
    """Hub id or folder."""
    name: str = ""
    size: int = 16
    """Items per forward pass."""
    success_at: float | None = None
    floor: float | None = None
    version: str | None = None
    deterministic: bool = True
    isolate: bool = False
    """False: the judge runs in the policy's process, because every worker process would load a copy of the model."""
    device: str = "auto"
    dtype: str = "float32"
    reads_prompt: bool = True
    """Whether the judge reads the prompt before the sample; filled-in text is complete without it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.path.rstrip("/").rsplit("/", 1)[-1])

    @property
    def mode(self) -> BatchMode:
        return BatchMode(self.size)

    def verify(self, items: Sequence[Item]) -> list[Verdict]:
        scores = self.scores(items)
        return [
            verdict_of(score, item.sample.text, floor=self.floor, success_at=self.success_at)
            for score, item in zip(scores, items, strict=True)
        ]

    def scores(self, items: Sequence[Item]) -> list[float | None]:
        raise NotImplementedError

    @cached_property
    def tokenizer(self) -> Any:
        tokenizer = AutoTokenizer.from_pretrained(self.path, trust_remote_code=False)
        if tokenizer.pad_token_id is None:
            if tokenizer.eos_token_id is None:
                raise PolicyError(f"judge {self.path}: the tokenizer has neither pad_token nor eos_token; set one")
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    def load(self, auto: Any) -> Any:
        reject_hub_kernels(self.path)
        model = auto.from_pretrained(self.path, dtype=choose_dtype(self.dtype), trust_remote_code=False)
        return model.to(choose_device(self.device)).eval().requires_grad_(False)

    def template_ids(self, messages: Sequence[Mapping[str, str]], *, answer_next: bool) -> list[int]:
        """Encode chat messages with the judge's own chat template; ``answer_next`` opens the assistant's turn."""
        if self.tokenizer.chat_template is None:
            raise PolicyError(
                f"the tasks are chat messages, but judge {self.path} has no chat template; use another judge"
            )
        return template_ids(self.tokenizer, messages, answer_next=answer_next)

    def padded(self, rows: Sequence[Sequence[int]], model: Any) -> tuple[Tensor, Tensor]:
        """Return the token ids and the mask, padded on the right. Raise if a row exceeds the model's maximum length."""
        limit = positions(model)
        longest = max(map(len, rows))
        if limit is not None and longest > limit:
            raise PolicyError(
                f"the prompt and completion have {longest} tokens, but judge {self.path} reads at most {limit}; lower "
                "sampling.max_new_tokens or choose another judge"
            )
        ids_BT = torch.full((len(rows), longest), self.tokenizer.pad_token_id)
        mask_BT = torch.zeros_like(ids_BT)
        for index, row in enumerate(rows):
            ids_BT[index, : len(row)] = torch.tensor(row)
            mask_BT[index, : len(row)] = 1
        return ids_BT.to(model.device), mask_BT.to(model.device)


@dataclass(frozen=True, eq=False)
class ClassifierJudge(Judge):
    """Scores the prompt and completion with a sequence classifier.

    With one label, the score is the sigmoid of its logit (or the logit itself with ``squash=False``). With several
    labels, the score is the probability of ``label``.
    """

    squash: bool = True
    label: str | int | None = None

    @cached_property
    def model(self) -> Any:
        model = self.load(AutoModelForSequenceClassification)
        if model.config.num_labels > 1 and self.label is None:
            names = ", ".join(map(str, model.config.id2label.values()))
            raise PolicyError(f"judge {self.path} has {model.config.num_labels} labels; set label to one of {names}")
        model.config.pad_token_id = self.tokenizer.pad_token_id
        return model

    @cached_property
    def label_index(self) -> int:
        names = dict(self.model.config.id2label)
        if self.label is None:
            return 0
        for index, name in names.items():
            if self.label in (index, name):
                return int(index)
        raise PolicyError(
            f"judge {self.path}: label = {self.label!r} is unknown; it has {', '.join(map(str, names.values()))}"
        )

    @torch.inference_mode()
    def scores(self, items: Sequence[Item]) -> list[float | None]:
        ids_BT, mask_BT = self.padded([self._ids(item) for item in items], self.model)
        logits_BL = self.model(input_ids=ids_BT, attention_mask=mask_BT).logits.float()
        if logits_BL.shape[1] > 1:
            return logits_BL.softmax(-1)[:, self.label_index].tolist()
        return (logits_BL[:, 0].sigmoid() if self.squash else logits_BL[:, 0]).tolist()

    def _ids(self, item: Item) -> list[int]:
        prompt, text = item.task.prompt, item.sample.text
        if not self.reads_prompt:
            return self.tokenizer.encode(text)
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt + text)
        return self.template_ids([*prompt, {"role": "assistant", "content": text}], answer_next=False)


@dataclass(frozen=True, eq=False)
class LikelihoodJudge(Judge):
    """Scores the completion by a causal model's mean log-likelihood of its tokens given the prompt.

    The end token counts if the sample was not truncated, so stopping at an unlikely point lowers the score. An empty
    completion is scored by its end token only.
    """

    @cached_property
    def model(self) -> Any:
        return self.load(AutoModelForCausalLM)

    @torch.inference_mode()
    def scores(self, items: Sequence[Item]) -> list[float | None]:
        prompts = [self._prompt_ids(item) for item in items]
        completions = [self._completion_ids(item) for item in items]
        rows = [prompt + completion for prompt, completion in zip(prompts, completions, strict=True)]
        ids_BT, mask_BT = self.padded(rows, self.model)
        logits_BTV = self.model(input_ids=ids_BT, attention_mask=mask_BT).logits
        scores: list[float | None] = []
        for index, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            if not completion:
                scores.append(None)
                continue
            start, end = len(prompt), len(prompt) + len(completion)
            logp_NV = logits_BTV[index, start - 1 : end - 1].float().log_softmax(-1)
            scores.append(float(logp_NV.gather(1, ids_BT[index, start:end, None]).mean()))
        return scores

    def _prompt_ids(self, item: Item) -> list[int]:
        prompt = item.task.prompt
        if not self.reads_prompt:
            return self._start_ids()
        if not isinstance(prompt, str):
            return self.template_ids(prompt, answer_next=True)
        ids = self.tokenizer.encode(prompt)
        if not ids:
            raise PolicyError(
                f"task {item.task.id}: judge {self.path} tokenises the prompt to nothing; use a non-empty prompt"
            )
        return ids

    def _start_ids(self) -> list[int]:
        if self.tokenizer.bos_token_id is None:
            raise PolicyError(
                f"judge {self.path} has no bos_token, which it needs to score text without its prompt; use "
                "another judge"
            )
        return [self.tokenizer.bos_token_id]

    def _completion_ids(self, item: Item) -> list[int]:
        ids, end = self.tokenizer.encode(item.sample.text, add_special_tokens=False), self.tokenizer.eos_token_id
        return [*ids, end] if end is not None and (not item.sample.truncated or not ids) else list(ids)


KINDS: dict[str, type[Judge]] = {"classifier": ClassifierJudge, "likelihood": LikelihoodJudge}


def build_judge(path: str, kind: Kind, **settings: Any) -> Verifier:
    """Build a judge of the given kind; settings that are ``None`` keep their defaults."""
    if kind not in KINDS:
        raise PolicyError(f"judge {path}: kind = {kind!r} is unknown; choose one of {', '.join(KINDS)}")
    return KINDS[kind](resolve(path), **{name: value for name, value in settings.items() if value is not None})
