"""Frames of embedded values: a `.b2e` file, and `embed.b2e` within the other stores.

One frame holds many, and its map says which bytes are whose. Appending, changing and rewriting it lies here; which keys
a store has, and what waits to be written, does not.
"""

__all__ = ["append", "backend", "changes", "file", "frame_bytes", "frame_map"]
