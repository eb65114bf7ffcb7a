"""How pytest-xdist divides the tests: those of one engine run in one process, any other goes to a process that is free.

Two Ray clusters next to each other on two cores would take minutes for what one does in seconds. (pytest-xdist has a
marker for such groups, ``xdist_group``. It renames tests through an attribute that pytest 9.2 does not have.)
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
    """The largest groups come first, so the engines start at the beginning."""

    def _split_scope(self, nodeid: str) -> str:
        return ENGINES.get(nodeid.partition("::")[0], nodeid)
