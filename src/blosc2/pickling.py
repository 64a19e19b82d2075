"""Pickling of arrays and super-chunks: those with a file as its name, those in memory as their bytes."""

from __future__ import annotations

import copyreg
import os
from typing import Any

from blosc2.carrier import Carrier, MemoryCarrier
from blosc2.exceptions import FormatError
from blosc2.ndarray import NDArray
from blosc2.objects import BatchArray, ObjectArray, OpaqueArray, OpaqueSChunk
from blosc2.opening import from_cframe, open
from blosc2.schunk import SChunk
from blosc2.stored import Stored
from blosc2.view_carrier import Axes, ViewCarrier


def reduce_stored(stored: Stored) -> tuple[Any, ...]:
    """How an array or super-chunk travels."""
    carrier = stored._carrier
    as_array = not isinstance(stored, SChunk)
    if isinstance(carrier, ViewCarrier):
        return revive_view, (carrier.base, carrier.axes, as_array)
    if isinstance(carrier, MemoryCarrier) or carrier.urlpath is None:
        return revive, (stored.to_cframe(), carrier.deserialize, as_array)
    # Who reads the pickle may be in another folder, and finds the file made.
    mmap_mode = "r+" if carrier.mmap_mode == "w+" else carrier.mmap_mode
    how = (os.path.abspath(carrier.urlpath), carrier.mode, mmap_mode, carrier.frame.offset, carrier.deserialize)
    state = None if carrier.locking else _state(carrier)  # a file that is shared changes, and may
    return reopen, (*how, carrier.key, state, as_array, carrier.locking, carrier.verify)


def _state(carrier: Carrier) -> tuple[int, int] | None:
    """Size and time of the file that the frame was read from."""
    identity = carrier.frame.source.identity
    return None if identity is None else (identity[2], identity[3])


def revive(cframe: bytes, deserialize: str, as_array: bool) -> Any:
    """An object in memory from its bytes."""
    found = from_cframe(cframe, deserialize=deserialize)
    return found if as_array or not isinstance(found, NDArray) else found.schunk


def revive_view(base: NDArray, axes: Axes, as_array: bool) -> Any:
    """A view, of an array that travelled with it."""
    found = NDArray._of(ViewCarrier(base, axes))
    return found if as_array else found.schunk


def reopen(
    path: str, mode: str, mmap_mode: str | None, offset: int, deserialize: str, key: str | None,
    state: tuple[int, int] | None, as_array: bool, locking: bool = False, verify: bool = False,
) -> Any:  # fmt: skip
    """An object from its file, or its leaf from its store; refuses a file that is another one by now."""
    if key is None:
        found = open(path, mode, offset, mmap_mode=mmap_mode, deserialize=deserialize, locking=locking, verify=verify)
    else:
        found = _store(path, mmap_mode, deserialize, verify)[key]
    now = _state(found._carrier)
    # Times of files are coarse: what was an array may be none, at the same time and of the same size.
    if (state is not None and now != state) or (as_array and isinstance(found, SChunk)):
        raise FormatError(
            "the file changed since the handle to it was pickled: open it anew where it is needed", path=path, key=key
        )
    return found if as_array or not isinstance(found, NDArray) else found.schunk


# The store that the last leaves came from: those of one store share one mapping here too.
_last: tuple[tuple[Any, ...], Any] | None = None


def _store(path: str, mmap_mode: str | None, deserialize: str, verify: bool) -> Any:
    global _last
    status = os.stat(path)
    name = (path, mmap_mode, deserialize, verify, status.st_ino, status.st_size, status.st_mtime_ns)
    if _last is None or _last[0] != name:
        _last = (name, open(path, "r", mmap_mode=mmap_mode, deserialize=deserialize, verify=verify))
    return _last[1]


for _kind in (NDArray, SChunk, ObjectArray, BatchArray, OpaqueArray, OpaqueSChunk):
    copyreg.pickle(_kind, reduce_stored)
