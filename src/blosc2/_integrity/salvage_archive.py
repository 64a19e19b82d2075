"""Recovering the members of a `.b2z`, with or without its directory."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from blosc2._backends import EMBED, FRAME_MAGIC, LOCK, RESERVED, ByteRange, is_safe
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._integrity.check_archive import member_key, read_directory
from blosc2._integrity.check_frames import check_byte_range
from blosc2._integrity.report import FAULTS, Findings
from blosc2._integrity.salvage_embedded import Values, recover_embedded
from blosc2._integrity.salvage_frames import recover_frame

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_SIGNATURE: Final = b"PK\3\4"
_RECORD: Final = b"PK\1\2"
_FULL: Final = 0xFFFFFFFF
_DESCRIPTOR: Final = 0x8
_PIECE: Final = 4 << 20
_MOST_WORK: Final = 64


class Found(NamedTuple):
    """A member by its local header.

    Attributes
    ----------
    name : str
    header, data, size : int
        Where its header and its data begin, and how long that is.
    crc : int or None
        The checksum of its data, where the header has it.
    """

    name: str
    header: int
    data: int
    size: int
    crc: int | None


def recover_archive(source: Source, lost: Findings, fill: Any = None) -> Values:
    """The leaves of an archive; what of it is lost is told."""
    try:
        archive = Archive(source, False)
    except FAULTS as error:
        lost.note(f"the directory of the archive is lost ({error}): members were looked for one by one")
        archive = None
    start = 0 if archive is None else archive.end
    listed = {} if archive is None else {m.name: (m.header, m.repeated[5]) for m in read_directory(source, archive)}
    behind = list(_members(source, start, lost)) if start < source.size else []
    later = _later_directory(source, start, behind)
    published = set(later or ()) if archive is None else set(listed)
    if later is not None:
        for name in listed.keys() - later.keys():
            lost.note("the version whose end is lost does not have the leaf any more; it was kept", key=_key_of(name))
        listed = {**listed, **later}
    wanted: dict[str, Found] = {}
    missing: dict[str, str] = {}
    for name, (header, crc) in listed.items():
        one = _member_at(source, header)
        if (one is None or one.name != name) and name in published:
            missing[name] = "there is no local header where the directory says"
        elif one is not None and one.name == name:
            wanted[name] = one._replace(crc=crc)
    if later is None:
        if behind and archive is not None:
            lost.note("members that were added after the last directory that is whole were recovered; what was deleted "
                      "after it is back")  # fmt: skip
        elif behind:
            lost.note("leaves that were deleted may be back")
        for one in behind:
            if _is_whole(source, one) or (archive is None and one.name not in wanted):
                wanted[one.name] = one
            elif archive is not None:
                lost.note("a member behind the end of the archive is not whole; it was not published, or is damaged",
                          key=_key_of(one.name), offset=one.header)  # fmt: skip
    return _recover_members(source, wanted, missing, lost, fill)


def _recover_members(
    source: Source, wanted: dict[str, Found], missing: dict[str, str], lost: Findings, fill: Any
) -> Values:
    leaves: dict[str, ByteRange] = {}
    older: dict[str, list[Found]] | None = None
    embed: ByteRange | None = None
    for name in [*wanted, *missing]:
        if name.endswith("/") or name == LOCK or name.startswith(RESERVED):
            continue
        trouble = Findings(str(source.path))
        byte_range = None
        if name in wanted:
            lost.advance(wanted[name].size)
            byte_range = _recover(source, wanted[name], trouble, fill)
        else:
            trouble.add(missing[name])
        if byte_range is None and _is_leaf(source, name, wanted.get(name)):
            if older is None:
                older = {}
                for one in _members(source, 0, lost):
                    older.setdefault(one.name, []).append(one)
            for one in reversed(older.get(name, [])):
                if one != wanted.get(name) and _is_whole(source, one):
                    byte_range = (source, one.data, one.size)
                    trouble.found.clear()
                    trouble.note("an older version of the leaf was recovered; the newest is damaged", key=_key_of(name))
                    break
        lost.found += trouble.found
        if byte_range is None:
            continue
        if name == EMBED:
            embed = byte_range
        elif _is_leaf(source, name, wanted.get(name)):
            leaves[_key_of(name)] = byte_range
    damaged = embed is None and EMBED in wanted
    if damaged:
        embed = (source, wanted[EMBED].data, min(wanted[EMBED].size, source.size - wanted[EMBED].data))
    if embed is None:
        lost.note(f"{EMBED} is lost, and embedded values with it, if there were any")
        return Values(None, leaves, {})
    values = recover_embedded(embed, lost, fill)
    for key in values.leaves if damaged else ():
        lost.unverified(
            f"the value lies in {EMBED}, whose checksum is wrong: it decodes, but may not be what was stored", key=key
        )
    return Values(values.kind, {**values.leaves, **leaves}, values.registry)


def _key_of(name: str) -> str:
    return member_key(name) or "/" + name.rpartition(".")[0]


def _is_leaf(source: Source, name: str, one: Found | None) -> bool:
    """Whether a member is a leaf, or should be, or has the embedded values."""
    if name == EMBED or member_key(name) is not None:
        return True
    return one is not None and one.size >= 112 and source.read(one.data, len(FRAME_MAGIC)) == FRAME_MAGIC


def _recover(source: Source, one: Found, lost: Findings, fill: Any) -> ByteRange | None:
    """The frame of a member."""
    key = None if one.name == EMBED else _key_of(one.name)
    if one.data + one.size > source.size:
        lost.add("the file ends within the member", key=key, offset=one.data)
        return None
    if one.name == EMBED and _sum_fits(source, one):
        return source, one.data, one.size
    if not _is_leaf(source, one.name, one):
        return None
    if _sum_fits(source, one):
        kept = recover_frame(source, one.data, one.size, lost, key, fill)
        return None if kept is None else kept.stored()
    if fill is not None and one.name != EMBED:
        kept = recover_frame(source, one.data, one.size, lost, key, fill)
        if kept is not None:
            lost.add("the checksum of the member is wrong: what was not filled decodes, but may not be what was stored",
                     key=key, offset=one.data)  # fmt: skip
            return kept.stored()
    lost.add("the checksum of the member is wrong", key=key, offset=one.data)
    return None


def _sum_fits(source: Source, one: Found) -> bool:
    if one.crc is None:
        return True
    crc = 0
    for at in range(one.data, one.data + one.size, _PIECE):
        crc = zlib.crc32(source.read(at, min(_PIECE, one.data + one.size - at)), crc)
    return crc == one.crc


def _is_whole(source: Source, one: Found) -> bool:
    """Whether a member has its checksum, and a leaf is a frame that is whole."""
    if one.data + one.size > source.size or not _sum_fits(source, one):
        return False
    if one.name == EMBED or not _is_leaf(source, one.name, one):
        return True
    trouble = Findings(str(source.path))
    check_byte_range(source, one.data, one.size, trouble)
    return not any(found.kind == "damage" for found in trouble.found)


# ------------------------------------------------------------------ without a directory
def _members(source: Source, start: int, lost: Findings) -> Iterator[Found]:
    """Members by their local headers, from an offset on, in the order in which they lie."""
    work = _MOST_WORK * source.size
    behind = start
    for at in _signatures(source, start):
        if at < behind:
            continue
        one = _member_at(source, at)
        if one is None:
            continue
        work -= one.size
        if work < 0:
            lost.add("too much of the file looks like members and is none: the search was ended", offset=at)
            return
        if one.data + one.size <= source.size and _sum_fits(source, one):
            behind = one.data + one.size
        yield one


def _signatures(source: Source, start: int) -> Iterator[int]:
    at = start
    while at < source.size:
        piece = source.read(at, min(_PIECE + len(_SIGNATURE) - 1, source.size - at))
        found = piece.find(_SIGNATURE)
        while found >= 0:
            yield at + found
            found = piece.find(_SIGNATURE, found + 1)
        at += _PIECE


def _member_at(source: Source, at: int) -> Found | None:
    """The member whose local header is at an offset; None where there is none that a store would have."""
    if at < 0 or at + _LOCAL.size > source.size:
        return None
    fields = _LOCAL.unpack(source.read(at, _LOCAL.size))
    signature, _, flags, method, _, _, crc, csize, size, name_length, extra_length = fields
    data = at + _LOCAL.size + name_length + extra_length
    if signature != _SIGNATURE or method or not name_length or data > source.size:
        return None
    raw = source.read(at + _LOCAL.size, name_length + extra_length)
    try:
        name = raw[:name_length].decode("utf-8" if flags & 0x800 or raw[:name_length].isascii() else "cp437")
    except UnicodeDecodeError:
        return None
    if not is_safe("/" + name.rstrip("/")):
        return None
    if flags & _DESCRIPTOR and not size:
        try:
            size = Frame.open(source, data).frame_len
        except FAULTS:
            return None
        return Found(name, at, data, size, None)
    if size == _FULL:
        size = csize = _far_size(raw[name_length:])
    if size != csize or size < 0:
        return None
    return Found(name, at, data, size, crc)


def _far_size(extra: bytes) -> int:
    """The size in a zip64 extra field; -1 where there is none."""
    at = 0
    while len(extra) - at >= 4:
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1 and length >= 8 and len(extra) - at >= 12:
            return int.from_bytes(extra[at + 4 : at + 12], "little")
        at += 4 + length
    return -1


def _later_directory(source: Source, start: int, behind: list[Found]) -> dict[str, tuple[int, int]] | None:
    """A whole directory behind the last member, whose end record is lost; None where there is none."""
    ends = (one.data + one.size for one in behind if one.data + one.size <= source.size and _sum_fits(source, one))
    start = max([start, *ends])
    rest = source.read(start, min(source.size - start, 256 << 20))
    if rest[:4] != _RECORD:  # the first record is damaged, or the last member
        return None
    at = 0
    found: dict[str, tuple[int, int]] = {}
    while rest[at : at + 4] == _RECORD and at + 46 <= len(rest):
        flags = int.from_bytes(rest[at + 8 : at + 10], "little")
        name_length, extra_length, comment_length = struct.unpack_from("<3H", rest, at + 28)
        crc, header = struct.unpack_from("<I", rest, at + 16)[0], struct.unpack_from("<I", rest, at + 42)[0]
        stop = at + 46 + name_length + extra_length + comment_length
        if stop > len(rest) or header == _FULL:
            return None
        try:
            name = rest[at + 46 : at + 46 + name_length].decode("utf-8" if flags & 0x800 else "cp437")
        except UnicodeDecodeError:
            return None
        if not is_safe("/" + name.rstrip("/")):
            return None
        found[name] = header, crc
        at = stop
    # Only what the end record follows, or a part of it, is all of the directory.
    end = rest[at : at + 4]
    if not end and any(one.name not in found for one in behind):
        return None
    return found if not end or b"PK\5\6".startswith(end) or end == b"PK\6\6" else None
