"""Checking a frame of embedded values, a `.b2d`, and keys that exclude each other."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from blosc2._backends import EMBED, LEAF_SUFFIXES, LOCK, MAP, RESERVED, ByteRange, Embedded
from blosc2._core.allocation import allowed
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.keys.key_admission import folded
from blosc2._frames import unpack
from blosc2._integrity.check_frames import (
    check_byte_range,
    check_whole_file,
    is_frame_at,
    open_regular,
    opened,
    size_of,
)
from blosc2._integrity.report import FAULTS, MOST, Findings
from blosc2._options import absolute_path

# How many times what the rule of allocation gives is decoded of values, one after the other.
_WORK: Final = 16


class EmbeddedKeys(set[str]):
    """The keys of embedded values; `in_tree` if they are those of a `TreeStore`, where no name is both leaf and
    group.
    """

    in_tree = False


def check_embedded_file(path: str, found: Findings) -> EmbeddedKeys:
    """Check a file of embedded values; the keys that it has."""
    source = opened(path, found)
    return EmbeddedKeys() if source is None else check_embedded((source, 0, -1), found, tail=True)


def check_embedded(byte_range: ByteRange, found: Findings, *, tail: bool = False) -> EmbeddedKeys:
    """Check a frame of embedded values, its map, and each value; the keys that it has.

    With `tail` it is all of its file, so that nothing should lie behind it.
    """
    frame = check_byte_range(*byte_range, found)
    if frame is None:
        return EmbeddedKeys()
    found = found.at(frame.source.path)
    if tail:
        check_whole_file(frame, found)
    try:
        embedded = Embedded(byte_range, verify=False)
        embedded.registry()
    except FAULTS as error:
        found.caught(error)
        return EmbeddedKeys()
    shared = _check_extents(embedded, found)
    # What is decoded for values that lie compressed: many may lie in one large chunk.
    work = _WORK * allowed(frame.source.size)
    for key in embedded.entries:
        if key in shared:
            continue  # any number of keys can lead to one value
        try:
            location = embedded.locate(key)
            if location is not None:
                source, offset, length = location
                if source is frame.source:
                    check_byte_range(source, offset, length, found, key)
                else:
                    work -= max(length, frame.chunksize)
                    _check_decoded(source, frame, found, key)
                if work < 0:
                    found.unverified("its values are far larger than the file: those that follow are not decoded")
                    break
        except FAULTS as error:
            found.caught(error, key=key)
    keys = EmbeddedKeys(embedded.entries)
    keys.in_tree = embedded.kind == "b2tree"
    return keys


def _check_decoded(source: Source, outer: Frame, found: Findings, key: str) -> None:
    """Check a value that lies compressed in the outer frame: offsets in it are no positions in the file."""
    inner = found.apart()
    check_byte_range(source, 0, source.size, inner, key)
    for one in inner.found:
        found.add(one.problem, one.kind, key=key, offset=outer.offset)


def _check_extents(embedded: Embedded, found: Findings) -> set[str]:
    """Whether the values lie apart, and in what the map says is used; the keys of those that lie upon others."""
    frame = embedded.frame
    extents: list[tuple[int, int, str]] = []
    for key, entry in embedded.entries.items():
        offset, length = entry.get("offset"), entry.get("length")
        if "urlbase" in entry or not _is_size(offset) or not _is_size(length):
            continue  # told where the value is looked for
        extents.append((int(offset or 0), int(length or 0), key))
    extents.sort()
    shared: set[str] = set()
    for (offset, length, key), (start, _, other) in pairwise(extents):
        if offset + length > start:
            shared.add(other)
            if len(shared) <= MOST:
                found.add(f"the value lies upon that of {key!r}: the map of values is damaged", key=other)
    used = _used(frame)
    last = max((offset + length for offset, length, _ in extents), default=0)
    if used is not None and (not _is_size(used) or used < last):
        found.add(
            f"the map of values says that {used!r} bytes are used, and values reach to {last}: the next one that other "
            "programs add would lie upon them"
        )
    return shared


def _used(frame: Frame) -> Any:
    content = unpack(frame.vlmeta(MAP) or b"", deserialize="full", file_size=frame.file_size)
    return content.get("current_offset") if isinstance(content, dict) else None


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 0


_TEMPORARY: Final = ".tmp"
_WENT: Final = "it went while the store was checked: a writer is at work, so check it again"


def check_directory_store(root: str, found: Findings) -> None:
    """Check a directory that is to be a store."""
    files = list(walk(root, found))
    found.total = sum(size_of(os.path.join(root, name)) for name in files)
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
    of_key = found.at(path, key)
    try:
        key.encode()
        source = open_regular(path)
        whole = is_frame_at(source, 0, source.size)
    except UnicodeEncodeError:
        found.note("its name is not UTF-8, so it is no leaf; rename it", path=path)
        return None
    except FAULTS as error:
        if isinstance(error, FileNotFoundError) and not os.path.lexists(path):
            of_key.note(_WENT)
        else:
            of_key.caught(error)
        return None
    if suffix == _TEMPORARY:
        found.note("a temporary file of a writer that was interrupted; it may be deleted", path=path)
    if suffix not in LEAF_SUFFIXES:
        if not whole:
            return None
        of_key.note(f"the frame has an unusual suffix; it is the leaf {key!r}")
    frame = check_byte_range(source, 0, -1, of_key, key)
    if frame is not None:
        check_whole_file(frame, of_key)
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


def note_clashes(keys: list[str], embedded: EmbeddedKeys, found: Findings) -> None:
    """Note leaves of one key, or of keys that differ by case only; in a tree, find leaves below others.

    `keys` has one for each leaf with a file or member of its own, `embedded` the others.
    """
    for key, count in Counter(keys).items():
        if count > 1:
            suffixes = ", ".join(LEAF_SUFFIXES)
            found.note(f"{count} leaves have the key {key!r}; of the suffixes {suffixes} the first counts", key=key)
        if key in embedded:
            found.note(f"an embedded value has the key {key!r} too; it does not show", key=key)
    names: dict[str, str] = {}
    in_order = sorted({*keys, *embedded})
    for key in in_order:
        at = bisect_left(in_order, key + "/") if embedded.in_tree else len(in_order)
        if at < len(in_order) and in_order[at].startswith(key + "/"):
            found.add(
                f"the name {key!r} is a leaf, and a group as well, of {in_order[at]!r}: open the store as a DictStore, "
                "where del and rename act on the leaf alone, and give it another name",
                key=key,
            )
        other = names.setdefault(folded(key), key)
        if other != key:
            found.note(
                f"the keys {other!r} and {key!r} differ in case or accents only: some file systems take one of them",
                key=key,
            )
