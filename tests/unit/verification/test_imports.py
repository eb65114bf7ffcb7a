"""Verifiers, domains and data can be imported without torch or the extras, so workers start quickly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import steelyard

PROGRAM = """
import sys
for blocked in ("torch", "transformers", "peft", "safetensors", "datasets", "pyarrow"):
    sys.modules[blocked] = None
import steelyard.verification, steelyard.domains, steelyard.data
from steelyard.types import Decisions, Sample, SampleKey, Task
import numpy as np
domain = steelyard.domains.make_domain("sequences")
task = steelyard.data.domain_source(domain).draw(0, 1)[0]
pool = steelyard.verification.InlinePool(domain.verifier())
none = np.zeros(0, np.int32)
sample = Sample(SampleKey(0, 0, 0, 0), none, 0, task.spec["answer"], "stop", Decisions(none, none, none))
pool.submit([steelyard.verification.Item(task, sample, 1)])
print([verdict.reward for _, verdict in pool.completed(wait=True)])
"""


def test_verification_domains_and_data_work_with_torch_blocked(tmp_path: Path) -> None:
    source = str(Path(steelyard.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": source}
    )
    assert result.stdout.strip() == "[1.0]", result.stderr
