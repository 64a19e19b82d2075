"""The backend of a `DictStore` or `TreeStore`: which one a path has, how it is opened, and what it tells."""

from __future__ import annotations

import os
import stat
from functools import partial
from typing import TYPE_CHECKING

from blosc2 import _backends, _files, _stores
from blosc2._backends import (
    TieredBackend,
    missing,
    suffix_of,
    taken,
)
from blosc2._options import RemotePath, StoreOptions, absolute_path
from blosc2._stores.publish import load

if TYPE_CHECKING:
    from blosc2._backends import WriterLock
    from blosc2._stores.leaf_table import LeafTable


def backend_of(path: str, options: StoreOptions, kind: str = "b2dict") -> TieredBackend:
    """The backend for what lies at a path; for a new path, the suffix decides."""
    mode = options.mode
    if isinstance(path, RemotePath):
        return _backends.RemoteZipBackend(path, options, kind)
    if not path.startswith(os.sep):  # most do: opening a store is to take few calls
        path = absolute_path(path)
    named = path.rstrip("/") or path
    # Readers follow a link anew at each `refresh`; a writer stays where it led when the lock was taken.
    root = named if mode == "r" else _files.through_link(named)
    try:
        is_file = not stat.S_ISDIR(os.stat(root).st_mode)
    except (OSError, ValueError):  # a link that leads nowhere is read as a file, whose error names what is missing
        is_file = named.endswith(".b2z") or (mode == "r" and os.path.lexists(root))
    backend: TieredBackend = (_backends.ZipBackend if is_file else _backends.DirectoryBackend)(root, options, kind)
    backend.named = named
    return backend


def take_writer_lock(path: str, options: StoreOptions) -> WriterLock:
    """What keeps other writers out of the store at a path, from now on or during changes.

    A store that is emptied is taken from a handle of this process that has it open.
    """
    if options.mode == "w" and not options.locking:
        _stores.close_replaced(path)
    return _backends.WriterLock(path, options.timeout, exclusive=options.exclusive, shared=options.locking)


def open_or_begin(table: LeafTable, path: str) -> None:
    """Read what lies at the path of a store, or begin a new store, as the mode says."""
    writing = table.session.writing
    if writing is None:
        _open_or_begin(table, path)
    else:
        writing.open(table, partial(_open_or_begin, table, path))


def _open_or_begin(table: LeafTable, path: str) -> None:
    backend, mode = table.backend, table.session.mode
    exists = backend.exists()
    if mode == "x" and (exists or os.path.islink(path)):
        raise taken(path, "mode='x' only creates, and there is something already: mode='r' or 'a' opens it")
    if exists and mode != "w":
        load(table)
        if backend.warns_early:
            backend.warn_early()
        if mode != "r":
            backend.cut_tail()
        return
    if mode == "r":
        # An empty directory exists, but is no store.
        if os.path.lexists(path):
            load(table)
        raise missing(path)
    backend.check_replaceable()
    table.pending.unwritten = backend.replaces = True


def file_names(table: LeafTable, group: str) -> dict[str, str]:
    """The file or member of each leaf below a group that has one, or will have one when it is published."""
    backend, pending = table.backend, table.pending
    names: dict[str, str | None] = {}
    if backend.embedded is not None:
        names = {key: backend.name_of(key) for key in backend.listing().below() if backend.has_file(key)}
    for key, byte_range in pending.frames.items():
        if byte_range is None:
            names.pop(key, None)
        elif pending.tiers.get(key, key in names):
            current = table.contents.byte_range(key)
            names[key] = None if current is None else key[1:] + suffix_of(current)
    shown = [(key, name) for key, name in names.items() if key.startswith(group + "/")]
    return {key[len(group) :]: name for key, name in shown if name is not None}
