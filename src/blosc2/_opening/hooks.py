"""What importing the package sets up: hooks between modules. No other module registers any.

A module that needs a function of a higher layer, which it may not import, has an attribute for it; it is set here.
"""

from __future__ import annotations

import atexit
import copyreg

from blosc2._functions import OpaqueArray, OpaqueSChunk, touched_chunks
from blosc2._handles import FrameHandle, Stored
from blosc2._integrity import check_opened_handle, check_store
from blosc2._opening.open_path import open_value
from blosc2._opening.pickles import reduce_stored
from blosc2._stores import Store, end_all
from blosc2.batch_array import BatchArray
from blosc2.ndarray import NDArray
from blosc2.objectarray import ObjectArray
from blosc2.schunk import SChunk


def install() -> None:
    """Set the hooks; called once, by the package."""
    FrameHandle.open_cframe = staticmethod(open_value)  # values of metadata and lists that are frames
    Stored.checker = staticmethod(check_opened_handle)
    Stored.touched = staticmethod(touched_chunks)
    Store.checker = staticmethod(check_store)
    for kind in (NDArray, SChunk, ObjectArray, BatchArray, OpaqueArray, OpaqueSChunk):
        copyreg.pickle(kind, reduce_stored)
    atexit.register(end_all)  # stores that are still open for writing
