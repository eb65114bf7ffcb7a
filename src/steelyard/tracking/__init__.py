"""Sight: metrics and samples out of a run, to a file (always), the screen, TensorBoard and Weights & Biases."""

from steelyard.tracking.activity import Activity, Report, silent
from steelyard.tracking.artifacts import ArtifactTracker
from steelyard.tracking.base import Histogram, Metric, Tracker, Trackers
from steelyard.tracking.console import ConsoleTracker
from steelyard.tracking.jsonl import JsonlTracker, read_metrics
from steelyard.tracking.shown import ShownSample, choose_shown

__all__ = [
    "Activity",
    "ArtifactTracker",
    "ConsoleTracker",
    "Histogram",
    "JsonlTracker",
    "Metric",
    "Report",
    "ShownSample",
    "Tracker",
    "Trackers",
    "choose_shown",
    "read_metrics",
    "silent",
]
