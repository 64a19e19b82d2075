"""Turning a value that is assigned to a key into the bytes of a frame. `leaf` is the other way."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._arrays import TINY, ArrayPlan, cframe_of, tiny_frame
from blosc2._backends import NewFrame, suffix_of_frame
from blosc2._core.io.source import Source
from blosc2._files import TemporaryFile
from blosc2._frames import Stored
from blosc2._indexing import lossless
from blosc2._options import absolute_path
from blosc2.exceptions import UnsupportedValueError
from blosc2.schunk import SChunk

#: Arrays of more uncompressed bytes get their frame in a file, not in memory.
LARGE: Final = 64 << 20


class FramedValue(NamedTuple):
    """A value whose frame is made already, and its uncompressed bytes."""

    byte_range: Any
    nbytes: int


def new_frame(frame: bytes, suffix: str, description: bytes | None = None) -> NewFrame:
    """A frame that was made in memory."""
    return NewFrame((Source.of_buffer(frame), 0, len(frame)), suffix, description)


def frame_of(
    value: Any, key: str, path: str | None, encoding: dict[str, Any], *, asked: bool | None = None
) -> NewFrame:
    """The frame of a value that is to be stored; arrays of this package keep their bytes. For `asked` see `tiny_frame`.

    Raises
    ------
    TypeError, AttributeError
        The value cannot be made an array (`UnsupportedValueError`).
    """
    if type(value) is np.ndarray and not value.dtype.hasobject:  # most values
        return compressed(value, path, encoding, asked=asked)
    if type(value) is FramedValue:
        made: NewFrame = value.byte_range
        return made
    if isinstance(value, Stored):
        byte_range = value._handle.byte_range()
        return NewFrame(byte_range, suffix_of_frame(value._handle.frame))
    if isinstance(value, (Mapping, AbstractSet)):
        raise _unsupported(value, key, path, "its values are stored one by one; to_b2z and to_b2d copy whole stores")
    try:
        array = lossless(value)
    except (TypeError, ValueError) as error:
        raise _unsupported(value, key, path, str(error)) from None
    if array.dtype.hasobject or hasattr(value, "to_cframe"):
        raise _unsupported(value, key, path, "it is no array of numbers, strings or dates")
    return compressed(array, path, encoding, asked=asked)


def compressed(
    items: np.ndarray[Any, Any], path: str | None, encoding: dict[str, Any], *, asked: bool | None = None
) -> NewFrame:
    """The frame of an array. The frame of a large array is made in a temporary file."""
    tiny = tiny_frame(items, encoding, asked=asked) if items.nbytes <= TINY else None
    if tiny is not None:
        return new_frame(tiny[0], ".b2nd", tiny[1])
    if path is None or items.nbytes <= LARGE:
        return new_frame(cframe_of(items, encoding), ".b2nd")
    waiting = TemporaryFile(absolute_path(path))
    plan = ArrayPlan(items.shape, items.dtype, encoding)
    header = plan.lay_out(plan.compressed(items), waiting.add, {}, None)
    parts = (Source.of_buffer(header), 0, len(header)), waiting.byte_range(0)
    source = Source.joined(parts, parts[1][0].path, False)
    return NewFrame((source, 0, source.size), ".b2nd")


def _unsupported(value: Any, key: str, path: str | None, why: str) -> UnsupportedValueError:
    return UnsupportedValueError(
        f"a {type(value).__name__} cannot be stored: {why}; give an array, an array-like or a super-chunk",
        path=path,
        key=key,
    )


def metadata_frame(values: Mapping[str, Any]) -> NewFrame:
    """The frame of a super-chunk that holds only metadata."""
    schunk = SChunk(chunksize=1 << 14, cparams={"typesize": 1})
    schunk.vlmeta.update(values)
    return new_frame(schunk.to_cframe(), ".b2f")
