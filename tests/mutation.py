"""Mutation tests of `steelyard.algorithms`: does a test fail when a formula is changed?

    python tests/mutation.py             start over with all mutants (a quarter of an hour on one free core)
    python tests/mutation.py --resume    continue a stopped run
    python tests/mutation.py --report    only report on the last run

mutmut changes one operator, number, name or string at a time and runs the tests that reach it. docs/mutation.md lists
the survivors that are equivalent to the original, with the reason. At least 90% of the other mutants must be killed,
and a survivor that is not listed fails the run. Settings: ``[tool.mutmut]`` in pyproject.toml.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
BAR = 0.9


def run_mutmut(*, start_over: bool) -> None:
    import pytest
    from mutmut.__main__ import cli

    if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 uses a private name that pytest 9.2 no longer has
        pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]
    if start_over:
        shutil.rmtree(ROOT / "mutants", ignore_errors=True)
    cli(["run", "--max-children", "1"], standalone_mode=False)


def statuses() -> dict[str, str]:
    """Return the status of every mutant by name."""
    from mutmut.stats import status_by_exit_code

    found: dict[str, str] = {}
    for path in sorted((ROOT / "mutants/src/steelyard/algorithms").glob("*.meta")):
        codes: dict[str, int | None] = json.loads(path.read_text())["exit_code_by_key"]
        found.update({name.removeprefix("steelyard.algorithms."): status_by_exit_code[c] for name, c in codes.items()})
    return found


def report(found: dict[str, str]) -> bool:
    """Print the score and every survivor that docs/mutation.md does not list; return whether the run passes."""
    page = (ROOT / "docs/mutation.md").read_text()
    survivors = [name for name, status in found.items() if status not in ("killed", "timeout")]
    equivalent = [name for name in survivors if f"`{name}`" in page]
    unlisted = [name for name in survivors if name not in equivalent]
    for name in unlisted:
        print(f"{found[name]}: {name}   (mutmut show 'steelyard.algorithms.{name}')")
    killed = len(found) - len(survivors)
    score = killed / max(1, len(found) - len(equivalent))
    print(f"{dict(Counter(found.values()))}, {len(equivalent)} survivors are listed as equivalent")
    print(f"mutation score {score:.3f} of {len(found) - len(equivalent)} non-equivalent mutants (bar {BAR})")
    return score >= BAR and not unlisted


def main() -> None:
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"  # mutmut forks, which is unsafe after threads have started
    if "--report" not in sys.argv:
        run_mutmut(start_over="--resume" not in sys.argv)
    sys.exit(not report(statuses()))


if __name__ == "__main__":
    main()
