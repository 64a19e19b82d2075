"""Frames of embedded values: a `.b2e` file, and `embed.b2e` within the other stores.

One frame holds many values, and its map says which bytes belong to which key. This package appends to it, changes and
rewrites it; it does not know the pending changes of a store.
"""

__all__ = ["append", "backend", "changes", "file", "frame_layout", "frame_map"]
