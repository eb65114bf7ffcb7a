"""Verifier pools, the sandbox and the verdict cache: faults, escapes and throughput."""
