"""Tasks, and sources that provide them."""

from steelyard.data.base import Source, SourceContext
from steelyard.data.files import load_tasks
from steelyard.data.jsonl import as_jsonl
from steelyard.data.sources import (
    GeneratedSource,
    ListSource,
    MixtureSource,
    as_source,
    domain_source,
    domain_tasks,
)
from steelyard.data.tasks import as_tasks, split

__all__ = [
    "GeneratedSource",
    "ListSource",
    "MixtureSource",
    "Source",
    "SourceContext",
    "as_jsonl",
    "as_source",
    "as_tasks",
    "domain_source",
    "domain_tasks",
    "load_tasks",
    "split",
]
