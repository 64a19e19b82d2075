"""Checking a `.b2z`: its end, its directory, each member against its local header and checksum, and every frame."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left
from collections import Counter
from typing import Final, NamedTuple

from blosc2._backends import EMBED, FRAME_MAGIC, LEAF_SUFFIXES, LOCK, RESERVED, lost_end
from blosc2._core.io.source import Source
from blosc2._core.keys.folded_keys import folded
from blosc2._core.zip.archive import Archive
from blosc2._integrity.check_catalog import CATALOG, check_catalog
from blosc2._integrity.check_embedded import EmbeddedKeys, check_embedded
from blosc2._integrity.check_file_checksum import FileChecksum, check_file_checksum, end_position
from blosc2._integrity.check_frames import check_byte_range, open_regular
from blosc2._integrity.report import FAULTS, Findings

_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_FULL: Final = 0xFFFFFFFF
_DESCRIPTOR: Final = 0x8
_ALIGNED: Final = 0xD935
_PIECE: Final = 4 << 20
# What a local header repeats of its record in the directory, in the order of both.
_REPEATED: Final = ("version", "flags", "method", "time", "date", "checksum", "stored size", "size")


class Member(NamedTuple):
    """A record of the directory."""

    number: int
    name: str
    at: int
    repeated: tuple[int, ...]
    header: int

    @property
    def key(self) -> str | None:
        """The key of a leaf; None for what is none."""
        return member_key(self.name)


def member_key(name: str) -> str | None:
    """The key of the leaf that a member of this name is; None where it is none."""
    for suffix in LEAF_SUFFIXES:
        if name.endswith(suffix) and not name.startswith(RESERVED):
            return "/" + name[: -len(suffix)]
    return None


def check_archive_file(path: str, found: Findings) -> None:
    """Check a file that is to be a `.b2z`."""
    try:
        source = open_regular(path)
    except FAULTS as error:
        found.caught(error, path=path)
        return
    found.total = 2 * source.size
    try:
        archive = Archive(source, False)  # the directory is to be looked at, not what stands for it
    except FAULTS as error:
        found.caught(error, path=path)
        archive = None
    state = check_file_checksum(source, archive, found)
    if archive is None:
        found.add("without a directory no leaf can be found")
        return
    _check_tail(source, archive, state, found)
    members = list(read_directory(source, archive))
    _check_records(source, archive, found)
    keys = _check_members(source, archive, members, found)
    _check_names(members, keys, found)


def read_directory(source: Source, archive: Archive) -> list[Member]:
    """The records of an archive's directory."""
    data = source.read(archive.directory_offset, archive.directory_size)
    members = []
    at = 0
    for number in range(archive.count):
        fields = _CENTRAL.unpack_from(data, at)
        name_length, extra_length, comment_length = fields[10:13]
        extra = data[at + 46 + name_length : at + 46 + name_length + extra_length]
        size, csize, header = _far(extra, (fields[9], fields[8], fields[16]))
        repeated = (*fields[2:8], csize, size)
        members.append(Member(number, archive.name(number), archive.directory_offset + at, repeated, header))
        at += 46 + name_length + extra_length + comment_length
    return members


def _far(extra: bytes, values: tuple[int, ...]) -> tuple[int, ...]:
    """Values of 32 bits, from the zip64 extra field where they are full."""
    at = 0
    while len(extra) - at >= 4:
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            more = extra[at + 4 : at + 4 + length]
            result = []
            for value in values:
                if value == _FULL and len(more) >= 8:
                    value = int.from_bytes(more[:8], "little")
                    more = more[8:]
                result.append(value)
            return tuple(result)
        at += 4 + length
    return values


def _check_tail(source: Source, archive: Archive, state: FileChecksum, found: Findings) -> None:
    """What lies behind the archive: nothing, the remains of an append, or a newer version that is damaged."""
    rest = source.size - archive.end
    if not rest:
        return
    position = lost_end(source, archive)
    if position is not None:
        found.add("the newest version is damaged, in its directory or in the end record here; before it there is an "
                  "older one that is whole", offset=position)  # fmt: skip
    elif state is not FileChecksum.BROKEN:
        found.note(
            f"{rest} bytes behind the end of the archive belong to no version; they are what an append left that was "
            "not finished, and the next change removes them",
            offset=archive.end,
        )


def _check_records(source: Source, archive: Archive, found: Findings) -> None:
    """What the end record says twice."""
    try:
        position = end_position(source, archive)
        end = source.read(position, 22)
        count, size, offset = struct.unpack_from("<10xHII", end)
        exact = (archive.count, archive.directory_size, archive.directory_offset)
        for states, value, full in zip((count, size, offset), exact, (0xFFFF, _FULL, _FULL), strict=True):
            if states not in (value, full):
                found.add(f"the end record states {states} where the archive has {value}", offset=position)
    except FAULTS as error:
        found.caught(error)


def _check_members(source: Source, archive: Archive, members: list[Member], found: Findings) -> EmbeddedKeys:
    """Check each member, in the order in which they lie; the keys that are embedded."""
    keys = EmbeddedKeys()
    embedded = [member.number for member in members if member.name == EMBED]
    if not embedded:
        found.add(f"the archive has no member {EMBED}, without which it is no store; blosc2.salvage makes one")
    behind, before = 0, None
    for member in sorted(members, key=lambda member: (member.header, member.at)):
        try:
            if archive.is_folder(member.number):
                _check_folder(source, member, found)
                continue
            offset, length = archive.byte_range(member.number)
        except FAULTS as error:
            found.caught(error, key=member.key)
            continue
        if member.header < behind:
            found.add(f"the member {member.name!r} lies upon {before!r}", key=member.key, offset=member.header)
        behind, before = offset + length, member.name
        try:
            _check_local(source, member, offset, found)
            if member.name == CATALOG:
                before_it = len(found.found)
                check_catalog(source, offset, length, member.number == archive.count - 1, found)
                if len(found.found) > before_it:
                    continue
                # What its own checksums do not cover.
                advice = "; the next commit or compact() makes a new catalog"
                _check_checksum(source, member, offset, length, found, advice)
                continue
            _check_checksum(source, member, offset, length, found)
            if member.number in embedded[-1:]:
                keys = check_embedded((source, offset, length), found)
            else:
                _check_content(source, member, offset, length, found)
        except FAULTS as error:
            found.caught(error, key=member.key)
    return keys


def _check_local(source: Source, member: Member, data: int, found: Findings) -> None:
    """Compare the header before a member with its record in the directory."""
    header = source.read(member.header, data - member.header)
    fields = _LOCAL.unpack_from(header)
    name_length = fields[9]
    extra = header[30 + name_length :]
    size, csize = _far(extra, (fields[8], fields[7]))
    local = (*fields[1:7], csize, size)
    later = fields[2] & _DESCRIPTOR
    for position, (here, there) in enumerate(zip(local, member.repeated, strict=True)):
        if here != there and not (later and position >= 5 and here == 0):
            found.add(
                f"the member {member.name!r} states a {_REPEATED[position]} of {here} in its own header and of {there} "
                f"in the directory",
                key=member.key,
                offset=member.header,
            )
    problem = _extra_problem(extra)
    if problem:
        found.add(f"the extra field of the member {member.name!r} {problem}", key=member.key,
                  offset=member.header + 30 + name_length)  # fmt: skip


def _check_folder(source: Source, member: Member, found: Findings) -> None:
    """Compare the local header of an entry that only names a folder, which no reader looks at, with its record."""
    record, header = source.read(member.at, _CENTRAL.size), source.read(member.header, _LOCAL.size)
    length, extra = struct.unpack_from("<2H", header, 26)
    name = source.read(member.at + _CENTRAL.size, int.from_bytes(record[28:30], "little"))
    start = member.header + _LOCAL.size
    if any(record[34:36]):
        found.add(f"the folder {member.name!r} lies on another disk of a split archive", offset=member.at)
    if header[:4] != b"PK\3\4" or length != len(name) or source.read(start, length) != name:
        found.add(f"the folder {member.name!r} has no local header of its name where the directory says",
                  offset=member.header)  # fmt: skip
    else:
        _check_local(source, member, start + length + extra, found)


def _extra_problem(extra: bytes) -> str | None:
    at = 0
    while len(extra) - at >= 4:
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 0 and length == 0:  # what some tools fill up with
            break
        if length > len(extra) - at - 4:
            return "does not end where it should"
        if kind == _ALIGNED and (length < 2 or any(extra[at + 6 : at + 4 + length])):
            return "holds something in the room that aligns the data"
        at += 4 + length
    return "does not end where it should" if any(extra[at:]) else None


def _check_checksum(
    source: Source, member: Member, offset: int, length: int, found: Findings, advice: str = ""
) -> None:
    crc = 0
    for at in range(offset, offset + length, _PIECE):
        piece = source.read(at, min(_PIECE, offset + length - at))
        crc = zlib.crc32(piece, crc)
    if crc != member.repeated[5]:
        found.add(
            f"the member {member.name!r} has the checksum {crc:08x}, and the directory states "
            f"{member.repeated[5]:08x}{advice}",
            key=member.key,
            offset=offset,
        )


def _check_content(source: Source, member: Member, offset: int, length: int, found: Findings) -> None:
    if member.key is not None:
        check_byte_range(source, offset, length, found, member.key)
    elif member.name in (EMBED, LOCK) or member.name.startswith(RESERVED):
        found.advance(length)
    elif length >= len(FRAME_MAGIC) and source.read(offset, len(FRAME_MAGIC)) == FRAME_MAGIC:
        key = "/" + member.name.rpartition(".")[0]
        found.note(f"the frame {member.name!r} has an unusual suffix; it is the leaf {key!r}", key=key, offset=offset)
        check_byte_range(source, offset, length, found, key)
    else:
        found.advance(length)


def _check_names(members: list[Member], embedded: EmbeddedKeys, found: Findings) -> None:
    """Note names that exclude each other somewhere."""
    for name, count in Counter(member.name for member in members).items():
        if count > 1:
            found.note(f"{count} members have the name {name!r}; the last one counts")
    note_clashes([member.key for member in {m.name: m for m in members}.values() if member.key], embedded, found)


def note_clashes(keys: list[str], embedded: EmbeddedKeys, found: Findings) -> None:
    """Note leaves of one key, or of keys that differ by case only; in a tree, find leaves below others.

    Parameters
    ----------
    keys : list of str
        One for each leaf with a file or member of its own.
    embedded : EmbeddedKeys
        The others.
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
