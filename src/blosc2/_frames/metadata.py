"""What metadata may be written: names, sizes, and how many entries there can be.

Most limits are those of the C library. What other programs can read but not change is written unless
`strict_compatibility` is set.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, Protocol

from blosc2._core.io.sharing import never_freed
from blosc2._frames.msgpack_values import FEW_BYTES, FrameOpener, Together, check_readable, pack_attribute, unpack
from blosc2._frames.payload_alignment import PADDING
from blosc2.exceptions import FormatError, MissingMetadataError, UnsafeDeserializationError, some_of
from blosc2.info import HandleProperties
from blosc2.storage import MAX_BUFFERSIZE, cparams_from

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


# Characters of a value that are shown, and the packed size above which only a part of it is turned into text.
_SHOWN = 200
_LONG_VALUE = 4096


class FrameMetadata(Protocol):
    """What this module needs of a frame. Contents are packed values."""

    @property
    def key(self) -> str | None: ...
    @property
    def file_size(self) -> int: ...
    def metalayers(self) -> dict[str, bytes]: ...
    def metalayer(self, name: str, /) -> bytes | None: ...
    def vlmeta_names(self) -> list[str]: ...
    def vlmeta(self, name: str, /) -> bytes | None: ...


class MetadataHandle(Protocol):
    """What this module needs of a handle: the current frame, and publishing changes of its metadata."""

    @property
    def frame(self) -> FrameMetadata: ...
    @property
    def urlpath(self) -> str | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def mmap_mode(self) -> str | None: ...
    @property
    def locking(self) -> bool: ...
    @property
    def deserialize(self) -> str: ...
    def require_writable(self) -> None: ...
    def set_vlmeta(self, changes: dict[str, bytes | None], /) -> None: ...
    def set_metalayer(self, name: str, content: bytes, /) -> None: ...


class _Metadata:
    """What the two mappings share: reading one entry, and how they look."""

    __slots__ = ("_frame_opener", "_handle")

    _kind = "metadata"
    _cure = ""

    def __init__(self, handle: MetadataHandle, frame_opener: FrameOpener | None = None) -> None:
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
        return MissingMetadataError(why, path=self._handle.urlpath, key=self._handle.frame.key)

    def _unpack(self, name: str, content: bytes, together: Together | None = None) -> Any:
        where = f"{self._kind} {name!r}"
        # Short content takes little memory, whatever the file.
        file_size = self._handle.frame.file_size if len(content) > _LONG_VALUE else 0
        try:
            return unpack(
                content, deserialize=self._handle.deserialize, location=where, frame_opener=self._frame_opener,
                file_size=file_size, together=together,
            )  # fmt: skip
        except FormatError as error:
            raise FormatError(error.reason, path=self._handle.urlpath, key=self._handle.frame.key) from error
        except UnsafeDeserializationError as error:
            if self._handle.urlpath is None:
                raise
            key = self._handle.frame.key
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
    """The end of a message about a name that is not there: those that are, the first eight of them.

    Examples
    --------
    >>> which_has(["unit", "spacing"])
    "which has 'unit', 'spacing'"
    >>> which_has([])
    'which has no entry'
    """
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

    ``vlmeta[:]`` reads all entries, ``vlmeta[:] = {...}`` merges a dictionary. Each assignment is published at once;
    `update`, `clear` and ``[:] =`` publish all their changes together, so use them for many entries.

    There can be 8,000 entries. Other Blosc2 programs can read them all, but change only files with up to 16;
    ``blosc2.strict_compatibility = True`` refuses more. Dates become ISO 8601 strings, and paths strings.

    Examples
    --------
    >>> import blosc2
    >>> a = blosc2.zeros(3)
    >>> a.vlmeta["spacing"] = (0.5, 0.5, 1.2)
    >>> a.vlmeta["spacing"]
    (0.5, 0.5, 1.2)
    """

    __slots__ = ()

    _kind = "variable metadata"

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
        self._handle.set_vlmeta({name: None})

    def __contains__(self, name: object) -> bool:
        return (name if isinstance(name, str) else text_name(name)) in self._handle.frame.vlmeta_names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._handle.frame.vlmeta_names())

    def __len__(self) -> int:
        return len(self._handle.frame.vlmeta_names())

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
        frame = self._handle.frame
        values: dict[str, Any] = {}
        packed = 0
        for name in frame.vlmeta_names():
            content = frame.vlmeta(name) or b""
            packed += len(content)
            if packed > FEW_BYTES:  # start again, and count what they take together
                del content  # otherwise it would be in memory twice
                together = Together(frame.file_size)
                return {name: self._unpack(name, frame.vlmeta(name) or b"", together) for name in frame.vlmeta_names()}
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
        return list(self._handle.frame.vlmeta_names())

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
        self._publish({text_name(name): bytes(content)})

    def del_vlmeta(self, name: str) -> None:
        """Delete an entry."""
        del self[name]

    def __repr__(self) -> str:
        return self._show(self, self.__getitem__)

    def _read(self, name: str) -> bytes | None:
        return self._handle.frame.vlmeta(name)

    def _publish(self, changes: Mapping[str, bytes | None]) -> None:
        self._handle.require_writable()
        if not changes:
            return
        old = set(self._handle.frame.vlmeta_names())
        entries = len(old)
        grows = False
        for name, content in changes.items():
            if content is None:
                entries -= name in old
            else:
                check_content(check_name(name), content)
                entries += name not in old
                grows = grows or name not in old
        # Files with more entries exist. They can be changed, but no entry can be added.
        if grows:
            check_number(entries)
        self._handle.set_vlmeta(dict(changes))
