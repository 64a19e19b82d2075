"""Parquet files: columns of numbers, times and texts, and of lists of numbers that have one length."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute, parquet, types

from blosc2._tools.converting.conversion import ArrayItem, Box, GroupItem, Item, Items, ObjectItem, Source, alone
from blosc2._tools.converting.report import WHOLE, Changed, LeftOut
from blosc2.exceptions import ConversionError

# Rows and bytes that are decoded at a time.
_MOST_ROWS, _BATCH = 1 << 16, 8 << 20
# Fewer rows of texts in encodings that can make long texts of few bytes.
_FEW_ROWS = 256
# A text can stand for many rows: all texts of a column have no more bytes, or as many times those of the file.
_MOST_TEXTS, _MOST_EXPANDED = 1 << 30, 64


class Parquet(Source):
    """A Parquet file. Columns are selected by their number: a name can mean two of them."""

    def __init__(self, path: str) -> None:
        self._file: Any = parquet.ParquetFile(path, memory_map=True)
        self._most = max(_MOST_TEXTS, _MOST_EXPANDED * (os.path.getsize(path) + (1 << 20)))
        metadata = self._file.metadata
        rows = sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        leaves = sum(_leaves(column.type) for column in self._file.schema_arrow)
        if rows != metadata.num_rows or leaves != metadata.num_columns:
            self._file.close()
            raise ConversionError(
                f"{path} is damaged: its footer speaks of {metadata.num_rows} rows and {metadata.num_columns} columns, "
                f"its row groups have {rows}, and its schema {leaves}"
            )
        # The same file, with each text once for all rows that have it.
        self._once = list(_leaves_of_texts(self._file))
        self._texts: Any = parquet.ParquetFile(path, memory_map=True, metadata=metadata, read_dictionary=self._once)

    def close(self) -> None:
        self._file.close()
        self._texts.close()

    def items(self) -> Iterator[Item]:
        yield GroupItem("/", _described(self._file.schema_arrow.metadata))
        leaf = 0
        for column in self._file.schema_arrow:
            key = "/" + column.name.strip("/")
            yield from alone(key, self._column(key, column.type, leaf, _described(column.metadata)))
            leaf += _leaves(column.type)

    def _column(self, key: str, kind: Any, leaf: int, attributes: dict[str, Any]) -> Generator[Item, None, None]:
        """The item of a column, which is read once to know that nothing is missing, and the lengths of its lists."""
        if isinstance(kind, pa.BaseExtensionType):
            yield Changed(key, f"the type {kind}", "the values are stored")
            kind = kind.storage_type
        if types.is_dictionary(kind):
            yield Changed(key, "the dictionary", "the values are stored")
            kind = kind.value_type
        dtype = _dtype_of(_innermost(kind))
        is_text = types.is_string(kind) or types.is_large_string(kind)
        if dtype is None and not is_text:
            yield LeftOut(key, WHOLE, f"a column of {kind} is no array of numbers")
            return
        if types.is_timestamp(kind) and kind.tz is not None:
            attributes["timezone"] = kind.tz
        most_rows = _FEW_ROWS if is_text and leaf not in self._once else _MOST_ROWS
        column = _Column(self._texts if is_text else self._file, leaf, kind, most_rows)
        texts: list[str] | None = [] if is_text else None
        missing, lengths = (column.take_texts(texts, self._most), []) if texts is not None else column.measure()
        if missing:
            yield LeftOut(key, WHOLE, f"{missing} of its values are missing: fill them first")
        elif texts is not None:
            yield ObjectItem(key, texts, attributes)
        elif any(len(each) > 1 for each in lengths):
            shortest, longest = next((min(each), max(each)) for each in lengths if len(each) > 1)
            yield LeftOut(key, WHOLE, f"its lists have {shortest} to {longest} items, and no array has such rows")
        elif dtype is not None:
            width = tuple(each.pop() if each else 0 for each in lengths)
            yield ArrayItem(
                key, (self._file.metadata.num_rows, *width), dtype, column.of(width, dtype), attributes=attributes
            )


def _described(metadata: Any) -> dict[str, Any]:
    """Metadata of Arrow, such as of pandas, as attributes: texts, or bytes that are none."""
    found = {}
    for name, value in sorted((metadata or {}).items()):
        if not name.startswith(b"PARQUET:"):
            try:
                found[name.decode(errors="backslashreplace")] = value.decode()
            except UnicodeDecodeError:
                found[name.decode(errors="backslashreplace")] = value
    return found


def _leaves(kind: Any) -> int:
    """How many columns of the file a column of this type is made of."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    if types.is_struct(kind):
        return sum(_leaves(kind.field(number).type) for number in range(kind.num_fields))
    if types.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    return _leaves(kind.value_type) if _is_list(kind) else 1


def _leaves_of_texts(file: Any) -> Iterator[int]:
    """The numbers of the columns of texts of which the library can read each text once."""
    leaf = 0
    for column in file.schema_arrow:
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if types.is_string(kind) or types.is_large_string(kind):
            groups = range(file.metadata.num_row_groups)
            with suppress(Exception):  # listed when it is read
                _check_plain(file, leaf)
                chunks = [file.metadata.row_group(number).column(leaf) for number in groups]
                if not any(name.startswith("DELTA") for chunk in chunks for name in chunk.encodings):
                    yield leaf
        leaf += _leaves(column.type)


def _check_plain(file: Any, leaf: int) -> None:
    """Begin to read each part of a column: if one is encrypted, this raises, and its metadata would end the process."""
    for number in range(file.metadata.num_row_groups):
        next(file.reader.iter_batches(1, row_groups=[number], column_indices=[leaf]), None)


def _is_list(kind: Any) -> bool:
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def _innermost(kind: Any) -> Any:
    """The type of the items of a list in lists, else the type itself."""
    while _is_list(kind):
        kind = kind.value_type
    return kind


def _dtype_of(kind: Any) -> np.dtype[Any] | None:
    if types.is_timestamp(kind):
        return np.dtype(f"M8[{kind.unit}]")
    if types.is_duration(kind):
        return np.dtype(f"m8[{kind.unit}]")
    if types.is_date(kind):
        return np.dtype("M8[D]" if types.is_date32(kind) else "M8[ms]")
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return None


class _Column:
    """A column of one leaf, read from its beginning to its end if boxes follow each other."""

    def __init__(self, file: Any, leaf: int, kind: Any, most_rows: int) -> None:
        _check_plain(file, leaf)
        self._file, self._leaf, self._kind = file, leaf, kind
        metadata = file.metadata
        self._groups = range(metadata.num_row_groups)
        nbytes, is_flat = 0, file.schema.column(leaf).max_repetition_level == 0
        for number in self._groups:
            group = metadata.row_group(number)
            chunk = group.column(leaf)
            if chunk.num_values < group.num_rows or (is_flat and chunk.num_values > group.num_rows):
                raise ConversionError(f"row group {number} has {group.num_rows} rows and {chunk.num_values} values")
            nbytes += chunk.total_uncompressed_size
        self._rows = max(1, min(most_rows, _BATCH * max(1, metadata.num_rows) // max(1, nbytes)))

    def take_texts(self, texts: list[str], most: int) -> int:
        """Add all texts, of at most so many bytes. Gives how many are missing."""
        missing, rows, nbytes = 0, 0, 0
        for column in self._stored():
            rows += len(column)
            missing += column.null_count
            is_dictionary = types.is_dictionary(column.type)
            lengths = compute.binary_length(column.dictionary if is_dictionary else column)
            if is_dictionary:
                lengths = lengths.take(column.indices)
            nbytes += compute.sum(lengths.cast(pa.int64())).as_py() or 0
            if nbytes > most:
                raise ConversionError(f"its texts have more than {most} bytes, far more than the file")
            if missing:
                continue
            if is_dictionary:
                numbers = column.indices.dictionary_encode()
                each = column.dictionary.take(numbers.dictionary).to_pylist()
                texts += [each[number] for number in numbers.indices.to_pylist()]
            else:
                texts += column.to_pylist()
        self._check_rows(rows)
        return missing

    def measure(self) -> tuple[int, list[set[int]]]:
        """How many values are missing, in lists too, and which lengths lists have, at each depth."""
        missing, rows, kinds = 0, 0, [self._kind]
        while _is_list(kinds[-1]):
            kinds.append(kinds[-1].value_type)
        lengths = [{kind.list_size} if types.is_fixed_size_list(kind) else set[int]() for kind in kinds[:-1]]
        for column in self._batches():
            rows += len(column)
            missing += column.null_count
            for kind, found in zip(kinds, lengths, strict=False):
                if not types.is_fixed_size_list(kind):
                    found.update(np.unique(column.drop_null().value_lengths()).tolist())
                column = column.flatten()
                missing += column.null_count
        self._check_rows(rows)
        return missing, lengths

    def _check_rows(self, rows: int) -> None:
        if rows != self._file.metadata.num_rows:
            raise ConversionError(f"it has {rows} rows, the file has {self._file.metadata.num_rows}")

    def _batches(self) -> Iterator[Any]:
        for column in self._stored():
            yield column.dictionary_decode() if types.is_dictionary(column.type) else column

    def _stored(self) -> Iterator[Any]:
        """Batches as the file has them, which may be dictionaries."""
        for batch in self._file.reader.iter_batches(self._rows, row_groups=self._groups, column_indices=[self._leaf]):
            column = batch.column(0)
            yield column.storage if isinstance(column, pa.ExtensionArray) else column

    def of(self, width: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """What reads a box of rows of this shape."""
        batches: Iterator[Any] | None = None
        rows, first = np.empty((0, *width), dtype), 0  # `first` is the number of the first of `rows`

        def read(box: Box) -> Items:
            nonlocal batches, rows, first
            start, stop = box[0].start, box[0].stop
            if batches is None or start < first:
                batches, rows, first = self._batches(), rows[:0], 0
            parts, end = [rows], first + len(rows)
            while end < stop:
                part = _values(next(batches), width, dtype)
                parts.append(part)
                end += len(part)
                if end <= start:
                    parts, first = [part[:0]], end
            joined = np.concatenate(parts) if len(parts) > 1 else parts[0]
            rows, first = joined[start - first :], start
            return rows[(slice(0, stop - start), *box[1:])]

        return read


def _values(column: Any, width: tuple[int, ...], dtype: np.dtype[Any]) -> Items:
    count = len(column)
    while _is_list(column.type):
        column = column.flatten()
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype).reshape(count, *width)
