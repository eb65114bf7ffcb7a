"""Distributes tests over pytest-xdist workers: tests that share an engine share a process; others run anywhere.

Two Ray clusters on two cores would take minutes for what one cluster does in seconds. pytest-xdist's marker for such
groups, ``xdist_group``, renames tests through an attribute that pytest 9.2 does not have.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

ENGINES = {
    "tests/e2e/test_cluster.py": "ray",
    "tests/faults/test_learner_group.py": "ray",
    "tests/faults/test_ray_pool.py": "ray",
    "tests/faults/test_ray_samplers.py": "ray",
    "tests/unit/sampling/test_serving.py": "vllm",
    "tests/unit/sampling/test_vllm.py": "vllm",
}


class ByEngine(LoadScopeScheduling):
    """Groups tests by engine; pytest-xdist starts with the largest groups, so the engines start first."""

    def _split_scope(self, nodeid: str) -> str:
        return ENGINES.get(nodeid.partition("::")[0], nodeid)
