"""How good the builder's examples are: the share that a warm start begins from."""

from __future__ import annotations

import itertools
from collections import Counter

from steelyard.domains.bricks.domain import Bricks


def success_by_kind(domain: Bricks, count: int, *, seed: int = 0) -> dict[str, tuple[int, int]]:
    """(successes, all) for each kind among the first ``count`` examples, judged as samples are."""
    right, asked, judge = Counter[str](), Counter[str](), domain.judge()
    for task, text in itertools.islice(domain.examples(seed=seed), count):
        kind = str(task.spec["kind"])
        asked[kind] += 1
        right[kind] += judge(task, text).success
    return {kind: (right[kind], asked[kind]) for kind in asked}
