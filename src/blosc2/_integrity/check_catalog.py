"""Checking the catalog of a `.b2z` against the directory and against the leaves."""

from __future__ import annotations

import struct
from typing import Final

from blosc2._backends import EMBED, LEAF_SUFFIXES, LOCK, RESERVED
from blosc2._core.catalog_writing.descriptions import LEAF_OF_ATTRIBUTES, describe
from blosc2._core.frame.frame import Frame
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.catalog import MAGIC, NAME, VERSION, Catalog
from blosc2._frames import parse_dtype
from blosc2._integrity.report import FAULTS, Findings
from blosc2._stores import ATTRIBUTES
from blosc2.exceptions import FormatError

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
    """Check the member that is named like a catalog.

    Parameters
    ----------
    source : Source
        The archive.
    offset, length : int
        Where the data of the member lies.
    last : bool
        Whether its record is the last of the directory.
    found : Findings
    """
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


def _wrong(found: Findings, problem: str, offset: int, key: str | None = None) -> None:
    found.add(f"{problem}; {_NEW}", key=key, offset=offset)


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
        """Check each page against its checksum."""
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
            key = self._key_at(offset)
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
        if (catalog.groups, catalog.hidden, catalog.undescribed, catalog.tables) != (
            groups,
            hidden,
            undescribed,
            tables,
        ):
            _wrong(self.found, "the catalog's counts of groups and leaves are not those of the directory",
                   start + catalog.size - _FOOTER.size + 56)  # fmt: skip

    def _key_at(self, offset: int) -> str:
        name = self.archive.name_at(offset)
        return "/" + name[: name.rindex(".")]

    def _tally_holds(self, row: int, tallies: list[list[int]]) -> bool:
        at = self.catalog.start + self.tallies_at + row * len(tallies) * _TALLY.size
        stated = self.source.read(at, len(tallies) * _TALLY.size)
        if stated == b"".join(_TALLY.pack(*tally) for tally in tallies):
            return True
        _wrong(self.found, "the catalog's sums of a kind of leaves are not those of the leaves", at)
        return False

    def _compare(self, key: str, offset: int, description: bytes, at: int) -> None:
        """Compare what the catalog says of a leaf with the leaf."""
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
