"""Small and pretrained models learn from a verifiable reward."""
