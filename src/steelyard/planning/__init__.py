"""What a run will need and how long a step will take, worked out before anything is bought or waited for.

``shape`` and ``hardware`` are what there is; ``memory`` and ``work`` count bytes and operations; ``rates`` turn them
into seconds; ``simulation`` lets the parts run against each other; ``plan`` puts all of it together. Plain arithmetic:
torch is imported only to read the shape of a model that is not in the table.
"""
