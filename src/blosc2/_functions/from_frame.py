"""Making the object that a frame contains (FORMATS 5.1)."""

from __future__ import annotations

from typing import Any

from blosc2._functions.opaque_objects import OPAQUE_KINDS, OpaqueArray, OpaqueSChunk
from blosc2._handles import FrameHandle
from blosc2.batch_array import BatchArray
from blosc2.ndarray import NDArray
from blosc2.objectarray import ObjectArray
from blosc2.schunk import SChunk


def wrap(handle: FrameHandle) -> Any:
    """The array, super-chunk, list or opaque object that a frame holds, by its metalayers.

    Checks what belongs to its kind; raises `FormatError` where that is damaged.
    """
    frame = handle.frame
    if frame.only_array:  # nearly all frames are
        return NDArray._of(handle)
    names = frame.metalayers()
    if any(name in names for name in OPAQUE_KINDS):
        return OpaqueArray._of(handle) if "b2nd" in names else OpaqueSChunk._of(handle)
    if "vlarray" in names:
        return ObjectArray._of(handle)
    if "batcharray" in names:
        return BatchArray._of(handle)
    return NDArray._of(handle) if "b2nd" in names else SChunk._of(handle)
