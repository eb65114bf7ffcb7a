"""Clusters, vLLM, several learner ranks, asynchronous steps, and capacity planning."""
