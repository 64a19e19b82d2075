"""Arrays of chunks of blocks: what a shape divides into, and reading and writing what a selection touches.

A selection comes in as plain numbers; keys of NumPy are for `blosc2._indexing`.
"""

__all__ = [
    "geometry", "grid", "grid_read", "grid_read_many", "grid_write",
]  # fmt: skip
