"""Checking a `.b2d`: the frame of embedded values, and every file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from blosc2._backends import EMBED, FRAME_MAGIC, LEAF_SUFFIXES, LOCK, RESERVED
from blosc2._integrity.check_archive import note_clashes
from blosc2._integrity.check_embedded import EmbeddedKeys, check_embedded_file
from blosc2._integrity.check_frames import check_byte_range, check_whole_file, open_regular
from blosc2._integrity.report import FAULTS, Findings
from blosc2._options import absolute_path

_TEMPORARY: Final = ".tmp"
_WENT: Final = "it went while the store was checked: a writer is at work, so check it again"


def check_directory_store(root: str, found: Findings) -> None:
    """Check a directory that is to be a store."""
    files = list(walk(root, found))
    found.total = sum(_size(os.path.join(root, name)) for name in files)
    embedded = EmbeddedKeys()
    if EMBED in files:
        path = os.path.join(root, EMBED)
        embedded = found.of_one_version(path, lambda: check_embedded_file(path, found))
    else:
        found.add(f"the directory has no {EMBED}, without which it is no store; blosc2.salvage makes one")
    keys = []
    for name in files:
        if name in (EMBED, LOCK):
            continue
        key = _check_file(root, name, found)
        if key is not None:
            keys.append(key)
    note_clashes(keys, embedded, found)
    _note_remains(root, found)


def walk(root: str, found: Findings) -> Iterator[str]:
    """The files of a directory, relative to it and with "/", in order; links to directories are not followed."""
    waiting = [""]
    while waiting:
        base = waiting.pop()
        try:
            with os.scandir(os.path.join(root, base)) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError as error:
            if base and not os.path.lexists(os.path.join(root, base)):
                found.note(_WENT, path=os.path.join(root, base))
            else:
                found.caught(error)
            continue
        for entry in entries:
            name = base + entry.name
            if entry.is_dir(follow_symlinks=False):
                if name + "/" != RESERVED:
                    waiting.append(name + "/")
            elif entry.is_dir():
                found.note("a link to a directory, which is not followed", path=entry.path)
            elif not entry.is_file():
                if entry.name.endswith(LEAF_SUFFIXES) or name == EMBED:
                    found.add("it is no regular file, so it cannot be the leaf that its name says; remove it",
                              path=entry.path)  # fmt: skip
            else:
                yield name


def key_of(name: str) -> str:
    """The key of a file, whatever its suffix."""
    return "/" + os.path.splitext(name)[0]


def _check_file(root: str, name: str, found: Findings) -> str | None:
    """Check a file; its key when it is a leaf."""
    path = os.path.join(root, name)
    suffix = os.path.splitext(name)[1]
    key = key_of(name)
    try:
        key.encode()
        source = open_regular(path)
        whole = source.size >= len(FRAME_MAGIC) and source.read(0, len(FRAME_MAGIC)) == FRAME_MAGIC
    except UnicodeEncodeError:
        found.note("its name is not UTF-8, so it is no leaf; rename it", path=path)
        return None
    except FAULTS as error:
        if isinstance(error, FileNotFoundError) and not os.path.lexists(path):
            found.note(_WENT, key=key, path=path)
        else:
            found.caught(error, key=key, path=path)
        return None
    if suffix == _TEMPORARY:
        found.note("a temporary file of a writer that was interrupted; it may be deleted", path=path)
    if suffix not in LEAF_SUFFIXES:
        if not whole:
            return None
        found.note(f"the frame has an unusual suffix; it is the leaf {key!r}", key=key, path=path)
    frame = check_byte_range(source, 0, -1, found, key)
    if frame is not None:
        check_whole_file(frame, found, key)
    return key


def _note_remains(root: str, found: Findings) -> None:
    """Note what writers that were interrupted left beside the directory."""
    parent, name = os.path.split(absolute_path(root))
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for other in sorted(names):
        if other.startswith(f".{name}.") and other.endswith((_TEMPORARY, ".old")):
            found.note("left by a writer that was interrupted, or of one at work; without one it may be deleted",
                       path=os.path.join(parent, other))  # fmt: skip


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
