"""Train a judge: a sequence classifier with one label that learns to distinguish real from generated texts.

The loss is the binary cross-entropy of the logit, with label 1 for real and 0 for generated texts. The score of a text
is the sigmoid of its logit: the probability that the text is real.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from steelyard.algorithms.schedules import Schedule
from steelyard.errors import TrainingError

MICROBATCH_TEXTS = 8
"""Number of texts per forward pass."""
Pairs = tuple[Sequence[str], Sequence[str]]
"""(real, generated) texts."""


def logits_of(model: Any, tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """Return one logit per text; shorter texts are padded on the right."""
    rows = [tokenizer.encode(text) for text in texts]
    width = max(map(len, rows))
    ids_BT = torch.tensor([[*row, *[tokenizer.pad_token_id] * (width - len(row))] for row in rows])
    mask_BT = torch.arange(width)[None, :] < torch.tensor([len(row) for row in rows])[:, None]
    return model(input_ids=ids_BT.to(model.device), attention_mask=mask_BT.to(model.device).long()).logits[:, 0].float()


def train_judge(model: Any, tokenizer: Any, pairs: Iterable[Pairs], lr: Schedule) -> Iterator[tuple[float, float]]:
    """Update the judge once per batch of pairs. Yields the loss and the accuracy before each update.

    Texts are sorted by length within a batch to reduce padding.
    """
    optimiser = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=0.01)
    model.train()
    for step, (real, generated) in enumerate(pairs):
        labelled = sorted(
            [*((text, 1.0) for text in real), *((text, 0.0) for text in generated)], key=lambda pair: len(pair[0])
        )
        total, correct = 0.0, 0
        optimiser.zero_grad(set_to_none=True)
        for start in range(0, len(labelled), MICROBATCH_TEXTS):
            texts, labels = zip(*labelled[start : start + MICROBATCH_TEXTS], strict=True)
            target_B = torch.tensor(labels, device=model.device)
            logit_B = logits_of(model, tokenizer, texts)
            loss = binary_cross_entropy_with_logits(logit_B, target_B, reduction="sum") / len(labelled)
            loss.backward()
            total += float(loss.detach())
            correct += int(((logit_B > 0) == (target_B > 0)).sum())
        if not math.isfinite(total):
            raise TrainingError(f"the judge's loss is {total} at update {step}: lower judge.lr")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = lr.value(step)
        optimiser.step()
        yield total, correct / len(labelled)
    model.eval()
