"""Kinds of objects besides arrays and super-chunks: lists of values, and opaque ones, which cannot be read."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Never, Self

import numpy as np

from blosc2.allocation import allowed, too_much
from blosc2.carrier import Carrier
from blosc2.exceptions import FormatError, UnsupportedKindError
from blosc2.info import InfoReporter, size_text
from blosc2.ndarray import NDArray
from blosc2.new_frame import check_target, copy_frame
from blosc2.schunk import SChunk
from blosc2.serialization import Together, unpack
from blosc2.storage import SpecialValue, storage_from
from blosc2.stored import Stored


class _ValueList(Stored, Sequence[Any]):
    """A list of values in chunks, read-only."""

    __slots__ = ()

    @classmethod
    def _of(cls, carrier: Carrier) -> Any:
        self = cls.__new__(cls)
        self._carrier = carrier
        return self

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} can be opened, with blosc2.open, read and copied here, but not made"
        )

    def _unpack(self, nchunk: int, data: bytes, together: Together | None = None) -> Any:
        frame = self._carrier.frame
        where = f"chunk {nchunk} of {self._carrier.urlpath or 'a frame in memory'}"
        try:
            return unpack(
                data, deserialize=self._carrier.deserialize, location=where, file_size=frame.file_size,
                together=together,
            )  # fmt: skip
        except FormatError as error:
            at = frame.chunk_info(nchunk)[0]
            raise FormatError(error.reason, path=self._carrier.urlpath, key=self._carrier.key, offset=at) from None

    def _require_room(self, nchunk: int, times: int) -> None:
        """Refuse a chunk that is no value, or too large for a file of this size, before it is decoded."""
        carrier = self._carrier
        frame = carrier.frame
        at, nbytes, _, special, _, _ = frame.chunk_info(nchunk)
        most = allowed(frame.file_size)
        reason = None
        if special and special != SpecialValue.VALUE.value and nbytes > 1:
            reason = f"chunk {nchunk} is one value of zeros, and {nbytes - 1} bytes follow it"
        elif times * nbytes > most:
            reason = too_much(times * nbytes, f"chunk {nchunk}", most)
        if reason is not None:
            raise FormatError(reason, path=carrier.urlpath, key=carrier.key, offset=at)

    def _entry(self, nchunk: int, together: Together | None = None) -> Any:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            together = Together(self._carrier.frame.file_size)
            return [self._entry(i, together) for i in range(*key.indices(len(self)))]
        index = operator.index(key)
        length = len(self)
        if not -length <= index < length:
            raise IndexError(f"index {index} is out of range for {length} entries")
        return self._entry(index % length)

    def __len__(self) -> int:
        return int(self._carrier.frame.nchunks)

    def __iter__(self) -> Iterator[Any]:
        return (self._entry(i) for i in range(len(self)))

    @property
    def schunk(self) -> SChunk:
        """The super-chunk below the list."""
        return SChunk._of(self._carrier)

    @property
    def nbytes(self) -> int:
        """Uncompressed bytes."""
        return int(self._carrier.frame.nbytes)

    @property
    def cbytes(self) -> int:
        """Compressed bytes."""
        return int(self._carrier.frame.cbytes)

    @property
    def cratio(self) -> float:
        """Uncompressed bytes by compressed ones; 0 when nothing is stored."""
        return self.nbytes / self.cbytes if self.cbytes else 0.0

    @property
    def typesize(self) -> int:
        """Bytes of an item of the super-chunk below; 1, as values are packed bytes."""
        return int(self._carrier.frame.typesize)

    @property
    def contiguous(self) -> bool:
        """Whether the frame is one piece, not a directory."""
        return self._carrier.contiguous

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        return [
            ("type", type(self).__name__), ("entries", len(self)), ("nbytes", size_text(self.nbytes)),
            ("cbytes", size_text(self.cbytes)), ("cratio", f"{self.cratio:.2f}x"), ("cparams", self.cparams),
        ]  # fmt: skip

    @property
    def info(self) -> InfoReporter:
        """A table of the most important properties."""
        return InfoReporter(self)

    def copy(self, **kwargs: Any) -> Self:
        """A copy with the same values and metadata, in memory or where ``urlpath`` says.

        Parameters
        ----------
        **kwargs
            The fields of `blosc2.Storage`, except ``meta``, which is copied too.
        """
        if "meta" in kwargs:
            raise ValueError("meta should not be passed to copy: the copy has the same")
        if "cparams" in kwargs:
            raise NotImplementedError("values are copied as they are, not compressed again: leave out cparams")
        storage = storage_from(kwargs.pop("storage", None), **kwargs)
        check_target(storage, "list of values")
        copied: Self = self._of(copy_frame(self._carrier.frame, storage, deserialize=self._carrier.deserialize))
        return copied

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} entries>"


class ObjectArray(_ValueList):
    """A list of values, each compressed in a chunk of its own. It can be read and copied, not changed."""

    __slots__ = ()

    def _entry(self, nchunk: int, together: Together | None = None) -> Any:
        self._require_room(nchunk, 1)
        return self._unpack(nchunk, self._carrier.frame.decode_chunk(nchunk), together)


class BatchArray(_ValueList):
    """A list of batches, each a list of values. It can be read and copied, not changed."""

    __slots__ = ()

    def _description(self) -> dict[str, Any]:
        carrier = self._carrier
        try:
            value = unpack(carrier.frame.metalayer("batcharray") or b"", location="the metalayer batcharray")
        except FormatError as error:
            raise FormatError(error.reason, path=carrier.urlpath, key=carrier.key) from None
        if not isinstance(value, dict):
            raise FormatError("the metalayer batcharray is not a map", path=carrier.urlpath, key=carrier.key)
        return value

    @property
    def items_per_block(self) -> int | None:
        """Values that one compressed block holds at most."""
        return self._description().get("items_per_block")

    @property
    def serializer(self) -> str:
        """How values are packed."""
        return str(self._description().get("serializer"))

    def _entry(self, nchunk: int, together: Together | None = None) -> list[Any]:
        if self.serializer != "msgpack":
            raise UnsupportedKindError(
                f"batches packed with {self.serializer!r} cannot be read, only with 'msgpack'",
                path=self._carrier.urlpath, key=self._carrier.key,
            )  # fmt: skip
        self._require_room(nchunk, 2)  # the blocks are a copy of it
        together = together or Together(self._carrier.frame.file_size)
        batch: list[Any] = []
        for block in self._carrier.frame.vl_blocks(nchunk):
            items = self._unpack(nchunk, block, together)
            if not isinstance(items, list):
                raise FormatError(
                    f"chunk {nchunk}: a block holds no list", path=self._carrier.urlpath, key=self._carrier.key
                )
            batch += items
        return batch

    def iter_items(self) -> Iterator[Any]:
        """The values of all batches, one after the other."""
        for batch in self:
            yield from batch


class OpaqueObject:
    """What objects share that can be described and copied, but not read: their carrier is not their data."""

    __slots__ = ()
    _carrier: Carrier

    @property
    def kind(self) -> str:
        """What the object is, after the metalayer that marks it."""
        names = self._carrier.frame.metalayers()
        # The file may have become another one under a handle that looks again.
        return next((name for name in OPAQUE_KINDS if name in names), "unknown")

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise UnsupportedKindError(
            f"an object of kind {self.kind!r} can be described and copied here, not read or changed",
            path=self._carrier.urlpath, key=self._carrier.key,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<opaque object of kind {self.kind!r}>"


#: Metalayers of objects that this package does not have.
OPAQUE_KINDS = ("proxy-source", "b2o", "listarray", "LazyArray")


class OpaqueArray(OpaqueObject, NDArray):
    """An array that is computed or fetched by another package."""

    __slots__ = ()
    __getitem__ = __setitem__ = __array__ = __iter__ = OpaqueObject._refuse
    _read_all = _snapshot = tobytes = get_chunk = slice = iterchunks_info = item = OpaqueObject._refuse
    resize = append = squeeze = reshape = take = read = view = OpaqueObject._refuse
    __dlpack__ = __dlpack_device__ = __buffer__ = OpaqueObject._refuse
    T = mT = oindex = property(OpaqueObject._refuse)  # noqa: N815 - as NumPy calls it
    __repr__ = OpaqueObject.__repr__

    def copy(self, dtype: Any = None, **kwargs: Any) -> NDArray:
        """Copy the object as it is."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            self._refuse()
        return OpaqueArray._of(NDArray.copy(self, **kwargs)._carrier)

    @property
    def schunk(self) -> SChunk:
        """The super-chunk below the object."""
        return OpaqueSChunk._of(self._carrier)


class OpaqueSChunk(OpaqueObject, SChunk):
    """A super-chunk of another package's object."""

    __slots__ = ()
    __getitem__ = __setitem__ = __iter__ = set_slice = get_slice = OpaqueObject._refuse
    decompress_chunk = get_chunk = get_lazychunk = iterchunks = OpaqueObject._refuse
    iterchunks_info = append_data = insert_data = update_data = OpaqueObject._refuse
    append_chunk = insert_chunk = update_chunk = delete_chunk = OpaqueObject._refuse
    fill_special = update_special = reorder_offsets = get_vlblock = OpaqueObject._refuse
    __repr__ = OpaqueObject.__repr__
