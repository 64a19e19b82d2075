"""Arrays of chunks and blocks: how a shape is divided, and reading and writing what a selection touches.

A selection arrives as plain numbers; `blosc2._indexing` handles NumPy keys. `gaps` is
about the bytes between the fields of items.
"""
