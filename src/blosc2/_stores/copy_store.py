"""Copying a store to a new `.b2z` or `.b2d`: its leaves are copied as bytes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from blosc2._backends import ByteRange, DirectoryBackend, TieredBackend, WriterLock, ZipBackend, taken
from blosc2._core.leaves.store_state import Change
from blosc2._files import through_link, uploaded
from blosc2._options import RemotePath, absolute_path, check_new_name, local_path, new_path
from blosc2._stores.leaf_table import table_of
from blosc2.exceptions import name_file

if TYPE_CHECKING:
    from blosc2._files import Progress
    from blosc2._stores.leaf_table import LeafTable
    from blosc2.dict_store import DictStore


def to_b2z(store: DictStore, filename: Any, *, overwrite: bool, progress: Progress | None) -> str:
    """Write a store as a `.b2z` file; see `DictStore.to_b2z`."""
    table = table_of(store)
    table.session.check_open()
    _check_target(table, filename)
    if store.is_zip_store and (filename is None or _is_at(table, new_path(filename))):
        store.flush()
        return absolute_path(table.backend.named)
    target = os.path.splitext(table.backend.named)[0] + ".b2z" if filename is None else new_path(filename)
    if not (target.suffix == ".b2z" if isinstance(target, RemotePath) else target.endswith(".b2z")):
        raise ValueError(f"the file must have a .b2z extension, unlike {str(target)!r}")
    if isinstance(target, RemotePath):
        with uploaded(target, replace=overwrite) as local:
            _copy(table, ZipBackend(local, kind=table.backend.kind), local, progress)
        return target
    if os.path.lexists(target) and not overwrite:
        raise taken(target, "the file exists; overwrite=True replaces it")
    return _copy(table, ZipBackend(through_link(target), kind=table.backend.kind), target, progress)


def to_b2d(store: DictStore, dirname: Any, *, overwrite: bool, progress: Progress | None) -> str:
    """Write a store as a directory; see `DictStore.to_b2d`."""
    table = table_of(store)
    table.session.check_open()
    _check_target(table, dirname)
    target = os.path.splitext(table.backend.named)[0] + ".b2d" if dirname is None else local_path(dirname)
    if not os.path.lexists(target):
        check_new_name(target, (".b2d", ".b2z", ".b2e", ".b2nd", ".b2frame"))  # 4.14.1 takes any name
    backend = DirectoryBackend(through_link(target), kind=table.backend.kind)
    if _is_at(table, target):
        raise taken(target, "a store cannot be copied to where it is")
    if os.path.lexists(target):
        if not overwrite:
            raise taken(target, "the directory exists; overwrite=True replaces it")
        backend.check_replaceable()
    return _copy(table, backend, target, progress)


def _check_target(table: LeafTable, path: Any) -> None:
    named = table.backend.named
    if path is None and isinstance(named, RemotePath):
        raise ValueError(f"{named} is on a server: give the path of a file here, to which the store is copied")


def _is_at(table: LeafTable, path: str) -> bool:
    named: str = table.backend.named
    return os.path.realpath(path) == os.path.realpath(named)


def _copy(table: LeafTable, backend: TieredBackend, target: str, progress: Progress | None) -> str:
    """Write all leaves of a store, pending changes included, to another backend; returns its path."""
    table.session.check_between("copy the store")
    with table.lock, Change(table.session):
        table.leaves.collect(table.pending)
        files, values = _leaves_by_tier(table)
        values = {**_not_embedded(table, files), **values}
        frame = backend.changes_of(values, table.pending.registry, table.backend.embedded)
        backend.lock = lock = WriterLock(absolute_path(backend.root))
        try:
            backend.exists()
            backend.write(files, frame, fresh=True, progress=progress)
        except OSError as error:
            name_file(error, target)
            raise
        finally:
            backend.close()
            lock.release()
    return absolute_path(target)


def _not_embedded(table: LeafTable, files: dict[str, ByteRange | None]) -> dict[str, None]:
    """The keys of which no embedded value is copied."""
    embedded = table.backend.embedded
    gone = {key: None for key, byte_range in table.pending.frames.items() if byte_range is None}
    # A leaf with a file hides an embedded value of the same key.
    return gone if embedded is None else gone | {key: None for key in embedded.entries if key in files}


def _leaves_by_tier(table: LeafTable) -> tuple[dict[str, ByteRange | None], dict[str, ByteRange | None]]:
    """The leaves that get files of their own, and the new embedded values."""
    files: dict[str, ByteRange | None] = {}
    values: dict[str, ByteRange | None] = {}
    contents, pending, backend = table.contents, table.pending, table.backend
    entries = {} if table.backend.embedded is None else table.backend.embedded.entries
    for key in contents.listing().below():
        byte_range = contents.byte_range(key) if key in pending.frames else None
        if byte_range is not None:
            if pending.tiers.get(key, True):
                files[key] = byte_range[:]  # a plain byte range, even if it is a `Renamed`
            else:
                values[key] = byte_range
        elif not (key in entries and not backend.has_file(key)):  # those are copied with the frame of embedded values
            byte_range = backend.locate(key)
            if backend.has_file(key):
                files[key] = byte_range
            elif key not in entries:  # a writer has moved it since the keys were listed
                values[key] = byte_range
    return files, values
