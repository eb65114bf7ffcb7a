"""Pretrained models without a model hub: small models from PyPI and GGUF files."""
