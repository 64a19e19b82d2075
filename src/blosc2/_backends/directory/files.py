"""Files of a `.b2d`: how a leaf is written to a file, and in which order new files are renamed into place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, cast

from blosc2._backends.layout import ByteRange, pieces
from blosc2._core.frame.frame import Frame
from blosc2._files import Owner, Part, check_unchanged, write_parts
from blosc2._frames import ALIGNMENT, parts_with_checksums
from blosc2.exceptions import FormatError

# Dead bytes that do not justify a rewrite: this many, or one n-th of the file.
_SLACK: Final = 4096
_SLACK_SHARE: Final = 50


def has_dead_bytes(frame: Frame, size: int) -> bool:
    """Whether a file of `size` bytes is worth rewriting."""
    return bool(size - _most_live(frame) > max(_SLACK, size // _SLACK_SHARE))


def size_of(path: str) -> int:
    """The bytes of a file; 0 for one that a writer has removed."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _most_live(frame: Frame) -> int:
    """The largest size of a frame's file without dead bytes."""
    index = 8 * frame.nchunks + 64
    return int(frame.header_len + frame.stored_nbytes + frame.nchunks * ALIGNMENT + index + frame.trailer_len)


def _with_checksums(byte_range: ByteRange) -> list[Part]:
    """The bytes of a leaf with checksums, as files carry them; a frame that is not sound stays as it is."""
    try:
        return parts_with_checksums(Frame.open(*byte_range))
    except FormatError:
        return [byte_range]


def in_steps(keys: list[str], renamed: dict[str, str]) -> list[list[str]]:
    """The order in which new files get their names, so that a renamed leaf always has a name.

    Parameters
    ----------
    keys : list of str
        Of all new files.
    renamed : dict
        For leaves that only get another key, the key that they had.

    Returns
    -------
    list of list of str
        Steps: a key comes after the new key of the leaf it held. Keys that swap in a circle come last.
    """
    steps = []
    left = set(keys)
    while left:
        held = {origin: key for key, origin in renamed.items() if key in left}
        step = [key for key in keys if key in left and (key not in held or held[key] == key)]
        if not step:
            step = [key for key in keys if key in left]
        steps.append(step)
        left.difference_update(step)
    return steps


def write_new(path: str, byte_range: ByteRange, owner: Owner) -> None:
    """Write a frame to a file that must not exist."""
    with owner.open_raw(path, "xb") as file:
        write_parts(cast("BinaryIO", file), _with_checksums(byte_range))
    check_unchanged(byte_range[0])


def write_in_a_row(path: str, byte_ranges: Iterable[ByteRange], owner: Owner) -> list[int]:
    """Write frames to a file that must not exist, one after the other; returns where each begins."""
    starts, end = [], 0
    with owner.open(path, "xb") as file:
        for byte_range in byte_ranges:
            starts.append(end)
            end += sum(map(file.write, pieces(byte_range)))
    return starts


def folders_between(top: str, folder: str) -> Iterator[str]:
    """Folders from `folder` up to `top`, without `top`."""
    while folder != top:
        yield folder
        folder = os.path.dirname(folder)
