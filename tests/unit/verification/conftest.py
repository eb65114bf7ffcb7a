"""Fixtures that create items to verify."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from steelyard.types import Decisions, FinishReason, Prompt, Sample, SampleKey, Task
from steelyard.verification import Item

MakeItem = Callable[..., Item]


@pytest.fixture
def item() -> MakeItem:
    """A factory: ``item("text")`` returns an item with that text; further arguments set the task and the sample."""

    def make(
        text: str = "x",
        *,
        prompt: Prompt = "p",
        key: tuple[int, ...] = (0, 0, 0, 0),
        of: int = 1,
        finish: FinishReason = "stop",
        **spec: object,
    ) -> Item:
        none = np.zeros(0, np.int32)
        decisions = Decisions(none, none, np.zeros(0, np.float32))
        token_ids = np.asarray([1, 2, 3, 4, 5], np.int32)
        sample = Sample(SampleKey(*key), token_ids, 2, text, finish, decisions)
        return Item(Task(f"task-{key[1]}", prompt, spec), sample, of)

    return make


@pytest.fixture
def group(item: MakeItem) -> Callable[..., list[Item]]:
    """A factory that returns one item per text, all in the same group."""

    def make(*texts: str, slot: int = 0, of: int = 0, **settings: object) -> list[Item]:
        return [
            item(text, key=(0, slot, 0, index), of=of or len(texts), **settings) for index, text in enumerate(texts)
        ]

    return make
