"""Small inputs that require a huge amount of work: counted repeats, doubling references, loops, long lists."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.framework.process import ROOT
from benchmarks.robustness.attack_programs import Attack

MEMORY = 512 << 20
"""Address space allowed on top of what the imports use."""
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
    with suppress(bounds.LengthUnknown):
        getattr(analysis, name, lambda *_: None)(source, *more)
print("done")
"""


def doubled(levels: int) -> dict[str, Any]:
    """Return a schema in which each definition contains the next one twice."""
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
    "nested arrays of at least 1000 items": ("json_schema", array(1000, array(1000, array(1000, {})))),
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
    """Return an attack that analyses a grammar, as a run does before sampling, in a process with little memory."""

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


TEMPLATES = {
    "a chat template with nested loops": (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}1"
    ),
    "a chat template whose text doubles": (
        "{% set s = namespace(t='1 ') %}{% for i in range(60) %}{% set s.t = s.t ~ s.t %}{% endfor %}{{ s.t }}"
    ),
    "a chat template with one endless operation": "{{ 10 ** (10 ** 10) % 7 }}",
    "a chat template that writes 4 million characters": "{{ '1 ' * 2000000 }}",
    "a chat template that loops for some messages": (
        "{% if messages|length > 1 %}{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        "{% endif %}1"
    ),
}
ENCODE = """
import sys
from steelyard.errors import PolicyError
from steelyard.policies.tokens.codec import Codec
from steelyard.policies.scratch import closed_vocabulary_tokenizer
tokenizer = closed_vocabulary_tokenizer(["1"])
codec = Codec(tokenizer, (tokenizer.eos_token_id,), len(tokenizer))
message = {"role": "user", "content": "1"}
tokenizer.chat_template = sys.stdin.read()
try:
    codec.encode((message, message))
except PolicyError as error:
    print("rejected" if "the chat template of" in str(error) else error)
tokenizer.chat_template = "{{ messages[0].content }}"
print(len(codec.encode((message,))))
"""
"""Encodes a prompt with the hostile template, then one with a harmless template."""


def encode(template: str) -> Callable[[Path], str | None]:
    def run(_folder: Path) -> str | None:
        done = run_program(ENCODE, template)
        return None if done.stdout == "rejected\n1\n" else done.stdout + done.stderr[-500:]

    return run


CPU_SECONDS, ABOVE_IMPORT = 20, 600 << 20
FIRST_STEP = """
import json, resource, sys
import steelyard.run
from benchmarks.framework.process import peak_memory, resident_memory
def seconds():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
folder = sys.stdin.read()
before, memory = seconds(), resident_memory()
steelyard.train(
    model={"scratch": {"vocabulary": list("0123456789"), "layers": 1, "width": 32, "heads": 2}, "device": "cpu"},
    tasks={"file": f"{folder}/tasks.jsonl"},
    verifier=lambda task, text: float(text.startswith(task.spec["answer"][0])),
    sampling={"tasks_per_step": 2, "group_size": 2, "max_new_tokens": 4},
    run={"steps": 1, "folder": f"{folder}/run"},
    tracking={"console": False},
)
print(json.dumps([seconds() - before, peak_memory() - memory]))
"""


def a_million_tasks(folder: Path) -> str | None:
    """Measure CPU time, which other load hardly affects, from the imports to the checkpoint after the first step."""
    with (folder / "tasks.jsonl").open("w", encoding="utf-8") as file:
        for number in range(1_000_000):
            row = {"prompt": " ".join(f"{number:06d}"), "answer": str(number * 7), "level": number % 5}
            file.write(json.dumps(row) + "\n")
    done = run_program(FIRST_STEP, str(folder), seconds=600)
    if done.returncode:
        return done.stderr[-500:]
    seconds, memory = json.loads(done.stdout.strip().splitlines()[-1])
    held = seconds <= CPU_SECONDS and memory <= ABOVE_IMPORT
    return None if held else f"the first step took {seconds:.1f} s of CPU time and {memory >> 20} MB above the imports"


def run_program(program: str, given: str, *, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        input=given,
        check=False,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"},
    )


ATTACKS = (
    *(Attack("bounded work", name, analyse(kind, source), quick=False) for name, (kind, source) in GRAMMARS.items()),
    *(Attack("bounded work", name, encode(template), quick=False) for name, template in TEMPLATES.items()),
    Attack("bounded work", "a million tasks", a_million_tasks, quick=False),
)
