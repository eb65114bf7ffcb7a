"""Small inputs that ask for a great deal of work: counted repeats, references that double."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.attack_programs import Attack
from benchmarks.process import ROOT

MEMORY = 512 << 20
"""Address space beyond what the imports take."""
SECONDS = 120
MEASURE = f"""
import json, resource, sys
from contextlib import suppress
from pathlib import Path
from steelyard.constraints import bounds
kind, source = json.loads(sys.stdin.read())
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + {MEMORY}
resource.setrlimit(resource.RLIMIT_AS, (most, most))
analysis = getattr(bounds, kind)
for name, *more in (["shortest"], ["longest"], ["bound", 1000]):
    with suppress(bounds.CannotTell):
        getattr(analysis, name, lambda *_: None)(source, *more)
print("done")
"""


def doubled(levels: int) -> dict[str, Any]:
    """A schema of which each definition holds the next one twice."""
    names = [f"d{level}" for level in range(levels)]
    pairs = itertools.pairwise(names)
    definitions: dict[str, Any] = {
        name: {"type": "array", "prefixItems": [{"$ref": f"#/$defs/{inner}"}] * 2, "minItems": 2, "items": False}
        for name, inner in pairs
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, names[-1]: {"type": "integer"}}}


def array(least: int, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least}


GRAMMARS: dict[str, tuple[str, Any]] = {
    "a JSON schema with minItems of 1e9": ("json_schema", array(10**9, {"type": "integer"})),
    "a JSON schema with maxItems of 1e9": ("json_schema", {**array(0, {"type": "integer"}), "maxItems": 10**9}),
    "a JSON schema with minLength of 1e10": ("json_schema", {"type": "string", "minLength": 10**10}),
    "arrays of at least 1000 items in one another": ("json_schema", array(1000, array(1000, array(1000, {})))),
    "definitions that double 60 times": ("json_schema", doubled(60)),
    "a pattern with nested counts": ("regex", "(((a{1000}){1000}){1000}){1000}"),
    "a pattern with many counts": ("regex", "a{4000000}" * 1000),
    "a schema whose pattern has nested counts": (
        "json_schema",
        {"type": "string", "pattern": "^((a{1000}){1000}){1000}$"},
    ),
    "a Lark grammar that repeats 1e9 times": ("lark", 'start: "a"{1000000000}'),
    "a Lark grammar that doubles 60 times": (
        "lark",
        "start: r0\n" + "".join(f"r{level}: r{level + 1} r{level + 1}\n" for level in range(60)) + 'r60: "a"',
    ),
}


def analyse(kind: str, source: Any) -> Callable[[Path], str | None]:
    """In a process of little memory, as before the first sample of a run."""

    def run(_folder: Path) -> str | None:
        done = subprocess.run(
            [sys.executable, "-c", MEASURE],
            input=json.dumps([kind, source]),
            check=False,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        )
        return None if done.stdout == "done\n" else (done.stderr.strip().splitlines() or ["killed"])[-1]

    return run


ATTACKS = tuple(
    Attack("bounded work", name, analyse(kind, source), quick=False) for name, (kind, source) in GRAMMARS.items()
)
