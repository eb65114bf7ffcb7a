"""Steelyard trains a model to make things that a program can check."""
