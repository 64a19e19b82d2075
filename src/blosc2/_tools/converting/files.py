"""Files of arrays (NumPy) and of records (LMDB, tar)."""

from __future__ import annotations

import ast
import gzip
import io
import lzma
import math
import os
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import partial
from tarfile import InvalidHeaderError, TruncatedHeaderError  # type: ignore[attr-defined]
from typing import Any, Self

import numpy as np

from blosc2._files import NewFile
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import ArrayItem, GroupItem, Item, ObjectItem, Source, Target
from blosc2._tools.converting.report import WHOLE, LeftOut
from blosc2.exceptions import ConversionError

_LONGEST_HEADER = 1 << 20
#: No byte of DEFLATE (gzip) can become more.
MOST_DEFLATED = 1032


class _Npy(Source):
    is_one = True

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as file:
            if read_header(file)[2].hasobject:
                raise ConversionError(f"{path}: its items are pickled Python objects, which may run any code")
        self._items = np.load(path, mmap_mode="r", allow_pickle=False)

    def items(self) -> Iterator[Item]:
        yield ArrayItem.of("/" + os.path.splitext(os.path.basename(self._path))[0], self._items)

    def close(self) -> None:
        del self._items


class _Npz(Source):
    def __init__(self, path: str) -> None:
        # A file of our own, because that of a ZipFile stays open as long as a member that was not read to its end.
        self._file = open(path, "rb")  # noqa: SIM115
        try:
            self._archive = zipfile.ZipFile(self._file)
        except BaseException:
            self._file.close()
            raise

    def items(self) -> Iterator[Item]:
        for name in sorted(self._archive.namelist()):
            key = "/" + name.removesuffix(".npy").strip("/")
            yield from conversion.alone(key, self._array(key, name))

    def _array(self, key: str, name: str) -> Generator[Item, None, None]:
        with self._archive.open(name) as member:
            shape, fortran, dtype = read_header(member)
        if dtype.hasobject:
            yield LeftOut(key, WHOLE, "its items are pickled Python objects")
        else:
            yield ArrayItem(key, shape, dtype, _Member(self._archive, name, shape, dtype, fortran=fortran).read)

    def close(self) -> None:
        self._archive.close()
        self._file.close()


def read_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(member)
    # Version 3 has names in UTF-8: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    (length,) = struct.unpack("<I", member.read(4))
    if version != (3, 0) or length > _LONGEST_HEADER:
        raise ValueError(f"its header is of version {version} and {length} bytes")
    header = ast.literal_eval(member.read(length).decode())
    return tuple(header["shape"]), bool(header["fortran_order"]), np.lib.format.descr_to_dtype(header["descr"])


class _Member:
    """An array in a ``.npz`` file, whose items go to a file without a name when they are first read."""

    def __init__(
        self, archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], *, fortran: bool
    ) -> None:
        self._archive, self._name = archive, name
        self._shape, self._dtype, self._fortran = shape, dtype, fortran
        self._items: np.ndarray[Any, Any] | None = None

    def read(self, box: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        if self._items is None:
            self._items = self._unpacked()
        return self._items[box]

    def _unpacked(self) -> np.ndarray[Any, Any]:
        nbytes = math.prod(self._shape) * self._dtype.itemsize
        with tempfile.TemporaryFile() as file, self._archive.open(self._name) as member:
            read_header(member)
            if _copy(member, file, nbytes) != nbytes:
                raise ConversionError(f"{self._archive.filename}: {self._name} has not the bytes of its shape")
            if not nbytes:
                return np.empty(self._shape, self._dtype)
            return np.memmap(file, self._dtype, "r", shape=self._shape, order="F" if self._fortran else "C")


def _copy(source: Any, target: Any, most: int) -> int:
    """Copy a file to its end, or until there are more than `most` bytes; returns how many there are."""
    while target.tell() <= most and (part := source.read(1 << 20)):
        target.write(part)
    return int(target.tell())


def open_numpy(path: str) -> Source:
    return _Npz(path) if zipfile.is_zipfile(path) else _Npy(path)


class NewNpz(Target):
    def __init__(self, path: str, **_: Any) -> None:
        super().__init__(path)
        self._file = NewFile(self.partial, replace=True)
        self._archive = zipfile.ZipFile(self._file.file, "w", zipfile.ZIP_STORED)

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        if isinstance(item, ObjectItem):
            yield LeftOut(item.key, WHOLE, "an .npz file holds arrays, and no lists of objects")
            return
        if item.attributes:
            yield LeftOut(item.key, f"attributes {', '.join(map(repr, item.attributes))}", "an .npz file has none")
        if isinstance(item, GroupItem):
            return
        if item.dtype.names is not None and not str(item.dtype).isascii():
            yield LeftOut(item.key, WHOLE, "it has fields whose names are not ASCII")
            return
        with self._archive.open(f"{item.key.strip('/')}.npy", "w", force_zip64=True) as member:
            header = {"descr": np.lib.format.dtype_to_descr(item.dtype), "fortran_order": False, "shape": item.shape}
            np.lib.format.write_array_header_2_0(member, header)
            for box in conversion.boxes_of(item, in_order=True):
                member.write(conversion.bytes_of(item.read(box)))

    def take_back(self, key: str) -> bool:
        """Remove the last member: the next one, or the directory, is written in its place."""
        member = self._archive.NameToInfo.pop(f"{key.strip('/')}.npy", None)
        if member is not None:
            self._archive.filelist.remove(member)
            self._archive.start_dir = member.header_offset
            self._file.file.truncate(member.header_offset)
        return True

    def finish(self) -> None:
        self._archive.close()
        self._file.commit()

    def abandon(self, *, keep: bool) -> None:
        self._archive.fp = None  # else it would write its directory when it is collected
        self._file.abandon()
        super().abandon(keep=keep)


def read_to_end(file: Any) -> None:
    """Have a compressed file compare its sum."""
    for _ in iter(partial(file.read, 1 << 20), b""):
        pass


# The bytes of the record of a named database.
_DATABASE_RECORD = 48
# So many of them can be open, for some bytes each.
_MOST_DATABASES = 1 << 12


def _bytes_item(key: str, value: bytes) -> Item:
    """An array of a record: what a ``.npy`` member holds, else its bytes."""
    if value[:6] == b"\x93NUMPY":
        file = io.BytesIO(value)
        try:
            shape, _, dtype = read_header(file)
            is_array = file.tell() + math.prod(shape) * dtype.itemsize == len(value) and not dtype.hasobject
        except Exception:  # noqa: BLE001 - parsers raise anything, MemoryError and RecursionError too: bytes are kept
            is_array = False
        if is_array:
            with suppress(ValueError, OSError, SyntaxError, KeyError, TypeError, RecursionError):  # the bytes are kept
                return ArrayItem.of(key, np.load(io.BytesIO(value), allow_pickle=False))
    return ArrayItem.of(key, np.frombuffer(value, "u1"))


class _Lmdb(Source):
    has_dimensions = False

    def __init__(self, path: str) -> None:
        import lmdb

        is_folder = os.path.isdir(path)
        try:
            self._environment = lmdb.open(path, readonly=True, lock=False, subdir=is_folder, max_dbs=_MOST_DATABASES)
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
        with self._environment.begin() as transaction:
            yield from self._database("", transaction, None)

    def _database(self, group: str, transaction: Any, database: Any) -> Iterator[Item]:
        yield GroupItem(group or "/", {})
        try:
            yield from self._records(group, transaction, database)
        except self._error as error:  # a damaged page
            yield LeftOut(group or "/", "the records that follow", conversion.why_unreadable(error))

    def _records(self, group: str, transaction: Any, database: Any) -> Iterator[Item]:
        for name, value in transaction.cursor(database):
            text = bytes(name).decode(errors="surrogateescape")
            key = f"{group}/{text.strip('/') if text.isprintable() else text}"
            named = None
            if database is None and len(value) == _DATABASE_RECORD:  # a named one has none in it
                named = self._named(bytes(name), transaction)
            if named is None:
                yield _bytes_item(key, bytes(value))
            else:
                yield from self._database(key, transaction, named)

    def _named(self, name: bytes, transaction: Any) -> Any:
        """The database of this name; None for a record like one."""
        try:
            return self._environment.open_db(name, transaction, create=False)
        except self._error:
            return None


# What is raised for damaged archives.
_DAMAGED = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError)


class _Tar(Source):
    has_dimensions = False

    def __init__(self, path: str) -> None:
        self._path = path

    def items(self) -> Iterator[Item]:
        yield GroupItem("/", {})
        with tarfile.open(self._path, "r:*", tarinfo=_Header) as archive:
            try:
                yield from self._members(archive)
            except _DAMAGED as error:
                yield LeftOut("/", "the members that follow", conversion.why_unreadable(error))
                return
            try:
                read_to_end(archive.fileobj)
            except _DAMAGED as error:
                yield LeftOut("/", "some of the bytes", f"the file is damaged: {conversion.why_unreadable(error)}")

    def _members(self, archive: Any) -> Iterator[Item]:
        seen: set[str] = set()
        size = os.path.getsize(self._path)
        is_gzip = isinstance(archive.fileobj, gzip.GzipFile)
        for member in archive:
            key = "/" + member.name.removeprefix("./").strip("/")
            if member.isdir():
                continue
            if not member.isfile():
                yield LeftOut(key, WHOLE, "it is a link or a device, and no file")
            elif member.issparse():
                yield LeftOut(key, WHOLE, "it is a sparse file, which may claim any size: unpack it")
            elif is_gzip and member.size > MOST_DEFLATED * size:
                yield LeftOut(key, WHOLE, f"it claims {member.size} bytes, which an archive of {size} cannot hold")
            elif key in seen:
                yield LeftOut(key, "a second member of this name", "the first one is kept")
            else:
                seen.add(key)
                yield from conversion.alone(key, _record(key, archive.extractfile(member)))


def _record(key: str, file: Any) -> Generator[Item, None, None]:
    yield _bytes_item(key, file.read())


class _Header(tarfile.TarInfo):
    """A member whose header is read: the library takes a damaged one, unless it is the first, for the end."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except (InvalidHeaderError, TruncatedHeaderError) as error:
            raise tarfile.ReadError(f"the header at byte {archive.offset} is damaged: {error}") from None


def open_records(path: str) -> Source:
    if os.path.isfile(path) and tarfile.is_tarfile(path):
        return _Tar(path)
    if path.lower().endswith((".tar", ".tar.gz", ".tgz")):
        raise ConversionError(f"{path} is no tar file, or a damaged one")
    return _Lmdb(path)
