"""Learning from a verifiable reward, with small and pretrained models."""
