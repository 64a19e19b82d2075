"""A `.b2d` store: a directory in which each leaf is a file of its own.

Files are found by their keys, written beside the tree and renamed into it here. When a leaf gets its file is decided
by `_stores`.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

__all__ = ["backend", "leaf_files", "placing", "publishing"]

if TYPE_CHECKING:
    from blosc2._backends.directory import publishing as publishing
else:
    __getattr__ = on_demand(__name__, {}, __all__)
