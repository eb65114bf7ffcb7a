"""Checkpoints: the complete state of a run on disk. Killing the run leaves finished checkpoints intact."""

from steelyard.checkpoint.store import Checkpoint, Store, Writer, open_checkpoint
from steelyard.checkpoint.tensors import Tree, flatten, load_tree, save_tree, unflatten

__all__ = [
    "Checkpoint",
    "Store",
    "Tree",
    "Writer",
    "flatten",
    "load_tree",
    "open_checkpoint",
    "save_tree",
    "unflatten",
]
