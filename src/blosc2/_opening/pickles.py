"""Pickling arrays and super-chunks: those in files as a path, those in memory as their bytes. And tokens for dask.

A pickle of a file states which version the handle showed. Unpickled, it has the same items or raises an error. Nothing
raises while a pickle is read: a process pool loses a task whose arguments cannot be unpickled, and its caller waits
forever. What cannot be opened raises when it is used, see `LostHandle`.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from typing import Any

from blosc2._arrays import Axes, ViewHandle
from blosc2._files import LASTING, pieces_of
from blosc2._frames import (
    LOST_ERRORS,
    DirectoryHandle,
    FileHandle,
    FrameHandle,
    FrameVersion,
    LostHandle,
    MemoryHandle,
    Stored,
    path_of_any_version,
    path_to_pickle,
    version_of,
)
from blosc2._opening.open_path import from_cframe, open, schunk_from_cframe
from blosc2._options import RemotePath, absolute_path
from blosc2.exceptions import StaleHandleError, StoreKeyError
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk


def reduce_stored(stored: Stored) -> tuple[Any, ...]:
    handle, kind = stored._handle, type(stored)
    if isinstance(handle, LostHandle):
        return handle.recipe
    if isinstance(handle, ViewHandle):
        return revive_view, (handle.base, handle.axes, kind)
    given: dict[str, Any] = {}
    if handle.dparams is not None:
        given["dparams"] = handle.dparams
    if handle.options.cparams is not None:
        given["cparams"] = handle.cparams
    if isinstance(handle, MemoryHandle) or handle.urlpath is None or handle.is_in_memory:
        return revive, (kind, stored.to_cframe(), handle.options.deserialize, given)
    path = path_to_pickle(handle.urlpath, handle.published.source, handle.key)
    return reopen, (kind, path, handle.key, _how(handle), given, version_of(handle))


def _how(handle: FrameHandle) -> dict[str, Any]:
    """The keywords of `open`, as far as they are not its defaults."""
    frame = handle.published
    # Who reads the pickle finds the file made.
    mmap_mode = "r+" if handle.options.mmap_mode == "w+" else handle.options.mmap_mode
    advice = frame.source.advice
    how = {
        "mode": handle.options.mode, "mmap_mode": mmap_mode, "offset": frame.offset if handle.key is None else 0,
        "deserialize": handle.options.deserialize, "verify": handle.verify, "locking": handle.locking,
        "advise": advice if advice in LASTING[1:] else None,
    }  # fmt: skip
    how = {name: value for name, value in how.items() if value or (name == "verify" and value is not None)}
    if isinstance(handle, (FileHandle, DirectoryHandle)) and not handle._exclusive:
        how["exclusive"] = False
    if handle.options.durable:
        how["durable"] = True
    return how


def revive(kind: type[Stored], cframe: bytes, deserialize: str, given: dict[str, Any]) -> Any:
    found = from_cframe(cframe, deserialize=deserialize)
    if not isinstance(found, Stored):  # a store, of which the super-chunk travelled
        found = schunk_from_cframe(cframe)
    return _finish(_as_kind(kind, found), given)


def revive_view(base: NDArray, axes: Axes, kind: type[Stored]) -> Any:
    handle = base._handle
    if isinstance(handle, LostHandle):
        return handle.stand_in(kind)
    return _as_kind(kind, NDArray._of(ViewHandle(base, axes)))


def reopen(
    kind: type[Stored], path: str, key: str | None, how: dict[str, Any], given: dict[str, Any],
    version: FrameVersion | None,
) -> Any:  # fmt: skip
    """An object from its file, or its leaf from its store, if that is the version that was pickled."""
    try:
        found = _find(kind, path, key, how, version)
    except LOST_ERRORS as error:
        recipe = reopen, (kind, path, key, how, given, version)
        return LostHandle(error, recipe, path_of_any_version(path), key, how).stand_in(kind)
    return _finish(found, given)


def _find(kind: type[Stored], path: str, key: str | None, how: dict[str, Any], version: FrameVersion | None) -> Any:
    global _last
    known = _last
    try:
        found = open(path, **how) if key is None else _store(path, how)[key]
    except StoreKeyError:
        found = None
    if _is_it(kind, found, version):
        return _as_kind(kind, found)
    if key is not None and known is not None and _last is known:
        # The store was opened for a leaf before, and shows what there was then.
        _last = None
        return _find(kind, path, key, how, version)
    raise _stale(path, key, how)


def _is_it(kind: type[Stored], found: Any, version: FrameVersion | None) -> bool:
    if not isinstance(found, Stored):  # no leaf, or a group by now
        return False
    # Of an array, the super-chunk may be wanted.
    return (type(found) is kind or issubclass(kind, SChunk)) and version == version_of(found._handle)


def _as_kind(kind: type[Stored], found: Any) -> Any:
    return found if type(found) is kind or not issubclass(kind, SChunk) else kind._of(found._handle.shared())


def _stale(path: str, key: str | None, how: dict[str, Any]) -> StaleHandleError:
    if key is not None:
        reason = (
            "what this handle shows was changed or removed since the handle was pickled: hand over the open store "
            "instead, which shows its newest version, or open the store in the process that needs it"
        )
    elif how.get("mode", "r") == "r":
        reason = "the file was changed since this handle was pickled: open it in the process that needs it"
    else:
        reason = (
            "the file was changed since this handle was pickled: for processes that change one file together, open it "
            "with locking=True, and hand over that handle"
        )
    return StaleHandleError(reason, path=path, key=key)


def _finish(found: Any, given: dict[str, Any]) -> Any:
    for name, value in given.items():
        setattr(found._handle, name, value)
    return found


# The store that the last leaves came from: those of one store share one mapping here too.
_last: tuple[tuple[Any, ...], Any] | None = None


def _store(path: str, how: dict[str, Any]) -> Any:
    global _last
    how = {**how, "mode": "r"}
    name: tuple[Any, ...]
    if isinstance(path, RemotePath):
        name = (path.recipe, tuple(sorted(how.items())))
    else:
        status = os.stat(path)
        name = (path, tuple(sorted(how.items())), status.st_ino, status.st_size, status.st_mtime_ns)
    known = _last
    if known is None or known[0] != name:
        _last = known = (name, open(path, **how))
    return known[1]


def token_of(stored: Stored) -> tuple[Any, ...]:
    """What tells these items from all others: path, key and version, or a digest of the bytes of what is in memory.

    Data that others may change at any time, with ``locking=True``, have a token that is equal to no other.
    """
    handle, kind = stored._handle, type(stored).__name__
    if isinstance(handle, LostHandle) or handle.locking:
        return kind, uuid.uuid4().hex
    if isinstance(handle, ViewHandle):
        return kind, "view", tuple(handle.axes), token_of(handle.base)
    if isinstance(handle, MemoryHandle) or handle.urlpath is None or handle.is_in_memory:
        digest = hashlib.blake2b(digest_size=20)
        for piece in pieces_of(handle.byte_range()):
            digest.update(piece)
        return kind, digest.hexdigest()
    offset = handle.published.offset if handle.key is None else 0
    return kind, absolute_path(handle.urlpath), handle.key, offset, version_of(handle)
