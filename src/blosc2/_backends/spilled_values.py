"""A temporary file for unpublished embedded values that do not fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blosc2 import _files, _frames
from blosc2._backends.layout import ByteRange

if TYPE_CHECKING:
    from blosc2._files import TemporaryFile

#: Bytes of unpublished frames that may stay in memory.
MEMORY_LIMIT: Final = 64 << 20
# Smaller values are not worth a system call each.
_WORTH_MOVING: Final = 64 << 10
# The most files that are kept open for values in them.
_MOST_ELSEWHERE: Final = 64


class SpilledValues:
    """A temporary file of frames, made when it is needed; it has no name, and is freed with its last byte range.

    Parameters
    ----------
    path : str or None
        The store, beside which it lies. None holds all in memory.
    """

    __slots__ = ("_file", "_path")

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: TemporaryFile | None = None

    def stage(self, changes: dict[str, ByteRange]) -> dict[str, ByteRange]:
        """Move large frames to the file. Returns where all frames are now."""
        if not changes:
            return {}
        if self._path is None:
            return {key: _frames.held_in_memory(byte_range) for key, byte_range in changes.items()}
        waiting = self._file = self._file or _files.TemporaryFile(self._path)
        staged: dict[str, ByteRange] = {}
        for key, byte_range in changes.items():
            # A very large value in a file with checksums stays there. Each such value keeps its file open.
            stays = byte_range[2] <= _WORTH_MOVING or (
                byte_range[2] > MEMORY_LIMIT and bool(byte_range[0].checksums) and len(staged) < _MOST_ELSEWHERE
            )
            staged[key] = byte_range if stays else waiting.add(byte_range)
        return staged

    def forget(self) -> None:
        """All moved values are published. Further values begin a new file."""
        self._file = None
