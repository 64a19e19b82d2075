"""Tokens of arrays: what dask names their items by."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

from blosc2._arrays import ViewHandle
from blosc2._files import pieces_of
from blosc2._frames import LostHandle, MemoryHandle, Stored, version_of
from blosc2._options import absolute_path


def token_of(stored: Stored) -> tuple[Any, ...]:
    """What tells these items from all others: path, key and version, or a digest of the bytes of what is in memory.

    Data that others may change at any time, with ``locking=True``, have a token that is equal to no other.
    """
    handle, kind = stored._handle, type(stored).__name__
    if isinstance(handle, LostHandle) or handle.locking:
        return kind, uuid.uuid4().hex
    if isinstance(handle, ViewHandle):
        return kind, "view", tuple(handle.axes), token_of(handle.base)
    if isinstance(handle, MemoryHandle) or handle.urlpath is None:
        digest = hashlib.blake2b(digest_size=20)
        for piece in pieces_of(handle.byte_range()):
            digest.update(piece)
        return kind, digest.hexdigest()
    offset = handle.published.offset if handle.key is None else 0
    return kind, absolute_path(handle.urlpath), handle.key, offset, version_of(handle)
