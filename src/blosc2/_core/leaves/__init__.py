"""Leaves of an archive: opening one, reading one, and reading many together, without making objects for each.

These are the fast paths of stores; `blosc2._stores` does whatever they cannot do.
"""

__all__ = [
    "embedded_values", "leaf_access", "leaf_reader", "leaf_stream", "store_state",
]  # fmt: skip
