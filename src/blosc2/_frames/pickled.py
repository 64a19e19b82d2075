"""What pickled handles need: whether the data is still the same, told cheaply, and a handle of data that is gone."""

from __future__ import annotations

import copy
import os
import struct
from typing import Any, Final, Never, TypeVar

from blosc2 import _frames
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import range_checksum
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._frames.handle import FrameHandle, HandleOptions
from blosc2._options import RemotePath, absolute_path

# Frames up to this size are compared as a whole; of larger ones, all but the chunks, for which checksums stand.
_SMALL: Final = 1 << 16
# The same where there are no checksums.
_MEDIUM: Final = 1 << 24
# How far before a member of an archive its header may begin, besides its name.
_HEADER_ROOM: Final = 512
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
_DESCRIBED_LATER: Final = 8  # the flag of members whose checksum follows them

#: What `version_of` gives: numbers, which are equal or not.
FrameVersion = tuple[Any, ...]


def version_of(handle: FrameHandle) -> FrameVersion | None:
    """What stays the same for as long as the stored bytes do; None where they may change, with ``locking=True``.

    Of a large frame nothing is read of the chunks: its own checksums stand for them, or that of an archive, or the time
    of a file. Only among the values of an `EmbedStore`, above 16 MiB, a change may go unnoticed: one that alters no
    size.
    """
    if handle.locking:
        return None
    if isinstance(handle, _frames.ReadOnlyDirectoryHandle):
        return len(handle.head), crc32c(handle.head)
    frame = handle.published
    source = frame.source
    there = remote_version(source)
    if there is not None:
        # What the server tells of the version stands for all of its bytes: fetching them would take time.
        return frame.frame_len, frame.offset, *there
    member, time, limit = 0, None, _SMALL
    if not frame.checksums_len and frame.frame_len > _SMALL:
        if frame.offset == 0 and frame.frame_len == source.size and source.identity is not None:
            limit = _MEDIUM
            time = source.identity[3] if frame.frame_len > limit else None
        else:
            member = 0 if handle.key is None else _member_checksum(frame)
            limit = _SMALL if member else _MEDIUM
    header = frame.header_bytes()
    begin, end = frame.offset, frame.offset + frame.frame_len
    at = begin + len(header)
    if frame.frame_len > limit:
        at = max(at, frame.chunks_range[1])
    return frame.frame_len, crc32c(header), range_checksum(source, at, end - at), member, time


def remote_version(source: Source) -> tuple[Any, ...] | None:
    """What a server told of the version that a source shows; None of what is no object on a server."""
    remote = getattr(source, "remote", None)
    return None if remote is None else tuple(remote.version)


def path_to_pickle(path: str, source: Source | None, key: str | None = None) -> str:
    """The path that a pickle of a handle holds. One of a server wants the version that the handle shows."""
    if isinstance(path, RemotePath):
        return path.anew(None if source is None else remote_version(source))
    opened = None if source is None else source.path
    if opened and not os.path.isabs(path):
        # The working directory may have changed since. In a folder, a source is the file of a leaf, or of small ones.
        named = f"{os.sep}{os.path.normpath(path)}"
        for inside in (0, key.count("/") if key else 0, 1):
            there: str = opened.rsplit(os.sep, inside)[0]
            if there.endswith(named):
                return there
    return absolute_path(path)


def path_of_any_version(path: str) -> str:
    """The path of a pickle, for whoever opens it anew."""
    return path.anew() if isinstance(path, RemotePath) else path


def _member_checksum(frame: Frame) -> int:
    """The checksum that an archive has of a member, which follows its header; 0 where there is none."""
    room = min(frame.offset, _HEADER_ROOM + 3 * len(frame.key or "") + _LOCAL_HEADER.size)
    before = frame.source.read(frame.offset - room, room)
    at = before.rfind(b"PK\x03\x04")
    if at < 0 or at + _LOCAL_HEADER.size > room:
        return 0
    fields = _LOCAL_HEADER.unpack_from(before, at)
    if at + _LOCAL_HEADER.size + fields[9] + fields[10] != room or fields[2] & _DESCRIBED_LATER:
        return 0
    return int(fields[6])


# ---------------------------------------------------------------- data that is gone

#: What may come of opening something where a pickle is read.
LOST_ERRORS: Final = (OSError, ValueError, LookupError, RuntimeError, TypeError, MemoryError)

_Kind = TypeVar("_Kind")


class LostHandle(FrameHandle):
    """What lies below such a handle: names and modes, and the error that each use raises.

    `recipe` says how the handle was to be made, as `__reduce__` does: it may travel on, to where that succeeds.
    """

    __slots__ = ("error", "recipe")

    def __init__(
        self, error: Exception, recipe: tuple[Any, ...], path: str, key: str | None, how: dict[str, Any]
    ) -> None:
        self.error = error.with_traceback(None)
        self.recipe = recipe
        self.options = HandleOptions(how.get("mode", "r"), how.get("mmap_mode"))
        self.urlpath, self.key = path, key

    def stand_in(self, kind: type[_Kind]) -> _Kind:
        """A handle of a class that does nothing but raise the error."""
        handle = kind.__new__(kind)
        handle._handle = self  # type: ignore[attr-defined]
        return handle

    def _raise(self, *_: object, **__: object) -> Never:
        raise copy.copy(self.error)  # each with a traceback of its own

    def __getattr__(self, name: str) -> Never:
        # Called for attributes that have no value here, such as `version`.
        if name.startswith("__"):
            raise AttributeError(name)
        self._raise()

    frame = array = described = property(_raise)
    nthreads = cparams = dparams = deserialize = property(_raise)
    require_writable = editing = holding = refresh = compact = transaction = to_cframe = flush = _raise
