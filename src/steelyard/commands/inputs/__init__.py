"""Inputs shared by several commands: runs and models, artifact files, sampled groups, and the machine itself."""
