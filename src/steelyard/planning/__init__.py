"""Capacity planning for ``steelyard plan``: predicts the memory and step time of a run before it starts.

``hardware`` describes accelerators, ``work`` counts operations and bytes, ``rates`` converts them to seconds,
``simulation`` simulates sampling, verification and learning together, and ``plan`` combines these parts. Nothing at
run time imports this package; the memory arithmetic that training needs is in ``steelyard.memory``.
"""
