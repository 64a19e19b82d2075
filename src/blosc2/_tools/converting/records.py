"""Many small records: LMDB, tar files as WebDataset writes them, and columns of Parquet files."""

from __future__ import annotations

import io
import math
import os
import struct
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from blosc2._tools.converting.array_files import read_header
from blosc2._tools.converting.items import WHOLE, ArrayItem, Box, GroupItem, Item, Items, LeftOut, Source
from blosc2.exceptions import ConversionError

# The bytes of the record of a named database.
_DATABASE_RECORD = 48


def _bytes_item(key: str, value: bytes) -> Item:
    """An array of a record: what a ``.npy`` member holds, else its bytes."""
    if value[:6] == b"\x93NUMPY":
        file = io.BytesIO(value)
        try:
            shape, _, dtype = read_header(file)
            if file.tell() + math.prod(shape) * dtype.itemsize == len(value) and not dtype.hasobject:
                return ArrayItem.of(key, np.load(io.BytesIO(value), allow_pickle=False))
        except (ValueError, OSError, SyntaxError, KeyError, TypeError, struct.error):
            pass  # the bytes are kept
    return ArrayItem.of(key, np.frombuffer(value, "u1"))


class _Lmdb(Source):
    def __init__(self, path: str) -> None:
        import lmdb

        is_folder = os.path.isdir(path)
        try:
            self._environment = lmdb.open(path, readonly=True, lock=False, subdir=is_folder, max_dbs=1)
        except lmdb.Error as error:
            raise ConversionError(f"{path} is no LMDB environment, or a damaged one: {error}") from None
        self._error = lmdb.Error
        # The library maps the file: a page that is not there would end the process.
        size = os.path.getsize(os.path.join(path, "data.mdb") if is_folder else path)
        needed = (self._environment.info()["last_pgno"] + 1) * self._environment.stat()["psize"]
        if size < needed:
            self._environment.close()
            raise ConversionError(
                f"{path} has {size} bytes, its header speaks of {needed}: it was cut; restore it from a copy, or if "
                "it is whole, have `mdb_copy` write it anew"
            )

    def close(self) -> None:
        self._environment.close()

    def items(self) -> Iterator[Item]:
        yield GroupItem("/", {})
        with self._environment.begin() as transaction:
            for name, value in transaction.cursor():
                try:
                    key = "/" + bytes(name).decode().strip("/")
                except UnicodeDecodeError:
                    yield LeftOut(f"/{bytes(name).hex()}", WHOLE, "its key is no text in UTF-8")
                    continue
                if len(value) == _DATABASE_RECORD and self._is_database(bytes(name), transaction):
                    yield LeftOut(key, WHOLE, "it is a database with a name of its own")
                else:
                    yield _bytes_item(key, bytes(value))

    def _is_database(self, name: bytes, transaction: Any) -> bool:
        try:
            self._environment.open_db(name, transaction, create=False)
        except self._error:
            return False
        return True


class _Tar(Source):
    def __init__(self, path: str) -> None:
        self._path = path

    def items(self) -> Iterator[Item]:
        yield GroupItem("/", {})
        seen: set[str] = set()
        with tarfile.open(self._path, "r:*") as archive:
            for member in archive:
                key = "/" + member.name.removeprefix("./").strip("/")
                if member.isdir():
                    continue
                file = archive.extractfile(member) if member.isfile() else None
                if file is None:
                    yield LeftOut(key, WHOLE, "it is a link or a device, and no file")
                elif key in seen:
                    yield LeftOut(key, "a second member of this name", "the first one is kept")
                else:
                    seen.add(key)
                    yield _bytes_item(key, file.read())


def open_records(path: str) -> Source:
    """A tar file or an LMDB environment."""
    if os.path.isfile(path) and tarfile.is_tarfile(path):
        return _Tar(path)
    if path.lower().endswith(".tar"):
        raise ConversionError(f"{path} is no tar file, or a damaged one")
    return _Lmdb(path)


class Parquet(Source):
    """A Parquet file: columns of numbers, and of lists of numbers that have one length."""

    def __init__(self, path: str) -> None:
        from pyarrow.parquet import ParquetFile

        self._file = ParquetFile(path, memory_map=True)

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
            while _is_list(column.type):
                column = column.flatten()
                missing += column.null_count
        return missing


def _is_list(kind: Any) -> bool:
    """Whether values of a column are lists of one length."""
    from pyarrow import types

    return bool(types.is_fixed_size_list(kind))


def _shape_of(kind: Any) -> tuple[tuple[int, ...], np.dtype[Any] | None]:
    """The shape of one value of a column, and the dtype of its items; None if it has none."""
    from pyarrow import types

    width: tuple[int, ...] = ()
    while _is_list(kind):
        width += (kind.list_size,)
        kind = kind.value_type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
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
        while _is_list(column.type):
            if column.null_count:
                break
            column = column.flatten()
        if column.null_count:
            raise ConversionError(
                f"the column {self._name!r} has missing values: fill them first, or leave the column out"
            )
        return np.asarray(column.to_numpy(zero_copy_only=False), self._dtype).reshape(count, *self._width)
