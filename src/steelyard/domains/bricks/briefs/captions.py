"""Caption briefs from a dataset in the schema of StableText2Brick (Pun et al., 2025), for language models.

Columns: ``structure_id``, ``object_id``, ``captions`` (several per structure) and ``bricks`` (the structure in the text
format). Other columns are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

from steelyard.domains.bricks.briefs.base import Brief
from steelyard.domains.bricks.briefs.solid import Solid, iou, solid
from steelyard.domains.bricks.flaws import InvalidStructureError
from steelyard.domains.bricks.structure import Structure, World
from steelyard.domains.bricks.text import parse
from steelyard.errors import DataError, MissingExtraError

WORLD = World()
"""The world used by the dataset."""
COLUMNS = ("structure_id", "object_id", "captions", "bricks")


@dataclass(frozen=True)
class Caption(Brief):
    """An object described in words. Fulfilment is the voxel IoU with the captioned structure; 0.8 is enough.

    All captions of an object belong to the same split.
    """

    kind: ClassVar[str] = "caption"
    enough: ClassVar[float] = 0.8
    caption: str
    bricks: str
    object_id: str
    structure_id: str
    number: int
    """Index of the caption among those of the structure."""

    def __post_init__(self) -> None:
        if not self.caption or not self.bricks:
            raise ValueError(
                f"brief caption: structure {self.structure_id!r} has an empty caption or no bricks; add them "
                "or remove it"
            )

    @property
    def id(self) -> str:
        return f"caption-{self.structure_id}-{self.number}"

    @property
    def split_key(self) -> str:
        return self.object_id

    def words(self) -> tuple[str, ...]:
        raise ValueError(
            "captions are free text, which a policy with a closed vocabulary cannot read; use action='text'"
        )

    def sentence(self) -> str:
        return self.caption

    def title(self) -> str:
        return self.caption

    @property
    def difficulty(self) -> float:
        return float(sum(1 for line in self.bricks.split("\n") if line.strip()))

    @property
    def extent(self) -> tuple[int, int, int]:
        return _target(self.bricks).shape

    @classmethod
    def grid(cls) -> Iterator[Self]:
        """Yield nothing, because captions come from a file (:func:`read_captions`)."""
        return iter(())

    def _measure(self, structure: Structure, form: Solid) -> float:
        return iou(form.filled_XYZ, _target(self.bricks).filled_XYZ)


def read_captions(path: str | Path, *, limit: int | None = None) -> list[Caption]:
    """Read the caption briefs of at most ``limit`` structures from a ``.jsonl`` or ``.parquet`` file."""
    found: list[Caption] = []
    for count, (where, row) in enumerate(_rows(Path(path))):
        if count == limit:
            break
        found.extend(caption_briefs(row, where))
    if not found:
        raise DataError(f"{path}: the file contains no captions; pass another file")
    return found


def caption_briefs(row: Any, where: str) -> list[Caption]:
    """Build one brief per caption of a row; raise a :class:`DataError` that locates the row if it is invalid."""
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected an object, got {type(row).__name__}")
    missing = [name for name in COLUMNS if name not in row]
    if missing:
        raise DataError(f"{where}: column {missing[0]!r} is missing; the row has {sorted(map(str, row))}")
    captions = [row["captions"]] if isinstance(row["captions"], str) else list(row["captions"])
    bricks, name = str(row["bricks"]), str(row["structure_id"])
    try:
        parse(bricks, WORLD, may_float=True)
        return [
            Caption(str(caption), bricks, str(row["object_id"]), name, number)
            for number, caption in enumerate(captions)
        ]
    except (InvalidStructureError, ValueError) as error:
        raise DataError(f"{where}, structure {name}: {error}") from None


def _rows(path: Path) -> Iterable[tuple[str, Any]]:
    readers = {".jsonl": _jsonl_rows, ".parquet": _parquet_rows}
    if path.suffix not in readers:
        raise DataError(f"{path}: captions must be in a file of type {' or '.join(readers)}, not {path.suffix!r}")
    if not path.is_file():
        raise DataError(f"{path}: no such file (working directory: {Path.cwd()})")
    return readers[path.suffix](path)


def _jsonl_rows(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield f"{path}, line {number}", json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}, line {number}: not JSON ({error.msg} at column {error.colno})") from None


def _parquet_rows(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError(f"reading {path.name}", "data") from None
    try:
        file = parquet.ParquetFile(path)
        present = [name for name in COLUMNS if name in file.schema_arrow.names]
        batches = file.iter_batches(columns=present)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a parquet file: {error}") from None
    rows = (row for batch in batches for row in batch.to_pylist())
    for number, row in enumerate(rows, 1):
        yield f"{path}, row {number}", row


@lru_cache(maxsize=4096)
def _target(bricks: str) -> Solid:
    return solid(parse(bricks, WORLD, may_float=True))
