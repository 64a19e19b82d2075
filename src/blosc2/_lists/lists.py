"""Packing values for lists. A value that would not come back the same is refused."""

from __future__ import annotations

import errno
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from typing import Any, ClassVar, Final, Self

import numpy as np

from blosc2._core.allocation import allowed, too_much
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.packed import unpacked_size
from blosc2._frames import (
    FEW_BYTES,
    Fields,
    FrameContent,
    FrameHandle,
    FrameUpdate,
    HandleOptions,
    StoredFrame,
    Together,
    check_for_bytes,
    check_target,
    copy_frame,
    encode,
    integer,
    new_handle,
    open_handle,
    pack,
    pack_metalayers,
    schunk_keywords,
    unpack,
)
from blosc2._indexing import list_index
from blosc2._options import Encoding, RemotePath, check_locking, deserialize_mode, encoding_of, refuse_without_path
from blosc2.exceptions import CompressionError, ExistingFileError, FormatError, MissingFileError
from blosc2.schunk import SChunk
from blosc2.storage import (
    MAX_BUFFERSIZE,
    Codec,
    CParams,
    SChunkKeywords,
    SpecialValue,
    cparams_from,
    storage_from,
    takes,
)

_TUPLE = "__tuple__"
#: What marks a packed list as a tuple.
TUPLE_MARK = b"\xa9" + _TUPLE.encode()
_KINDS = (int, float, str, bytes, bool, type(None))


def packed_value(value: Any) -> bytes:
    """A value, packed, after a look whether it will come back as it is; else an error, see `pack`."""
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


#: A compressed element, and its uncompressed size.
Chunk = tuple[bytes, int]

# What is compressed to see whether it can be.
_SAMPLE = bytes(range(64)) * 4
# Compressed bytes of new elements that are held before they are published, where an iterable gives many.
_HELD = 32 << 20


#: What to do with what is no size.
ADVICE: Final = "extend(values) takes values, and urlpath= a path"


class ValueList(StoredFrame, MutableSequence[Any]):
    """A list that is a frame, with one chunk for each element."""

    __slots__ = ()
    #: The metalayer that says what the frame is.
    _tag: ClassVar[str]
    #: Whether new lists compress with a dictionary by default.
    _uses_dictionary: ClassVar[bool] = False

    # ------------------------------------------------------------ making and opening
    @classmethod
    def _of(cls, handle: FrameHandle) -> Any:
        self = cls.__new__(cls)
        self._handle = handle
        return self

    def _begin(
        self, content: bytes, chunksize: int | None, schunk: SChunk | None, deserialize: Any,
        keywords: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Make a new list, whose metalayer has this content, or open an existing one."""
        if deserialize is not None:
            deserialize = str(deserialize_mode(deserialize))
        if schunk is not None:
            if not isinstance(schunk, SChunk):
                raise TypeError(f"_from_schunk must be a SChunk, not {type(schunk).__name__}")
            self._require_tag(schunk._handle)
            self._handle = schunk._handle
            return
        given = schunk_keywords(keywords)
        storage = given.storage
        if storage.mode == "r" and storage.urlpath is None:
            refuse_without_path(self._article())
        if isinstance(storage.urlpath, RemotePath):
            raise ValueError(
                f"{storage.urlpath}: a list on a server cannot grow: make one here, copy(urlpath=) it there, "
                "where blosc2.open reads it"
            )
        if storage.urlpath is not None and storage.mode in ("r", "a"):
            if os.path.lexists(storage.urlpath):
                self._handle = self._existing(storage, deserialize, given)
                return
            if storage.mode == "r":
                raise MissingFileError(errno.ENOENT, "No such file or directory: mode='a' creates it", storage.urlpath)
        if chunksize is not None:
            chunksize = integer("chunksize", chunksize, ADVICE)
            if not 1 <= chunksize <= MAX_BUFFERSIZE:
                raise ValueError(f"chunksize must be between 1 and {MAX_BUFFERSIZE} bytes, not {chunksize}")
        cparams = self._parameters(given.cparams)
        encoding = encoding_of(cparams, 1, cparams.blocksize)
        check_for_bytes(encoding)
        try:
            self._check_encoding(encoding)
        except CompressionError as error:
            raise ValueError(f"values cannot be compressed with these parameters: {error}") from None
        check_target(storage, type(self).__name__)
        try:
            metalayers = {**pack_metalayers(storage.meta, (self._tag,)), self._tag: content}
            fields = Fields(encoding, -1 if chunksize is None else chunksize)
            empty = FrameContent(fields, metalayers, {}, (), 0, 0)
            options = HandleOptions(deserialize=deserialize or "full", dparams=given.dparams, cparams=cparams)
            self._handle = new_handle(storage, empty, options)
        except ExistingFileError:
            if storage.mode != "a":
                raise
            self._handle = self._existing(storage, deserialize, given)  # somebody made it just now

    @staticmethod
    def _check_encoding(encoding: Encoding) -> None:
        """Raise where nothing can be compressed like this."""
        encode(encoding, _SAMPLE)

    def _parameters(self, given: CParams | dict[str, Any] | None) -> CParams:
        cparams = cparams_from(given, typesize=1)
        if not isinstance(given, CParams) and "use_dict" not in (given or {}) and self._uses_dictionary:
            cparams.use_dict = cparams.codec is Codec.ZSTD and cparams.clevel > 0
        return cparams

    def _existing(self, storage: Any, deserialize: str | None, given: Any) -> FrameHandle:
        """The handle of the list in a file or directory."""
        cparams = None if given.cparams is None else self._parameters(given.cparams)
        if storage.locking:
            check_locking(storage.urlpath, storage.mmap_mode)
        options = HandleOptions(
            storage.mode,
            storage.mmap_mode,
            deserialize or "safe",
            given.dparams,
            cparams,
            locking=storage.locking,
            durable=storage.durable,
        )
        handle = open_handle(storage.urlpath, options)
        self._require_tag(handle)
        return handle

    def _require_tag(self, handle: FrameHandle) -> None:
        if handle.frame.metalayer(self._tag) is None:
            raise FormatError(
                f"what is there is not tagged as {self._article()}: it has no metalayer {self._tag!r}",
                path=handle.urlpath, key=handle.key,
            )  # fmt: skip

    @classmethod
    def _article(cls) -> str:
        return f"{'an' if cls.__name__[0] in 'AEIO' else 'a'} {cls.__name__}"

    # ------------------------------------------------------------ what each kind says of its elements
    def _read(self, frame: Frame, index: int, together: Together | None = None) -> Any:
        """An element of a version."""
        raise NotImplementedError

    def _pop_read(self, frame: Frame, index: int) -> Any:
        return self._read(frame, index)

    def _entry(self, index: int) -> Any:
        """An element with all that is in it, unpacked: for those who check it."""
        return self._read(self._handle.frame, index)

    def _chunk_of(self, value: Any, encoding: Encoding) -> Any:
        """What is stored of an element."""
        raise NotImplementedError

    def _splice(self, update: FrameUpdate, index: int, removed: int, new: list[Any]) -> None:
        """Put elements instead of others, in an update."""
        update.splice(index, removed, new)

    def _replace(self, update: FrameUpdate, indices: list[int], new: list[Any]) -> None:
        for index, (stored, size) in zip(indices, new, strict=True):
            update.replace(index, stored, size)

    def _keep(self, update: FrameUpdate, indices: np.ndarray[Any, Any]) -> None:
        """Leave these elements, in this order."""
        sizes = update.sizes[indices]
        update.offsets = update.offsets[indices]
        update.sizes = sizes

    # ------------------------------------------------------------ reading
    def __len__(self) -> int:
        return int(self._handle.frame.nchunks)

    def __getitem__(self, key: Any) -> Any:
        frame = self._handle.frame
        if isinstance(key, slice):
            together = Together(frame.file_size)
            return [self._read(frame, i, together) for i in range(*key.indices(int(frame.nchunks)))]
        try:
            index = self._index(key, int(frame.nchunks))
        except IndexError:
            if not self._handle.has_grown():
                raise
            return self[key]
        return self._read(frame, index)

    def __iter__(self) -> Iterator[Any]:
        frame = self._handle.frame
        return (self._read(frame, i) for i in range(int(frame.nchunks)))

    def __reversed__(self) -> Iterator[Any]:
        frame = self._handle.frame
        return (self._read(frame, i) for i in reversed(range(int(frame.nchunks))))

    def _index(self, index: Any, length: int) -> int:
        """The index of an existing element, counted from the start."""
        return list_index(index, length, type(self).__name__)

    # ------------------------------------------------------------ changing
    def _publish(self, update: FrameUpdate, *, fresh: bool = False) -> None:
        self._handle.publish(update, fresh=fresh)

    def _change(self, index: int, removed: int, new: list[Any]) -> int:
        """Publish elements instead of others; the handle is being edited."""
        update = FrameUpdate(self._handle.frame)
        self._splice(update, index, removed, new)
        self._publish(update)
        return len(self)

    def _encoding(self) -> Encoding:
        self._handle.require_writable()
        return self._handle.encoding()

    def append(self, value: Any) -> int:  # type: ignore[override]  # as the older package has it
        """Add an element at the end, and publish the change.

        Returns
        -------
        int
            The new length.
        """
        new = self._chunk_of(value, self._encoding())
        with self._handle.editing():
            return self._change(len(self), 0, [new])

    def extend(self, values: Iterable[Any]) -> None:
        """Add elements at the end, and publish them together, or in parts of 32 MB (compressed).

        If the iterable raises, elements that were not published yet are not added.
        """
        encoding = self._encoding()
        self._extend(self._chunk_of(value, encoding) for value in values)

    def _extend(self, chunks: Iterable[Any]) -> None:
        new: list[Any] = []
        held = 0
        for chunk in chunks:
            new.append(chunk)
            held += len(chunk[0])
            if held > _HELD:
                with self._handle.editing():
                    self._change(len(self), 0, new)
                new, held = [], 0
        if new:
            with self._handle.editing():
                self._change(len(self), 0, new)

    def insert(self, index: int, value: Any) -> int:  # type: ignore[override]
        """Insert an element before an index, like `list.insert`, and publish the change.

        Returns
        -------
        int
            The new length.
        """
        try:
            number = operator.index(index)
        except TypeError:
            raise TypeError(f"{type(self).__name__} indices must be integers, not {type(index).__name__}") from None
        new = self._chunk_of(value, self._encoding())
        with self._handle.editing():
            length = len(self)
            position = max(number + length, 0) if number < 0 else min(number, length)
            return self._change(position, 0, [new])

    def pop(self, index: Any = -1) -> Any:
        """Remove and return an element, and publish the change.

        Returns
        -------
        object
            What it was.
        """
        if isinstance(index, slice):
            raise NotImplementedError(f"Slicing is not supported for {type(self).__name__}.pop(): read it, then delete")
        with self._handle.editing():
            frame = self._handle.frame
            number = self._index(index, int(frame.nchunks))
            value = self._pop_read(frame, number)
            self._change(number, 1, [])
            return value

    def delete(self, index: int | slice) -> int:
        """Remove an element or a slice, and publish the change.

        Returns
        -------
        int
            The new length.
        """
        with self._handle.editing():
            frame = self._handle.frame
            count = int(frame.nchunks)
            if not isinstance(index, slice):
                return self._change(self._index(index, count), 1, [])
            gone = range(*index.indices(count))
            if len(gone) and abs(gone.step) == 1:
                return self._change(min(gone), len(gone), [])
            if len(gone):
                update = FrameUpdate(frame)
                self._keep(update, np.delete(np.arange(count), gone))
                self._publish(update)
            return len(self)

    def __delitem__(self, index: Any) -> None:
        self.delete(index)

    def __setitem__(self, key: Any, value: Any) -> None:
        encoding = self._encoding()
        if not isinstance(key, slice):
            new = [self._chunk_of(value, encoding)]
            with self._handle.editing():
                self._change(self._index(key, len(self)), 1, new)
            return
        new = [self._chunk_of(one, encoding) for one in value]
        with self._handle.editing():
            start, stop, step = key.indices(len(self))
            if step == 1:
                self._change(start, max(stop - start, 0), new)
                return
            indices = list(range(start, stop, step))
            if len(indices) != len(new):
                raise ValueError(
                    f"attempt to assign sequence of size {len(new)} to extended slice of size {len(indices)}"
                )
            if indices:
                update = FrameUpdate(self._handle.frame)
                self._replace(update, indices, new)
                self._publish(update)

    def clear(self) -> None:
        """Remove all elements, and publish the change."""
        self.delete(slice(None))

    def reverse(self) -> None:
        """Reverse the order of the elements, and publish the change."""
        with self._handle.editing():
            count = len(self)
            if count > 1:
                update = FrameUpdate(self._handle.frame)
                self._keep(update, np.arange(count)[::-1])
                self._publish(update)

    def __iadd__(self, values: Iterable[Any]) -> Self:
        self.extend(values)
        return self

    # ------------------------------------------------------------ packed values
    def _unpack(self, frame: Frame, index: int, data: bytes, together: Together | None = None) -> Any:
        where = f"chunk {index} of {self._handle.urlpath or 'a frame in memory'}"
        try:
            return unpack(
                data, deserialize=self._handle.options.deserialize, location=where,
                frame_opener=FrameHandle.open_cframe, together=together,
                file_size=frame.file_size if len(data) > FEW_BYTES else 0,
            )  # fmt: skip
        except FormatError as error:
            raise self._damaged(frame, index, error.reason) from None

    def _damaged(self, frame: Frame, index: int, reason: str) -> FormatError:
        at = frame.chunk_info(index)[0]
        return FormatError(reason, path=self._handle.urlpath, key=self._handle.key, offset=at)

    def _require_room(self, frame: Frame, index: int) -> None:
        """Refuse a chunk that is no value, or too large for a file of this size, before it is decoded."""
        at, nbytes, _, special, _, _ = frame.chunk_info(index)
        reason = None
        if special and special != SpecialValue.VALUE.value and nbytes > 1:
            reason = f"chunk {index} is one value of zeros, and {nbytes - 1} bytes follow it"
        elif nbytes > FEW_BYTES and nbytes > allowed(frame.file_size):
            reason = too_much(nbytes, f"chunk {index}", allowed(frame.file_size))
        if reason is not None:
            raise FormatError(reason, path=self._handle.urlpath, key=self._handle.key, offset=at)

    # ------------------------------------------------------------ description
    @property
    def schunk(self) -> SChunk:
        """The super-chunk below the list."""
        return SChunk._of(self._handle.shared())

    @takes(SChunkKeywords)
    def copy(self, **kwargs: Any) -> Self:
        """Copy the values and metadata, in memory or to the file ``urlpath``.

        Compressed bytes are copied, unless `cparams` asks for something else. The copy has the same ``meta``, which
        cannot be given.

        Parameters
        ----------
        **kwargs
            As for `ObjectArray`.
        """
        if "meta" in kwargs:
            raise ValueError("meta should not be passed to copy: the copy has the same")
        if kwargs.get("cparams") is not None:
            return self._anew(kwargs)
        kwargs.pop("cparams", None)
        dparams = schunk_keywords({"dparams": kwargs.pop("dparams", None)}).dparams
        storage = storage_from(kwargs.pop("storage", None), **kwargs)
        check_target(storage, type(self).__name__)
        handle = copy_frame(
            self._handle.frame, storage, HandleOptions(deserialize=self._handle.options.deserialize, dparams=dparams)
        )
        copied: Self = self._of(handle)
        return copied

    def _anew(self, kwargs: dict[str, Any], **how: Any) -> Self:
        """A copy whose values are packed and compressed anew."""
        others = {name: kwargs.pop(name) for name in list(kwargs) if name not in ("cparams", "dparams")}
        storage = storage_from(others.pop("storage", None), **others)
        check_target(storage, type(self).__name__)
        frame = self._handle.frame
        # In memory first: a copy that fails leaves nothing behind.
        kind: Any = type(self)
        meta = {name: self.meta[name] for name in self.meta if name != self._tag}
        made: Self = kind(meta=meta, deserialize=self._handle.options.deserialize, **how, **kwargs)
        own = made._own_entries
        made._handle.set_vlmeta({name: frame.vlmeta(name) for name in frame.vlmeta_names() if name not in own})
        encoding = made._encoding()
        made._extend(made._compressed_anew(self, frame, i, encoding) for i in range(int(frame.nchunks)))
        handle = made._handle
        if storage.urlpath is not None or storage.contiguous is not None:
            handle = copy_frame(
                handle.frame,
                storage,
                HandleOptions(deserialize=self._handle.options.deserialize, dparams=made.dparams, cparams=made.cparams),
            )
        copied: Self = self._of(handle)
        return copied

    #: Entries of the variable metadata that the list writes itself.
    _own_entries: ClassVar[frozenset[str]] = frozenset()

    def _compressed_anew(self, other: Any, frame: Frame, index: int, encoding: Encoding) -> Any:
        """What is to be stored of an element of another list."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} entries>"
