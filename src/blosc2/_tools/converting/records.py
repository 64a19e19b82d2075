"""Many small records: LMDB, and tar files as WebDataset writes them."""

from __future__ import annotations

import io
import math
import os
import struct
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from blosc2._tools.converting.items import WHOLE, ArrayItem, GroupItem, Item, LeftOut, Source
from blosc2._tools.converting.numpy_files import read_header
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


class _Lmdb:
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


class _Tar:
    def __init__(self, path: str) -> None:
        self._path = path

    def close(self) -> None:
        pass

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


def open_source(path: str) -> Source:
    """A tar file or an LMDB environment."""
    if os.path.isfile(path) and tarfile.is_tarfile(path):
        return _Tar(path)
    if path.lower().endswith(".tar"):
        raise ConversionError(f"{path} is no tar file, or a damaged one")
    return _Lmdb(path)
