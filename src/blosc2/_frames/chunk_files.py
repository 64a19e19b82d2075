"""The files of a directory frame as one source: a small frame is read, the chunks of a large one stay in their files.

An open file shows what it holds whatever becomes of its name, so a version that was opened stays whole. Files that are
too many to be kept open go into one without a name, one behind the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import stored_lengths
from blosc2._core.io.source import Source
from blosc2._files import ByteRange, Spooled, TemporaryFile
from blosc2._frames.pieces import SMALL_FRAME
from blosc2.exceptions import FormatError

Integers = np.ndarray[Any, np.dtype[np.int64]]

# Descriptors that a process is assumed to have if the system does not tell, and the most that are used here.
_FEW_DESCRIPTORS: Final = 512
_MOST_DESCRIPTORS: Final = 8192


class ChunkFiles:
    """Takes the files of chunks in their order.

    Parameters
    ----------
    path : str
        The directory.

    Attributes
    ----------
    byte_ranges : list
        Where the chunks lie.
    is_small : bool
        Whether all of them are in memory.
    """

    def __init__(self, path: str) -> None:
        self._waiting = TemporaryFile(path)
        self._last = most_descriptors() // 2
        self.byte_ranges: list[ByteRange] = []
        self._held = 0
        self.is_small = True

    def add(self, name: str) -> int:
        """Add the next chunk and return its bytes.

        Raises
        ------
        FormatError
            There is no such file, or it is none.
        """
        try:
            source = Source.open(name)
        except FileNotFoundError:
            raise FormatError("a chunk file of this directory frame is missing", path=name) from None
        size = int(source.size)
        self._held += size
        if self.is_small and self._held <= SMALL_FRAME:
            data = source.read(0, size)
            self.byte_ranges.append((Source.of_buffer(data), 0, size))
        else:
            self.is_small = False
            self.byte_ranges.append(kept_open(source, self._last) or self._waiting.add((source, 0, size)))
        return size

    def source(self, path: str) -> Source:
        """One source of all files, one after another."""
        return Source.joined(self.byte_ranges, path)

    def bytes(self) -> Iterator[bytes]:
        """The same of a small frame."""
        return (source.read(offset, length) for source, offset, length in self.byte_ranges)


class ChunkNumbers:
    """Which file each stored chunk of a version has, and how large it is.

    Parameters
    ----------
    frame : Frame
        The version.
    numbers : int64 array
        As `Directory.numbers`.
    lengths : int64 array, optional
        Of the files of stored chunks, in the order of these; by default the headers of the chunks tell.
    """

    __slots__ = ("_offsets", "lengths", "numbers")

    def __init__(self, frame: Frame, numbers: Integers, lengths: Integers | None = None) -> None:
        self.numbers = numbers[numbers >= 0]
        repeated = frame.repeated_offset
        offsets = np.frombuffer(frame.offsets_bytes(), np.int64) if repeated is None else np.array([repeated])
        self._offsets = offsets[offsets >= 0] if len(self.numbers) else self.numbers
        self.lengths = np.frombuffer(stored_lengths(frame, self._offsets), np.int64) if lengths is None else lengths
        order = np.argsort(self._offsets, kind="stable")  # which is quick where they are in order already
        self._offsets, self.numbers, self.lengths = self._offsets[order], self.numbers[order], self.lengths[order]

    def at(self, offsets: Integers) -> tuple[Integers, Integers]:
        """Number and length of the file of each chunk that is stored at these offsets of the version."""
        found = np.searchsorted(self._offsets, offsets)
        return self.numbers[found], self.lengths[found]

    def without(self, used: Integers) -> list[int]:
        """Numbers of files that a later version does not use."""
        if np.array_equal(used[: len(self.numbers)], self.numbers):  # nothing but appended to
            return []
        used = np.sort(used)
        # Not by `np.setdiff1d`, which imports `numpy.ma`.
        stays = np.searchsorted(used, self.numbers, "right") > np.searchsorted(used, self.numbers)
        gone: list[int] = np.sort(self.numbers[~stays]).tolist()
        return gone


def kept_open(source: Source, last: int) -> ByteRange | None:
    """All of a file that is open, if the process has descriptors enough: a new one gets the lowest number."""
    return (source, 0, int(source.size)) if source.descriptor < last else None


def from_file(name: str, stored: bytes | Spooled) -> bytes | Spooled:
    """A stored chunk that was written to a file, as what lies there, if that can be kept open."""
    source = Source.open(name)
    byte_range = kept_open(source, most_descriptors() // 2)
    if byte_range is None or byte_range[2] != len(stored):
        return stored
    return Spooled(byte_range)


def most_descriptors() -> int:
    """The number of descriptors that this process may have."""
    try:
        import resource
    except ImportError:
        return _FEW_DESCRIPTORS
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_DESCRIPTORS if soft < 0 else min(soft, _MOST_DESCRIPTORS)
