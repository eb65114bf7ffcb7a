"""Success rate of the bricks domain's warm-start examples."""

from __future__ import annotations

import itertools
from collections import Counter

from steelyard.domains.bricks.domain import Bricks


def success_by_kind(domain: Bricks, count: int, *, seed: int = 0) -> dict[str, tuple[int, int]]:
    """Verify the first ``count`` examples and return (successes, examples) for each kind of brief."""
    successes, examples, score = Counter[str](), Counter[str](), domain.scorer()
    for task, text in itertools.islice(domain.examples(seed=seed), count):
        kind = str(task.spec["kind"])
        examples[kind] += 1
        successes[kind] += score(task, text).success
    return {kind: (successes[kind], examples[kind]) for kind in examples}
