"""Pretrained models that need no model hub: small ones from PyPI by name, and GGUF files."""
