"""Describing a leaf of a store, without opening it if there is a catalog."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._frames import parse_dtype
from blosc2.exceptions import FormatError
from blosc2.storage import Codec

#: The kinds of leaves by their numbers in descriptions; "attributes" are those of a group.
KINDS: Final = ("unknown", "array", "schunk", "objects", "batches", "other", "attributes")
_START: Final = struct.Struct("<BBBxIQQ")
_NO_SHAPE: Final = 255


class LeafInfo(NamedTuple):
    """The description of a leaf.

    Attributes
    ----------
    kind : str
        "array", "schunk", "objects", "batches" or "other".
    shape : tuple of int or None
        Of an array.
    dtype : numpy.dtype or None
        Of an array.
    codec : str
        The name of the codec.
    nbytes : int
        Uncompressed bytes.
    cbytes : int
        Compressed bytes of its chunks.
    key : str
        Its key in the store.
    stored : int
        The bytes that it takes in the file, including headers, metadata, its name, and up to 63 bytes of alignment.
    """

    kind: str
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    codec: str
    nbytes: int
    cbytes: int
    key: str = ""
    stored: int = 0

    def __str__(self) -> str:
        return self.kind if self.shape is None else f"{self.shape} {self.dtype}"


def codec_name(number: int) -> str:
    """The name of a codec by its number."""
    try:
        return Codec(number).name
    except ValueError:
        return str(number)


def kind_name(number: int) -> str:
    """The kind of a leaf by its number in a description."""
    return KINDS[number] if number < len(KINDS) else KINDS[0]


def leaf_info(description: bytes) -> LeafInfo:
    """Read a description, as `_core.catalog_writing.descriptions.describe` makes it."""
    what, codec, ndim, length, nbytes, cbytes = _START.unpack_from(description)
    shape = None
    at = _START.size
    if ndim != _NO_SHAPE:
        shape = struct.unpack_from(f"<{ndim}Q", description, at)
        at += 8 * ndim
    text = description[at : at + length].decode("utf-8", "replace")
    dtype = None
    if text and what == 1:
        try:
            dtype = parse_dtype(text)
        except ValueError as error:
            raise FormatError(f"the description of a leaf has a dtype that is none: {error}") from error
    return LeafInfo(kind_name(what), shape, dtype, codec_name(codec), nbytes, cbytes)
