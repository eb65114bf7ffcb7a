"""The special tokens of models from scratch, and the roles that tokenizers give to theirs."""

from __future__ import annotations

from typing import Final

PAD: Final = "<pad>"
BOS: Final = "<bos>"
EOS: Final = "<eos>"
MASK: Final = "<mask>"
SPECIAL_TOKENS: Final = (PAD, BOS, EOS)
"""They come first in every closed vocabulary; a masked model has MASK after them."""
INPUT_ROLES: Final = ("pad", "bos", "cls", "mask")
"""Roles of special tokens that belong to a model's input alone: padding, start and mask."""
UNKNOWN: Final = "[UNK]"
"""The token that a closed vocabulary lacks: ``tokenizers`` names it in its error for a word outside the vocabulary."""
