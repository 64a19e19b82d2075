"""Stores with a catalog, what they answer, and catalogs that are forged."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blosc2
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.catalog import Catalog
from blosc2._frames.dtypes import parse_dtype
from blosc2.exceptions import FormatError

SUFFIXES = (b".b2nd", b".b2f", b".b2b")
SKIPPED = (b"embed.b2e", b"embed.b2e.b2lock", b".b2/")
NAME = ".b2/catalog"
FOOTER = 256
PAGE = 4096
# Each field of the footer that is a number of 64 bits, in their order.
FIELDS = [
    "offset", "directory", "members", "size", "leaves", "groups", "hidden", "vague", "tables", "embed", "seed0",
    "seed1", "shapes", "shapes_size", "kinds", "kinds_size", "kind_count", "tallies", "tally_step", "slots",
    "slot_count", "homes", "sums", "first_record", "own_record",
]  # fmt: skip
AT = {name: 16 + 8 * n for n, name in enumerate(FIELDS)}
SAMPLE, SUMS, OWN = 240, 244, 248


# ---------------------------------------------------------------------- stores
def values_of(count: int) -> dict[str, Any]:
    """Arrays under keys of several groups, some of which are named like leaves or go on behind them."""
    rng = np.random.default_rng(count)
    dtypes = ["<i8", "<f4", "|u1", ">i2", "<c16"]
    names = ["/a", "/a-x/b", "/g/h/c", "/g/a.b/c", "/é/日", "/z z/_x", "/g/h/i/j/k/l", "/g.h"]
    names += [f"/scans/{n % 7}/{'part ' * (n % 3)}{n}" for n in range(count - len(names))]
    shapes: list[tuple[int, ...]] = [(3,), (2, 5), (), (4, 1, 3), (0,), (100, 40)]
    return {
        name: rng.integers(0, 100, shapes[n % len(shapes)]).astype(dtypes[n % len(dtypes)])
        for n, name in enumerate(names[:count])
    }


def make(path: Path, values: dict[str, Any], kind: Any = blosc2.TreeStore, **more: Any) -> Path:
    with kind(str(path), mode="w", **more) as store:
        for key, value in values.items():
            store[key] = value
    return path


def archive_at(path: Path, source: str | None = None) -> Archive:
    return Archive(Source.map(str(path)) if source else Source.open(str(path)))


def catalog_of(path: Path) -> Catalog | None:
    return archive_at(path).catalog


def full_tree(path: Path) -> Path:
    """A tree with leaves of several kinds, attributes of groups, embedded values and two versions."""
    with blosc2.TreeStore(str(path), mode="w", threshold=200) as store:
        for key, value in values_of(60).items():
            store[key] = value
        store["/chunks"] = blosc2.SChunk(data=bytes(range(256)) * 40)
        store["/g"].vlmeta["what"] = "a group"
        store["/scans/3"].vlmeta["n"] = 3
    with blosc2.TreeStore(str(path), mode="a", threshold=200) as store:
        store["/scans/late"] = np.arange(1000)
        del store["/scans/1"]
        store["/a"] = np.zeros(500)
    assert catalog_of(path) is not None
    return path


def answers(path: Path, source: str | None = None, kind: Any = blosc2.TreeStore) -> dict[str, Any]:
    """All that a store says of its keys and leaves."""
    store = kind(str(path), mode="r", mmap_mode=source)
    found: dict[str, Any] = {"keys": list(store), "len": len(store)}
    leaves = {}
    for key in found["keys"]:
        leaf = store[key]
        assert key in store
        if isinstance(leaf, blosc2.NDArray):
            leaves[key] = leaf.shape, leaf.dtype, leaf[()].tobytes()
        elif isinstance(leaf, blosc2.SChunk):
            leaves[key] = leaf[:]
    found["leaves"] = leaves
    asked = ("/nothing", "/a/b/c", "/scans", "/g/h", "g/h/c", "/.b2/catalog")
    found["there"] = [key for key in asked if key in store]
    if kind is blosc2.TreeStore:
        found["down"] = list(store.walk("/"))
        found["up"] = list(store.walk("/", topdown=False))
        groups = [group for group, _, _ in found["down"]]
        found["children"] = {group: store.get_children(group) for group in groups}
        found["descendants"] = {group: store.get_descendants(group) for group in groups}
        found["views"] = {group: len(store[group]) for group in groups if group != "/"}
        found["attributes"] = {group: dict(store[group].vlmeta[:]) for group in groups if group != "/"}
    store.close()
    return found


def compare(path: Path, values: dict[str, Any], source: str | None = None) -> None:
    """A store has these arrays, and nothing else."""
    store = blosc2.DictStore(str(path), mode="r", mmap_mode=source)
    assert list(store) == sorted(values)
    assert len(store) == len(values)
    for key, value in values.items():
        np.testing.assert_array_equal(store[key][()], value)
    store.close()


# ---------------------------------------------------------------------- the bytes
def parts(data: bytes, archive: Archive) -> tuple[dict[str, int], dict[str, bytes]]:
    """The fields of the footer, and the sections with what pads them."""
    at = archive.directory_offset - FOOTER
    raw = data[at : at + FOOTER]
    fields = {name: int.from_bytes(raw[offset : offset + 8], "little") for name, offset in AT.items()}
    start = archive.directory_offset - fields["size"]
    begins = [("leaves", 0), *((name, fields[name]) for name in ("shapes", "kinds", "tallies", "slots", "sums"))]
    ends = [*(begin for _, begin in begins[1:]), fields["size"] - FOOTER]
    sections = {name: data[start + a : start + b] for (name, a), b in zip(begins, ends, strict=True)}
    return fields, sections


def with_new_file_checksum(data: bytearray, start: int, sums_at: int) -> bytearray:
    """Compute the checksums of a catalog anew, as somebody does who forges one."""
    size = len(data)
    count = -(-sums_at // PAGE)
    if start + sums_at + 4 * count <= size - FOOTER:
        sums = b"".join(
            crc32c(bytes(data[start + at : start + min(at + PAGE, sums_at)])).to_bytes(4, "little")
            for at in range(0, sums_at, PAGE)
        )
        data[start + sums_at : start + sums_at + len(sums)] = sums
        data[size - FOOTER + SUMS : size - FOOTER + SUMS + 4] = crc32c(sums).to_bytes(4, "little")
    own = crc32c(bytes(data[size - FOOTER : size - FOOTER + OWN]))
    data[size - FOOTER + OWN : size - FOOTER + OWN + 4] = own.to_bytes(4, "little")
    return data


def write_at(descriptor: int, data: bytes, at: int) -> None:
    os.lseek(descriptor, at, os.SEEK_SET)
    assert os.write(descriptor, data) == len(data)


class Forgery:
    """A small store whose catalog is changed, and what has to be true of it whatever the catalog says."""

    def __init__(self, path: Path, source: str | None, count: int = 9) -> None:
        self.path = make(path, values_of(count), blosc2.DictStore)
        self.source = source
        self.data = self.path.read_bytes()
        archive = archive_at(self.path)
        self.stop = archive.directory_offset
        self.fields, self.sections = parts(self.data, archive)
        self.start = self.stop - self.fields["size"]
        archive = Archive(Source.of_buffer(self.data), False)
        table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
        self.byte_ranges = {key: archive.byte_range_at(table.find(key)) for key in values_of(count)}
        self.keys = sorted(self.byte_ranges)
        self.embed = archive.embedded(b"embed.b2e")
        self.listed = self.all_listed(KeyListing(table))
        self.descriptor = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))

    def close(self) -> None:
        os.close(self.descriptor)

    def all_listed(self, listing: KeyListing) -> list[Any]:
        return [
            len(listing),
            listing.below(),
            listing.below("/g"),
            listing.positions("/g"),
            listing.children("/"),
            listing.children("/g"),
            list(listing.walk("/", True, "__vlmeta__")),
            list(listing.walk("/g", False, "__vlmeta__")),
            listing.named("c"),
            listing.named("_meta"),
            listing.tree_count("/", "__vlmeta__"),
            listing.tree_count("/g", "__vlmeta__"),
            KeyCursor(listing, "/", "__vlmeta__", True).take(-1),
        ]

    def opened(self, catalog: bytes) -> Archive:
        """The archive with other bytes for the catalog."""
        assert len(catalog) == self.stop - self.start
        if self.source:
            return Archive(Source.of_buffer(self.data[: self.start] + catalog + self.data[self.stop :]))
        write_at(self.descriptor, catalog, self.start)
        return Archive(Source.open(str(self.path)))

    @property
    def catalog(self) -> bytearray:
        return bytearray(self.data[self.start : self.stop])

    def expect_truth(self, catalog: bytes) -> None:
        """All answers are right."""
        archive = self.opened(catalog)
        table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
        for key, byte_range in self.byte_ranges.items():
            assert archive.byte_range_at(table.find(key)) == byte_range
        for key in ("/nothing", "/g", "/g/h", "/a/b"):
            assert table.find(key) == -1
        assert archive.embedded(b"embed.b2e") == self.embed
        # A fresh table, so that the listing meets the damage first.
        table = KeyTable.of_archive(self.opened(catalog), SUFFIXES, SKIPPED)
        assert self.all_listed(KeyListing(table)) == self.listed

    def expect_no_harm(self, catalog: bytes) -> None:
        """Answers may lack something or be refused; no key leads to what is not its own."""
        archive = self.opened(catalog)
        try:
            table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
        except FormatError:
            return
        for key in (*self.keys, "/nothing", "/g", "/g/h"):
            found = refused(lambda key=key: table.find(key))
            if found is not None and found >= 0:
                assert archive.byte_range_at(found) == self.byte_ranges[key]
        refused(lambda: archive.embedded(b"embed.b2e"))
        listing = KeyListing(table)
        for ask in (
            lambda: listing.below(),
            lambda: listing.below("/g"),
            lambda: KeyCursor(listing).take(-1),
            lambda: in_batches(listing),
        ):
            got = refused(ask)
            assert got is None or set(got) <= set(self.keys)
        paths = {"/" + "/".join(key.split("/")[1:end]) for key in self.keys for end in range(2, 9)}
        for group in ("/", "/g", "/g/h", "/a"):
            below = group.rstrip("/") + "/"
            got = refused(lambda group=group: listing.children(group))
            assert got is None or {below + name for names in got for name in names} <= paths
            got = refused(lambda group=group: [path for path, *_ in listing.groups_below(group, 3)])
            assert got is None or set(got) <= {*paths, group}
        for ask in (
            lambda: len(listing),
            lambda: listing.count("/g"),
            lambda: listing.positions("/g"),
            lambda: list(listing.walk("/", True, "__vlmeta__")),
            lambda: list(listing.walk("/", False)),
            lambda: listing.named("c"),
            lambda: listing.tree_count("/", "__vlmeta__"),
            lambda: listing.tree_count("/g", "__vlmeta__"),
            lambda: KeyCursor(listing, "/", "__vlmeta__", True).take(-1),
        ):
            refused(ask)
        known = archive.catalog
        if known is not None:
            refused(known.kinds)
            for rank in range(min(known.count, 20)):
                refused(lambda rank=rank: known.description(rank))
            for at in (*range(20), 1 << 20, (1 << 32) - 1):
                refused(lambda at=at: known.shape(at))
        sound = refused(table.sound)
        if sound is not None:
            assert KeyListing(sound).below() == self.keys
            for key, byte_range in self.byte_ranges.items():
                assert archive.byte_range_at(sound.find(key)) == byte_range


def in_batches(listing: KeyListing) -> list[str]:
    cursor = KeyCursor(listing)
    found = []
    while batch := cursor.take(2):
        found += batch
    return found


def refused(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except FormatError:
        return None


# ---------------------------------------------------------------------- lies
def lie(forgery: Forgery, changes: dict[int, bytes]) -> bytearray:
    """A catalog with other bytes at some offsets, and right checksums."""
    catalog = forgery.catalog
    for at, data in changes.items():
        catalog[at : at + len(data)] = data
    return with_new_file_checksum(catalog, 0, forgery.fields["sums"])


# ---------------------------------------------------------------------- catalogs that do not fit any more
def leaf_bytes() -> bytes:
    return bytes(blosc2.asarray(np.arange(7)).to_cframe())


# ---------------------------------------------------------------------- what is said of leaves
def check_descriptions(path: Path) -> int:
    """Each description is what the leaf itself says; how many there are."""
    archive = archive_at(path)
    catalog = archive.catalog
    assert catalog is not None
    described = 0
    with blosc2.DictStore(str(path), mode="r") as store:
        for rank, key in enumerate(KeyListing(KeyTable.of_archive(archive, SUFFIXES, SKIPPED)).below()):
            about = catalog.description(rank)
            if not about:
                continue
            described += 1
            leaf = store[key]
            what, codec, ndim, zero, length = struct.unpack_from("<4BI", about)
            nbytes, cbytes = struct.unpack_from("<2Q", about, 8)
            assert zero == 0
            if isinstance(leaf, blosc2.NDArray):
                assert what == 1
                shape = struct.unpack_from(f"<{ndim}Q", about, 24)
                assert shape == leaf.shape
                assert parse_dtype(about[24 + 8 * ndim :].decode()) == leaf.dtype
                assert nbytes == leaf.nbytes == leaf.size * leaf.dtype.itemsize
                assert cbytes == leaf.schunk.cbytes
                assert codec == leaf.schunk.cparams.codec.value
            else:
                assert (what, ndim) == ({"ObjectArray": 3, "BatchArray": 4}.get(type(leaf).__name__, 2), 255)
                chunks = getattr(leaf, "schunk", leaf)
                assert (nbytes, cbytes) == (chunks.nbytes, chunks.cbytes)
                assert codec == chunks.cparams.codec.value
            assert len(about) == 24 + (0 if ndim == 255 else 8 * ndim) + length
    return described


# ---------------------------------------------------------------------- check and salvage
def check_of(path: Path) -> list[Any]:
    return list(blosc2.check(path))


def about_catalog(findings: Any) -> list[Any]:
    return [one for one in findings if "catalog" in one.problem]
