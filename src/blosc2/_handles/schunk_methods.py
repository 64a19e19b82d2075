"""Methods that change a super-chunk: chunks are added, removed and moved, and items overwritten.

Each change is prepared first and then published in one step; if it fails, the super-chunk is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from blosc2 import _handles
from blosc2._handles.byte_ranges import existing_chunk
from blosc2._handles.frame_object import StoredFrame
from blosc2.storage import SpecialValue

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _change(method: Callable[Concatenate[ChangeableChunks, _P], _R]) -> Callable[Concatenate[ChangeableChunks, _P], _R]:
    """Let one thread after the other run a method that changes a super-chunk."""

    @wraps(method)
    def one_by_one(self: ChangeableChunks, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self._handle.editing():
            return method(self, *args, **kwargs)

    return one_by_one


class ChangeableChunks(StoredFrame):
    """The methods of `SChunk` that change it. All of them raise `ValueError` when it was opened for reading."""

    __slots__ = ()

    # ------------------------------------------------------------ whole chunks, from data
    @_change
    def append_data(self, data: Any) -> int:
        """Compress a buffer into a new last chunk.

        Parameters
        ----------
        data : buffer
            At most `chunksize` bytes. Other chunks may follow a shorter chunk.

        Returns
        -------
        int
            The number of chunks.

        Raises
        ------
        RuntimeError
            The data is longer than a chunk, or empty.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, cparams={"typesize": 1})
        >>> schunk.append_data(b"abcd"), schunk.append_data(b"ef")
        (1, 2)
        """
        chunk = _handles.compressed(self._handle, data, "append")
        return _handles.splice(self._handle, int(self._handle.frame.nchunks), 0, [chunk])

    @_change
    def insert_data(self, nchunk: int, data: Any, copy: bool = True) -> int:  # noqa: ARG002
        """Compress a buffer into a new chunk before the one of this number; see `append_data`.

        `copy` has no effect: the data is always compressed into memory of its own.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.insert_data(1, b"----")
        3
        >>> schunk[:]
        b'abcd----efgh'
        """
        index = _handles.position_for_chunk(self._handle.frame, nchunk)
        return _handles.splice(self._handle, index, 0, [_handles.compressed(self._handle, data, "insert")])

    @_change
    def update_data(self, nchunk: int, data: Any, copy: bool = True) -> int:  # noqa: ARG002
        """Replace a chunk with a compressed buffer; see `insert_data`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.update_data(0, b"----"), schunk[:]
        (2, b'----efgh')
        """
        index = existing_chunk(self._handle.frame, nchunk, "Could not update the desired chunk")
        return _handles.splice(self._handle, index, 1, [_handles.compressed(self._handle, data, "update")])

    # ------------------------------------------------------------ whole chunks, compressed already
    @_change
    def append_chunk(self, chunk: Any) -> int:
        """Append a compressed chunk, as returned by `get_chunk`.

        Parameters
        ----------
        chunk : bytes-like
            At most `chunksize` uncompressed bytes. It is decoded once, to check it.

        Returns
        -------
        int
            The number of chunks.

        Raises
        ------
        RuntimeError
            The chunk is larger than those of this super-chunk.
        ValueError
            The bytes are not a chunk.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcd", cparams={"typesize": 1})
        >>> schunk.append_chunk(schunk.get_chunk(0)), schunk[:]
        (2, b'abcdabcd')
        """
        return _handles.splice(
            self._handle, int(self._handle.frame.nchunks), 0, [_handles.checked_chunk(self._handle, chunk, "append")]
        )

    @_change
    def insert_chunk(self, nchunk: int, chunk: Any) -> int:
        """Insert a compressed chunk before the one of this number; see `append_chunk`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.insert_chunk(0, schunk.get_chunk(1)), schunk[:]
        (3, b'efghabcdefgh')
        """
        index = _handles.position_for_chunk(self._handle.frame, nchunk)
        return _handles.splice(self._handle, index, 0, [_handles.checked_chunk(self._handle, chunk, "insert")])

    @_change
    def update_chunk(self, nchunk: int, chunk: Any) -> int:
        """Replace a chunk with another compressed chunk; see `append_chunk`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.update_chunk(0, schunk.get_chunk(1)), schunk[:]
        (2, b'efghefgh')
        """
        index = existing_chunk(self._handle.frame, nchunk, "Could not update the desired chunk")
        return _handles.splice(self._handle, index, 1, [_handles.checked_chunk(self._handle, chunk, "update")])

    @_change
    def delete_chunk(self, nchunk: int) -> int:
        """Remove a chunk; those behind it move up.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.delete_chunk(0), schunk[:]
        (1, b'efgh')
        """
        index = existing_chunk(self._handle.frame, nchunk, "Could not delete the desired chunk")
        return _handles.splice(self._handle, index, 1, [])

    # ------------------------------------------------------------ chunks without data
    @_change
    def fill_special(self, nitems: int, special_value: SpecialValue, value: Any = None) -> int:
        """Append chunks of zeros, NaN, undefined items or one repeated item, which take almost no space.

        Parameters
        ----------
        nitems : int
            How many items to append, over as many chunks as they need.
        special_value : SpecialValue
            ``ZERO``, ``NAN`` (of items of 4 or 8 bytes), ``UNINIT`` or ``VALUE``.
        value : int, float, bytes or scalar, optional
            The item to repeat; only with ``VALUE``.

        Returns
        -------
        int
            The number of chunks.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=8, cparams={"typesize": 2})
        >>> schunk.fill_special(6, blosc2.SpecialValue.VALUE, b"ab"), schunk[:]
        (2, b'abababababab')
        """
        return _handles.append_special(self._handle, nitems, special_value, value)

    @_change
    def update_special(self, nchunk: int, special_value: SpecialValue, value: Any = None) -> int:
        """Replace the items of a chunk with zeros, NaN, undefined items or one repeated item; see `fill_special`.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.update_special(0, blosc2.SpecialValue.VALUE, b"-"), schunk[:]
        (2, b'----efgh')
        """
        return _handles.update_special(self._handle, nchunk, special_value, value)

    @_change
    def reorder_offsets(self, order: Any) -> None:
        """Reorder the chunks: chunk ``order[i]`` becomes chunk ``i``. No chunk is moved or read.

        Parameters
        ----------
        order : sequence of int
            The number of each chunk, exactly once.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcdefgh", cparams={"typesize": 1})
        >>> schunk.reorder_offsets([1, 0])
        >>> schunk[:]
        b'efghabcd'
        """
        _handles.reorder(self._handle, order)

    # ------------------------------------------------------------ items
    @_change
    def set_slice(self, value: Any, start: int = 0, stop: int | None = None) -> None:
        """Replace items ``start .. stop``; the super-chunk grows if the slice reaches beyond its end.

        Parameters
        ----------
        value : buffer
            Exactly the bytes of the slice.
        start, stop : int, optional
            In items; negative numbers count from the end. Without `stop` the slice ends at the end of the super-chunk
            or of `value`, whichever is further.

        Raises
        ------
        ValueError
            The value is shorter or longer than the slice, or the slice starts beyond the end.

        Examples
        --------
        >>> import blosc2
        >>> schunk = blosc2.SChunk(chunksize=4, data=b"abcd", cparams={"typesize": 1})
        >>> schunk.set_slice(b"-----", start=2)
        >>> schunk[:]
        b'ab-----'
        """
        data = _handles.bytes_of(value)
        frame = self._handle.frame
        typesize = int(frame.typesize)
        length = int(frame.nbytes) // typesize
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
            raise ValueError(f"{len(data)} bytes do not fit a slice of {max(size, 0)} bytes")
        if frame.metalayer("b2nd") is not None and start * typesize + size > frame.nbytes:
            raise ValueError("the super-chunk of an array cannot grow on its own: resize the array instead")
        if size > 0:
            _handles.overwrite(self._handle, start * typesize, data)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(key, slice):
            raise TypeError("only slices can be assigned to")
        if key.step not in (None, 1):
            raise IndexError("`step` must be 1")
        self.set_slice(value, 0 if key.start is None else key.start, key.stop)
