"""Making the object that a frame contains (FORMATS 5.1)."""

from __future__ import annotations

from typing import Any, Final

from blosc2._arrays import ready_in_children
from blosc2._frames import FrameHandle
from blosc2._options import OPAQUE_KINDS
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk

_RARE: Final = (*OPAQUE_KINDS, "vlarray", "batcharray")


def wrap(handle: FrameHandle) -> Any:
    """The array, super-chunk, list or opaque object that a frame holds, by its metalayers.

    Checks what belongs to its kind; raises `FormatError` where that is damaged.
    """
    ready_in_children()
    frame = handle.frame
    if frame.only_array:  # nearly all frames are
        return NDArray._of(handle)
    names = set(frame.metalayers())
    if not names.isdisjoint(_RARE):
        return _rare(handle, names)
    return NDArray._of(handle) if "b2nd" in names else SChunk._of(handle)


def _rare(handle: FrameHandle, names: set[str]) -> Any:
    """A list or an opaque object. Only here are their modules needed."""
    if not names.isdisjoint(OPAQUE_KINDS):
        from blosc2._functions.opaque_objects import OpaqueArray, OpaqueSChunk

        return OpaqueArray._of(handle) if "b2nd" in names else OpaqueSChunk._of(handle)
    if "vlarray" in names:
        from blosc2.objectarray import ObjectArray

        return ObjectArray._of(handle)
    from blosc2.batch_array import BatchArray

    return BatchArray._of(handle)
