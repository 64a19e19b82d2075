"""Lists of batches: how they are laid out in blocks, read by blocks, and shown as lists."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from blosc2._core.codec.codec import Encoder, raw_blocks
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.packed import PackedList
from blosc2._core.io.sharing import remembered
from blosc2._frames import FEW_BYTES, FrameHandle, Together, VLMeta, pack, text_name, unpack
from blosc2._indexing import list_index
from blosc2._lists.arrow_blocks import arrow_blocks
from blosc2._lists.lists import TUPLE_MARK, packed_value, readable, unreadable
from blosc2._options import Encoding
from blosc2.exceptions import FormatError, UnsafeDeserializationError, UnsupportedKindError

if TYPE_CHECKING:
    from blosc2.batch_array import BatchArray


#: The entry of the variable metadata that says how many items each batch has.
LENGTHS: Final = "_batch_array_metadata"
#: Packed bytes of the items of a block, by compression level, where nobody says how many items it holds.
BUDGETS: Final = {1: 1 << 20, 2: 1 << 20, 3: 1 << 20, 4: 8 << 20, 5: 8 << 20, 6: 8 << 20, 7: 16 << 20, 8: 16 << 20}


class Layout(NamedTuple):
    """What the metalayer of a list of batches says. How many items a block has is None until the first batch."""

    serializer: str
    items_per_block: int | None
    arrow_schema: bytes | None

    def packed(self) -> bytes:
        return pack({
            "version": 1, "serializer": self.serializer, "items_per_block": self.items_per_block,
            "arrow_schema": self.arrow_schema,
        })  # fmt: skip


class NewBatch(NamedTuple):
    """A compressed batch that is to be stored: its uncompressed bytes, how many items it has, and what it was made for.

    `items` is what it was made of, where the layout is its own proposal; else None.
    """

    stored: bytes
    nbytes: int
    length: int
    layout: Layout
    items: Any


def compressed_batch(
    kind: Any, blocks: list[bytes], encoding: Encoding, length: int, layout: Layout, items: Any
) -> NewBatch:
    """A batch to be stored, from which it can be read again."""
    nbytes = sum(map(len, blocks))
    stored = Encoder(encoding).encode_blocks(blocks)
    if not kind.readable(blocks, len(stored)):
        # A file may make its reader hold so much for each of its bytes: of what shrinks that far, they are all kept.
        stored = raw_blocks(blocks)
        if not kind.readable(blocks, len(stored)):
            raise unreadable("the batch")
    return NewBatch(stored, nbytes, length, layout, items)


@remembered(64)
def layout_of(content: bytes) -> Layout:
    """The content of the metalayer, checked."""
    try:
        value = unpack(content, location="the metalayer batcharray")
    except UnsafeDeserializationError:  # it is the package's own, which has none
        value = None
    if not isinstance(value, dict):
        raise FormatError("the metalayer batcharray is not a map")
    if value.get("version", 1) != 1:
        raise UnsupportedKindError(f"batches of version {value['version']!r:.80} cannot be read, only of version 1")
    layout = Layout(str(value.get("serializer"))[:80], value.get("items_per_block"), value.get("arrow_schema"))
    if layout.items_per_block is not None and not (type(layout.items_per_block) is int and layout.items_per_block > 0):
        raise FormatError("the metalayer batcharray does not say how many items a block has")
    if layout.arrow_schema is not None and not isinstance(layout.arrow_schema, bytes):
        raise FormatError("the metalayer batcharray has a schema that is no bytes")
    return layout


def stored_lengths(frame: Frame) -> list[int] | None:
    """How many items each batch has, as the metadata says; None where it does not."""
    content = frame.vlmeta(LENGTHS)
    if content is None:
        return None
    try:
        found = unpack(content, location=f"variable metadata {LENGTHS!r}", file_size=frame.file_size)
    except UnsafeDeserializationError:  # it is the package's own entry, which has none
        found = None
    lengths = found.get("batch_lengths") if isinstance(found, dict) else None
    if not isinstance(lengths, list) or not all(type(n) is int and 0 < n < 1 << 62 for n in lengths):
        raise FormatError(f"variable metadata {LENGTHS!r} does not say how many items each batch has")
    return lengths


def packed_lengths(lengths: list[int]) -> bytes:
    return pack({"batch_lengths": lengths})


class BatchMetadata(VLMeta):
    """The metadata of a list of batches, of which one entry is its own."""

    __slots__ = ()

    def __delitem__(self, name: str) -> None:
        if text_name(name) == LENGTHS:
            self._publish({LENGTHS: None})
        super().__delitem__(name)

    def clear(self) -> None:
        """Delete all entries but that one, publishing all changes together."""
        self._publish({name: None for name in self if name != LENGTHS})

    def _publish(self, changes: Mapping[str, bytes | None]) -> None:
        if LENGTHS in changes:
            self._handle.require_writable()
            if changes[LENGTHS] is None or changes[LENGTHS] != self._handle.frame.vlmeta(LENGTHS):
                raise ValueError(f"{LENGTHS!r} says how many items each batch has, and is changed with them alone")
            changes = {name: content for name, content in changes.items() if name != LENGTHS}
        super()._publish(changes)


_NOT_BATCHES = (str, bytes, bytearray, memoryview)


class Block(Protocol):
    """The items of a block, of which none is unpacked yet."""

    def __len__(self) -> int: ...
    def item(self, index: int) -> Any: ...
    def all(self, together: Together) -> list[Any]: ...


class _MsgpackBlock:
    """A block that is a packed list."""

    __slots__ = ("_data", "_deserialize", "_file_size", "_packed", "_where")

    def __init__(self, data: bytes, where: str, deserialize: str, file_size: int) -> None:
        try:
            self._packed = PackedList(data)
        except ValueError as error:
            raise FormatError(f"{where}: not a valid msgpack value: {error}") from None
        self._data = data
        self._where = where
        self._deserialize = deserialize
        self._file_size = file_size

    def __len__(self) -> int:
        return len(self._packed)

    def item(self, index: int) -> Any:
        data = self._packed.item(index)
        return self._unpack(data, None)

    def all(self, together: Together) -> list[Any]:
        items = self._unpack(self._data, together)
        if type(items) is list:
            return items
        # The first item is what marks a tuple.
        return [self.item(i) for i in range(len(self))]

    def _unpack(self, data: bytes, together: Together | None) -> Any:
        return unpack(
            data, deserialize=self._deserialize, location=self._where, frame_opener=FrameHandle.open_cframe,
            file_size=self._file_size if len(data) > FEW_BYTES else 0, together=together,
        )  # fmt: skip


class MsgpackBlocks:
    """Blocks that are packed lists."""

    open = staticmethod(_MsgpackBlock)
    readable = staticmethod(readable)

    @staticmethod
    def batch(value: Any) -> list[Any]:
        """The items of what a caller gives as a batch."""
        if isinstance(value, _NOT_BATCHES) or not isinstance(value, Sequence):
            raise TypeError(
                f"BatchArray entries must be sequences of Python objects, not {type(value).__name__}: make it a list"
            )
        items = list(value)
        if not items:
            raise ValueError("BatchArray entries cannot be empty")
        return items

    @staticmethod
    def packed(items: list[Any], schema: bytes | None) -> PackedList:  # noqa: ARG004
        return PackedList(packed_value(items))

    @staticmethod
    def schema(packed: PackedList) -> None:
        """What all batches must have in common: nothing."""

    @staticmethod
    def fitting(packed: PackedList, nbytes: int) -> int:
        """How many of the first items have no more bytes than this."""
        return packed.fitting(nbytes)

    @staticmethod
    def blocks(packed: PackedList, most: int) -> list[bytes]:
        blocks = packed.parts(most)
        if any(TUPLE_MARK in block[:16] and packed.item(n * most) == TUPLE_MARK for n, block in enumerate(blocks)):
            raise ValueError("can not serialize a block that begins with '__tuple__': that is how tuples are stored")
        return blocks


def serializer_of(name: str) -> Any:
    """What packs and unpacks blocks in this way.

    `ValueError` where there is no such way, and `ImportError` where it needs a package that is not there.
    """
    if name == "msgpack":
        return MsgpackBlocks
    if name == "arrow":
        return arrow_blocks()
    raise ValueError(f"Unsupported BatchArray serializer: {name!r}; there are 'msgpack' and 'arrow'")


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
        # The block that was read last, behind the numbers of its first item and of the one after its last.
        self._held: tuple[int, int, Block] | None = None

    def __len__(self) -> int:
        return self._array._lengths(self._frame)[self._number]

    def __getitem__(self, key: Any) -> Any:
        held = self._held
        if type(key) is int and held is not None and held[0] <= key < held[1]:
            return self._item_of(held, key)
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
        return self._array._items_of(self._frame, self._number)  # which checks all of it

    def _item(self, index: int, length: int) -> Any:
        block = self._block_of(index, length)
        return self._all()[index] if block is None else self._item_of(block, index)

    def _item_of(self, held: tuple[int, int, Block], index: int) -> Any:
        try:
            return held[2].item(index - held[0])
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

    def _block_of(self, index: int, length: int) -> tuple[int, int, Block] | None:
        """The number of its first item, and the block that an item lies in; None where that has to be looked for."""
        frame, number = self._frame, self._number
        most = self._array._layout(frame).items_per_block or length
        which = index // most
        held = self._held
        if held is not None and held[0] <= index < held[1]:
            return held
        self._array._require_blocks(frame, number)
        if frame.vl_count(number) != -(-length // most):
            return None
        block = self._array._block(frame, number, which)
        first = which * most
        if len(block) != min(most, length - first):
            return None
        self._held = held = first, first + len(block), block
        return held

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
        self._last: Batch | None = None  # the one that was looked into

    def __len__(self) -> int:
        ends = self._array._ends(self._array._handle.frame)
        return ends[-1] if ends else 0

    def __getitem__(self, key: Any) -> Any:
        frame = self._array._handle.frame
        ends = self._array._ends(frame)
        length = ends[-1] if ends else 0
        if isinstance(key, slice):
            return [self._at(frame, ends, index) for index in range(*key.indices(length))]
        return self._at(frame, ends, list_index(key, length, "BatchArray item"))

    def __iter__(self) -> Iterator[Any]:
        return self._array.iter_items()

    def _at(self, frame: Frame, ends: list[int], index: int) -> Any:
        number = bisect_right(ends, index)
        batch = self._last
        if batch is None or batch._number != number or batch._frame is not frame:
            self._last = batch = Batch(self._array, number, frame)
        return batch[index - ends[number - 1] if number else index]
