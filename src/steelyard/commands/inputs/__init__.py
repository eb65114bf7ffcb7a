"""Inputs that several commands share: runs and models, artifact files, sampled groups, and the machine itself."""
