"""`BatchArray`: a compressed list of batches, each a list of values that can be read one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from types import EllipsisType
from typing import Any, Self, Unpack

import numpy as np

from blosc2._core.allocation import allowed
from blosc2._core.codec.codec import Encoder
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import item_of
from blosc2._frames import MAX_ENTRIES, FrameHandle, FrameUpdate, Together, VLMeta, integer, vlmeta_chunk
from blosc2._lists import (
    ADVICE,
    BUDGETS,
    LENGTHS,
    BatchMetadata,
    Block,
    Layout,
    NewBatch,
    ValueList,
    compressed_batch,
    layout_of,
    packed_lengths,
    serializer_of,
    stored_lengths,
)
from blosc2._lists import Batch as Batch
from blosc2._lists import BatchArrayItems as BatchArrayItems
from blosc2._options import Encoding
from blosc2.exceptions import FormatError, UnsupportedKindError
from blosc2.info import size_text
from blosc2.schunk import SChunk
from blosc2.storage import SChunkKeywords, takes


@takes(SChunkKeywords)
class BatchArray(ValueList):
    """A list of batches, in memory or in a file. Each batch is a list of values, compressed in blocks.

    It has the methods of a list, and its elements are batches: ``batches[2]`` is a `Batch`, and ``batches[2][5]`` is
    one item, for which one block is decoded. Readers see each call that changes the list completely or not at all.

    Parameters
    ----------
    items_per_block : int, optional
        The largest number of items in a block. Small blocks give single items faster, large blocks compress better. By
        default, as many items of the first batch as have 1 MiB of packed bytes up to compression level 3, 8 MiB up to
        6, 16 MiB up to 8, and all of them with levels 9 and 0.
    serializer : {"msgpack", "arrow"}
        How items are packed. "msgpack" takes the values that `ObjectArray` takes; "arrow" takes Arrow arrays and lists
        of values of one type, and needs pyarrow (``pip install 'python-blosc2[arrow]'``).
    deserialize : {"full", "safe"}, optional
        Whether to open items that stand for an object. By default they are opened in a new list, and refused in a list
        from a file.
    **kwargs
        ``cparams``, ``dparams``, ``storage``, or the fields of `blosc2.Storage`. If ``urlpath`` exists, modes "a" and
        "r" open it, "w" replaces it, and "x" raises.

    Raises
    ------
    FileNotFoundError
        The mode is "r" and the file does not exist.
    ImportError
        The serializer is "arrow" and pyarrow is not installed.
    FormatError
        The file contains something else.

    Examples
    --------
    >>> import blosc2
    >>> batches = blosc2.BatchArray(items_per_block=2)
    >>> batches.append(["a", "b", {"c": 3}])
    1
    >>> batches.extend([[1, 2], [None]])
    >>> batches[0][2], batches[1][:], batches.items[3:]
    ({'c': 3}, [1, 2], [1, 2, None])
    """

    __slots__ = ("_known", "_known_ends", "_new_lengths", "_proposed")
    _tag = "batcharray"
    _own_entries = frozenset({LENGTHS})
    # The lengths of the batches of a version, and where they end among all items; the lengths of the version that is
    # being made; the layout of a first batch.
    _known: tuple[Frame, list[int]] | None
    _known_ends: tuple[Frame, list[int]] | None
    _new_lengths: list[int]
    _proposed: Layout | None

    def __init__(
        self, items_per_block: int | None = None, serializer: str = "msgpack", _from_schunk: SChunk | None = None,
        deserialize: str | None = None, **kwargs: Unpack[SChunkKeywords],
    ) -> None:  # fmt: skip
        self._known = self._known_ends = self._proposed = None
        if items_per_block is not None:
            items_per_block = integer("items_per_block", items_per_block, ADVICE)
            if items_per_block < 1:
                raise ValueError(f"items_per_block must be a positive integer, not {items_per_block}")
        serializer_of(serializer)
        self._begin(Layout(serializer, items_per_block, None).packed(), None, _from_schunk, deserialize, kwargs)

    @classmethod
    def _of(cls, handle: FrameHandle) -> Any:
        self = super()._of(handle)
        self._known = self._known_ends = self._proposed = None
        return self

    @staticmethod
    def _check_encoding(encoding: Encoding) -> None:
        Encoder(encoding).encode_blocks([bytes(range(64))] * 4)

    # ------------------------------------------------------------ layout
    def _layout(self, frame: Frame) -> Layout:
        try:
            return layout_of(frame.metalayer(self._tag) or b"")
        except FormatError as error:
            raise FormatError(error.reason, path=self._handle.urlpath, key=self._handle.key) from None

    def _blocks(self, frame: Frame) -> Any:
        """What packs and unpacks blocks."""
        layout = self._layout(frame)
        try:
            return serializer_of(layout.serializer)
        except ValueError:
            raise UnsupportedKindError(
                f"batches packed with {layout.serializer!r} cannot be read, only with 'msgpack' and 'arrow'",
                path=self._handle.urlpath, key=self._handle.key,
            ) from None  # fmt: skip

    @property
    def items_per_block(self) -> int | None:
        """The largest number of items in a block; None if it was not given and there is no batch yet."""
        return self._layout(self._handle.frame).items_per_block

    @property
    def serializer(self) -> str:
        """How items are packed."""
        return self._layout(self._handle.frame).serializer

    # The published package has these two, and its own tests call them.
    def _guess_blocksize(self, payload_sizes: Sequence[int]) -> int:
        """Items of a block, from the packed sizes of those of the first batch."""
        budget = item_of(BUDGETS, self.cparams.clevel)
        if budget is None:
            return len(payload_sizes)
        return max(int(np.searchsorted(np.cumsum(payload_sizes), budget, "right")), 1)

    # ------------------------------------------------------------ lengths
    @property
    def _batch_lengths(self) -> list[int]:
        return self._lengths(self._handle.frame)

    def _lengths(self, frame: Frame) -> list[int]:
        """How many items each batch of a version has."""
        known = self._known
        if known is not None and known[0] is frame:
            return known[1]
        try:
            lengths = stored_lengths(frame)
        except FormatError as error:
            raise FormatError(error.reason, path=self._handle.urlpath, key=self._handle.key) from None
        if lengths is None or len(lengths) != frame.nchunks:  # other programs need not have written them
            lengths = [sum(map(len, self._opened_blocks(frame, i))) for i in range(int(frame.nchunks))]
        self._known = (frame, lengths)
        return lengths

    def _ends(self, frame: Frame) -> list[int]:
        """The number of the item behind each batch of a version, counted over all batches."""
        known = self._known_ends
        if known is None or known[0] is not frame:
            known = self._known_ends = frame, list(accumulate(self._lengths(frame)))
        return known[1]

    # ------------------------------------------------------------ reading
    def _require_blocks(self, frame: Frame, index: int) -> None:
        if not frame.vlblocks:
            self._require_room(frame, index)
            raise self._damaged(frame, index, f"chunk {index} does not consist of blocks of variable length")

    def _block(self, frame: Frame, index: int, number: int) -> Block:
        """One block of a batch."""
        self._require_blocks(frame, index)
        data = frame.vl_block(index, number, allowed(frame.file_size))
        return self._opened(frame, index, number, data, self._blocks(frame))

    def _opened_blocks(self, frame: Frame, index: int) -> Iterator[Block]:
        """The blocks of a batch, one after the other."""
        self._require_blocks(frame, index)
        kind = self._blocks(frame)
        most = allowed(frame.file_size)
        if frame.chunk_info(index)[1] > most // 2:
            for number in range(frame.vl_count(index)):
                yield self._opened(frame, index, number, frame.vl_block(index, number, most), kind)
            return
        for number, data in enumerate(frame.vl_blocks(index)):
            yield self._opened(frame, index, number, data, kind)

    def _opened(self, frame: Frame, index: int, number: int, data: bytes, kind: Any) -> Block:
        where = f"block {number} of chunk {index} of {self._handle.urlpath or 'a frame in memory'}"
        try:
            block: Block = kind.open(data, where, self._handle.options.deserialize, frame.file_size)
        except FormatError as error:
            raise self._damaged(frame, index, error.reason) from None
        return block

    def _items_of(self, frame: Frame, index: int) -> list[Any]:
        """All items of a batch, which must be as many as are said to be there."""
        items = self._all_items(frame, index)
        length = self._lengths(frame)[index]
        if len(items) != length:
            raise self._damaged(frame, index, f"chunk {index}: the batch has {len(items)} items, not {length}")
        return items

    def _all_items(self, frame: Frame, index: int) -> list[Any]:
        """All items of a batch; its blocks but the last are equally long."""
        together = Together(frame.file_size)
        items: list[Any] = []
        longest = None
        closed = False
        for block in self._opened_blocks(frame, index):
            length = len(block)
            longest = length if longest is None else longest
            if closed or not 0 < length <= longest:
                raise self._damaged(frame, index, f"chunk {index}: the blocks of the batch are of all lengths")
            closed = length < longest
            try:
                items += block.all(together)
            except FormatError as error:
                raise self._damaged(frame, index, error.reason) from None
        return items

    def _read(self, frame: Frame, index: int, together: Together | None = None) -> Batch:  # noqa: ARG002
        return Batch(self, index, frame)

    def _pop_read(self, frame: Frame, index: int) -> list[Any]:
        return self._items_of(frame, index)

    def _entry(self, index: int) -> list[Any]:
        return self._all_items(self._handle.frame, index)

    def iter_items(self) -> Iterator[Any]:
        """Iterate over the items of all batches.

        Examples
        --------
        >>> import blosc2
        >>> batches = blosc2.BatchArray()
        >>> batches.extend([[1, 2], [3]])
        >>> list(batches.iter_items())
        [1, 2, 3]
        """
        frame = self._handle.frame
        for index in range(int(frame.nchunks)):
            yield from self._items_of(frame, index)

    @property
    def items(self) -> BatchArrayItems:
        """The items of all batches as one read-only sequence."""
        return BatchArrayItems(self)

    # ------------------------------------------------------------ changing
    def _encoding(self) -> Encoding:
        self._proposed = None
        return super()._encoding()

    def _chunk_of(self, value: Any, encoding: Encoding) -> NewBatch:
        frame = self._handle.frame
        kind = self._blocks(frame)
        layout = self._layout(frame)
        items = kind.batch(value)
        proposal = layout.items_per_block is None
        if proposal:
            layout = self._proposed or layout
        packed = kind.packed(items, layout.arrow_schema)
        if layout.items_per_block is None or (layout.arrow_schema is None and kind.schema(packed) is not None):
            wanted = layout.items_per_block
            if wanted is None:
                budget = item_of(BUDGETS, self.cparams.clevel)
                wanted = len(items) if budget is None else max(kind.fitting(packed, budget), 1)
            layout = layout._replace(items_per_block=wanted, arrow_schema=kind.schema(packed))
            self._proposed = layout
            proposal = True
        assert layout.items_per_block is not None
        blocks = kind.blocks(packed, layout.items_per_block)
        return compressed_batch(kind, blocks, encoding, len(items), layout, items if proposal else None)

    def _compressed_anew(self, other: Any, frame: Frame, index: int, encoding: Encoding) -> NewBatch:
        ours, theirs = self._layout(self._handle.frame), other._layout(frame)
        if ours == theirs and ours.items_per_block is not None:
            length = other._lengths(frame)[index]
            return compressed_batch(other._blocks(frame), frame.vl_blocks(index), encoding, length, ours, None)
        return self._chunk_of(other._items_of(frame, index), encoding)

    def _fit(self, update: FrameUpdate, new: list[NewBatch]) -> list[NewBatch]:
        """New batches in the layout of what they are added to, which the first one decides."""
        update.vlblocks = True
        layout = layout_of(update.metalayers[self._tag])
        if new and (layout.items_per_block is None or layout.arrow_schema is None):
            first = new[0].layout
            layout = Layout(
                layout.serializer, layout.items_per_block or first.items_per_block,
                layout.arrow_schema if layout.arrow_schema is not None else first.arrow_schema,
            )  # fmt: skip
            update.metalayers[self._tag] = layout.packed()
        if all(one.layout == layout for one in new):
            return new
        # Somebody else stored the first batch meanwhile.
        self._proposed = layout
        encoding = self._handle.encoding()
        return [one if one.layout == layout else self._chunk_of(one.items, encoding) for one in new]

    def _splice(self, update: FrameUpdate, index: int, removed: int, new: list[NewBatch]) -> None:
        new = self._fit(update, new)
        lengths = list(self._lengths(update.frame))
        lengths[index : index + removed] = [one.length for one in new]
        update.splice(index, removed, [(one.stored, one.nbytes) for one in new])
        self._new_lengths = lengths

    def _replace(self, update: FrameUpdate, indices: list[int], new: list[NewBatch]) -> None:
        lengths = list(self._lengths(update.frame))
        for index, one in zip(indices, self._fit(update, new), strict=True):
            update.replace(index, one.stored, one.nbytes)
            lengths[index] = one.length
        self._new_lengths = lengths

    def _keep(self, update: FrameUpdate, indices: np.ndarray[Any, Any]) -> None:
        lengths = self._lengths(update.frame)
        super()._keep(update, indices)
        self._new_lengths = [lengths[i] for i in indices.tolist()]

    def _publish(self, update: FrameUpdate, *, fresh: bool = False) -> None:
        lengths = self._new_lengths
        if not lengths:
            update.vlmeta.pop(LENGTHS, None)
        else:
            if LENGTHS not in update.vlmeta and len(update.vlmeta) >= MAX_ENTRIES:
                raise ValueError(
                    f"there can be {MAX_ENTRIES} entries of variable metadata, and a list of batches needs one of "
                    "them: delete one"
                )
            update.vlmeta[LENGTHS] = vlmeta_chunk(packed_lengths(lengths))
        fresh = fresh or update.metalayers[self._tag] != update.frame.metalayer(self._tag)
        super()._publish(update, fresh=fresh)
        self._known = (self._handle.frame, lengths)

    # ------------------------------------------------------------ description
    @property
    def vlmeta(self) -> VLMeta:
        """Variable-length metadata, by name. The entry `_batch_array_metadata` is the list's own."""
        try:
            return self._vlmeta_
        except AttributeError:  # made when it is asked for, and then kept
            self._vlmeta_ = BatchMetadata(self._handle.shared(), FrameHandle.open_cframe)
            return self._vlmeta_

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        frame = self._handle.frame
        layout = self._layout(frame)
        lengths = self._lengths(frame)
        blocks = [n for i in range(len(lengths)) for n in self._block_lengths(frame, i, layout.items_per_block)]
        return [
            ("type", type(self).__name__), ("serializer", layout.serializer),
            ("items_per_block", layout.items_per_block), ("nbatches", _summary(lengths, "batch")),
            ("nblocks", _summary(blocks, "block")), ("nitems", sum(lengths)), ("nbytes", size_text(self.nbytes)),
            ("cbytes", size_text(self.cbytes)), ("cratio", f"{self.cratio:.2f}x"), ("cparams", self.cparams),
            ("dparams", self.dparams), *self._handle.described_checks(),
        ]  # fmt: skip

    def _block_lengths(self, frame: Frame, index: int, most: int | None) -> list[int]:
        """How many items each block of a batch has."""
        count, length = frame.vl_count(index) if frame.vlblocks else 1, self._lengths(frame)[index]
        most = most or length
        if -(-length // most) == count:
            return [most] * (count - 1) + [length - most * (count - 1)]
        return [len(block) for block in self._opened_blocks(frame, index)]

    @takes(SChunkKeywords)
    def chunk_copy(self, **kwargs: Any) -> Self:
        """Copy the list, with the compressed bytes of its batches unchanged.

        Parameters
        ----------
        **kwargs
            ``storage`` or the fields of `blosc2.Storage`, and ``dparams``.

        Raises
        ------
        ValueError
            `cparams`, `items_per_block` or `serializer` is given, which would change the bytes: use `copy`.

        Examples
        --------
        >>> import blosc2
        >>> batches = blosc2.BatchArray()
        >>> batches.extend([[1, 2], [3]])
        >>> batches.chunk_copy()[0][:]
        [1, 2]
        """
        for name in ("cparams", "items_per_block", "serializer"):
            if name in kwargs:
                raise ValueError(f"chunk_copy moves compressed bytes as they are, {name} would change them: use copy()")
        return super().copy(**kwargs)

    @takes(SChunkKeywords)
    def copy(self, *, items_per_block: int | EllipsisType | None = ..., serializer: str | EllipsisType = ...,
             **kwargs: Any) -> Self:  # fmt: skip
        """Copy the batches and metadata, in memory or to the file ``urlpath``.

        Compressed bytes are copied, unless `items_per_block`, `serializer` or `cparams` asks for something else. The
        copy has the same ``meta``, which cannot be given.

        Parameters
        ----------
        items_per_block, serializer
            As for `BatchArray`; by default those of this list.
        **kwargs
            As for `BatchArray`.

        Examples
        --------
        >>> import blosc2
        >>> batches = blosc2.BatchArray(items_per_block=10)
        >>> batches.append([1, 2, 3])
        1
        >>> batches.copy(items_per_block=1).items_per_block
        1
        """
        layout = self._layout(self._handle.frame)
        given = {"items_per_block": items_per_block, "serializer": serializer}
        how: dict[str, Any] = {name: value for name, value in given.items() if value is not ...}
        if kwargs.get("cparams") is None and all(getattr(layout, name) == value for name, value in how.items()):
            return super().copy(**kwargs)
        if "meta" in kwargs:
            raise ValueError("meta should not be passed to copy: the copy has the same")
        if kwargs.get("cparams") is None:
            kwargs["cparams"] = self.cparams
        return self._anew(kwargs, **{"serializer": layout.serializer, "items_per_block": layout.items_per_block, **how})


def _summary(numbers: list[int], what: str) -> str:
    """How many there are, and of which lengths."""
    if not numbers:
        return "0"
    mean = sum(numbers) / len(numbers)
    return f"{len(numbers)} (items per {what}: mean={mean:.2f}, max={max(numbers)}, min={min(numbers)})"
