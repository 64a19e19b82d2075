"""Blocks of a `BatchArray` that are Arrow streams: each a table of one column, `values`.

pyarrow trusts its input, so a stream from a file is checked first: nothing in it may be compressed, have an extension
type, or claim more values than its bytes allow; and all offsets are checked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from blosc2._core.allocation import allowed, too_much
from blosc2._frames import Together
from blosc2._options import lacking
from blosc2.exceptions import FormatError, UnsupportedKindError

# pyarrow and its functions, once somebody needs them.
pa: Any = None
pc: Any = None

_COLUMN = "values"
# What Python objects take in memory: a number or date, a text besides its content, a dictionary besides its entries.
_SCALAR, _TEXT, _DICT, _ENTRY = 48, 64, 240, 120
# Values of a dictionary of which the longest is looked for.
_LOOKED_AT = 1000
_RECORDS, _DICTIONARY = 3, 2  # kinds of messages, in `Message.fbs` of Arrow


def arrow_blocks() -> type[ArrowBlocks]:
    """What packs and unpacks Arrow blocks; `ImportError` where there is no pyarrow."""
    global pa, pc
    if pa is None:
        try:
            import pyarrow as arrow  # noqa: ICN001 - `pa` is what it becomes for all
            import pyarrow.compute as functions
        except ImportError as error:
            raise ImportError(lacking("BatchArray serializer='arrow'", "pyarrow", "arrow")) from error
        pa, pc = arrow, functions
    return ArrowBlocks


class _ArrowBlock:
    """A block that is a stream with one column."""

    __slots__ = ("_array",)

    def __init__(self, data: bytes, where: str, deserialize: str, file_size: int) -> None:  # noqa: ARG002
        self._array = _read(data, where, file_size)

    def __len__(self) -> int:
        return len(self._array)

    def item(self, index: int) -> Any:
        return _value(self._array[index])

    def all(self, together: Together) -> list[Any]:  # noqa: ARG002
        return _values(self._array)


class ArrowBlocks:
    """Blocks that are Arrow streams."""

    open = staticmethod(_ArrowBlock)

    @staticmethod
    def batch(value: Any) -> Any:
        """The Arrow array of what a caller gives as a batch."""
        if isinstance(value, pa.ChunkedArray):
            value = pa.concat_arrays(value.chunks) if value.num_chunks else pa.array([], value.type)
        elif not isinstance(value, pa.Array):
            if isinstance(value, (str, bytes, bytearray, memoryview)) or not isinstance(value, Sequence):
                raise TypeError(
                    f"BatchArray entries must be Arrow arrays or sequences of Python objects, not "
                    f"{type(value).__name__}"
                )
            value = pa.array(list(value))
        if not len(value):
            raise ValueError("BatchArray entries cannot be empty")
        unusable = _unusable(value.type)
        if unusable:
            raise TypeError(f"Arrow values of type {unusable} cannot be stored: cast them to plain ones")
        return value

    @staticmethod
    def packed(items: Any, schema: bytes | None) -> Any:
        """All items, after a look whether they are of the type of those before them."""
        if schema is not None:
            wanted = _schema(schema)
            if wanted.field(0).type != items.type:
                if items.null_count == len(items) and pa.types.is_null(items.type):
                    return pa.nulls(len(items), wanted.field(0).type)
                raise TypeError(
                    "All Arrow batches in a BatchArray must share the same schema: "
                    f"{items.type} is not {wanted.field(0).type}"
                )
        return items

    @staticmethod
    def schema(packed: Any) -> bytes:
        """What all batches must have in common."""
        return pa.schema([pa.field(_COLUMN, packed.type)]).serialize().to_pybytes()  # type: ignore[no-any-return]

    @staticmethod
    def fitting(packed: Any, nbytes: int) -> int:
        """How many of the first items have no more bytes than this, where all are alike."""
        return min(int(nbytes * len(packed) // max(packed.nbytes, 1)), len(packed))

    @staticmethod
    def blocks(packed: Any, most: int) -> list[bytes]:
        return [_stream(packed.slice(at, most)) for at in range(0, len(packed), most)]

    @staticmethod
    def readable(blocks: list[bytes], stored: int) -> bool:
        """Whether a reader of a file of so many bytes may hold the values of these."""
        total = 0
        for block in blocks:
            with pa.ipc.open_stream(pa.py_buffer(block)) as stream:
                total += len(block) + sum(_size(batch.column(0)) for batch in stream)
        return total <= allowed(stored)


def _stream(array: Any) -> bytes:
    table = pa.record_batch([array], names=[_COLUMN])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=None)) as writer:
        writer.write_batch(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _schema(packed: bytes) -> Any:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(packed))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"the metalayer batcharray has no Arrow schema: {error!s:.200}") from None
    if len(schema) != 1:
        raise FormatError(f"the metalayer batcharray has an Arrow schema of {len(schema)} columns")
    return schema


def _read(data: bytes, where: str, file_size: int) -> Any:
    """The column of a stream from anywhere."""
    try:
        _check_messages(data)
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            if len(stream.schema) != 1:
                raise FormatError(f"{where}: an Arrow stream of {len(stream.schema)} columns, not of one")
            unusable = _unusable(stream.schema.field(0).type)
            if unusable:
                raise UnsupportedKindError(f"{where}: Arrow values of type {unusable} cannot be read")
            batches = list(stream)
        for batch in batches:
            batch.validate(full=True)
        if len(batches) != 1:
            raise FormatError(f"{where}: an Arrow stream of {len(batches)} batches, not of one")
        array = batches[0].column(0)
        nbytes = _size(array) + len(data)
    except (pa.ArrowException, OSError, ValueError, OverflowError, struct.error, IndexError) as error:
        if isinstance(error, (FormatError, UnsupportedKindError)):
            raise
        raise FormatError(f"{where}: not a valid Arrow stream: {error!s:.200}") from None
    if nbytes > allowed(file_size):
        raise FormatError(f"{where}: {too_much(nbytes, 'its values', allowed(file_size))}")
    return array


def _values(array: Any) -> list[Any]:
    try:
        values: list[Any] = array.to_pylist()
        return values
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise FormatError(f"values of type {array.type} have no equal in Python: {error!s:.200}") from None


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise FormatError(f"a value of type {scalar.type} has no equal in Python: {error!s:.200}") from None


# ------------------------------------------------------------ types and sizes
def _unusable(kind: Any) -> str | None:
    """A type in this one that is neither plain nor made of plain ones."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return f"{kind}"[:80]
    plain: tuple[Callable[[Any], bool], ...] = (
        types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_temporal,
        types.is_string, types.is_large_string, types.is_binary, types.is_large_binary,
    )  # fmt: skip
    if any(test(kind) for test in plain):
        return None
    if types.is_fixed_size_binary(kind):
        return None if kind.byte_width > 0 else str(kind)
    if types.is_list(kind) or types.is_large_list(kind):
        return _unusable(kind.value_type)
    if types.is_fixed_size_list(kind):
        return _unusable(kind.value_type) if kind.list_size > 0 else str(kind)
    if types.is_dictionary(kind):
        return _unusable(kind.value_type) if not types.is_nested(kind.value_type) else f"{kind}"[:80]
    if types.is_map(kind):
        return _unusable(kind.key_type) or _unusable(kind.item_type)
    if types.is_struct(kind):
        if not kind.num_fields:
            return str(kind)
        return next((bad for field in kind if (bad := _unusable(field.type))), None)
    return f"{kind}"[:80]


def _size(array: Any) -> int:
    """Bytes of memory that the values of a valid array take in Python, at most."""
    types, kind = pa.types, array.type
    count: int = len(array)
    if types.is_dictionary(kind):
        values = array.dictionary
        few = len(values) <= _LOOKED_AT
        longest = max((_size(values.slice(i, 1)) for i in range(len(values))), default=0) if few else _size(values)
        return count * (8 + longest)
    if types.is_struct(kind):
        fields = range(kind.num_fields)
        return count * (_DICT + _ENTRY * len(fields)) + sum(_size(array.field(i)) for i in fields)
    if types.is_map(kind):
        return count * (_DICT + _SCALAR) + 2 * _ENTRY * len(array.keys) + _size(array.keys) + _size(array.items)
    if types.is_list(kind) or types.is_large_list(kind):
        return count * (_TEXT + 8) + _size(array.flatten())
    if types.is_fixed_size_list(kind):
        return count * (_TEXT + 8) + _size(array.flatten())
    if types.is_fixed_size_binary(kind):
        return count * (_TEXT + int(kind.byte_width))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        length = pc.sum(pc.binary_length(array)).as_py() or 0
        return count * _TEXT + 5 * int(length)
    if types.is_decimal(kind):
        return count * (3 * _TEXT)
    return count * _SCALAR


# ------------------------------------------------------------ messages
def _check_messages(data: bytes) -> None:
    """Refuse a stream in which anything is compressed: nobody could say how large it becomes."""
    at = 0
    while at + 8 <= len(data):
        mark, length = struct.unpack_from("<Ii", data, at)
        if mark != 0xFFFFFFFF:
            raise FormatError("not a valid Arrow stream: a message begins without its mark")
        if length == 0:
            return
        at += 8
        if not 8 <= length <= len(data) - at:
            raise FormatError("not a valid Arrow stream: a message reaches beyond the end")
        message = _Table(data[at : at + length])
        at += length
        body = message.number(3, "<q")
        if not 0 <= body <= len(data) - at:
            raise FormatError("not a valid Arrow stream: the body of a message reaches beyond the end")
        at += body
        kind = message.number(1, "<B")
        if kind in (_RECORDS, _DICTIONARY):
            header = message.table(2)
            records = header.table(1) if kind == _DICTIONARY else header
            if records.position(3) is not None:
                raise UnsupportedKindError("an Arrow stream that is compressed inside of its block cannot be read")


class _Table:
    """A table of a flatbuffer; anything beyond its end raises `struct.error`."""

    def __init__(self, data: bytes, at: int | None = None) -> None:
        self._data = data
        self._at = self._get("<I", 0) if at is None else at
        self._fields = self._at - self._get("<i", self._at)
        self._size = self._get("<H", self._fields)

    def _get(self, form: str, at: int) -> int:
        if at < 0:
            raise struct.error("a position before the beginning")
        value: int = struct.unpack_from(form, self._data, at)[0]
        return value

    def position(self, number: int) -> int | None:
        """Where a field lies; None where it is left out."""
        at = 4 + 2 * number
        if at + 2 > self._size:
            return None
        offset = self._get("<H", self._fields + at)
        return self._at + offset if offset else None

    def number(self, number: int, form: str) -> int:
        """A field that is a number; 0 where it is left out."""
        at = self.position(number)
        return 0 if at is None else self._get(form, at)

    def table(self, number: int) -> _Table:
        at = self.position(number)
        if at is None:
            raise FormatError("not a valid Arrow stream: a message without its header")
        return _Table(self._data, at + self._get("<I", at))
