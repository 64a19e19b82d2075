"""Parquet files: columns of numbers, and of lists of numbers that have one length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from blosc2._tools.converting.items import WHOLE, ArrayItem, Box, GroupItem, Item, Items, LeftOut, Source
from blosc2.exceptions import ConversionError


class _Parquet:
    def __init__(self, path: str) -> None:
        self._file = pq.ParquetFile(path, memory_map=True)

    def close(self) -> None:
        self._file.close()

    def items(self) -> Iterator[Item]:
        metadata = self._file.schema_arrow.metadata or {}
        yield GroupItem("/", {})
        for name in sorted(metadata):
            yield LeftOut("/", f"metadata {name.decode(errors='replace')!r}", "it belongs to Arrow")
        for column in self._file.schema_arrow:
            key = "/" + column.name.strip("/")
            width, dtype = _shape_of(column.type)
            if dtype is None:
                yield LeftOut(key, WHOLE, f"a column of {column.type} is no array of numbers")
                continue
            missing = self._missing(column.name)
            if missing:
                yield LeftOut(key, WHOLE, f"{missing} of its values are missing: fill them first")
                continue
            shape = (self._file.metadata.num_rows, *width)
            yield ArrayItem(key, shape, dtype, _Column(self._file, column.name, width, dtype).read)

    def _missing(self, name: str) -> int:
        """How many values of a column are missing, in lists too."""
        missing = 0
        for batch in self._file.iter_batches(1 << 14, columns=[name]):
            column = batch.column(0)
            missing += column.null_count
            while pa.types.is_fixed_size_list(column.type):
                column = column.flatten()
                missing += column.null_count
        return missing


def _shape_of(kind: Any) -> tuple[tuple[int, ...], np.dtype[Any] | None]:
    """The shape of one value of a column, and the dtype of its items; None if it has none."""
    width: tuple[int, ...] = ()
    while pa.types.is_fixed_size_list(kind):
        width += (kind.list_size,)
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return width, np.dtype(kind.to_pandas_dtype())
    return width, None


class _Column:
    """A column, read from its beginning to its end if boxes follow each other."""

    def __init__(self, file: Any, name: str, width: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._file, self._name, self._width, self._dtype = file, name, width, dtype
        row = int(np.prod(width, dtype=object)) * dtype.itemsize
        self._batch = max(1, min(1 << 16, (8 << 20) // max(1, row)))
        self._batches: Any = None
        self._rows: Items = np.empty((0, *width), dtype)
        self._first = 0  # the number of the first of `_rows`

    def read(self, box: Box) -> Items:
        start, stop = box[0].start, box[0].stop
        if self._batches is None or start < self._first:
            self._batches = self._file.iter_batches(self._batch, columns=[self._name])
            self._rows, self._first = self._rows[:0], 0
        parts, end = [self._rows], self._first + len(self._rows)
        while end < stop:
            part = self._values(next(self._batches).column(0))
            parts.append(part)
            end += len(part)
            if end <= start:
                parts, self._first = [part[:0]], end
        rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._rows, self._first = rows[start - self._first :], start
        return self._rows[(slice(0, stop - start), *box[1:])]

    def _values(self, column: Any) -> Items:
        count = len(column)
        while pa.types.is_fixed_size_list(column.type):
            if column.null_count:
                break
            column = column.flatten()
        if column.null_count:
            raise ConversionError(
                f"the column {self._name!r} has missing values: fill them first, or leave the column out"
            )
        return np.asarray(column.to_numpy(zero_copy_only=False), self._dtype).reshape(count, *self._width)


def open_source(path: str) -> Source:
    """A Parquet file."""
    return _Parquet(path)
