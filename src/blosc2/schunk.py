"""`SChunk`: a super-chunk, which is a sequence of compressed chunks of bytes."""

from __future__ import annotations

import operator
import os
from collections import namedtuple
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from blosc2._core.codec import Encoder, decode_bytes
from blosc2._core.frame import special_chunk
from blosc2.carrier import Carrier, encoding_of, open_carrier
from blosc2.deserialization import deserialize_mode
from blosc2.draft import NAN_OFFSET, UNINIT_OFFSET, ZERO_OFFSET, Draft
from blosc2.draft import Stored as StoredChunk
from blosc2.exceptions import ChunkIndexError, ChunkSizeError
from blosc2.info import InfoReporter, size_text
from blosc2.keywords import schunk_keywords
from blosc2.new_frame import check_target, copy_frame, new_carrier
from blosc2.storage import MAX_BUFFERSIZE, SpecialValue, Storage, cparams_from, storage_from
from blosc2.stored import Stored
from blosc2.vlmeta import pack_metalayers

_LARGEST_DEFAULT_CHUNK = 256 << 20
_DEFAULT_CHUNK = 16 << 20
_READ_AHEAD = 64 << 10  # bytes that an iteration decodes at once
_SPECIAL_OFFSETS = {
    SpecialValue.ZERO: ZERO_OFFSET, SpecialValue.NAN: NAN_OFFSET, SpecialValue.UNINIT: UNINIT_OFFSET,
}  # fmt: skip

ChunkInfo = namedtuple("ChunkInfo", ("nchunk", "cratio", "special", "repeated_value", "lazychunk"))  # noqa: PYI024


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _change(method: Callable[Concatenate[SChunk, _P], _R]) -> Callable[Concatenate[SChunk, _P], _R]:
    """Let one thread after the other run a method that changes a super-chunk."""

    @wraps(method)
    def one_by_one(self: SChunk, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._carrier.editing():
            return method(self, *args, **kwargs)

    return one_by_one


class SChunk(Stored):
    """A sequence of compressed chunks of bytes, in memory or in a file.

    Parameters
    ----------
    chunksize : int, optional
        Uncompressed bytes of a chunk; by default all data in one (up to 256 MiB), or 16 MiB without data.
    data : buffer, optional
        First content; anything with the buffer protocol.
    deserialize : {"full", "safe"}, optional
        What may happen to active values of the metadata.
    **kwargs
        ``cparams``, ``dparams``, ``storage``, or the fields of `blosc2.Storage`.

    Examples
    --------
    >>> import blosc2
    >>> schunk = blosc2.SChunk(chunksize=8, data=b"twelve bytes", cparams={"typesize": 1})
    >>> len(schunk), schunk.nchunks, schunk[3:6]
    (12, 2, b'lve')
    """

    __slots__ = ()

    def __init__(self, chunksize: int | None = None, data: Any = None, *, deserialize: Any = None,
                 **kwargs: Any) -> None:  # fmt: skip
        keywords = schunk_keywords(kwargs)
        storage = keywords.storage
        policy = str(deserialize_mode("full" if deserialize is None else deserialize))
        if storage.mode == "r":
            self._carrier = _existing(storage, chunksize, data)
            return
        check_target(storage, "super-chunk")
        view = None if data is None else _bytes_of(data)
        itemsize = 1 if data is None else int(getattr(data, "itemsize", 1))
        cparams = cparams_from(keywords.cparams, unless_given={} if data is None else {"typesize": itemsize})
        if chunksize is None:
            chunksize = _DEFAULT_CHUNK if not view else min(len(view), _LARGEST_DEFAULT_CHUNK)
            chunksize = max(chunksize - chunksize % cparams.typesize, cparams.typesize)
        chunksize = operator.index(chunksize)
        if not 1 <= chunksize <= MAX_BUFFERSIZE:
            raise ValueError(f"chunksize must be between 1 and {MAX_BUFFERSIZE} bytes, not {chunksize}")
        encoding = encoding_of(cparams, cparams.typesize, cparams.blocksize)
        nbytes = 0 if view is None else len(view)
        self._carrier = new_carrier(
            storage, encoding, chunks=_encode_pieces(encoding, view, chunksize), count=-(-nbytes // chunksize),
            nbytes=nbytes, chunksize=chunksize, metalayers=pack_metalayers(storage.meta), cparams=cparams,
            dparams=keywords.dparams, deserialize=policy,
        )  # fmt: skip

    @classmethod
    def _of(cls, carrier: Carrier) -> SChunk:
        self = cls.__new__(cls)
        self._carrier = carrier
        return self

    # ------------------------------------------------------------ description
    @property
    def contiguous(self) -> bool:
        """Whether all chunks lie in one frame."""
        return self._carrier.urlpath is not None or bool(self._carrier.frame.serialised)

    @property
    def chunksize(self) -> int:
        """Uncompressed bytes of a chunk; 0 when chunks differ, -1 when the first one will decide."""
        return int(self._carrier.frame.chunksize)

    @property
    def chunkshape(self) -> int:
        """Items of a chunk."""
        return self.chunksize // self.typesize

    @property
    def blocksize(self) -> int:
        """Uncompressed bytes of a block."""
        frame = self._carrier.frame
        if frame.blocksize > 0 or not frame.nbytes:
            return max(int(frame.blocksize), 0)
        return int(frame.chunk_info(0)[5])

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return int(self._carrier.frame.nchunks)

    @property
    def typesize(self) -> int:
        """Bytes of an item."""
        return int(self._carrier.frame.typesize)

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
        cbytes = self.cbytes
        return self.nbytes / cbytes if cbytes else 0.0

    @property
    def initial_mapping_size(self) -> None:
        """Always None: mappings are as long as their file."""

    @property
    def locking(self) -> bool:
        """Whether changes take an advisory lock."""
        return False

    @property
    def change_tick(self) -> int:
        """Goes up with each change through this handle."""
        return self._carrier.version

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        return [
            ("type", type(self).__name__), ("chunksize", self.chunksize), ("blocksize", self.blocksize),
            ("typesize", self.typesize), ("nbytes", size_text(self.nbytes)), ("cbytes", size_text(self.cbytes)),
            ("cratio", f"{self.cratio:.2f}x"), ("nchunks", self.nchunks), ("cparams", self.cparams),
            ("dparams", self.dparams),
        ]  # fmt: skip

    @property
    def info(self) -> InfoReporter:
        """A table of the most important properties."""
        return InfoReporter(self)

    def __repr__(self) -> str:
        return f"<SChunk {self.nbytes} bytes in {self.nchunks} chunks, typesize {self.typesize}>"

    def __len__(self) -> int:
        return self.nbytes // self.typesize

    # ------------------------------------------------------------ reading
    def __getitem__(self, key: Any) -> bytes:
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise IndexError("`step` must be 1")
            start, stop, _ = key.indices(len(self))
            return self._read(start, max(start, stop))
        index = operator.index(key)
        length = len(self)
        if not -length <= index < length:
            raise IndexError(f"index {index} is out of bounds for {length} items")
        index %= length
        return self._read(index, index + 1)

    def __iter__(self) -> Iterator[bytes]:
        typesize = self.typesize
        step = max(_READ_AHEAD // typesize, 1)
        for start in range(0, len(self), step):
            items = self[start : start + step]
            yield from (items[i : i + typesize] for i in range(0, len(items), typesize))

    def _read(self, start: int, stop: int) -> bytes:
        typesize = self.typesize
        result: bytes = self._carrier.frame.read_bytes(start * typesize, stop * typesize)
        return result

    def get_slice(self, start: int = 0, stop: int | None = None, out: Any = None) -> bytes | None:
        """Items ``start .. stop`` as bytes, or written into `out`.

        Parameters
        ----------
        start, stop : int
            In items; bounds outside are clipped.
        out : writable buffer, optional
            With room for the bytes; None is returned then.
        """
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        if out is None:
            return self._read(start, stop)
        view = _writable_bytes(out)
        size = (stop - start) * self.typesize
        if len(view) < size:
            raise ValueError(f"Not enough space for writing the slice in out: {size} bytes are needed, not {len(view)}")
        self._carrier.frame.read_into(start * self.typesize, stop * self.typesize, view[:size])
        return None

    def decompress_chunk(self, nchunk: int, dst: Any = None) -> bytes | None:
        """The uncompressed bytes of a chunk, or None after writing them into `dst`."""
        self._check_chunk(nchunk)
        data: bytes = self._carrier.frame.decode_chunk(nchunk)
        if dst is None:
            return data
        view = _writable_bytes(dst)
        if len(view) < len(data):
            raise ChunkSizeError(f"dst has {len(view)} bytes and the chunk {len(data)}")
        view[: len(data)] = data
        return None

    def get_chunk(self, nchunk: int) -> bytes:
        """A chunk as it is stored."""
        self._check_chunk(nchunk)
        stored: bytes = self._carrier.frame.chunk(nchunk)
        return stored

    def get_lazychunk(self, nchunk: int) -> bytes:
        """The same as `get_chunk`: chunks are always read whole."""
        return self.get_chunk(nchunk)

    def get_vlblock(self, nchunk: int, nblock: int) -> bytes:
        """One block of a chunk with blocks of variable length."""
        self._check_chunk(nchunk)
        if not self._carrier.frame.vlblocks:
            raise ValueError("the chunks of this super-chunk do not have blocks of variable length")
        block: bytes = self._carrier.frame.vl_blocks(nchunk)[nblock]
        return block

    def iterchunks(self, dtype: Any) -> Iterator[np.ndarray[Any, Any]]:
        """The items of each chunk, as a NumPy array of this dtype."""
        for nchunk in range(self.nchunks):
            yield np.frombuffer(bytearray(self._carrier.frame.decode_chunk(nchunk)), dtype)

    def iterchunks_info(self) -> Iterator[Any]:
        """For each chunk: nchunk, cratio, special, repeated_value, lazychunk."""
        for nchunk in range(self.nchunks):
            yield ChunkInfo(nchunk, *chunk_description(self._carrier, nchunk))

    def _check_chunk(self, nchunk: Any, what: str = "Error while getting the chunk") -> int:
        index = operator.index(nchunk)
        if not 0 <= index < self.nchunks:
            raise ChunkIndexError(f"{what}: there is no chunk {index}, there are {self.nchunks}")
        return index

    # ------------------------------------------------------------ changes
    @_change
    def append_data(self, data: Any) -> int:
        """Compress a buffer into a new last chunk; returns the number of chunks."""
        return self._insert(self.nchunks, self._encode(data, "append"))

    @_change
    def insert_data(self, nchunk: int, data: Any, copy: bool = True) -> int:  # noqa: ARG002
        """Compress a buffer into a new chunk before `nchunk`; returns the number of chunks."""
        return self._insert(self._check_place(nchunk), self._encode(data, "insert"))

    @_change
    def update_data(self, nchunk: int, data: Any, copy: bool = True) -> int:  # noqa: ARG002
        """Compress a buffer in the place of a chunk; returns the number of chunks."""
        return self._update(nchunk, self._encode(data, "update"))

    @_change
    def append_chunk(self, chunk: bytes) -> int:
        """Append a compressed chunk; returns the number of chunks."""
        return self._insert(self.nchunks, _checked_chunk(chunk))

    @_change
    def insert_chunk(self, nchunk: int, chunk: bytes) -> int:
        """Insert a compressed chunk before `nchunk`; returns the number of chunks."""
        return self._insert(self._check_place(nchunk), _checked_chunk(chunk))

    @_change
    def update_chunk(self, nchunk: int, chunk: bytes) -> int:
        """Put a compressed chunk in the place of another; returns the number of chunks."""
        return self._update(nchunk, _checked_chunk(chunk))

    @_change
    def delete_chunk(self, nchunk: int) -> int:
        """Remove a chunk; returns the number of chunks."""
        index = self._check_chunk(nchunk, "Could not delete the desired chunk")
        return self._splice(index, 1, [])

    @_change
    def fill_special(self, nitems: int, special_value: SpecialValue, value: Any = None) -> int:
        """Append chunks of zeros, NaN, undefined or one repeated item; returns the number of chunks."""
        special = _special(special_value)
        nbytes = operator.index(nitems) * self.typesize
        if nbytes < 0:
            raise IndexError(f"nitems must not be negative: {nitems}")
        step = self.chunksize if self.chunksize > 0 else _DEFAULT_CHUNK
        sizes = [step] * (nbytes // step) + ([nbytes % step] if nbytes % step else [])
        return self._splice(self.nchunks, 0, [(self._special_chunk(special, n, value), n) for n in sizes])

    @_change
    def update_special(self, nchunk: int, special_value: SpecialValue, value: Any = None) -> int:
        """Put zeros, NaN, undefined or one repeated item in the place of a chunk; returns the number of chunks."""
        index = self._check_chunk(nchunk, "Could not update the desired chunk")
        size = int(self._carrier.frame.chunk_info(index)[1])
        return self._splice(index, 1, [(self._special_chunk(_special(special_value), size, value), size)])

    @_change
    def reorder_offsets(self, order: Any) -> None:
        """Give the chunks another order: chunk ``order[i]`` becomes chunk ``i``."""
        indices = np.asarray(order)
        if indices.dtype.kind not in "iu" or indices.shape != (self.nchunks,):
            raise ValueError(f"order must be {self.nchunks} integers, one for each chunk")
        if not np.array_equal(np.sort(indices), np.arange(self.nchunks)):
            raise RuntimeError("order must name each chunk exactly once")
        draft = Draft(self._carrier.frame)
        sizes = draft.sizes[indices]
        draft.offsets = draft.offsets[indices]
        draft.sizes = sizes
        self._carrier.publish(draft)

    @_change
    def set_slice(self, value: Any, start: int = 0, stop: int | None = None) -> None:
        """Replace items ``start .. stop``; beyond the end the super-chunk grows."""
        data = bytes(_bytes_of(value))
        typesize, length = self.typesize, len(self)
        if start < 0:
            start = max(start + length, 0)
        if stop is None:
            stop = max(length, start + len(data) // typesize)
        elif stop < 0:
            stop += length
        if start > length:
            raise ValueError(f"`start` cannot be greater than the number of items, {length}")
        size = (stop - start) * typesize
        if size > len(data):
            raise ValueError(f"Not enough data: {size} bytes are needed for the slice, not {len(data)}")
        if size < len(data):
            raise ValueError(f"{len(data)} bytes do not fit a slice of {size} bytes")
        if self._carrier.frame.metalayer("b2nd") is not None and start * typesize + size > self.nbytes:
            raise ValueError("the super-chunk of an array cannot grow on its own: resize the array instead")
        if size > 0:
            self._overwrite(start * typesize, data)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, slice):
            raise TypeError("only slices can be assigned to")
        if key.step not in (None, 1):
            raise IndexError("`step` must be 1")
        self.set_slice(value, 0 if key.start is None else key.start, key.stop)

    def _check_equal_blocks(self) -> None:
        if self._carrier.frame.vlblocks:
            raise NotImplementedError("chunks with blocks of variable length can only be read")

    def _overwrite(self, position: int, data: bytes) -> None:
        """Put bytes at an uncompressed position, growing where they reach past the end."""
        self._check_equal_blocks()
        frame = self._carrier.frame
        draft = Draft(frame)
        sizes = draft.sizes
        encoder = Encoder(self._carrier.encoding())
        # The last chunk is filled up before new ones come.
        if len(sizes) and not frame.variable and position + len(data) > frame.nbytes:
            sizes[-1] = min(frame.chunksize, sizes[-1] + position + len(data) - frame.nbytes)
        end, at = position + len(data), 0
        for index, size in enumerate(sizes.tolist()):
            low, high = max(position, at), min(end, at + size)
            if low < high:
                old = frame.decode_chunk(index) if high - low < size else b""
                content = bytearray(old.ljust(size, b"\0"))
                content[low - at : high - at] = data[low - position : high - position]
                draft.replace(index, encoder.encode_bytes(content), size)
            at += size
        step = self.chunksize if self.chunksize > 0 else _DEFAULT_CHUNK
        rest = data[max(at - position, 0) :] if end > at else b""
        pieces = [rest[i : i + step] for i in range(0, len(rest), step)]
        draft.splice(len(sizes), 0, [(encoder.encode_bytes(piece), len(piece)) for piece in pieces])
        self._carrier.publish(draft)

    def _encode(self, data: Any, what: str) -> tuple[bytes, int]:
        view = _bytes_of(data)
        if 0 < self.chunksize < len(view):
            raise ChunkSizeError(f"Could not {what} the data: {len(view)} bytes, a chunk has {self.chunksize}")
        if len(view) == 0:
            raise ChunkSizeError(f"Could not {what} the data: a chunk cannot be empty")
        return Encoder(self._carrier.encoding()).encode_bytes(view), len(view)

    def _check_place(self, nchunk: Any) -> int:
        index = operator.index(nchunk)
        if not 0 <= index <= self.nchunks:
            raise ChunkIndexError(f"Could not insert the desired chunk: place {index} of {self.nchunks}")
        return index

    def _insert(self, index: int, chunk: tuple[bytes, int]) -> int:
        return self._splice(index, 0, [chunk])

    def _update(self, nchunk: Any, chunk: tuple[bytes, int]) -> int:
        return self._splice(self._check_chunk(nchunk, "Could not update the desired chunk"), 1, [chunk])

    def _splice(self, index: int, removed: int, added: list[tuple[StoredChunk, int]] | list[tuple[bytes, int]]) -> int:
        draft = Draft(self._carrier.frame)
        self._check_equal_blocks()
        if "b2nd" in draft.metalayers and [size for _, size in added] != [draft.chunksize] * removed:
            raise ChunkSizeError(
                f"the shape of the array says how many chunks there are, and that each has {draft.chunksize} bytes: "
                "resize the array instead")  # fmt: skip
        draft.splice(index, removed, added)
        self._carrier.publish(draft)
        return self.nchunks

    def _special_chunk(self, special: SpecialValue, nbytes: int, value: Any) -> StoredChunk:
        if special in _SPECIAL_OFFSETS:
            if special is SpecialValue.NAN and self.typesize not in (4, 8):
                raise ValueError(f"NaN needs items of 4 or 8 bytes, not {self.typesize}")
            return _SPECIAL_OFFSETS[special]
        if value is None:
            raise ValueError("SpecialValue.VALUE needs a value")
        item = _item_bytes(value, self.typesize)
        chunk: bytes = special_chunk(3, nbytes, self.typesize, self.blocksize or nbytes, item)
        return chunk

    # ------------------------------------------------------------ as a whole
    def copy(self, **kwargs: Any) -> SChunk:
        """A copy with the same chunks and metadata, in memory or where ``urlpath`` says."""
        storage = storage_from(kwargs)
        check_target(storage, "super-chunk")
        return SChunk._of(copy_frame(self._carrier.frame, storage, deserialize="full"))

    def lock(self) -> None:
        """Do nothing: every change is published at once."""

    unlock = lock


def chunk_description(carrier: Carrier, nchunk: int) -> tuple[float, SpecialValue, bytes | None, bytes]:
    """cratio, special, repeated_value and stored bytes of a chunk."""
    frame = carrier.frame
    _, nbytes, cbytes, special, _, _ = frame.chunk_info(nchunk)
    return nbytes / cbytes, SpecialValue(special), frame.special_value(nchunk), frame.chunk(nchunk)


def _existing(storage: Storage, chunksize: int | None, data: Any) -> Carrier:
    """The carrier of a super-chunk that the constructor opens, in mode 'r'."""
    if storage.urlpath is None:
        raise ValueError("urlpath must be set to open a super-chunk with mode 'r'")
    if chunksize is not None or data is not None:
        raise ValueError("do not specify a urlpath with mode 'r' together with chunksize or data: nothing is created")
    if not os.path.exists(storage.urlpath):
        raise ValueError(f"{storage.urlpath} does not exist")
    carrier = open_carrier(storage.urlpath, "r", storage.mmap_mode)
    if carrier.frame.metalayer("b2nd") is not None:
        raise ValueError(f"Cannot open an NDArray as a SChunk: {storage.urlpath}; use blosc2.open")
    return carrier


def _bytes_of(data: Any) -> memoryview:
    """The bytes of any C-contiguous buffer."""
    try:
        view = memoryview(data)
    except TypeError:
        raise TypeError(f"a bytes-like object is needed, not {type(data).__name__}") from None
    except ValueError:  # dtypes that the buffer protocol does not know
        items: Any = np.ascontiguousarray(data).view(np.uint8)
        view = memoryview(items)
    return (view if view.c_contiguous else memoryview(view.tobytes())).cast("B") if view.nbytes else memoryview(b"")


def _writable_bytes(out: Any) -> memoryview:
    view = memoryview(out)
    if view.readonly or not view.c_contiguous:
        raise ValueError("the output must be writable and C-contiguous")
    return view.cast("B")


def _encode_pieces(encoding: Any, view: memoryview | None, chunksize: int) -> Iterator[bytes]:
    if view is not None:
        encoder = Encoder(encoding)
        for start in range(0, len(view), chunksize):
            yield encoder.encode_bytes(view[start : start + chunksize])


def _checked_chunk(chunk: Any) -> tuple[bytes, int]:
    """A chunk from a caller, decoded once to know that it can be."""
    stored = bytes(chunk)
    if len(stored) < 32:
        raise ValueError(f"a chunk has at least 32 bytes, not {len(stored)}")
    size = len(decode_bytes(stored))
    if size == 0:
        raise ChunkSizeError("a chunk of a super-chunk cannot be empty")
    if stored[30] & 1:
        raise NotImplementedError("chunks with blocks of variable length can only be read")
    return stored, size


def _special(value: Any) -> SpecialValue:
    if not isinstance(value, SpecialValue):
        raise TypeError(f"special_value must be a blosc2.SpecialValue, not {value!r}")
    if value is SpecialValue.NOT_SPECIAL:
        raise ValueError("special_value cannot be NOT_SPECIAL")
    return value


def _item_bytes(value: Any, typesize: int) -> bytes:
    """One item from a Python number or from its bytes."""
    if isinstance(value, bytes):
        item = value
    elif isinstance(value, float):
        if typesize not in (4, 8):
            raise ValueError(f"a float does not fit items of {typesize} bytes")
        item = np.array(value, f"f{typesize}").tobytes()
    elif isinstance(value, (int, np.integer)):
        item = int(value).to_bytes(typesize, "little", signed=bool(value < 0))
    else:
        item = np.asarray(value).tobytes()
    if len(item) != typesize:
        raise ValueError(f"the value has {len(item)} bytes, an item {typesize}")
    return item
