"""How the batches of a `BatchArray` are stored: its metalayer, its metadata entry, and new batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from blosc2._core.codec.codec import Encoder, raw_blocks
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import remembered
from blosc2._frames import VLMeta, pack, text_name, unpack
from blosc2._lists.packed_values import unreadable
from blosc2._options import Encoding
from blosc2.exceptions import FormatError, UnsafeDeserializationError, UnsupportedKindError

#: The entry of the variable metadata that says how many items each batch has.
LENGTHS: Final = "_batch_array_metadata"
#: Packed bytes of the items of a block, by compression level, where nobody says how many items it holds.
BUDGETS: Final = {1: 1 << 20, 2: 1 << 20, 3: 1 << 20, 4: 8 << 20, 5: 8 << 20, 6: 8 << 20, 7: 16 << 20, 8: 16 << 20}


class Layout(NamedTuple):
    """What the metalayer of a list of batches says.

    Attributes
    ----------
    serializer : str
    items_per_block : int or None
        None until the first batch.
    arrow_schema : bytes or None
    """

    serializer: str
    items_per_block: int | None
    arrow_schema: bytes | None

    def packed(self) -> bytes:
        """The content of the metalayer."""
        return pack({
            "version": 1, "serializer": self.serializer, "items_per_block": self.items_per_block,
            "arrow_schema": self.arrow_schema,
        })  # fmt: skip


class NewBatch(NamedTuple):
    """A compressed batch that is to be stored.

    Attributes
    ----------
    stored : bytes
    nbytes : int
        Uncompressed.
    length : int
        Its items.
    layout : Layout
        What it was made for.
    items : object
        What it was made of, where the layout is its own proposal; else None.
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
    """The content of that entry."""
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
