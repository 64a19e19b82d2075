"""Leaves of an archive: opening one, reading one, and reading many together, without making objects for each.

The fast ways of stores; whatever they cannot do, `blosc2._stores` does.
"""

__all__ = [
    "handles", "leaf_batch", "leaf_lookup", "leaf_pattern", "leaf_reader",
]  # fmt: skip
