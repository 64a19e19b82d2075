"""A `.b2d` store: a directory in which each leaf is a file of its own.

Files are found by their keys, written beside the tree and renamed into it here. When a leaf gets its file is decided
by `_stores`.
"""

__all__ = ["aside", "backend", "files", "folders", "leaf_files", "placing", "publishing", "scan"]
