"""Frames of embedded values: a `.b2e` file, and `embed.b2e` within the other stores.

One frame holds many values, and its map says which bytes belong to which key. This package appends to it, changes and
rewrites it; it does not know the pending changes of a store.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

__all__ = ["backend", "file", "frame_layout", "writing"]

if TYPE_CHECKING:
    from blosc2._backends.embedded import file as file
    from blosc2._backends.embedded import frame_layout as frame_layout
    from blosc2._backends.embedded import writing as writing
else:
    __getattr__ = on_demand(__name__, {}, __all__)
