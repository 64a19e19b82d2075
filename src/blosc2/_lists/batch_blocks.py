"""How the items of a block of a `BatchArray` are packed: as a msgpack list, or as an Arrow stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from blosc2._core.frame.packed import PackedList
from blosc2._frames import FEW_BYTES, Together, unpack
from blosc2._handles import FrameHandle
from blosc2._lists.arrow_blocks import arrow_blocks
from blosc2._lists.packed_values import TUPLE_MARK, packed_value, readable
from blosc2.exceptions import FormatError

_NOT_BATCHES = (str, bytes, bytearray, memoryview)


class Block(Protocol):
    """The items of a block, of which none is unpacked yet."""

    def __len__(self) -> int: ...
    def item(self, index: int) -> Any: ...
    def all(self) -> list[Any]: ...


class _MsgpackBlock:
    """A block that is a packed list."""

    __slots__ = ("_data", "_deserialize", "_file_size", "_packed", "_together", "_where")

    def __init__(self, data: bytes, where: str, deserialize: str, file_size: int, together: Together) -> None:
        try:
            self._packed = PackedList(data)
        except ValueError as error:
            raise FormatError(f"{where}: not a valid msgpack value: {error}") from None
        self._data = data
        self._where = where
        self._deserialize = deserialize
        self._file_size = file_size
        self._together = together

    def __len__(self) -> int:
        return len(self._packed)

    def item(self, index: int) -> Any:
        data = self._packed.item(index)
        return self._unpack(data, None)

    def all(self) -> list[Any]:
        items = self._unpack(self._data, self._together)
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
        """All items, packed."""
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
        """The same items as blocks."""
        blocks = packed.parts(most)
        if any(TUPLE_MARK in block[:16] and packed.item(n * most) == TUPLE_MARK for n, block in enumerate(blocks)):
            raise ValueError("can not serialize a block that begins with '__tuple__': that is how tuples are stored")
        return blocks


def serializer_of(name: str) -> Any:
    """What packs and unpacks blocks in this way.

    Raises
    ------
    ValueError
        There is no such way.
    ImportError
        It needs a package that is not there.
    """
    if name == "msgpack":
        return MsgpackBlocks
    if name == "arrow":
        return arrow_blocks()
    raise ValueError(f"Unsupported BatchArray serializer: {name!r}; there are 'msgpack' and 'arrow'")
