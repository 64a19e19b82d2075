"""Making the object that a frame contains (FORMATS 5.1)."""

from __future__ import annotations

from typing import Any

from blosc2._functions.opaque_objects import OPAQUE_KINDS, OpaqueArray, OpaqueSChunk
from blosc2._handles import Carrier
from blosc2.batch_array import BatchArray
from blosc2.ndarray import NDArray
from blosc2.objectarray import ObjectArray
from blosc2.schunk import SChunk


def wrap(carrier: Carrier) -> Any:
    """The array, super-chunk, list or opaque object that a frame holds, by its metalayers.

    Checks what belongs to its kind; raises `FormatError` where that is damaged.
    """
    frame = carrier.frame
    if frame.only_array:  # nearly all frames are
        return NDArray._of(carrier)
    names = frame.metalayers()
    if any(name in names for name in OPAQUE_KINDS):
        return OpaqueArray._of(carrier) if "b2nd" in names else OpaqueSChunk._of(carrier)
    if "vlarray" in names:
        return ObjectArray._of(carrier)
    if "batcharray" in names:
        return BatchArray._of(carrier)
    return NDArray._of(carrier) if "b2nd" in names else SChunk._of(carrier)
