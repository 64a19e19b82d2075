"""`SChunk`: a super-chunk, which is a sequence of compressed chunks of bytes."""

from __future__ import annotations

import operator
import os
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from blosc2 import _frames, _tuning
from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.grid_read import work_of
from blosc2._frames import (
    ChangeableChunks,
    FrameHandle,
    HandleOptions,
    chunk_range,
    chunks_as_items,
    existing_chunk,
    open_handle,
    read_bytes,
    read_into,
)
from blosc2._options import (
    OF_CHUNKS,
    RemotePath,
    check_locking,
    deserialize_mode,
    encoding_of,
    explain_absent,
    refuse_without_path,
    shown_names,
    worth_threads,
)
from blosc2.exceptions import ChunkSizeError, legible
from blosc2.info import size_text
from blosc2.storage import CParams, SChunkKeywords, SpecialValue, Storage, asked_for, cparams_from, storage_from, takes

if TYPE_CHECKING:
    from blosc2._frames import Meta as Meta
    from blosc2._frames import VLMeta as VLMeta

_READ_AHEAD = 64 << 10  # bytes that an iteration decodes at once

#: The function `blosc2.open`, for programs that look for it here; set by the module that has it.
open: Callable[..., Any]

ChunkInfo = namedtuple("ChunkInfo", ("nchunk", "cratio", "special", "repeated_value", "lazychunk"))  # noqa: PYI024


@explain_absent(OF_CHUNKS)
@takes(SChunkKeywords)
class SChunk(ChangeableChunks):
    """A sequence of compressed chunks of bytes, in memory or in a file.

    Parameters
    ----------
    chunksize : int, optional
        Uncompressed bytes of a chunk; by default one chunk for all data (up to 256 MiB), or 16 MiB without data. -1
        means the same as None.
    data : buffer, optional
        The initial content: anything with the buffer protocol.
    deserialize : {"full", "safe"}, optional
        Whether to refuse active values in the metadata, or to open them.
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
                 **kwargs: Unpack[SChunkKeywords]) -> None:  # fmt: skip
        keywords = _frames.schunk_keywords(kwargs)
        storage = keywords.storage
        if storage.mode == "r" and not (storage.urlpath is None and storage.mmap_mode):
            policy = str(deserialize_mode("safe" if deserialize is None else deserialize))
            options = HandleOptions("r", storage.mmap_mode, policy, keywords.dparams, locking=storage.locking)
            self._handle = _existing(storage, chunksize, data, options)
            return
        if chunksize is not None:
            chunksize = _frames.integer("chunksize", chunksize, "data= takes bytes, and urlpath= a path")
        chunksize = None if chunksize == -1 else chunksize
        policy = str(deserialize_mode("full" if deserialize is None else deserialize))
        _frames.check_target(storage, "super-chunk")
        view = memoryview(b"") if data is None else _frames.bytes_of(data)
        itemsize = 1 if data is None else int(getattr(data, "itemsize", 1))
        cparams = cparams_from(keywords.cparams, unless_given={"typesize": itemsize})
        asked = asked_for(cparams)
        if asked is not None and len(view):
            default = cparams_from(None, typesize=cparams.typesize, nthreads=cparams.nthreads)
            cparams = cparams_from(_tuning.chosen_for_bytes(asked, view, default))
        chunksize = _frames.chunk_nbytes(chunksize, len(view) if view else _frames.DEFAULT_CHUNK, cparams.typesize)
        encoding = encoding_of(cparams, cparams.typesize, cparams.blocksize)
        _frames.check_for_bytes(encoding)
        content = _frames.FrameContent(
            _frames.Fields(encoding, chunksize), _frames.pack_metalayers(storage.meta), {},
            _frames.compressed_pieces(encoding, view, chunksize, cparams.nthreads), -(-len(view) // chunksize),
            len(view),
        )  # fmt: skip
        options = HandleOptions(deserialize=policy, dparams=keywords.dparams, cparams=cparams)
        self._handle = _frames.new_handle(storage, content, options)

    @classmethod
    def _of(cls, handle: FrameHandle) -> SChunk:
        self = cls.__new__(cls)
        self._handle = handle
        return self

    # ------------------------------------------------------------ description
    @property
    def cparams(self) -> CParams:
        """Compression parameters of new chunks.

        Their `typesize` is the width of the numbers that filters work on. Changing it does not change the size of an
        item, which is fixed at creation.
        """
        return self._handle.cparams

    @cparams.setter
    def cparams(self, value: CParams | dict[str, Any]) -> None:
        frame = self._handle.frame
        if frame.metalayer("b2nd") is None:
            self._handle.cparams = cparams_from(value, unless_given={"typesize": int(frame.typesize)})
        else:
            self._handle.cparams = cparams_from(value, typesize=int(frame.typesize))

    @property
    def chunkshape(self) -> int:
        """Items of a chunk."""
        return self.chunksize // self.typesize

    @property
    def blocksize(self) -> int:
        """Uncompressed bytes of a block; 0 if the block size is chosen for each chunk."""
        return max(int(self._handle.frame.blocksize), 0)

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return int(self._handle.frame.nchunks)

    @property
    def initial_mapping_size(self) -> None:
        """Always None: mappings are as long as their file."""

    @property
    def locking(self) -> bool:
        """Whether handles take a common lock for changes; see `holding_lock`."""
        return self._handle.locking

    @property
    def change_tick(self) -> int:
        """A number that increases with each change through this handle."""
        return self._handle.version

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        return [
            ("type", type(self).__name__), ("chunksize", self.chunksize), ("blocksize", self.blocksize),
            ("typesize", self.typesize), ("nbytes", size_text(self.nbytes)), ("cbytes", size_text(self.cbytes)),
            ("cratio", f"{self.cratio:.2f}x"), *self._handle.described_file(),
            ("nchunks", self.nchunks), ("cparams", self.cparams),
            ("dparams", self.dparams), *self._handle.described_checks(),
        ]  # fmt: skip

    def __repr__(self) -> str:
        return f"<SChunk {self.nbytes} bytes in {self.nchunks} chunks, typesize {self.typesize}>"

    def __dir__(self) -> list[str]:
        return shown_names(type(self), super().__dir__())

    def __len__(self) -> int:
        return self.nbytes // self.typesize

    # ------------------------------------------------------------ reading
    def __getitem__(self, key: Any) -> bytes:
        """The bytes of an item, or of the items of a slice."""
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise IndexError("`step` must be 1")
            return self._read(key)
        index = operator.index(key)
        length = len(self)
        if not -length <= index < length and self._handle.has_grown():
            length = len(self)
        if not -length <= index < length:
            raise IndexError(f"index {index} is out of bounds for {length} items")
        index %= length
        return self._read(slice(index, index + 1))

    def __iter__(self) -> Iterator[bytes]:
        typesize = self.typesize
        step = max(_READ_AHEAD // typesize, 1)
        for start in range(0, len(self), step):
            items = self[start : start + step]
            yield from (items[i : i + typesize] for i in range(0, len(items), typesize))

    def _read(self, items: slice) -> bytes:
        frame = self._handle.frame
        return read_bytes(frame, *_byte_range(frame, items), self._handle.nthreads)

    def _chunk(self, nchunk: Any) -> tuple[Frame, int]:
        """The number of an existing chunk, checked, and the frame that holds it."""
        index = operator.index(nchunk)
        if index >= self._handle.frame.nchunks:
            self._handle.has_grown()
        frame = self._handle.frame
        return frame, existing_chunk(frame, index)

    def get_slice(self, start: int = 0, stop: int | None = None, out: Any = None) -> bytes | None:
        """Return items ``start .. stop`` as bytes, or write them into `out`.

        Parameters
        ----------
        start, stop : int, optional
            In items; negative numbers count from the end, and bounds outside the data are clipped.
        out : writable buffer, optional
            A C-contiguous buffer of any dtype and number of axes, large enough for the bytes; then None is returned.

        Raises
        ------
        ValueError
            `out` is too small, read-only, or not contiguous.

        Examples
        --------
        >>> import blosc2
        >>> import numpy as np
        >>> schunk = blosc2.SChunk(data=np.arange(6, dtype="i2"))
        >>> out = np.empty((2, 2), dtype="i2")
        >>> schunk.get_slice(1, 5, out=out)
        >>> out.tolist()
        [[1, 2], [3, 4]]
        """
        if out is None:
            return self._read(slice(start, stop))
        view = _writable_bytes(out)
        frame = self._handle.frame
        first, last = _byte_range(frame, slice(start, stop))
        size = last - first
        if len(view) < size:
            raise ValueError(f"Not enough space for writing the slice in out: {size} bytes are needed, not {len(view)}")
        read_into(frame, first, last, view[:size], self._handle.nthreads)
        return None

    def decompress_chunk(self, nchunk: int, dst: Any = None) -> bytes | None:
        """Return the uncompressed bytes of a chunk, or None after writing them into `dst`.

        Parameters
        ----------
        nchunk : int
        dst : writable buffer, optional
            A C-contiguous buffer, large enough for the chunk.

        Raises
        ------
        RuntimeError
            There is no such chunk, or `dst` is too small.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdef", cparams={"typesize": 1})
        >>> schunk.decompress_chunk(1)
        b'ef'
        """
        frame, index = self._chunk(nchunk)
        # A member of an archive is checked where it is read as a whole, as it may be by the range of its one chunk.
        if dst is None and not (frame.by_member or worth_threads(work_of(frame.chunksize, frame))):
            return frame.decode_chunk(index)
        span = chunk_range(frame, index)
        if dst is None:
            return frame.decode_chunk(index) if span is None else read_bytes(frame, *span, self._handle.nthreads)
        view = _writable_bytes(dst)
        size = int(frame.chunk_info(index)[1]) if span is None else span[1] - span[0]
        if len(view) < size:
            raise ChunkSizeError(f"dst has {len(view)} bytes and the chunk {size}")
        if span is None:
            view[:size] = frame.decode_chunk(index)
        else:
            read_into(frame, *span, view[:size], self._handle.nthreads)
        return None

    def get_chunk(self, nchunk: int) -> bytes:
        """A chunk as it is stored.

        Raises
        ------
        RuntimeError
            There is no such chunk.

        Examples
        --------
        >>> import blosc2
        >>> chunk = blosc2.SChunk(data=bytes(1000)).get_chunk(0)
        >>> len(chunk), int.from_bytes(chunk[4:8], "little")
        (32, 1000)
        """
        frame, index = self._chunk(nchunk)
        stored: bytes = frame.chunk(index)
        return stored

    def get_lazychunk(self, nchunk: int) -> bytes:
        """Return a chunk without its data: its header of 32 bytes and, in a file, the positions of its blocks.

        For a chunk with data in a file, the header is followed by the starts of its blocks, the number and offset of
        the chunk, and the length of each block; bit 3 of the last byte of the header marks this. `get_chunk` returns
        the whole chunk.

        Examples
        --------
        >>> import blosc2
        >>> len(blosc2.SChunk(data=b"0123456789" * 1000).get_lazychunk(0))
        32
        """
        frame, index = self._chunk(nchunk)
        return _frames.lazy_chunk(frame, index)

    def get_vlblock(self, nchunk: int, nblock: int) -> bytes:
        """Return the uncompressed bytes of one block of a chunk whose blocks have different lengths, as in a
        `BatchArray`.

        Raises
        ------
        IndexError
            There is no such chunk or block.
        ValueError
            The blocks of this super-chunk have one length.
        """
        frame, index = self._chunk(nchunk)
        if not frame.vlblocks:
            raise ValueError("the chunks of this super-chunk do not have blocks of variable length")
        number = operator.index(nblock)
        count = frame.vl_count(index)
        if not 0 <= number < count:
            raise IndexError(f"chunk {index} has no block {number}, it has {count}")
        block: bytes = frame.vl_block(index, number)
        return block

    def iterchunks(self, dtype: Any) -> Iterator[np.ndarray[Any, Any]]:
        """Iterate over the chunks, as NumPy arrays of a dtype.

        Examples
        --------
        >>> import blosc2
        >>> import numpy as np
        >>> schunk = blosc2.SChunk(chunksize=8, data=np.arange(6, dtype="i2"))
        >>> [chunk.tolist() for chunk in schunk.iterchunks("i2")]
        [[0, 1, 2, 3], [4, 5]]
        """
        return chunks_as_items(self._handle.frame, dtype, self._handle.nthreads)

    def iterchunks_info(self) -> Iterator[Any]:
        """For each chunk: nchunk, cratio, special, repeated_value, lazychunk.

        Examples
        --------
        >>> import blosc2
        >>> [info.special.name for info in blosc2.SChunk(chunksize=500, data=bytes(1000)).iterchunks_info()]
        ['ZERO', 'ZERO']
        """
        handle = self._handle
        for nchunk in range(int(handle.frame.nchunks)):
            yield ChunkInfo(nchunk, *chunk_description(handle, nchunk))

    # ------------------------------------------------------------ as a whole
    @takes(Storage)
    def copy(self, **kwargs: Any) -> SChunk:
        """Copy the chunks and metadata, in memory or to the file ``urlpath``.

        Parameters
        ----------
        **kwargs
            The fields of `blosc2.Storage`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.SChunk(data=b"abc").copy()[:]
        b'abc'
        """
        storage = storage_from(kwargs)
        _frames.check_target(storage, "super-chunk")
        return SChunk._of(_frames.copy_frame(self._handle.frame, storage, HandleOptions(deserialize="full")))

    def lock(self) -> None:
        """Take the lock that `holding_lock` takes; `unlock` releases it."""
        self._handle.lock()

    def unlock(self) -> None:
        """Release the lock that `lock` took."""
        self._handle.unlock()


def chunk_description(handle: FrameHandle, nchunk: int) -> tuple[float, SpecialValue, bytes | None, bytes]:
    """cratio, special, repeated_value and header of a chunk."""
    frame = handle.frame
    _, nbytes, cbytes, number, _, _ = frame.chunk_info(nchunk)
    special = SpecialValue(number)
    value = frame.special_value(nchunk) if special is SpecialValue.VALUE else None  # which reads all of the chunk
    return nbytes / cbytes, special, value, _frames.lazy_chunk(frame, nchunk)


def repeated_item(value: bytes, dtype: np.dtype[Any]) -> Any | None:
    """The item that a chunk of one repeated value is full of; None where items differ, or end inside of the value."""
    if dtype.itemsize % len(value):
        return None
    return np.frombuffer(value * (dtype.itemsize // len(value)), dtype)[0]


def _byte_range(frame: Frame, items: slice) -> tuple[int, int]:
    """The uncompressed bytes of a slice of items."""
    typesize = int(frame.typesize)
    start, stop, _ = items.indices(int(frame.nbytes) // typesize)
    return start * typesize, max(start, stop) * typesize


def _existing(storage: Storage, chunksize: int | None, data: Any, options: HandleOptions) -> FrameHandle:
    """The handle of a super-chunk that the constructor opens, in mode 'r'."""
    if storage.urlpath is None:
        refuse_without_path("a super-chunk")
    if isinstance(storage.urlpath, RemotePath):
        raise ValueError(f"{storage.urlpath}: what is on a server is opened by blosc2.open")
    if not os.path.exists(storage.urlpath):
        raise ValueError(f"a super-chunk cannot be opened with mode 'r': {legible(storage.urlpath)} does not exist")
    if data is not None:
        raise ValueError("mode 'r' opens what is there and takes no data; mode='w' replaces it")
    if storage.locking:
        check_locking(storage.urlpath, storage.mmap_mode)
    handle = open_handle(storage.urlpath, options)
    if handle.frame.metalayer("b2nd") is not None:
        raise ValueError(f"Cannot open an NDArray as a SChunk: {legible(storage.urlpath)}; use blosc2.open")
    there = int(handle.frame.chunksize)
    if chunksize is not None and there > 0 and handle.frame.nchunks and chunksize != there:
        raise ValueError(
            f"the chunks of {legible(storage.urlpath)} have {there} bytes, not {chunksize}; leave out chunksize"
        )
    return handle


def _writable_bytes(out: Any) -> memoryview:
    """The bytes of a caller's buffer, to be written to."""
    if isinstance(out, np.ndarray) and out.flags.c_contiguous and out.flags.writeable:
        items: Any = out.reshape(-1).view(np.uint8)  # the buffer protocol does not know all dtypes
        return memoryview(items)
    try:
        view = memoryview(out)
    except TypeError:
        raise TypeError(f"the output must be a writable buffer, not {type(out).__name__}") from None
    if view.readonly or not view.c_contiguous:
        raise ValueError("the output must be writable and C-contiguous")
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def __getattr__(name: str) -> Any:
    """The two mappings of metadata, which programs for the other implementation find here."""
    if name in ("Meta", "VLMeta"):
        return getattr(_frames, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
