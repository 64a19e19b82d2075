"""Recovering the values of a frame of embedded values, with or without its map."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from blosc2._backends import FRAME_MAGIC, MAP, REGISTRY, ByteRange, chunks_of_value, is_safe, joined_value, kind_of
from blosc2._core.allocation import allowed, too_much
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames import unpack, verify_frame
from blosc2._integrity.check_frames import check_byte_range
from blosc2._integrity.report import FAULTS, Findings
from blosc2._integrity.salvage_frames import older_versions, recover_frame, without_end
from blosc2.exceptions import FormatError

_PIECE: Final = 4 << 20
# Frames that are looked at, to see whether one of them is that of the values.
_MOST_FRAMES: Final = 1000


class Values(NamedTuple):
    """What a store held, as far as it was recovered.

    Attributes
    ----------
    kind : str or None
        The metalayer that marks the kind of store; None where that is lost.
    leaves : dict
        Where the frame of each key lies.
    registry : dict
        Objects of other kinds.
    """

    kind: str | None
    leaves: dict[str, ByteRange]
    registry: dict[str, Any]


def recover_embedded(byte_range: ByteRange, lost: Findings, fill: Any = None, *, again: bool = True) -> Values:
    """The values of a frame of embedded values; what of it is lost is told."""
    source, offset, length = byte_range
    stop = source.size if length < 0 else min(source.size, offset + length)
    path = source.path
    leaves: dict[str, ByteRange] = {}
    wanted: dict[str, str] | None = None
    kind: str | None = None
    registry: dict[str, Any] = {}
    for frame, current in _outer_frames(byte_range, lost):
        entries = _entries_of(frame)
        if entries is None:
            continue
        if wanted is None:
            wanted = dict.fromkeys(entries, "")
            kind = kind_of(frame)
            registry = _registry_of(frame)
            if not current:
                lost.note(
                    "a map of values that the header does not lead to was used; later changes are lost",
                    path=path,
                )
        bad, sound = _damaged_chunks(frame)
        if not sound:
            lost.add("the map of values is not the one that was written: keys are as it has them now", path=path)
        for key in [key for key in wanted if key in entries]:
            found = _recover_value(frame, entries[key], key, bad, wanted, lost, fill)
            if found is not None:
                leaves[key] = found
                if wanted[key]:
                    lost.note(
                        f"an older value was recovered; the newest is damaged ({wanted[key]})", key=key, path=path
                    )
                del wanted[key]
        if not wanted:
            break
    moved = _moved(source, offset, stop) if wanted is None and again else None
    if moved is not None:
        lost.note("the frame does not begin where it should", path=path, offset=moved[1])
        return recover_embedded(moved, lost, fill, again=False)
    if wanted is None:
        lost.add("the map of values is lost, and with it the keys", path=path, offset=offset)
        leaves = _scan(source, offset, stop, lost)
    for key, why in (wanted or {}).items():
        lost.add(why, key=key, path=path)
    return Values(kind, leaves, registry)


def _outer_frames(byte_range: ByteRange, lost: Findings) -> Iterator[tuple[Frame, bool]]:
    """The frame as it is, and versions that its header does not lead to, the newest first; which of both it is."""
    frame: Frame | None
    try:
        try:
            frame = Frame.open(*byte_range)
        except FAULTS:
            frame = without_end(byte_range, lost)
        if frame is not None:
            yield frame, True
    except FAULTS:
        pass
    try:
        for frame in older_versions(byte_range):
            yield frame, False
    except FAULTS:
        return


def _entries_of(frame: Frame) -> dict[str, dict[str, Any]] | None:
    """The map of values; None where there is none."""
    try:
        content = unpack(frame.vlmeta(MAP) or b"", deserialize="full", file_size=frame.file_size)
    except FAULTS:
        return None
    entries = content.get("embed_map") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        return None
    return {key: entry for key, entry in entries.items() if is_safe(key) and isinstance(entry, dict)}


def _registry_of(frame: Frame) -> dict[str, Any]:
    try:
        packed = frame.vlmeta(REGISTRY)
        content = {} if packed is None else unpack(packed, file_size=frame.file_size)
    except FAULTS:
        return {}
    return {key: value for key, value in content.items() if is_safe(key)} if isinstance(content, dict) else {}


def _damaged_chunks(frame: Frame) -> tuple[set[int], bool]:
    """Chunks whose checksum is wrong, and whether that of the map is not."""
    bad: set[int] = set()
    sound = True
    try:
        for wrong in verify_frame(frame):
            if wrong.chunk is not None:
                bad.add(wrong.chunk)
            elif wrong.offset >= frame.offset + frame.frame_len - frame.trailer_len or not frame.nbytes:
                sound = False
    except FAULTS:
        sound = False
    return bad, sound


def _recover_value(
    frame: Frame, entry: dict[str, Any], key: str, bad: set[int], wanted: dict[str, str], lost: Findings, fill: Any
) -> ByteRange | None:
    """Where the frame of a value lies; None where it is not whole, and why in `wanted`."""
    try:
        byte_range = _locate(frame, entry)
        trouble = Findings(str(frame.source.path))
        check_byte_range(*byte_range, trouble, key)
        damage = next((one.problem for one in trouble.found if one.kind == "damage"), None)
        if damage is not None:
            trouble.found.clear()
            kept = recover_frame(*byte_range, trouble, key, fill)
            if kept is None:
                wanted[key] = wanted[key] or damage
                return None
            lost.found += trouble.found
            byte_range = kept.stored()
    except FAULTS as error:
        wanted[key] = wanted[key] or (error.reason if isinstance(error, FormatError) else str(error))
        return None
    offset, length = entry["offset"], entry["length"]
    if not bad.isdisjoint(chunks_of_value(frame, offset, length)):
        lost.unverified(
            "the value lies in a chunk whose checksum is wrong: it decodes, but may not be what was stored", key=key,
            path=frame.source.path,
        )  # fmt: skip
    return byte_range


def _locate(frame: Frame, entry: dict[str, Any]) -> ByteRange:
    offset, length = entry.get("offset"), entry.get("length")
    if "urlbase" in entry:
        raise FormatError(f"the entry refers to {entry['urlbase']!r}, a server", path=frame.source.path)
    if type(offset) is not int or type(length) is not int or not 0 <= offset <= frame.nbytes - length or length < 1:
        raise FormatError("the map leads outside of the frame", path=frame.source.path)
    start = frame.byte_range_of(offset, length)
    if start is not None:
        return frame.source, start, length
    joined = joined_value(frame, offset, length)
    if joined is not None:
        return joined, 0, length
    if length > allowed(frame.source.size):
        raise FormatError(too_much(length, "the value", allowed(frame.source.size)))
    if frame.read_bytes(offset, min(offset + len(FRAME_MAGIC), offset + length)) != FRAME_MAGIC:
        raise FormatError("no frame begins where the value should", path=frame.source.path)
    return Source.of_buffer(frame.read_bytes(offset, offset + length)), 0, length


def _moved(source: Source, offset: int, stop: int) -> ByteRange | None:
    """The frame of embedded values, if it begins somewhere else."""
    for at in islice(_magics(source, offset, stop), _MOST_FRAMES):
        try:
            frame = Frame.open(source, at)
            if kind_of(frame) is not None and frame.frame_len <= stop - at and at != offset:
                return source, at, frame.frame_len
        except FAULTS:
            continue
    return None


def _scan(source: Source, offset: int, stop: int, lost: Findings) -> dict[str, ByteRange]:
    """Frames that lie verbatim somewhere, under new keys."""
    leaves: dict[str, ByteRange] = {}
    work = 64 * source.size
    for at in _magics(source, offset + 1, stop):
        if leaves and at < _end_of(list(leaves.values())[-1]):
            continue
        try:
            frame = Frame.open(source, at)
        except FAULTS:
            continue
        work -= frame.frame_len
        if work < 0:
            lost.add(
                "too much of the file looks like frames and is none: the search was ended", path=source.path, offset=at
            )
            break
        trouble = Findings(str(source.path))
        if frame.frame_len <= stop - at:
            check_byte_range(source, at, frame.frame_len, trouble)
            if not any(one.kind == "damage" for one in trouble.found):
                leaves[f"/recovered/{len(leaves) + 1:04}"] = (source, at, frame.frame_len)
    return leaves


def _end_of(byte_range: ByteRange) -> int:
    return byte_range[1] + byte_range[2]


def _magics(source: Source, start: int, stop: int) -> Iterator[int]:
    """Where the first bytes of a frame occur."""
    at = start
    while at < stop:
        piece = source.read(at, min(_PIECE + len(FRAME_MAGIC) - 1, stop - at))
        found = piece.find(FRAME_MAGIC)
        while found >= 0:
            yield at + found
            found = piece.find(FRAME_MAGIC, found + 1)
        at += _PIECE
