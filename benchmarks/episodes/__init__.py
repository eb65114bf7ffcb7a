"""Benchmarks of episodes: several turns, tools and environments."""
