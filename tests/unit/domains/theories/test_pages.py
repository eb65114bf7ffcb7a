"""The code examples in docs/theories.md run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from steelyard.domains.theories.model.known_models import models
from steelyard.domains.theories.physics.anomalies import is_anomaly_free

PAGE = Path(__file__).parents[4] / "docs" / "theories.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_examples_run(capsys: Any) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE):
        exec(compile(block, str(PAGE), "exec"), names)
    assert "free of anomalies" in capsys.readouterr().out
    assert is_anomaly_free(names["vectorlike"])
    assert set(names["files"]) == {"SM.m", "particles.m", "parameters.m"}


def test_the_number_of_known_models() -> None:
    assert f"the {len(models())} models of `known_models.py`" in TEXT
