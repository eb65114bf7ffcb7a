"""Tokens and prompts of policies: encoding, chat templates, and tokens that are never sampled."""
