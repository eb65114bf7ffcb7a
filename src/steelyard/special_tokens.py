"""Special tokens of models trained from scratch, and the roles of special tokens in any tokenizer."""

from __future__ import annotations

from typing import Final

PAD: Final = "<pad>"
BOS: Final = "<bos>"
EOS: Final = "<eos>"
MASK: Final = "<mask>"
SPECIAL_TOKENS: Final = (PAD, BOS, EOS)
"""The first tokens of every closed vocabulary; masked models add MASK after them."""
INPUT_ROLES: Final = ("pad", "bos", "cls", "mask")
"""Roles of the special tokens that occur only in a model's input: padding, start and mask."""
UNKNOWN: Final = "[UNK]"
"""The unknown token, which closed vocabularies lack. ``tokenizers`` names it in errors about unknown words."""
