"""What metadata may be written: names, sizes, and how many entries there can be.

Most limits are those of the C library. What other programs can read but not change is written unless
`strict_compatibility` is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from blosc2._frames.msgpack_values import check_readable, pack_attribute
from blosc2._frames.payload_alignment import PADDING
from blosc2.storage import MAX_BUFFERSIZE

# Limits of the C library: beyond them it crashes, or refuses every later write.
MAX_ENTRIES = 16
MAX_NAME_BYTES = 31
#: Entries of variable metadata that are written all the same, unless `strict_compatibility`; the C library reads them.
MOST_ENTRIES = 8000

# Whether to refuse entries that other programs can read but not change: see `strict_compatibility`.
_strict = False

# Metalayers that users cannot set: the geometry of arrays, and the padding that aligns data.
GEOMETRY = "b2nd"
RESERVED = (GEOMETRY, PADDING)


def strict_compatibility() -> bool:
    """Whether only such metadata is written that other Blosc2 programs can change; `blosc2.strict_compatibility`."""
    return _strict


def set_strict_compatibility(value: bool) -> None:
    """Set `strict_compatibility` for the whole process."""
    global _strict
    if not isinstance(value, bool):
        raise TypeError(f"strict_compatibility is True or False, not {value!r}")
    _strict = value


def text_name(name: Any) -> Any:
    """The name of a metadata entry as text, where it was given as bytes; what is no UTF-8 stays as it is.

    Examples
    --------
    >>> text_name(b"unit")
    'unit'
    """
    if isinstance(name, (bytes, bytearray)):
        with suppress(UnicodeDecodeError):
            return name.decode()
    return name


def check_name(name: object) -> str:
    """Check the name of a metadata entry, of either kind, before it is written; return it as text.

    Raises
    ------
    TypeError
        Neither a string nor bytes.
    ValueError
        Empty, longer than 31 bytes of UTF-8, with a NUL, or not UTF-8.
    """
    name = text_name(name)
    if isinstance(name, (bytes, bytearray)):
        raise ValueError(f"the name of a metadata entry is text in UTF-8, which {name!r} is not")
    if not isinstance(name, str):
        raise TypeError(f"the name of a metadata entry must be a str, not {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"the name of a metadata entry has a character that UTF-8 cannot express: {name!r}") from None
    if not 1 <= size <= MAX_NAME_BYTES:
        raise ValueError(f"the name of a metadata entry has 1 to {MAX_NAME_BYTES} bytes in UTF-8, not {size}: {name!r}")
    if "\0" in name:
        raise ValueError(f"the name of a metadata entry cannot hold a NUL: {name!r}")
    return name


def check_content(name: str, content: bytes) -> None:
    """Check that a packed value can be stored in an entry.

    Raises
    ------
    ValueError
        It is larger than a chunk can be.
    """
    if len(content) > MAX_BUFFERSIZE:
        raise ValueError(
            f"the metadata entry {name!r} has {len(content)} bytes, and {MAX_BUFFERSIZE} are possible: "
            "store it as an array or super-chunk of its own"
        )


def pack_metalayers(meta: Mapping[str, Any] | None, reserved: Iterable[str] = ()) -> dict[str, bytes]:
    """Check and pack the `meta` of a new object.

    Parameters
    ----------
    meta : dict or None
        Names and values.
    reserved : iterable of str
        Metalayers that the creator adds; they count towards the limit, and users cannot give them.

    Raises
    ------
    TypeError, ValueError
        A name, a value, or a number of entries that cannot be written.
    """
    taken = set(reserved)
    packed: dict[str, bytes] = {}
    for name, value in (meta or {}).items():
        name = check_name(name)
        if name in taken or name in RESERVED:
            raise ValueError(f"the metalayer {name!r} is written by the library; choose another name")
        packed[name] = pack_attribute(value)
        check_content(name, packed[name])
    check_readable(packed, sum(map(len, packed.values())))
    if len(packed) + len(taken) > MAX_ENTRIES:
        raise ValueError(
            f"there can be {MAX_ENTRIES} metalayers, {len(taken)} of them are taken: {len(packed)} are too many"
        )
    return packed


def check_number(entries: int) -> None:
    """Check how many entries of variable metadata there would be.

    Raises
    ------
    ValueError
        More than `MOST_ENTRIES`, or than `MAX_ENTRIES` with `strict_compatibility`.
    """
    if entries <= (MAX_ENTRIES if _strict else MOST_ENTRIES):
        return
    instead = "put several values into one dictionary"
    if entries > MOST_ENTRIES:
        raise ValueError(f"there can be {MOST_ENTRIES} entries of variable metadata, not {entries}: {instead}")
    raise ValueError(
        f"there can be {MAX_ENTRIES} entries of variable metadata, not {entries}: other programs could not change the "
        f"file any more; {instead}, or set blosc2.strict_compatibility = False, which allows {MOST_ENTRIES}"
    )
