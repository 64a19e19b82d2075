"""Metadata: what may be written, its values as msgpack with extensions for what msgpack lacks, and its two mappings.

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

Most limits of names, sizes and numbers of entries are those of the C library. What other programs can read but not
change is written unless `strict_compatibility` is set.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import reprlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgpack
import msgpack.exceptions
import numpy as np

from blosc2._core.allocation import FREE, Allowance
from blosc2._core.codec.codec import decode_bytes
from blosc2._core.frame.packed import MOST_PER_BYTE, unpacked_size
from blosc2._core.io.sharing import item_of, never_freed
from blosc2._core.ndim.gaps import as_bytes, contiguous
from blosc2._frames.dtypes import check_fields, dtype_from_description, is_masked, refuse_unstorable
from blosc2._frames.header_fields import CHOICE, PADDING
from blosc2.exceptions import FormatError, MissingMetadataError, UnsafeDeserializationError, some_of
from blosc2.info import HandleProperties
from blosc2.storage import MAX_BUFFERSIZE, cparams_from

if TYPE_CHECKING:
    from blosc2._core.frame.frame import Frame
    from blosc2._frames.handle import FrameHandle

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
    """Pack a value of metadata: those of the table above, and what msgpack knows; keys are str or bytes.

    NumPy scalars become plain ones. `TypeError`, `OverflowError` or `ValueError` for what cannot be stored, such as
    what contains itself.

    Examples
    --------
    >>> pack({"shape": (3, 4)})
    b'\\x81\\xa5shape\\x93\\xa9__tuple__\\x03\\x04'
    >>> unpack(pack({"shape": (3, 4)}))
    {'shape': (3, 4)}
    """
    return _pack(value, 0)


def pack_attribute(value: Any) -> bytes:
    """Pack a value of metadata that a user gave: as `pack`, and dates, times and paths in it become text."""
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
    """Unpack one value of metadata, and nothing after it; anything else is a `FormatError`.

    Under ``deserialize="safe"`` an active value is an `UnsafeDeserializationError`. Under "full" `frame_opener` makes
    an object of the bytes of an embedded frame. Without it, these stay a `msgpack.ExtType`, as all other active values
    do; it packs back to the same bytes. `location` is what the value is, for messages; `file_size` the bytes of the
    file that it comes from, by default those of the value; `together` the values that will be held besides this one.
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
    """Values that one operation unpacks and holds together."""

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
    """Raise `ValueError` where entries could not be read back, one by one and all at once, from so many bytes."""
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
        # An array of this package would be read with deserialize="full" alone.
        if texts and hasattr(value, "__array__"):
            return _replace(np.asarray(value), level=level)
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


# Limits of the C library: beyond them it crashes, or refuses every later write.
MAX_ENTRIES = 16
MAX_NAME_BYTES = 31
#: Entries of variable metadata that are written all the same, unless `strict_compatibility`; the C library reads them.
MOST_ENTRIES = 8000

# Whether to refuse entries that other programs can read but not change: see `strict_compatibility`.
_strict = False

# Metalayers that users cannot set: the geometry of arrays, the padding that aligns data, why compression was chosen.
GEOMETRY = "b2nd"
RESERVED = (GEOMETRY, PADDING, CHOICE)


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
    """The name of a metadata entry as text, where it was given as bytes; what is no UTF-8 stays as it is."""
    if isinstance(name, (bytes, bytearray)):
        with suppress(UnicodeDecodeError):
            return name.decode()
    return name


def check_name(name: object, most: int = MAX_NAME_BYTES) -> str:
    """Check the name of a metadata entry, of either kind, before it is written; return it as text."""
    name = text_name(name)
    if isinstance(name, (bytes, bytearray)):
        raise ValueError(f"the name of a metadata entry is text in UTF-8, which {name!r} is not")
    if not isinstance(name, str):
        raise TypeError(f"the name of a metadata entry must be a str, not {name!r}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise ValueError(f"the name of a metadata entry has a character that UTF-8 cannot express: {name!r}") from None
    if not 1 <= size <= most:
        raise ValueError(f"the name of a metadata entry has 1 to {most} bytes in UTF-8, not {size}: {name[:80]!r}")
    if "\0" in name:
        raise ValueError(f"the name of a metadata entry cannot hold a NUL: {name!r}")
    return name


def check_content(name: str, content: bytes) -> None:
    """Raise `ValueError` where a packed value is larger than a chunk, and so an entry, can be."""
    if len(content) > MAX_BUFFERSIZE:
        raise ValueError(
            f"the metadata entry {name!r} has {len(content)} bytes, and {MAX_BUFFERSIZE} are possible: "
            "store it as an array or super-chunk of its own"
        )


def with_choice(metalayers: Mapping[str, bytes], why: str) -> dict[str, bytes]:
    """Metalayers with a line that says why compression was chosen, if there is room for one more."""
    others = {name: content for name, content in metalayers.items() if name != CHOICE}
    return {**others, CHOICE: pack_attribute(why)} if why and len(others) < MAX_ENTRIES else others


def pack_metalayers(meta: Mapping[str, Any] | None, reserved: Iterable[str] = ()) -> dict[str, bytes]:
    """Check and pack the `meta` of a new object.

    `reserved` are metalayers that the creator adds; they count towards the limit, and users cannot give them.
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
    """Raise `ValueError` where there would be too many entries of variable metadata."""
    if entries <= (MAX_ENTRIES if _strict else MOST_ENTRIES):
        return
    instead = "put several values into one dictionary"
    if entries > MOST_ENTRIES:
        raise ValueError(f"there can be {MOST_ENTRIES} entries of variable metadata, not {entries}: {instead}")
    raise ValueError(
        f"there can be {MAX_ENTRIES} entries of variable metadata, not {entries}: other programs could not change the "
        f"file any more; {instead}, or set blosc2.strict_compatibility = False, which allows {MOST_ENTRIES}"
    )


#: The longest name of an entry, in bytes of UTF-8.
MAX_LONG_NAME = 1 << 16
#: The entry that holds those whose names are too long for one of their own: a map of names to values.
LONG_NAMES = "blosc2_long_names"


def _is_long(name: Any) -> bool:
    """Whether a name is too long for an entry of its own."""
    if not isinstance(name, str):
        return False
    return len(name) > MAX_NAME_BYTES or (not name.isascii() and len(name.encode(errors="replace")) > MAX_NAME_BYTES)


def long_entries(content: bytes | None) -> dict[str, bytes] | None:
    """The packed values in the content of `LONG_NAMES`, by their names; None if it is something else."""
    if content is None:
        return {}
    found: dict[str, bytes] = {}
    # Of what it skips the unpacker makes nothing; names are texts, and no lists of any length.
    unpacker = msgpack.Unpacker(max_buffer_size=0, max_array_len=0, max_map_len=0, max_ext_len=0)
    unpacker.feed(content)
    try:
        for _ in range(unpacker.read_map_header()):
            name = unpacker.unpack()
            start = unpacker.tell()
            unpacker.skip()
            if not isinstance(name, str):
                return None
            found[name] = content[start : unpacker.tell()]
    except (ValueError, msgpack.exceptions.UnpackException):
        return None
    # Another program may have put entries of any name beside the long ones.
    return found if unpacker.tell() == len(content) and any(map(_is_long, found)) else None


def _pack_entries(entries: Mapping[str, bytes]) -> bytes:
    packer = msgpack.Packer()
    return b"".join([packer.pack_map_header(len(entries)), *(packer.pack(n) + v for n, v in entries.items())])


# Characters of a value that are shown, and the packed size above which only a part of it is turned into text.
_SHOWN = 200
_LONG_VALUE = 4096


class _Metadata:
    """What the two mappings share: reading one entry, and how they look."""

    __slots__ = ("_frame_opener", "_handle")

    _kind = "metadata"
    _cure = ""

    def __init__(self, handle: FrameHandle, frame_opener: FrameOpener | None = None) -> None:
        self._handle = handle
        self._frame_opener = frame_opener

    def _read(self, name: str) -> bytes | None:
        raise NotImplementedError

    def _entry(self, name: object) -> tuple[str, bytes]:
        """The name of an entry as text, and its content."""
        text = name if isinstance(name, str) else text_name(name)
        content = self._read(text) if isinstance(text, str) else None
        if content is None:
            raise self._missing(name)
        return text, content

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def _missing(self, name: object) -> MissingMetadataError:
        why = f"{name} not found in the {self._kind}, {which_has(self)}{self._cure}"
        return MissingMetadataError(why, path=self._handle.urlpath, key=self._handle.entries.key)

    def _unpack(self, name: str, content: bytes, together: Together | None = None) -> Any:
        where = f"{self._kind} {name!r}"
        # Short content takes little memory, whatever the file.
        file_size = self._handle.entries.file_size if len(content) > _LONG_VALUE else 0
        try:
            return unpack(
                content, deserialize=self._handle.options.deserialize, location=where, frame_opener=self._frame_opener,
                file_size=file_size, together=together,
            )  # fmt: skip
        except FormatError as error:
            raise FormatError(error.reason, path=self._handle.urlpath, key=self._handle.entries.key) from error
        except UnsafeDeserializationError as error:
            if self._handle.urlpath is None:
                raise
            key = self._handle.entries.key
            file = self._handle.urlpath if key is None else f"{self._handle.urlpath}, key {key!r}"
            raise UnsafeDeserializationError(error.kind, location=f"{where} of {file}") from None

    def _show(self, names: Iterable[str], get: Callable[[str], Any]) -> str:
        """Show entries like a dictionary, with long values cut. An unreadable entry is named, and nothing is raised."""
        shown = []
        for name in names:
            try:
                text = _text(get(name), len(self._read(name) or b""))
            except UnsafeDeserializationError as error:
                text = f"<{error.kind}>"
            except FormatError as error:
                text = f"<unreadable: {error.reason}>"
            shown.append(f"{name!r}: {text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'}")
        return f"{{{', '.join(shown)}}}"


def which_has(names: Iterable[str]) -> str:
    """The end of a message about a name that is not there: those that are, the first eight of them."""
    return f"which has {some_of(names) or 'no entry'}"


def _text(value: Any, size: int) -> str:
    """The text of a value. Of a value that is large when packed, only a part is turned into text."""
    return repr(value) if size <= _LONG_VALUE else _ShortText().repr(value)


class _ShortText(reprlib.Repr):
    """Texts of values whose parts are no longer than what is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = _SHOWN
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = _SHOWN

    def repr_bytes(self, value: bytes, _: int) -> str:
        return repr(value[:_SHOWN])

    def repr_ndarray(self, value: Any, _: int) -> str:
        return f"array(shape={value.shape}, dtype={value.dtype})"


def _only_whole(key: slice) -> None:
    if key != slice(None):
        raise NotImplementedError("Slicing is not supported, unless [:]")


class Meta(_Metadata, Mapping[str, Any]):
    """The metalayers of an array or super-chunk: a mapping of names to values, fixed at creation.

    A value can be replaced by one of the same packed length; nothing can be added or removed.

    Examples
    --------
    >>> import blosc2
    >>> a = blosc2.zeros(3, meta={"unit": "mm"})
    >>> a.meta["unit"]
    'mm'
    """

    __slots__ = ()

    _kind = "fixed metadata"
    _cure = "; meta={...} sets these names when the object is made, attrs takes others at any time"

    def __getitem__(self, name: str | slice) -> Any:
        if isinstance(name, slice):
            _only_whole(name)
            return self.getall()
        name, content = self._entry(name)
        if name == GEOMETRY:
            content = _with_array_markers(content)
        return self._unpack(name, content)

    def __setitem__(self, name: str, value: Any) -> None:
        self._handle.require_writable()
        name, old = self._entry(name)
        if name in RESERVED:
            raise ValueError(f"the metalayer {name!r} is written by the library and cannot be assigned")
        new = pack_attribute(value)
        if len(new) != len(old):
            raise ValueError(
                f"The length of the content in a metalayer cannot change: {name!r} has {len(old)} bytes, "
                f"the new value has {len(new)}; vlmeta has no such limit"
            )
        self._handle.set_metalayer(name, new)

    def __delitem__(self, name: str) -> None:
        raise NotImplementedError(f"metalayers are fixed at creation: {name!r} cannot be deleted")

    def __contains__(self, name: object) -> bool:
        name = text_name(name)
        return isinstance(name, str) and self._handle.frame.metalayer(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[str]:  # type: ignore[override]  # callers index and compare it
        """Return the names, in the order in which they are stored."""
        return list(self._handle.frame.metalayers())

    def getall(self) -> dict[str, Any]:
        """Read all values, from one version.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.SChunk(meta={"unit": "mm"}).meta.getall()
        {'unit': 'mm'}
        """
        return {name: self[name] for name in self.keys()}

    def __repr__(self) -> str:
        return self._show(self.keys(), self.__getitem__)

    def _read(self, name: str) -> bytes | None:
        return self._handle.frame.metalayer(name)


def _with_array_markers(content: bytes) -> bytes:
    """Mend the geometry of arrays with 16 dimensions, whose three list markers are those of an empty string."""
    if len(content) < 261 or content[2] != 16:
        return content
    marker = b"\xdc\x00\x10"
    shape, chunks, blocks, rest = content[4:148], content[149:229], content[230:310], content[310:]
    return content[:3] + marker + shape + marker + chunks + marker + blocks + rest


@never_freed
class VLMeta(_Metadata, HandleProperties, MutableMapping[str, Any]):
    """The variable-length metadata of an array or super-chunk: a mapping of names to values.

    ``vlmeta[:]`` reads all entries, ``vlmeta[:] = {...}`` merges a dictionary. `update`, `clear` and ``[:] =`` publish
    all their changes together. In a file, assignments that follow each other closely are published together, about a
    second later at the latest.

    There can be 8,000 entries. Other Blosc2 programs can read them all, but change only files with up to 16;
    ``blosc2.strict_compatibility = True`` refuses more. Names of more than 31 bytes of UTF-8 are in one entry for other
    programs, a dictionary named "blosc2_long_names". Dates become ISO 8601 strings, and paths strings.

    Examples
    --------
    >>> import blosc2
    >>> a = blosc2.zeros(3)
    >>> a.vlmeta["spacing"] = (0.5, 0.5, 1.2)
    >>> a.vlmeta["spacing"]
    (0.5, 0.5, 1.2)
    """

    __slots__ = ("_long",)

    _kind = "variable metadata"

    def __init__(self, handle: FrameHandle, frame_opener: FrameOpener | None = None) -> None:
        super().__init__(handle, frame_opener)
        # A version, and what it holds under `LONG_NAMES`.
        self._long: tuple[Frame, dict[str, bytes]] | None = None

    def _beside(self, frame: Frame) -> dict[str, bytes]:
        """The entries that one entry holds for others, by their names; not to be changed."""
        known = self._long
        if known is None or known[0] is not frame:
            known = self._long = frame, long_entries(frame.vlmeta(LONG_NAMES)) or {}
        return known[1]

    def _names(self, frame: Frame) -> list[str]:
        """The names of all entries, those with long names last."""
        names: list[str] = frame.vlmeta_names()
        if LONG_NAMES not in names:
            return names
        beside = self._beside(frame)
        own = [name for name in names if name != LONG_NAMES] if beside else names
        return own + [name for name in beside if name not in own]

    def _content(self, frame: Frame, name: str) -> bytes | None:
        """The content of an entry; None if there is none of this name."""
        content: bytes | None = frame.vlmeta(name)
        if content is not None and name != LONG_NAMES:
            return content
        beside = self._beside(frame)
        return beside.get(name) if beside else content

    def __getitem__(self, name: str | slice) -> Any:
        if isinstance(name, slice):
            _only_whole(name)
            return self.getall()
        return self._unpack(*self._entry(name))

    def __setitem__(self, name: str | slice, value: Any) -> None:
        if isinstance(name, slice):
            _only_whole(name)
            self.update(value)
        else:
            self._publish({text_name(name): pack_attribute(value)})

    def __delitem__(self, name: str) -> None:
        self._handle.require_writable()
        name = text_name(name)
        if name not in self:
            raise self._missing(name)
        self._publish({name: None})

    def __contains__(self, name: object) -> bool:
        return (name if isinstance(name, str) else text_name(name)) in self._names(self._handle.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names(self._handle.entries))

    def __len__(self) -> int:
        return len(self._names(self._handle.entries))

    def update(self, other: Any = (), /, **entries: Any) -> None:
        """Merge a mapping, or pairs, publishing all changes together.

        Examples
        --------
        >>> import blosc2
        >>> vlmeta = blosc2.SChunk().vlmeta
        >>> vlmeta.update({"a": 1}, b=2)
        >>> vlmeta[:]
        {'a': 1, 'b': 2}
        """
        self._publish({text_name(name): pack_attribute(value) for name, value in dict(other, **entries).items()})

    def clear(self) -> None:
        """Delete all entries, publishing all changes together."""
        self._publish(dict.fromkeys(self))

    @property
    def locking(self) -> bool:
        """Whether it was opened with ``locking=True``."""
        return self._handle.locking

    @property
    def initial_mapping_size(self) -> None:
        """Always None: a file is mapped at its size."""
        return None

    def getall(self) -> dict[str, Any]:
        """Read all values, from one version.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk()
        >>> schunk.vlmeta["a"] = {"b": [1, 2]}
        >>> schunk.vlmeta.getall()
        {'a': {'b': [1, 2]}}
        """
        frame = self._handle.entries
        values: dict[str, Any] = {}
        packed = 0
        names = self._names(frame)
        for name in names:
            content = self._content(frame, name) or b""
            packed += len(content)
            if packed > FEW_BYTES:  # start again, and count what they take together
                del content  # otherwise it would be in memory twice
                together = Together(frame.file_size)
                return {name: self._unpack(name, self._content(frame, name) or b"", together) for name in names}
            values[name] = self._unpack(name, content)
        return values

    def to_dict(self) -> dict[bytes, Any]:
        """Read all values; the names are bytes.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk()
        >>> schunk.vlmeta["a"] = 1
        >>> schunk.vlmeta.to_dict()
        {b'a': 1}
        """
        return {name.encode(): value for name, value in self.getall().items()}

    def get_names(self) -> list[str]:
        """Return the names, in the order in which they are stored."""
        return self._names(self._handle.entries)

    def nvlmetalayers(self) -> int:
        """Return the number of entries."""
        return len(self)

    def get_vlmeta(self, name: str) -> bytes:
        """Read the content of an entry as it is stored: the packed value, unless `set_vlmeta` wrote something else.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk()
        >>> schunk.vlmeta["a"] = 5
        >>> schunk.vlmeta.get_vlmeta("a")
        b'\\x05'
        """
        return self._entry(name)[1]

    def set_vlmeta(self, name: str, content: bytes, **cparams: Any) -> None:
        """Write the content of an entry unchanged, for programs with a format of their own.

        Parameters
        ----------
        name : str
        content : bytes-like
            The bytes that `get_vlmeta` will return. If they are not one msgpack value, the entry cannot be read by its
            name, or together with all entries.
        **cparams
            Checked, but metadata is always compressed in the same way.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk()
        >>> schunk.vlmeta.set_vlmeta("raw", b"any bytes")
        >>> schunk.vlmeta.get_vlmeta("raw")
        b'any bytes'
        """
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise TypeError(f"the content of an entry must be bytes, not {type(content).__name__}")
        cparams_from(cparams)
        if not content:
            raise ValueError("the content of an entry cannot be empty")
        if _is_long(name) and long_entries(_pack_entries({name: bytes(content)})) is None:
            raise ValueError(f"the content of an entry with a long name must be one msgpack value: {name[:80]!r}")
        self._publish({text_name(name): bytes(content)})

    def del_vlmeta(self, name: str) -> None:
        """Delete an entry."""
        del self[name]

    def __repr__(self) -> str:
        return self._show(self, self.__getitem__)

    def _read(self, name: str) -> bytes | None:
        return self._content(self._handle.entries, name)

    def _publish(self, changes: Mapping[str, bytes | None]) -> None:
        self._handle.require_writable()
        if not changes:
            return
        if LONG_NAMES in self._handle.entries.vlmeta_names() or any(map(_is_long, changes)) or LONG_NAMES in changes:
            with self._handle.editing():  # the one entry for all of them is that of the newest version
                self._set(_with_long_names(self._handle.frame, changes))
        else:
            self._set(changes)

    def _set(self, changes: Mapping[str, bytes | None]) -> None:
        names = self._handle.entries.vlmeta_names()
        old = set(names) if len(changes) > 1 else names
        entries = len(names)
        grows = False
        for name, content in changes.items():
            if content is None:
                entries -= name in old
            else:
                check_content(check_name(name), content)
                if name not in old:
                    entries += 1
                    grows = True
        # Files with more entries exist. They can be changed, but no entry can be added.
        if grows:
            check_number(entries)
        self._handle.set_vlmeta(dict(changes))


def _with_long_names(frame: Frame, changes: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    """Changes of entries in which those with long names have become one."""
    if changes.get(LONG_NAMES) is not None:
        raise ValueError(f"the entry {LONG_NAMES!r} is written by the library; choose another name")
    found = long_entries(frame.vlmeta(LONG_NAMES))
    beside, own = dict(found or {}), set(frame.vlmeta_names())
    made: dict[str, bytes | None] = {}
    for name, content in changes.items():
        if not (_is_long(name) or (name in beside and name not in own)):
            made[name] = content
        elif content is None:
            beside.pop(name, None)
        else:
            check_content(check_name(name, MAX_LONG_NAME), content)
            beside[name] = content
    if beside != (found or {}):
        if found is None:
            raise ValueError(
                f"the entry {LONG_NAMES!r} is no dictionary of entries with long names: delete it to have such entries"
            )
        made[LONG_NAMES] = _pack_entries(beside) if any(map(_is_long, beside)) else None
        if made[LONG_NAMES] is None:  # others alone are entries of their own
            made |= beside
    return made
