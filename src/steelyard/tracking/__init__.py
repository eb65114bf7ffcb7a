"""Metrics and samples of a run: written to a file, and shown on the console, in TensorBoard and in Weights & Biases."""

from steelyard.tracking.activity import Activity, Report, silent
from steelyard.tracking.artifacts import ArtifactTracker
from steelyard.tracking.base import Histogram, Metric, Tracker, Trackers
from steelyard.tracking.charts import ChartTracker, run_chart
from steelyard.tracking.console import ConsoleTracker
from steelyard.tracking.jsonl import METRICS, JsonlTracker, read_metrics
from steelyard.tracking.shown import ShownSample, select_samples

__all__ = [
    "METRICS",
    "Activity",
    "ArtifactTracker",
    "ChartTracker",
    "ConsoleTracker",
    "Histogram",
    "JsonlTracker",
    "Metric",
    "Report",
    "ShownSample",
    "Tracker",
    "Trackers",
    "read_metrics",
    "run_chart",
    "select_samples",
    "silent",
]
