"""Leaves of stores: opened, held while somebody needs them, described, and read many at a time.

Here a frame is opened as a leaf, and a value becomes a frame. Which keys there are, and which changes are pending, is
decided elsewhere (`_stores.contents`, `_stores.pending`).
"""
