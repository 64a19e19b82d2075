"""Values of metadata: msgpack, with extensions for what msgpack lacks.

================  ==========  =============================================================
value             code        bytes
================  ==========  =============================================================
tuple             (none)      a list that starts with the string ``__tuple__``
complex           44          two big-endian float64
set, frozenset    45          a packed list
NumPy array       46          a packed map of dtype, shape and data, or of values and shape
embedded frame    42          the frame
reference         43          a packed map that names something else
================  ==========  =============================================================

The last two, and codes that are not known, are *active*: they stand for an object to be opened or rebuilt.
Under ``deserialize="safe"`` they are refused.

What is read may be hostile. `msgpack` checks lengths against the bytes that are there and bounds the nesting
of lists and maps (to 1,024 levels). What is left is closed here: extensions inside of extensions, arrays that claim
more items than the bytes can hold, and values that take more memory than the rule of allocation gives them.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgpack
import msgpack.exceptions
import numpy as np

from blosc2._core.allocation import FREE, Allowance
from blosc2._core.codec.codec import decode_bytes
from blosc2._core.frame.packed import MOST_PER_BYTE, unpacked_size
from blosc2._core.io.sharing import item_of
from blosc2._core.ndim.gaps import as_bytes, contiguous
from blosc2._frames.dtypes import check_fields, dtype_from_description, is_masked, refuse_unstorable
from blosc2.exceptions import FormatError, UnsafeDeserializationError

_FRAME = 42
_REFERENCE = 43
_COMPLEX = 44
_SET = 45
_NDARRAY = 46
_ACTIVE_KINDS = {_FRAME: "embedded frame", _REFERENCE: "reference"}

_TUPLE = "__tuple__"

# Lists up to this length take little memory, however deeply they are nested.
_LONG_LIST = 1024
# Packed metadata up to this size takes little memory, whatever it holds.
_SMALL_CHANGE = 4096
#: Packed bytes so few that nobody has to count what they take in memory.
FEW_BYTES = FREE // 2 // MOST_PER_BYTE
# Axes of an array: more than NumPy takes.
_MAX_AXES = 64

# Nesting of extensions. Each level takes some 50 KB of C stack, and a thread may have little.
_MAX_LEVELS = 6

_PLAIN = (type(None), bool, int, float, str, bytes)

_TOO_DEEP = "can not serialize a value that is nested too deeply, or contains itself"

FrameOpener = Callable[[bytes], Any]


def pack(value: Any) -> bytes:
    """Pack a value of metadata.

    Parameters
    ----------
    value : object
        None, bool, int (-2**63 to 2**64 - 1), float, complex, str, bytes, list, tuple, dict with str or bytes keys,
        set, NumPy array, NumPy scalar (becomes a plain one), or an array or super-chunk (its frame is embedded).

    Returns
    -------
    bytes

    Raises
    ------
    TypeError
        A value, or a key of a dictionary, that cannot be stored.
    OverflowError
        An integer out of range.
    ValueError
        Nested too deeply, as things that contain themselves are.

    Examples
    --------
    >>> pack({"shape": (3, 4)})
    b'\\x81\\xa5shape\\x93\\xa9__tuple__\\x03\\x04'
    >>> unpack(pack({"shape": (3, 4)}))
    {'shape': (3, 4)}
    """
    return _pack(value, 0)


def pack_attribute(value: Any) -> bytes:
    """Pack a value of metadata that a user gave: as `pack`, and dates, times and paths in it become text.

    Examples
    --------
    >>> import datetime
    >>> unpack(pack_attribute({"taken": datetime.date(2026, 11, 22)}))
    {'taken': '2026-11-22'}
    """
    return _pack(value, 0, _DEFAULTS_WITH_TEXTS)


def pack_checked(value: Any) -> bytes:
    """Pack a value that consists of lists, maps with string keys, strings, bytes and numbers only.

    It gives the same bytes as `pack`, in a third of the time for large maps.
    """
    packed: bytes = msgpack.packb(value, strict_types=True)
    return packed


def unpack(
    data: bytes | bytearray | memoryview,
    *,
    deserialize: str = "safe",
    location: str | None = None,
    frame_opener: FrameOpener | None = None,
    file_size: int = 0,
    together: Together | None = None,
) -> Any:
    """Unpack a value of metadata.

    Parameters
    ----------
    data : bytes
        One packed value and nothing after it.
    deserialize : {'safe', 'full'}
        Whether active values are refused.
    location : str, optional
        What the value is, for messages.
    frame_opener : callable, optional
        Under 'full', makes an object of the bytes of an embedded frame. Without it, these stay
        a `msgpack.ExtType`, as all other active values do; it packs back to the same bytes.
    file_size : int, optional
        Bytes of the file that it comes from; by default those of the packed value.
    together : Together, optional
        The values that will be held besides this one.

    Returns
    -------
    object

    Raises
    ------
    FormatError
        Anything that is not one valid value, or one that would take too much memory.
    UnsafeDeserializationError
        An active value under 'safe'.
    """
    reader = _Reader(deserialize == "full", location, frame_opener)
    if together is None and len(data) > FEW_BYTES:
        together = Together(file_size or len(data))
    if together is not None:
        try:
            together.add(data)
        except FormatError as error:
            raise reader.error(error.reason) from None
    return reader.read(data, 0, False)


class Together:
    """Values that one operation unpacks and holds together.

    Parameters
    ----------
    file_size : int
        Bytes of the file that they come from.
    """

    __slots__ = ("_allowance", "_few", "_packed")

    def __init__(self, file_size: int) -> None:
        self._allowance = Allowance(file_size)
        # Counting costs as much as unpacking, so it begins when all values together could be too large.
        self._few: list[bytes | bytearray | memoryview] | None = []
        self._packed = 0

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Unpack one more value. Raises `FormatError` if it exceeds what the rule of allocation allows."""
        self._packed += len(data)
        if self._few is not None:
            self._few.append(data)
            if self._packed <= FEW_BYTES:
                return
        for one in [data] if self._few is None else self._few:
            self._allowance.take(unpacked_size(one), len(one))
        self._few = None


def check_readable(contents: Mapping[str, bytes], stored: int) -> None:
    """Check that metadata entries can be read back, one by one and all at once, before they are written.

    Parameters
    ----------
    contents : mapping
        All entries, packed.
    stored : int
        The bytes that they have in the file.

    Raises
    ------
    ValueError
        Reading them would take more memory than the rule of allocation gives a file of so many bytes.
    """
    together = Together(stored)
    for name, content in contents.items():
        try:
            together.add(content)
        except FormatError as error:
            raise ValueError(
                f"the metadata entry {name!r} could not be read again, with the others: {error.reason}; store it as an "
                "array or super-chunk of its own"
            ) from None


def check_stored_readable(chunks: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> None:
    """Check the same for stored metadata entries, some of which change."""
    # A small value makes no difference in a file that already holds too much.
    if sum(len(packed) for packed in changes.values() if packed) <= _SMALL_CHANGE:
        return
    contents = {name: decode_bytes(chunk) for name, chunk in chunks.items()}
    check_readable(contents, sum(map(len, chunks.values())))


# Packing


def _pack(value: Any, level: int, defaults: tuple[Callable[[Any], Any], ...] | None = None) -> bytes:
    try:
        packed: bytes = msgpack.packb(value, default=(defaults or _DEFAULTS)[level], strict_types=True)
        if type(value) not in _PLAIN:
            # The packer takes any key, but the reader refuses most. Strings stay bytes here, since only keys matter.
            msgpack.unpackb(packed, raw=True, strict_map_key=True)
    except OverflowError as error:
        raise OverflowError(
            f"can not serialize an integer outside of -2**63 to 2**64 - 1, or more than 4 GiB: {error}"
        ) from error
    except UnicodeEncodeError as error:
        raise ValueError(
            f"can not serialize a text with a character that UTF-8 cannot express: {error.object!r:.80}"
        ) from None
    except ValueError as error:
        unusable = re.match(r"(?:<class ')?([\w.]+)(?:'>)? is not allowed for map key", str(error))
        if unusable:
            raise TypeError(f"can not serialize a dict with a key of type {unusable[1]!r}: use str or bytes") from error
        if "recursion limit" in str(error):
            raise ValueError(_TOO_DEEP) from error
        raise
    except RecursionError as error:  # of the Python implementation
        raise ValueError(_TOO_DEEP) from error
    return packed


def _replace(value: Any, *, level: int, texts: bool = False) -> Any:
    """Give what to pack instead of a value of a type that msgpack does not know.

    With `texts`, that is a text for those that have one which says all of them.
    """
    if level == _MAX_LEVELS:
        raise ValueError(
            f"can not serialize sets and arrays nested deeper than {_MAX_LEVELS} levels, or that contain themselves"
        )
    defaults = _DEFAULTS_WITH_TEXTS if texts else _DEFAULTS
    if texts:
        text = _text_of(value)
        if text is not None:
            return text
    if isinstance(value, np.generic):
        return _replace_scalar(value)
    if isinstance(value, tuple):
        return [_TUPLE, *value]
    if isinstance(value, complex):
        return _pack_complex(value)
    if isinstance(value, (set, frozenset)):
        # Sorted, so that equal sets give equal bytes whatever the seed of the hashes.
        items = sorted(_pack(item, level + 1, defaults) for item in value)
        header: bytes = msgpack.Packer().pack_array_header(len(items))
        return msgpack.ExtType(_SET, header + b"".join(items))
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_NDARRAY, _pack(_describe_array(value), level + 1, defaults))
    to_cframe = getattr(type(value), "to_cframe", None)
    if to_cframe is not None:
        return msgpack.ExtType(_FRAME, to_cframe(value))
    # Subclasses become their base: an OrderedDict, for instance, a dict.
    if isinstance(value, str):
        return str.__str__(value)
    bases: tuple[type[Any], ...] = (int, float, bytes, list, dict)
    for base in bases:
        if isinstance(value, base):
            return base(value)
    kind = type(value).__qualname__
    raise TypeError(f"can not serialize {kind!r} object: store numbers, texts, bytes, lists, dictionaries or arrays")


_DEFAULTS = tuple(partial(_replace, level=level) for level in range(_MAX_LEVELS + 1))
_DEFAULTS_WITH_TEXTS = tuple(partial(_replace, level=level, texts=True) for level in range(_MAX_LEVELS + 1))


def _text_of(value: Any) -> str | None:
    """The text of a date, a time or a path. None for anything else."""
    if isinstance(value, (dt.date, dt.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        return path if isinstance(path, str) else os.fsdecode(path)
    return None


def _replace_scalar(value: np.generic) -> Any:
    if isinstance(value, np.timedelta64):  # a subclass of NumPy's integers
        raise _dateless(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.complexfloating):
        return _pack_complex(complex(value))
    if isinstance(value, np.str_):
        return str.__str__(value)
    if isinstance(value, np.bytes_):
        return bytes(value)
    raise _dateless(value)


def _dateless(value: np.generic) -> TypeError:
    return TypeError(f"can not serialize 'numpy.{type(value).__name__}' object: store a str, an int or an array of one")


def _pack_complex(value: complex) -> Any:
    return msgpack.ExtType(_COMPLEX, struct.pack(">dd", value.real, value.imag))


def _without_metadata(description: Any) -> Any:
    """A description of fields without the metadata of dtypes, which means nothing in a file."""
    if isinstance(description, list):
        return [(field[0], _without_metadata(field[1]), *field[2:]) for field in description]
    return description[0] if isinstance(description, tuple) else description


def _describe_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    if is_masked(array):
        raise TypeError("can not serialize a masked array: its mask would be lost; store data and mask")
    dtype, shape = array.dtype, list(array.shape)
    if dtype.kind == "O":
        return {"values": list(array.flat), "shape": shape}
    try:
        refuse_unstorable(dtype)
        text = {"str": dtype.str} if dtype.names is None else {"descr": _without_metadata(dtype.descr)}
        check_fields(text.get("descr"))
    except (TypeError, ValueError) as error:
        raise TypeError(f"can not serialize an array: {error}") from error
    return {"dtype": text, "shape": shape, "data": contiguous(array).tobytes()}


# Unpacking


class _Reader:
    """One call of `unpack`: its policy, and its location for messages."""

    __slots__ = ("frame_opener", "full", "location")

    def __init__(self, full: bool, location: str | None, frame_opener: FrameOpener | None) -> None:
        self.full = full
        self.location = location
        self.frame_opener = frame_opener

    def error(self, reason: str) -> FormatError:
        return FormatError(f"{self.location}: {reason}" if self.location else reason)

    def read(self, data: bytes | bytearray | memoryview, level: int, frozen: bool) -> Any:
        if level > _MAX_LEVELS:
            raise self.error(f"extension values are nested deeper than {_MAX_LEVELS} levels")
        extension = partial(self.extension, level=level, frozen=frozen)
        size = len(data)
        try:
            try:
                return _unpackb(data, extension, min(size, _LONG_LIST))
            except ValueError as error:
                if size <= _LONG_LIST or f"exceeds max_array_len({_LONG_LIST})" not in str(error):
                    raise
            # msgpack allocates lists at the length that they state, up to the number of bytes, and many may be open.
            if level == 0 and size <= FEW_BYTES and unpacked_size(data) > MOST_PER_BYTE * size:
                raise self.error("not a valid msgpack value: its lists are longer than its bytes allow")
            return _unpackb(data, extension, size)
        except (FormatError, UnsafeDeserializationError):
            raise
        except (msgpack.exceptions.StackError, RecursionError) as error:
            raise self.error("not a valid msgpack value: nested too deeply") from error
        except (ValueError, TypeError, OverflowError) as error:
            # msgpack's own errors are ValueErrors; TypeError is an unhashable key of a map.
            raise self.error(f"not a valid msgpack value: {_reason(error)}") from error

    def extension(self, code: int, payload: bytes, *, level: int, frozen: bool) -> Any:
        if code == _COMPLEX:
            if len(payload) != 16:
                raise self.error(f"a complex number (extension 44) has 16 bytes, not {len(payload)}")
            return complex(*struct.unpack(">dd", payload))
        if code == _SET:
            return self.set_of(self.read(payload, level + 1, True), frozen)
        if code == _NDARRAY:
            return self.array(self.read(payload, level + 1, False))
        if not self.full:
            kind = item_of(_ACTIVE_KINDS, code, f"msgpack extension code {code}")
            raise UnsafeDeserializationError(kind, location=self.location)
        if code == _FRAME and self.frame_opener is not None:
            return self.frame_opener(payload)
        return msgpack.ExtType(code, payload)

    def set_of(self, items: Any, frozen: bool) -> set[Any] | frozenset[Any]:
        if type(items) is not list:
            raise self.error("a set (extension 45) is not stored as a list")
        try:
            # A set inside of a set must have been a frozenset.
            return frozenset(items) if frozen else set(items)
        except TypeError as error:
            raise self.error(f"a set (extension 45) holds what no set can hold: {error}") from error

    def array(self, parts: Any) -> np.ndarray[Any, Any]:
        if type(parts) is not dict:
            raise self.error("an array (extension 46) is not stored as a map")
        shape = parts.get("shape")
        if not isinstance(shape, (list, tuple)) or not all(type(size) is int and size >= 0 for size in shape):
            raise self.error("the shape of an array (extension 46) is not a list of sizes")
        if len(shape) > _MAX_AXES:  # the product of very many sizes would take too long
            raise self.error(f"an array (extension 46) has {len(shape)} axes, and {_MAX_AXES} are possible")
        items = math.prod(shape)
        try:
            if "values" in parts:
                return self.object_array(parts["values"], items).reshape(shape)
            return self.plain_array(parts.get("dtype"), parts.get("data"), items).reshape(shape)
        except FormatError:
            raise
        except (ValueError, OverflowError) as error:  # too many dimensions, or a size beyond an index
            raise self.error(f"an array (extension 46) cannot have its {len(shape)}-d shape: {error}") from error

    def object_array(self, values: Any, items: int) -> np.ndarray[Any, Any]:
        if type(values) is not list or len(values) != items:
            raise self.error(f"an object array (extension 46) does not have the {items} values of its shape")
        array = np.empty(items, dtype=object)
        for index, value in enumerate(values):  # not array[:] = values: NumPy would look inside of lists
            array[index] = value
        return array

    def plain_array(self, description: Any, data: Any, items: int) -> np.ndarray[Any, Any]:
        match description:
            case {"str": str() as text} | {"descr": list() as text}:
                pass
            case _:
                raise self.error("the dtype of an array (extension 46) is neither text nor a list of fields")
        try:
            dtype = dtype_from_description(text)
        except ValueError as error:
            raise self.error(f"an array (extension 46): {error}") from error
        if type(data) is not bytes or len(data) != items * dtype.itemsize:
            raise self.error(f"the data of an array (extension 46) is not {items} items of {dtype.itemsize} bytes")
        # A copy, because an array over bytes is read-only.
        return as_bytes(np.frombuffer(data, dtype=dtype)).copy().view(dtype)


def _reason(error: Exception) -> str:
    """Describe an error in terms of the data, not of msgpack's options."""
    text = str(error)
    claim = re.match(r"(\d+) exceeds max_(\w+)_len\((\d+)\)", text)
    if claim:
        return f"it states a length of {claim[1]} ({claim[2]}), but has {claim[3]} bytes"
    if isinstance(error, msgpack.exceptions.ExtraData):
        return "there are bytes after the end of the value"
    if isinstance(error, msgpack.exceptions.FormatError):
        return "it holds a byte that begins no value"
    return text


def _restore_tuple(items: list[Any]) -> list[Any] | tuple[Any, ...]:
    if items and type(items[0]) is str and items[0] == _TUPLE:
        return tuple(items[1:])
    return items


def _unpackb(data: bytes | bytearray | memoryview, extension: Callable[[int, bytes], Any], longest: int) -> Any:
    return msgpack.unpackb(
        data, strict_map_key=False, list_hook=_restore_tuple, ext_hook=extension, max_array_len=longest
    )
