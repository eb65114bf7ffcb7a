"""Tokens and prompts for policies: encoding, chat templates, and tokens that are never sampled."""
