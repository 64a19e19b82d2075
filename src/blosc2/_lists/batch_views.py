"""Views of a `BatchArray`: one batch, and the items of all batches as one sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._indexing import list_index
from blosc2._lists.batch_blocks import Block
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2.batch_array import BatchArray


class Batch(Sequence[Any]):
    """One batch of a `BatchArray`: a read-only sequence of items, as they were when the batch was requested.

    Reading an item decodes one block, which is cached for the next item. An item is a new object each time.

    Attributes
    ----------
    nbytes, cbytes : int
        The uncompressed and compressed bytes.
    cratio : float
        Uncompressed bytes divided by compressed bytes.

    Examples
    --------
    >>> import blosc2
    >>> batches = blosc2.BatchArray()
    >>> batches.append([1, "two", 3.0])
    1
    >>> batch = batches[0]
    >>> len(batch), batch[1], batch[::-1]
    (3, 'two', [3.0, 'two', 1])
    """

    __slots__ = ("_array", "_frame", "_held", "_number")

    def __init__(self, parent: BatchArray, nbatch: int, frame: Frame | None = None) -> None:
        self._array = parent
        self._frame = parent._handle.frame if frame is None else frame
        self._number = nbatch
        self._held: tuple[int, Block] | None = None

    def __len__(self) -> int:
        return self._array._lengths(self._frame)[self._number]

    def __getitem__(self, key: Any) -> Any:
        length = len(self)
        if isinstance(key, slice):
            indices = range(*key.indices(length))
            if len(indices) == length:
                items = self._all()
                return items if indices.step > 0 else items[::-1]
            return self._some(indices)
        return self._item(list_index(key, length, "Batch"), length)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def _all(self) -> list[Any]:
        return self._array._items_of(self._frame, self._number)

    def _item(self, index: int, length: int) -> Any:
        block = self._block_of(index, length)
        if block is None:
            return self._all()[index]
        try:
            return block[1].item(index - block[0])
        except FormatError as error:
            raise self._array._damaged(self._frame, self._number, error.reason) from None

    def _some(self, indices: range) -> list[Any]:
        """Some of the items; of each block that they lie in, those alone are unpacked."""
        length = len(self)
        if not len(indices):
            return []
        if self._block_of(indices[0], length) is None:
            items = self._all()
            return [items[i] for i in indices]
        return [self._item(i, length) for i in indices]

    def _block_of(self, index: int, length: int) -> tuple[int, Block] | None:
        """The number of its first item, and the block that an item lies in; None where that has to be looked for."""
        frame, number = self._frame, self._number
        most = self._array._layout(frame).items_per_block or length
        which = index // most
        held = self._held
        if held is not None and held[0] == which:
            return which * most, held[1]
        self._array._require_blocks(frame, number)
        if frame.vl_count(number) != -(-length // most):
            return None
        block = self._array._block(frame, number, which)
        if len(block) != min(most, length - which * most):
            return None
        self._held = (which, block)
        return which * most, block

    @property
    def nbytes(self) -> int:
        return int(self._frame.chunk_info(self._number)[1])

    @property
    def cbytes(self) -> int:
        return int(self._frame.chunk_info(self._number)[2])

    @property
    def cratio(self) -> float:
        return self.nbytes / self.cbytes

    @property
    def lazybatch(self) -> bytes:
        """The compressed bytes of the batch."""
        stored: bytes = self._frame.chunk(self._number)
        return stored

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} items>"


class BatchArrayItems(Sequence[Any]):
    """The items of all batches of a `BatchArray` as one sequence, read-only; see `BatchArray.items`."""

    __slots__ = ("_array", "_last")

    def __init__(self, parent: BatchArray) -> None:
        self._array = parent
        # Where the batches of a version end, and the last one that was looked into.
        self._last: tuple[Frame, np.ndarray[Any, Any], Batch | None] | None = None

    def _ends(self) -> tuple[Frame, np.ndarray[Any, Any], Batch | None]:
        frame = self._array._handle.frame
        last = self._last
        if last is None or last[0] is not frame:
            last = self._last = (frame, np.cumsum(self._array._lengths(frame), dtype=np.int64), None)
        return last

    def __len__(self) -> int:
        ends = self._ends()[1]
        return int(ends[-1]) if len(ends) else 0

    def __getitem__(self, key: Any) -> Any:
        frame, ends, batch = self._ends()
        length = int(ends[-1]) if len(ends) else 0
        if isinstance(key, slice):
            indices = range(*key.indices(length))
            return list(self._at(frame, ends, batch, indices))
        return next(self._at(frame, ends, batch, (list_index(key, length, "BatchArray item"),)))

    def __iter__(self) -> Iterator[Any]:
        return self._array.iter_items()

    def _at(
        self, frame: Frame, ends: np.ndarray[Any, Any], batch: Batch | None, indices: Iterable[int]
    ) -> Iterator[Any]:
        for index in indices:
            number = int(np.searchsorted(ends, index, "right"))
            if batch is None or batch._number != number:
                batch = Batch(self._array, number, frame)
                self._last = (frame, ends, batch)
            start = int(ends[number - 1]) if number else 0
            yield batch[index - start]
