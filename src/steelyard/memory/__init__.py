"""Memory arithmetic: how many bytes a model and its training take.

Training uses it to choose microbatches and precision, ``steelyard doctor`` and ``steelyard plan`` to predict what fits.
Only plain arithmetic: torch is imported only to read the shape of a model that is not in the table.
"""
