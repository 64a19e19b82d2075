"""Leaves of stores: opened, held while somebody needs them, described, and read many at a time.

A leaf is made of a window or a frame here, and a value becomes a frame. Which keys there are, and what waits to be
published, does not lie here.
"""

__all__ = ["advice", "descriptions", "leaf", "many_frames", "open_leaves", "read_many", "read_selections"]
