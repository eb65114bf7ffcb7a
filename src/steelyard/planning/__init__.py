"""Capacity planning for ``steelyard plan``: predicts memory and step time of a run before it starts.

``hardware`` describes accelerators, ``work`` counts operations and bytes, ``rates`` converts them to seconds,
``simulation`` runs sampling, verification and learning against each other, and ``plan`` combines all of it. Nothing at
run time imports this package; the memory arithmetic that training needs is in ``steelyard.memory``.
"""
