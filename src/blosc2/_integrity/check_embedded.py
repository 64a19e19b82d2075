"""Checking a frame of embedded values: a `.b2e` file, or the `embed.b2e` of another store."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from blosc2._backends import MAP, ByteRange, Embedded
from blosc2._core.allocation import allowed
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames import unpack
from blosc2._integrity.check_frames import check_byte_range, check_whole_file, open_regular
from blosc2._integrity.report import FAULTS, MOST, Findings

# How many times what the rule of allocation gives is decoded of values, one after the other.
_WORK: Final = 16


class EmbeddedKeys(set[str]):
    """The keys of embedded values.

    Attributes
    ----------
    in_tree : bool
        Whether they are those of a `TreeStore`, in which no name is both a leaf and a group.
    """

    in_tree = False


def check_embedded_file(path: str, found: Findings) -> EmbeddedKeys:
    """Check a file of embedded values; the keys that it has."""
    try:
        source = open_regular(path)
    except FAULTS as error:
        found.caught(error, path=path)
        return EmbeddedKeys()
    return check_embedded((source, 0, -1), found, tail=True)


def check_embedded(byte_range: ByteRange, found: Findings, *, tail: bool = False) -> EmbeddedKeys:
    """Check a frame of embedded values, its map, and each value; the keys that it has.

    Parameters
    ----------
    byte_range : tuple
        Where the frame lies.
    found : Findings
    tail : bool
        Whether it is all of its file, so that nothing should lie behind it.
    """
    frame = check_byte_range(*byte_range, found)
    if frame is None:
        return EmbeddedKeys()
    if tail:
        check_whole_file(frame, found)
    try:
        embedded = Embedded(byte_range, verify=False)
        embedded.registry()
    except FAULTS as error:
        found.caught(error, path=frame.source.path)
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
                    found.unverified("its values are far larger than the file: those that follow are not decoded",
                                     path=frame.source.path)  # fmt: skip
                    break
        except FAULTS as error:
            found.caught(error, key=key, path=frame.source.path)
    keys = EmbeddedKeys(embedded.entries)
    keys.in_tree = embedded.kind == "b2tree"
    return keys


def _check_decoded(source: Source, outer: Frame, found: Findings, key: str) -> None:
    """Check a value that lies compressed in the outer frame: offsets in it are no positions in the file."""
    inner = Findings(found.path)
    check_byte_range(source, 0, source.size, inner, key)
    for one in inner.found:
        found.add(one.problem, key=key, offset=outer.offset, path=outer.source.path, kind=one.kind)


def _check_extents(embedded: Embedded, found: Findings) -> set[str]:
    """Whether the values lie apart, and in what the map says is used; the keys of those that lie upon others."""
    frame = embedded.frame
    path = frame.source.path
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
                found.add(f"the value lies upon that of {key!r}: the map of values is damaged", key=other, path=path)
    used = _used(frame)
    last = max((offset + length for offset, length, _ in extents), default=0)
    if used is not None and (not _is_size(used) or used < last):
        found.add(
            f"the map of values says that {used!r} bytes are used, and values reach to {last}: the next one that other "
            "programs add would lie upon them",
            path=path,
        )
    return shared


def _used(frame: Frame) -> Any:
    content = unpack(frame.vlmeta(MAP) or b"", deserialize="full", file_size=frame.file_size)
    return content.get("current_offset") if isinstance(content, dict) else None


def _is_size(value: object) -> bool:
    return type(value) is int and value >= 0
