"""Memory arithmetic: how many bytes a model and its training need.

Training uses this package to choose microbatches and precision; ``steelyard doctor`` and ``steelyard plan`` use it to
predict what fits. The arithmetic is plain Python; torch is imported only to read the shape of a model that is not in
the table.
"""
