"""Packing values for lists. A value that would not come back the same is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2._core.allocation import allowed
from blosc2._core.frame.packed import unpacked_size
from blosc2._frames import FEW_BYTES, pack
from blosc2.storage import MAX_BUFFERSIZE

_TUPLE = "__tuple__"
#: What marks a packed list as a tuple.
TUPLE_MARK = b"\xa9" + _TUPLE.encode()
_KINDS = (int, float, str, bytes, bool, type(None))


def packed_value(value: Any) -> bytes:
    """A value, packed, after a look whether it will come back as it is.

    Raises
    ------
    TypeError, OverflowError, ValueError
        It cannot be stored; see `blosc2._frames.msgpack_values.pack`.
    """
    packed = pack(value)
    if TUPLE_MARK in packed and type(value) is not tuple:
        _refuse_marked(value)
    elif type(value) is tuple:
        for item in value:
            if isinstance(item, (list, tuple, dict, set, frozenset)):
                _refuse_marked(item)
    if len(packed) > MAX_BUFFERSIZE:
        raise ValueError(f"Serialized objects cannot be larger than {MAX_BUFFERSIZE} bytes, this one has {len(packed)}")
    return packed


def _refuse_marked(value: Any) -> None:
    """Refuse a list that would come back as a tuple without its first item."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list) and one and isinstance(one[0], str) and one[0] == _TUPLE:
            raise ValueError(
                f"can not serialize a list that begins with {_TUPLE!r}: that is how tuples are stored, and it would "
                "come back as one"
            )
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple, set, frozenset)):
            waiting.extend(item for item in one if not isinstance(item, _KINDS))
        elif isinstance(one, np.ndarray) and one.dtype.hasobject:
            waiting.extend(one.flat)


def readable(packed: list[bytes], stored: int) -> bool:
    """Whether packed values can be unpacked together from a file of so many bytes, by the rule of allocation."""
    total = sum(map(len, packed))
    return total <= FEW_BYTES or sum(map(unpacked_size, packed)) + total <= allowed(stored)


def unreadable(what: str) -> ValueError:
    """What is raised for a value that nobody could read again."""
    return ValueError(
        f"{what} would take far more memory than a file of its size may: it could not be read again; store it in "
        "parts, or as arrays"
    )
