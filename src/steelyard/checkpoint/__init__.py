"""The store: the whole state of a run on disk, written so that a kill at any instant leaves a whole checkpoint."""

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
