"""Turns reports of ``pip install --report`` into a requirements file that pins every release with its hash.

python .ci/lock.py REPORT.json… > LOCK.txt
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def pinned(item: dict[str, Any]) -> str | None:
    """The line for one installed package; None for the project itself, which has no archive."""
    archive = item["download_info"].get("archive_info")
    if archive is None:
        return None
    metadata = item["metadata"]
    return f"{metadata['name'].lower()}=={metadata['version']} --hash=sha256:{archive['hashes']['sha256']}"


def main(paths: list[str]) -> None:
    items = [item for path in paths for item in json.loads(Path(path).read_text(encoding="utf-8"))["install"]]
    print("# Written by `.ci/run renew`: Python 3.11 on 64-bit Linux.")
    print("\n".join(sorted({line for item in items if (line := pinned(item))})))


if __name__ == "__main__":
    main(sys.argv[1:])
