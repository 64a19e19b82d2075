"""Leaves of an archive: opening one, reading one, and reading many together, without making objects for each.

The fast ways of stores; whatever they cannot do, `blosc2._stores` does.
"""

__all__ = [
    "leaf_batch", "leaf_lookup", "leaf_reader", "leaf_template", "weak_cache",
]  # fmt: skip
