"""The reward of a theory and the criterion of success."""
