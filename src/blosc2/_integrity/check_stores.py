"""Checking one store: a `.b2z`, a `.b2d`, or a frame of embedded values."""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

from blosc2 import _backends
from blosc2._backends import DIGITS, EMBED, END_WITH_CHECKSUM, LEAF_SUFFIXES, LOCK, MAP, RESERVED, ByteRange, Embedded
from blosc2._core.allocation import allowed
from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.keys.key_admission import folded
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.ndim.geometry import LEAF_OF_ATTRIBUTES, describe
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.catalog import MAGIC, NAME, VERSION, Catalog
from blosc2._frames import parse_dtype, unpack
from blosc2._integrity import check_frames
from blosc2._integrity.report import FAULTS, MOST, Findings
from blosc2._options import absolute_path, shortened
from blosc2._stores import ATTRIBUTES
from blosc2.exceptions import FormatError

# ------------------------------------------------------------------ embedded values and directories
# How many times what the rule of allocation gives is decoded of values, one after the other.
_WORK: Final = 16


class EmbeddedKeys(set[str]):
    """The keys of embedded values; `in_tree` if they are those of a `TreeStore`, where no name is leaf and group."""

    in_tree = False


def check_embedded_file(path: str, found: Findings) -> EmbeddedKeys:
    source = check_frames.opened(path, found)
    return EmbeddedKeys() if source is None else check_embedded((source, 0, -1), found, tail=True)


def check_embedded(byte_range: ByteRange, found: Findings, *, tail: bool = False) -> EmbeddedKeys:
    """Check a frame of embedded values, with `tail` all of its file, its map, and each value; the keys that it has."""
    frame = check_frames.check_byte_range(*byte_range, found)
    if frame is None:
        return EmbeddedKeys()
    found = found.at(frame.source.path)
    if tail:
        check_frames.check_whole_file(frame, found)
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
                    check_frames.check_byte_range(source, offset, length, found, key)
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
    check_frames.check_byte_range(source, 0, source.size, inner, key)
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
_ATTRIBUTES: Final = "attributes of another file, which macOS leaves; it is no leaf, and may be deleted"
_WENT: Final = "it went while the store was checked: a writer is at work, so check it again"


def check_directory_store(root: str, found: Findings) -> None:
    files = list(walk(root, found))
    found.total = sum(check_frames.size_of(os.path.join(root, name)) for name in files)
    embedded = EmbeddedKeys()
    if EMBED in files:
        path = os.path.join(root, EMBED)
        embedded = found.of_one_version(path, lambda: check_embedded_file(path, found))
    elif root.endswith((".b2d", ".b2z", ".b2e")):
        found.add(f"the directory has no {EMBED}, without which it is no store; blosc2.salvage makes one")
    else:
        raise FormatError(f"the folder is no store, as it has no {EMBED}: check the files in it", path=root)
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
        source = check_frames.open_regular(path)
        whole = check_frames.is_frame_at(source, 0, source.size)
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
    if check_frames.holds_attributes(source, 0, name):
        found.note(_ATTRIBUTES, path=path)
        return None
    if suffix not in LEAF_SUFFIXES:
        if not whole:
            return None
        of_key.note(f"the frame has an unusual suffix; it is the leaf {key!r}")
    frame = check_frames.check_byte_range(source, 0, -1, of_key, key)
    if frame is not None:
        check_frames.check_whole_file(frame, of_key)
    return key


def _note_remains(root: str, found: Findings) -> None:
    """Note what writers that were interrupted left beside the directory."""
    parent, name = os.path.split(absolute_path(root))
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for other in sorted(names):
        if other.startswith(f".{shortened(name)}.") and other.endswith((_TEMPORARY, ".old")):
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


_PIECE: Final = 4 << 20


# ------------------------------------------------------------------ the file checksum
# It is in the comment of the end record, ``blosc2 <position> <checksum>``: the position of the end record, in 16
# hexadecimal digits, and the CRC-32C of every byte of the file before the last 8 digits. An archive of another program
# has no such comment, and one that another program changed has one for another position: both are unverified. A comment
# with its own position and a wrong checksum means damage.
def check_file_checksum(source: Source, archive: Archive | None, found: Findings) -> bool:
    """Check an archive against its file checksum, reading all of it once; whether it has a wrong one."""
    positions = [end_position(source, archive)] if archive is not None else []
    if source.size >= END_WITH_CHECKSUM and source.size - END_WITH_CHECKSUM not in positions:
        positions.append(source.size - END_WITH_CHECKSUM)
    for position in reversed(positions):  # the end of the file first: an older checksum may be whole
        broken = _check_at(source, position, found)
        if broken is not None:
            return broken
    found.unverified(
        "the archive has no file checksum of this package for its last version: another program wrote or changed it. "
        "Members are verified by their own checksums, the bytes between them are not"
    )
    return False


def end_position(source: Source, archive: Archive) -> int:
    at = int(archive.directory_offset + archive.directory_size)
    if source.read(at, 4) == b"PK\6\6":
        at += 12 + int.from_bytes(source.read(at + 4, 8), "little") + 20
    return at


def _check_at(source: Source, position: int, found: Findings) -> bool | None:
    """Whether the file checksum in the end record at an offset is wrong; None where there is none."""
    if position < 0 or position + END_WITH_CHECKSUM > source.size:
        return None
    record = source.read(position, END_WITH_CHECKSUM)
    right = _backends.end_with_checksum(position, record)
    wrong = [n for n in range(len(right)) if right[n] != record[n]]
    bits = _backends.wrong_bits(right, record)
    if bits > _backends.FEW_BITS or (
        bits > 1 and _backends.is_half_written(position, record)
    ):  # it was never written to its end
        return None
    if record[-DIGITS:] == b"%08x" % _checksum(source, position, right, found):
        if not wrong:
            return False
        found.add("the end record of the archive is damaged, and nothing else", offset=position + wrong[0])
        return True
    if any(n >= _backends.END + 7 for n in wrong):  # it names another position: somebody moved it
        return None
    found.add(
        "the file is not what was written: its bytes do not have the checksum that its end record states",
        offset=position + END_WITH_CHECKSUM - DIGITS,
    )
    return True


def _checksum(source: Source, stop: int, more: bytes, found: Findings) -> int:
    crc = 0
    for at in range(0, stop, _PIECE):
        size = min(_PIECE, stop - at)
        crc = crc32c(source.read(at, size), crc)
        found.advance(size)
    return int(crc32c(more, crc))


# ------------------------------------------------------------------ the catalog
#: The member that holds it.
CATALOG: Final[str] = NAME
_SUFFIXES: Final = tuple(suffix.encode() for suffix in LEAF_SUFFIXES)
_SKIPPED: Final = tuple(name.encode() for name in (EMBED, LOCK, RESERVED))
_PAGE: Final = 4096
_FOOTER: Final = struct.Struct("<8sII25Q24xIIII")
_LEAF: Final = struct.Struct("<QQQIIII")
_TALLY: Final = struct.Struct("<QQQ")
_TOGETHER: Final = 4096
_TABLE: Final = "_meta"
# It is no reason to restore or salvage anything.
_NEW: Final = "no leaf is read by it alone; the next commit or compact() makes a new one"


def check_catalog(source: Source, offset: int, length: int, last: bool, found: Findings) -> None:
    """Check the member that is named like a catalog, whose data lies there; whether its record is the `last` one."""
    try:
        archive = Archive(source)
        if not last or offset + length != archive.directory_offset:
            found.note(
                "the catalog does not lie right before the directory: another program changed the archive, and leaves "
                "are read without it; the next commit or compact() makes a new one",
                offset=offset,
            )
        elif _footer_holds(source, archive, found) and archive.catalog is not None:
            _Check(source, archive, archive.catalog, found).run()
    except FAULTS as error:
        # What the directory itself has wrong is told where that is checked.
        _wrong(found, f"the catalog does not lead to the leaves: {getattr(error, 'reason', error)}", offset)
    found.advance(length)


def _wrong(found: Findings, problem: str, offset: int) -> None:
    found.add(f"{problem}; {_NEW}", offset=offset)


def _footer_holds(source: Source, archive: Archive, found: Findings) -> bool:
    """Whether a catalog right before the directory is one of this directory and of this release."""
    at = archive.directory_offset - _FOOTER.size
    footer = source.read(at, _FOOTER.size)
    magic, version, length, *fields = _FOOTER.unpack(footer)
    if magic != MAGIC or crc32c(footer[:248]) != fields[-2]:
        _wrong(found, "the footer of the catalog is damaged", at)
        return False
    if (version, length) != (VERSION, _FOOTER.size):
        found.unverified(f"the catalog is of version {version}, which this release does not know", offset=at)
        return False
    if fields[:3] != [archive.directory_offset, archive.directory_size, archive.count]:
        found.note(
            "the catalog is of another directory: another program changed the archive, and leaves are read without it; "
            "the next commit or compact() makes a new one",
            offset=at,
        )
        return False
    if archive.catalog is None:
        _wrong(found, "the catalog contradicts itself, or the records of its directory have changed", at)
        return False
    return True


class _Check:
    """The check of a catalog that fits its directory by what its footer says."""

    def __init__(self, source: Source, archive: Archive, catalog: Catalog, found: Findings) -> None:
        self.source = source
        self.archive = archive
        self.catalog = catalog
        self.found = found
        footer = source.read(archive.directory_offset - _FOOTER.size, _FOOTER.size)
        fields = _FOOTER.unpack(footer)[3:]
        self.tallies_at, self.sums_at = fields[17], fields[22]
        self.sums_crc = fields[-3]

    def run(self) -> None:
        if not self._pages_hold():
            return
        table = KeyTable.of_archive(self.archive, _SUFFIXES, _SKIPPED)
        # Without the catalog, by the directory alone.
        other = Archive(self.source, False)
        truth = KeyTable.of_archive(other, _SUFFIXES, _SKIPPED)
        embed = other.find_offset(EMBED.encode())
        if not truth.regular or table.sound() is not table or table.record_offsets() != truth.record_offsets():
            _wrong(self.found, "the catalog does not have the keys that the directory has", self.catalog.start)
        elif self.catalog.embed != embed:
            _wrong(self.found, f"the catalog has the member {EMBED} at another offset than the directory",
                   self.catalog.start + self.catalog.size - _FOOTER.size + 88)  # fmt: skip
        else:
            self._check_leaves(truth)

    def _pages_hold(self) -> bool:
        start = self.catalog.start
        count = -(-self.sums_at // _PAGE)
        sums = self.source.read(start + self.sums_at, 4 * count)
        if crc32c(sums) != self.sums_crc:
            _wrong(self.found, "the checksums of the catalog's pages are damaged", start + self.sums_at)
            return False
        holds = True
        for page, stated in enumerate(struct.unpack(f"<{count}I", sums)):
            at = page * _PAGE
            if crc32c(self.source.read(start + at, min(_PAGE, self.sums_at - at))) != stated:
                _wrong(self.found, f"page {page} of the catalog does not have its checksum", start + at)
                holds = False
        return holds

    def _check_leaves(self, truth: KeyTable) -> None:
        """Compare what is said of each leaf with the leaf, and the sums with those of all leaves before."""
        catalog, start = self.catalog, self.catalog.start
        kinds = catalog.kinds()
        tallies = [[0, 0, 0] for _ in kinds]
        nbytes = cbytes = groups = hidden = undescribed = tables = 0
        before = ""
        # Lengths of the keys of leaves that the one before begins with, the longest last.
        leaves: list[int] = []
        for rank in range(catalog.count + 1):
            at = rank * _LEAF.size
            if rank % _TOGETHER == 0:
                section = self.source.read(start + at, min(_TOGETHER, catalog.count + 1 - rank) * _LEAF.size)
                offsets = truth.record_offsets(rank, rank + _TOGETHER)
            if rank % catalog.tally_step == 0 and not self._tally_holds(rank // catalog.tally_step, tallies):
                return
            _, *sums, kind, _ = _LEAF.unpack_from(section, at % (_TOGETHER * _LEAF.size))
            if sums != [nbytes, cbytes, groups, hidden]:
                _wrong(
                    self.found, f"the catalog's sums up to its leaf {rank} are not those of the leaves", start + at + 8
                )
                return
            if rank == catalog.count:
                break
            offset = offsets[rank % _TOGETHER]
            key = "/" + self.archive.name_at(offset).rpartition(".")[0]
            description = catalog.description(rank)
            self._compare(key, offset, description, start + at)
            size, csize = struct.unpack_from("<QQ", description, 8) if description else (0, 0)
            nbytes += size
            cbytes += csize
            for tally, more in enumerate((1, size, csize)):
                tallies[kind][tally] += more
            undescribed += not description
            # Groups that appear here, but for those that are named like a leaf.
            pairs = enumerate(zip(before, key, strict=False))
            common = next((i for i, (a, b) in pairs if a != b), min(len(before), len(key)))
            while leaves and leaves[-1] > common:
                leaves.pop()
            named = set(leaves)
            slash = key.find("/", max(common, 1))
            while slash > 0:
                groups += slash not in named
                slash = key.find("/", slash + 1)
            name = key[key.rfind("/") + 1 :]
            if name != ATTRIBUTES:
                leaves.append(len(key))
            hidden += name == ATTRIBUTES
            tables += name == _TABLE
            before = key
        counts = catalog.groups, catalog.hidden, catalog.undescribed, catalog.tables
        if counts != (groups, hidden, undescribed, tables):
            _wrong(self.found, "the catalog's counts of groups and leaves are not those of the directory",
                   start + catalog.size - _FOOTER.size + 56)  # fmt: skip

    def _tally_holds(self, row: int, tallies: list[list[int]]) -> bool:
        at = self.catalog.start + self.tallies_at + row * len(tallies) * _TALLY.size
        stated = self.source.read(at, len(tallies) * _TALLY.size)
        if stated == b"".join(_TALLY.pack(*tally) for tally in tallies):
            return True
        _wrong(self.found, "the catalog's sums of a kind of leaves are not those of the leaves", at)
        return False

    def _compare(self, key: str, offset: int, description: bytes, at: int) -> None:
        if not description:
            return
        if key.endswith("/" + ATTRIBUTES):  # of which a catalog says no more
            right = LEAF_OF_ATTRIBUTES
        else:
            try:
                right = describe(Frame.of_member(self.archive, offset, key), parse_dtype)
            except FormatError:  # told where the leaf is checked
                return
        if description != right:
            problem = "the catalog describes the leaf as something that it is not; compact() makes a new one"
            self.found.add(problem, key=key, offset=at)


# ------------------------------------------------------------------ members
CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
LOCAL: Final = struct.Struct("<4s5H3I2H")
_FULL: Final = 0xFFFFFFFF
DESCRIPTOR: Final = 0x8
_ALIGNED: Final = 0xD935
# What a local header repeats of its record in the directory, in the order of both.
_REPEATED: Final = ("version", "flags", "method", "time", "date", "checksum", "stored size", "size")


class Member(NamedTuple):
    """A record of the directory; `stored` is what stands for the name there, and in the local header."""

    number: int
    name: str
    stored: bytes
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
    source = check_frames.opened(path, found)
    if source is None:
        return
    found.total = 2 * source.size
    try:
        archive = Archive(source, False)  # the directory is to be looked at, not what stands for it
    except FAULTS as error:
        found.caught(error, path=path)
        archive = None
    broken = check_file_checksum(source, archive, found)
    if archive is None:
        found.add("without a directory no leaf can be found")
        return
    _check_tail(source, archive, broken, found)
    members = list(read_directory(source, archive))
    _check_records(source, archive, found)
    keys = _check_members(source, archive, members, found)
    _check_names(members, keys, found)


def read_directory(source: Source, archive: Archive) -> list[Member]:
    data = source.read(archive.directory_offset, archive.directory_size)
    members: list[Member] = []
    at = 0
    for number in range(archive.count):
        fields, stored, extra, stop = record_at(data, at)
        size, csize, header = far(extra, (fields[9], fields[8], fields[16]))
        repeated = (*fields[2:8], csize, size)
        members.append(Member(number, archive.name(number), stored, archive.directory_offset + at, repeated, header))
        at = stop
    return members


def record_at(data: bytes, at: int) -> tuple[tuple[Any, ...], bytes, bytes, int]:
    """A record of a directory: its fields, the name as it is stored, the extra field, and where the next one begins."""
    fields = CENTRAL.unpack_from(data, at)
    name = at + CENTRAL.size
    extra = name + fields[10]
    end = extra + fields[11]
    return fields, data[name:extra], data[extra:end], end + fields[12]


def far(extra: bytes, values: tuple[int, ...]) -> tuple[int, ...]:
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


def _check_tail(source: Source, archive: Archive, broken: bool, found: Findings) -> None:
    """What lies behind the archive: nothing, the remains of an append, or a newer version that is damaged."""
    rest = source.size - archive.end
    if not rest:
        return
    position = _backends.lost_end(source, archive)
    if position is not None:
        found.add("the newest version is damaged, in its directory or in the end record here; before it there is an "
                  "older one that is whole", offset=position)  # fmt: skip
    elif not broken:
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
    fields = LOCAL.unpack_from(header)
    name_length = fields[9]
    extra = header[30 + name_length :]
    size, csize = far(extra, (fields[8], fields[7]))
    local = (*fields[1:7], csize, size)
    later = fields[2] & DESCRIPTOR
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
    record, header = source.read(member.at, CENTRAL.size), source.read(member.header, LOCAL.size)
    length, extra = struct.unpack_from("<2H", header, 26)
    name = source.read(member.at + CENTRAL.size, int.from_bytes(record[28:30], "little"))
    start = member.header + LOCAL.size
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
    crc = crc32_of(source, offset, length)
    if crc != member.repeated[5]:
        found.add(
            f"the member {member.name!r} has the checksum {crc:08x}, and the directory states "
            f"{member.repeated[5]:08x}{advice}",
            key=member.key,
            offset=offset,
        )


def crc32_of(source: Source, offset: int, length: int) -> int:
    crc = 0
    for at in range(offset, offset + length, _PIECE):
        crc = zlib.crc32(source.read(at, min(_PIECE, offset + length - at)), crc)
    return crc


def _check_content(source: Source, member: Member, offset: int, length: int, found: Findings) -> None:
    if check_frames.holds_attributes(source, offset, member.name):
        found.note(f"the member {member.name!r} holds {_ATTRIBUTES}", offset=offset)
        found.advance(length)
    elif member.key is not None:
        check_frames.check_byte_range(source, offset, length, found, member.key)
    elif member.name in (EMBED, LOCK) or member.name.startswith(RESERVED):
        found.advance(length)
    elif check_frames.is_frame_at(source, offset, length):
        key = "/" + member.name.rpartition(".")[0]
        found.note(f"the frame {member.name!r} has an unusual suffix; it is the leaf {key!r}", key=key, offset=offset)
        check_frames.check_byte_range(source, offset, length, found, key)
    else:
        found.advance(length)


def _check_names(members: list[Member], embedded: EmbeddedKeys, found: Findings) -> None:
    """Note names that exclude each other somewhere."""
    for name, count in Counter(member.name for member in members).items():
        if count > 1:
            found.note(f"{count} members have the name {name!r}; the last one counts")
    note_clashes([member.key for member in {m.name: m for m in members}.values() if member.key], embedded, found)
