"""Catalogs of `.b2z` files: the same answers as without, whatever is in them.

The bytes are taken apart here by doc/design/catalog.md, not by the package.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.siphash import siphash13
from fuzz.repair import repair_catalogs

import blosc2
from blosc2._backends.zip import directory_records as zip_backend
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2._core.zip.catalog import Catalog
from blosc2._core.zip.catalog_writer import catalog_in_memory, set_slots_budget, write_cataloged
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


USUAL = zip_backend.CATALOG_LEAST


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


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


def without(path: Path) -> Path:
    """A copy of a store whose catalog does not look like one."""
    copy = path.with_name("without-" + path.name)
    data = bytearray(path.read_bytes())
    at = archive_at(path).directory_offset - FOOTER
    assert data[at : at + 8] == b"b2catlog"
    data[at : at + 8] = b"nothing!"
    copy.write_bytes(data)
    assert catalog_of(copy) is None
    return copy


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


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A tree with leaves of several kinds, attributes of groups, embedded values and two versions."""
    path = tmp_path / "full.b2z"
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


# ---------------------------------------------------------------------- the same answers
@pytest.mark.parametrize("kind", [blosc2.TreeStore, blosc2.DictStore])
def test_the_same_answers(full: Path, source: str | None, kind: Any) -> None:
    plain = answers(without(full), source, kind)
    assert answers(full, source, kind) == plain
    assert len(plain["keys"]) > 50
    assert plain["there"] == (["/scans", "/g/h", "g/h/c"] if kind is blosc2.TreeStore else ["g/h/c"])


@pytest.mark.parametrize("count", [255, 256])
def test_only_stores_of_many_leaves_have_one(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", USUAL)
    path = make(tmp_path / "s.b2z", {f"/{n}": np.int8(n % 100) for n in range(count)})
    assert (catalog_of(path) is not None) == (count >= 256)
    assert (NAME in zipfile.ZipFile(path).namelist()) == (count >= 256)
    compare(path, {f"/{n}": np.int8(n % 100) for n in range(count)})


def test_it_is_the_last_member_and_no_key(full: Path) -> None:
    with zipfile.ZipFile(full) as z:
        assert z.testzip() is None
        names = z.namelist()
        assert names[-1] == NAME
        assert names.count(NAME) == 1
        data = z.read(NAME)
        leaves = [name for name in names if name.endswith((".b2nd", ".b2f", ".b2b"))]
    assert [name.rpartition(".")[0].encode() for name in leaves] == sorted(
        name.rpartition(".")[0].encode() for name in leaves
    )
    assert full.read_bytes()[archive_at(full).directory_offset - len(data) :].startswith(data)
    for kind in (blosc2.TreeStore, blosc2.DictStore):
        with kind(str(full), mode="r") as store:
            assert not any(".b2" in key for key in store)
            assert "/.b2/catalog" not in store
    with blosc2.TreeStore(str(full), mode="a") as store, pytest.raises(ValueError, match="reserved"):
        store["/.b2/catalog"] = [1]


def test_the_layout(full: Path) -> None:
    """Each section by the document, read by hand."""
    archive = archive_at(full)
    footer, sections = parts(full.read_bytes(), archive)
    directory = archive.source.read(archive.directory_offset, archive.directory_size)
    at = 0
    records: dict[str, tuple[int, int]] = {}
    while at < len(directory):
        length = 46 + sum(struct.unpack_from("<3H", directory, at + 28))
        name = directory[at + 46 : at + 46 + int.from_bytes(directory[at + 28 : at + 30], "little")].decode()
        records[name] = at, length
        at += length
    leaves = {n.rpartition(".")[0]: at for n, (at, _) in records.items() if n not in (NAME, "embed.b2e")}
    assert footer["leaves"] == len(leaves)
    assert footer["members"] == len(records)
    assert footer["embed"] == records["embed.b2e"][0]
    assert footer["own_record"] == records[NAME][0]
    assert footer["first_record"] == min(leaves.values())
    entries = [struct.unpack_from("<3Q4I", sections["leaves"], 40 * n) for n in range(len(leaves) + 1)]
    assert [entry[0] for entry in entries] == [*sorted(leaves.values()), records[NAME][0]]
    keys = sorted(leaves)
    assert [leaves[key] for key in keys] == [entry[0] for entry in entries[:-1]]
    # Every key is found by the rule, and every slot is that of a key.
    slots = struct.unpack(f"<{footer['slot_count']}Q", sections["slots"][: 8 * footer["slot_count"]])
    paths = dict(leaves)
    for key in reversed(keys):  # a group has the place of the first leaf below it
        paths |= {key[:at] + "/": leaves[key] for at, c in enumerate(key) if c == "/"}
    assert sum(slot != 0 for slot in slots) == len(paths)
    for path, place in paths.items():
        hashed = siphash13(footer["seed0"], footer["seed1"], path.rstrip("/").encode())
        slot = (hashed & 0xFFFFFFFF) * footer["homes"] >> 32
        while slots[slot] != (hashed >> 40 << 40 | place + 1):
            assert slots[slot] != 0
            slot += 1
    # What is summed up is that of the leaves themselves.
    with blosc2.DictStore(str(full), mode="r") as store:
        opened = [store["/" + key] for key in keys]
        sizes = [(leaf.nbytes, getattr(leaf, "schunk", leaf).cbytes) for leaf in opened]
    for n, (nbytes, cbytes) in enumerate(sizes):
        assert (entries[n + 1][1] - entries[n][1], entries[n + 1][2] - entries[n][2]) == (nbytes, cbytes)
    groups = {key[:i] for key in keys for i, c in enumerate(key) if c == "/"}
    assert footer["groups"] == entries[-1][3] == len(groups - set(keys))
    hidden = [key for key in keys if key.rpartition("/")[2] == "__vlmeta__"]
    assert footer["hidden"] == entries[-1][4] == len(hidden)


# ---------------------------------------------------------------------- the bytes
def parts(data: bytes, archive: Archive) -> tuple[dict[str, int], dict[str, bytes]]:
    """The fields of the footer, and the sections with what pads them."""
    at = archive.directory_offset - FOOTER
    raw = data[at : at + FOOTER]
    fields = {name: int.from_bytes(raw[place : place + 8], "little") for name, place in AT.items()}
    start = archive.directory_offset - fields["size"]
    begins = [("leaves", 0), *((name, fields[name]) for name in ("shapes", "kinds", "tallies", "slots", "sums"))]
    ends = [*(place for _, place in begins[1:]), fields["size"] - FOOTER]
    sections = {name: data[start + a : start + b] for (name, a), b in zip(begins, ends, strict=True)}
    return fields, sections


def resealed(data: bytearray, start: int, sums_at: int) -> bytearray:
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
        self.windows = {key: archive.byte_range_at(table.find(key)) for key in values_of(count)}
        self.keys = sorted(self.windows)
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
            listing.common(),
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
        for key, window in self.windows.items():
            assert archive.byte_range_at(table.find(key)) == window
        for key in ("/nothing", "/g", "/g/h", "/a/b"):
            assert table.find(key) == -1
        assert archive.embedded(b"embed.b2e") == self.embed
        # From a table that nothing was asked of yet, so that it is the listing that meets what is wrong.
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
                assert archive.byte_range_at(found) == self.windows[key]
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
            lambda: listing.common(),
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
            for key, window in self.windows.items():
                assert archive.byte_range_at(sound.find(key)) == window


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


@pytest.fixture
def forgery(tmp_path: Path, source: str | None) -> Iterator[Forgery]:
    made = Forgery(tmp_path / "forged.b2z", source)
    yield made
    made.close()


# ---------------------------------------------------------------------- damage
@pytest.mark.parametrize("pattern", [0x01, 0x80, 0xFF])
def test_every_byte(forgery: Forgery, pattern: int) -> None:
    forgery.expect_truth(forgery.catalog)
    for at in range(forgery.stop - forgery.start):
        catalog = forgery.catalog
        catalog[at] ^= pattern
        forgery.expect_truth(catalog)


def test_bytes_of_a_store(tmp_path: Path, source: str | None) -> None:
    """Through the whole store: what it says and the values that it has."""
    path = make(tmp_path / "s.b2z", values_of(12))
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/g"].vlmeta["x"] = 1
    archive = archive_at(path)
    assert archive.catalog is not None
    wanted = answers(path, source)
    data = path.read_bytes()
    for at in range(archive.catalog.start, archive.directory_offset, 13):
        changed = bytearray(data)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        assert answers(path, source) == wanted


def test_a_page_that_is_damaged_late(tmp_path: Path, source: str | None) -> None:
    """Of several pages only one is wrong: it is met in the middle of a listing."""
    count = 1500
    forgery = Forgery(tmp_path / "s.b2z", source, count)
    size = forgery.stop - forgery.start
    assert size > 10 * PAGE
    for at in range(PAGE // 2, size - FOOTER, PAGE):
        catalog = forgery.catalog
        catalog[at] ^= 0x40
        forgery.expect_truth(catalog)
        table = KeyTable.of_archive(forgery.opened(catalog), SUFFIXES, SKIPPED)
        cursor = KeyCursor(KeyListing(table))
        found = []
        while batch := cursor.take(7):
            found += batch
        assert found == forgery.keys
        table = KeyTable.of_archive(forgery.opened(catalog), SUFFIXES, SKIPPED)
        assert list(KeyListing(table).walk("/", False, "__vlmeta__")) == list(
            KeyListing(KeyTable.of_keys(forgery.keys)).walk("/", False, "__vlmeta__")
        )
    forgery.close()


EXTREMES = [0, 1, 2, 3, 63, 64, 255, 4096, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40,
            (1 << 62) // 5, 1 << 61, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_hostile_fields_of_the_footer(forgery: Forgery, field: str) -> None:
    value = forgery.fields[field]
    near = [value + d for d in (-4096, -64, -8, -2, -1, 1, 2, 8, 40, 64, 4096)]
    for other in {v & (1 << 64) - 1 for v in [*EXTREMES, *near, value * 2, value // 2]} - {value}:
        catalog = forgery.catalog
        at = len(catalog) - FOOTER + AT[field]
        catalog[at : at + 8] = other.to_bytes(8, "little")
        sums_at = other if field == "sums" else forgery.fields["sums"]
        forgery.expect_no_harm(resealed(catalog, 0, sums_at))


@pytest.mark.parametrize("kind", [blosc2.DictStore, blosc2.TreeStore])
def test_changes_of_a_store_whose_catalog_leads_nowhere(forgery: Forgery, kind: type[blosc2.DictStore]) -> None:
    """Keys that are listed and not found are refused as damage, not as a missing key; nothing is lost."""
    catalog = forgery.catalog
    at = len(catalog) - FOOTER + AT["seed0"]
    catalog[at] ^= 1
    lie = bytes(resealed(catalog, 0, forgery.fields["sums"]))
    forged = forgery.data[: forgery.start] + lie + forgery.data[forgery.stop :]
    forgery.path.write_bytes(forged)
    with kind(str(forgery.path), mode="a") as store:
        listed = list(store.keys())
        for key in listed:
            with pytest.raises((FormatError, KeyError)):
                del store[key]
        for change in (store.popitem, store.clear):
            with pytest.raises((FormatError, KeyError)):
                change()
        assert list(store.keys()) == listed
    assert forgery.path.read_bytes() == forged


@pytest.mark.parametrize("place", [8, 12, SAMPLE, SUMS, 216, 252])
def test_hostile_words_of_the_footer(forgery: Forgery, place: int) -> None:
    for other in (0, 1, 2, 3, 255, 256, 257, 1 << 31, (1 << 32) - 1):
        catalog = forgery.catalog
        at = len(catalog) - FOOTER + place
        catalog[at : at + 4] = other.to_bytes(4, "little")
        own = crc32c(bytes(catalog[-FOOTER : -FOOTER + OWN]))
        catalog[-FOOTER + OWN : -FOOTER + OWN + 4] = own.to_bytes(4, "little")
        forgery.expect_truth(catalog)


def test_fields_that_change_together(forgery: Forgery) -> None:
    """More leaves, kinds or slots than there is room for, with sections that seem to fit."""
    rng = random.Random(5)
    for _ in range(3000):
        catalog = forgery.catalog
        sums_at = forgery.fields["sums"]
        for field in rng.sample(FIELDS[3:], rng.randint(2, 6)):
            value = rng.choice([*EXTREMES, forgery.fields[field] + rng.randint(-70, 70), 64 * rng.randint(0, 40)])
            value &= (1 << 64) - 1
            at = len(catalog) - FOOTER + AT[field]
            catalog[at : at + 8] = value.to_bytes(8, "little")
            sums_at = value if field == "sums" else sums_at
        forgery.expect_no_harm(resealed(catalog, 0, sums_at))


# ---------------------------------------------------------------------- lies
def lie(forgery: Forgery, changes: dict[int, bytes]) -> bytearray:
    """A catalog with other bytes at some places, and right checksums."""
    catalog = forgery.catalog
    for at, data in changes.items():
        catalog[at : at + len(data)] = data
    return resealed(catalog, 0, forgery.fields["sums"])


def test_slots_that_point_elsewhere(forgery: Forgery) -> None:
    fields = forgery.fields
    raw = forgery.sections["slots"]
    taken = [n for n in range(fields["slot_count"]) if raw[8 * n : 8 * n + 8] != bytes(8)]
    directory = fields["directory"]
    for n in taken[:3]:
        slot = int.from_bytes(raw[8 * n : 8 * n + 8], "little")
        for place in [*range(directory + 3), (1 << 40) - 2, (1 << 40) - 1]:
            changed = (slot >> 40 << 40 | (place + 1) & (1 << 40) - 1).to_bytes(8, "little")
            lying = lie(forgery, {fields["slots"] + 8 * n: changed})
            if place % 97 == 0:
                forgery.expect_no_harm(lying)
            archive = forgery.opened(lying)
            table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
            for key in forgery.keys:
                found = table.find(key)
                assert found < 0 or archive.byte_range_at(found) == forgery.windows[key]


def test_slots_that_are_full(forgery: Forgery) -> None:
    """No free slot ends a search; the end of the slots does."""
    fields = forgery.fields
    for word in (b"\xff" * 8, bytes(7) + b"\1", b"\1" + bytes(7), b"\1" + bytes(6) + b"\1"):
        forgery.expect_no_harm(lie(forgery, {fields["slots"]: word * fields["slot_count"]}))
    forgery.expect_no_harm(lie(forgery, {fields["slots"]: bytes(8 * fields["slot_count"])}))


def test_statistics_of_leaves_that_are_listed_and_not_found(tmp_path: Path, source: str | None) -> None:
    """Kinds that there are not have each leaf looked up, and no slot leads to any."""
    forgery = Forgery(tmp_path / "s.b2z", source)
    fields, count = forgery.fields, forgery.fields["leaves"]
    kinds = {40 * n + 32: b"\xff" * 4 for n in range(count)}
    lying = lie(forgery, {**kinds, fields["slots"]: bytes(8 * fields["slot_count"])})
    write_at(forgery.descriptor, lying, forgery.start)
    forgery.close()
    with blosc2.DictStore(str(forgery.path), mode="r", mmap_mode=source) as store:
        assert list(store) == [f"/{key}".replace("//", "/") for key in forgery.keys]
        assert not any(key in store for key in store)
        assert [(row.leaves, row.nbytes) for row in store.stats(by="kind")] == [(count, 0)]


def test_leaves_in_another_order(forgery: Forgery) -> None:
    entries = [forgery.sections["leaves"][40 * n : 40 * n + 40] for n in range(forgery.fields["leaves"] + 1)]
    for seed in range(40):
        rng = random.Random(seed)
        mixed = entries[:]
        if seed % 2:
            rng.shuffle(mixed)
        else:
            mixed[rng.randrange(len(mixed))] = mixed[rng.randrange(len(mixed))]
        forgery.expect_no_harm(lie(forgery, {0: b"".join(mixed)}))


def test_leaves_that_lie(forgery: Forgery) -> None:
    """Each field of each leaf, with values that are out of range and places inside of records."""
    values = [*EXTREMES, *range(46, forgery.fields["directory"], 61)]
    for n in range(forgery.fields["leaves"] + 1):
        for at, size in ((0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4)):
            for value in values if at in (0, 32, 36) else EXTREMES:
                if value < 1 << 8 * size:
                    forgery.expect_no_harm(lie(forgery, {40 * n + at: value.to_bytes(size, "little")}))


def test_iterators_when_the_catalog_is_left_meanwhile(forgery: Forgery) -> None:
    """Positions of a catalog that states one leaf more than there is mean nothing without it."""
    catalog = forgery.catalog
    at = len(catalog) - FOOTER + AT["leaves"]
    catalog[at : at + 8] = (forgery.fields["leaves"] + 1).to_bytes(8, "little")
    wrong = bytes(resealed(catalog, 0, forgery.fields["sums"]))
    archive = forgery.opened(wrong)
    assert archive.catalog is not None
    assert archive.catalog.count == len(forgery.keys) + 1
    for taken in range(len(forgery.keys)):
        listing = KeyListing(KeyTable.of_archive(forgery.opened(wrong), SUFFIXES, SKIPPED))
        cursor, other = KeyCursor(listing), KeyCursor(listing, "/", "__vlmeta__", True)
        walk, up = listing.walk("/"), listing.walk("/", False)
        found, groups = cursor.take(taken), other.take(taken)
        down, upwards = [next(walk)], [next(up)]
        assert listing.below() == forgery.keys  # which meets what is wrong
        assert len(listing) == len(forgery.keys)
        assert found + cursor.take(-1) == forgery.keys
        assert groups + other.take(-1) == KeyCursor(listing, "/", "__vlmeta__", True).take(-1)
        assert down + list(walk) == list(listing.walk("/"))
        assert upwards + list(up) == list(listing.walk("/", False))


def test_tables_that_are_collected(forgery: Forgery) -> None:
    """The hash is the catalog's, also when that is taken away first."""
    for _ in range(50):
        table = KeyTable.of_archive(forgery.opened(forgery.catalog), SUFFIXES, SKIPPED)
        cycle: list[Any] = [KeyListing(table), table]
        cycle.append(cycle)
        del table, cycle
    assert gc.collect() > 0
    forgery.expect_truth(forgery.catalog)


def test_threads_and_a_damaged_page(tmp_path: Path, source: str | None) -> None:
    forgery = Forgery(tmp_path / "s.b2z", source, 1000)
    for at in (100, 30_000, forgery.fields["slots"] + 5000):
        catalog = forgery.catalog
        catalog[at] ^= 0x20
        archive = forgery.opened(catalog)
        table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
        listing = KeyListing(table)

        def look(
            start: int, table: KeyTable = table, listing: KeyListing = listing, archive: Archive = archive
        ) -> list[str]:
            for key in forgery.keys[start:] + forgery.keys[:start]:
                assert archive.byte_range_at(table.find(key)) == forgery.windows[key]
            assert archive.embedded(b"embed.b2e") == forgery.embed
            assert listing.children("/")[1] == [key[1:] for key in forgery.keys if key.count("/") == 1]
            return in_batches(listing)

        with ThreadPoolExecutor(6) as pool:
            assert all(found == forgery.keys for found in pool.map(look, range(0, 1000, 50)))
    forgery.close()


@pytest.mark.parametrize("section", ["shapes", "kinds", "tallies"])
def test_sections_that_lie(forgery: Forgery, section: str) -> None:
    start, size = forgery.fields[section], len(forgery.sections[section])
    for at in range(0, size, 8 if section == "shapes" else 1):
        for value in (b"\0", b"\xff", b"\x11", b"\xff" * 8, b"\0" * 8, b"\1" + bytes(7), b"\x11" + bytes(7)):
            if at + len(value) <= size:
                forgery.expect_no_harm(lie(forgery, {start + at: value}))


def test_any_lie(forgery: Forgery) -> None:
    rng = random.Random(17)
    sums = forgery.fields["sums"]
    for _ in range(3000):
        changes = {}
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(sums - 8)
            changes[at] = rng.choice([
                rng.randbytes(rng.choice([1, 2, 4, 8])),
                rng.choice(EXTREMES).to_bytes(8, "little"),
                rng.randrange(2000).to_bytes(rng.choice([2, 4, 8]), "little"),
            ])  # fmt: skip
        forgery.expect_no_harm(lie(forgery, changes))


def test_a_commit_puts_a_lie_right(tmp_path: Path) -> None:
    rng = random.Random(3)
    values = values_of(9)
    for n in range(25):
        forgery = Forgery(tmp_path / f"s{n}.b2z", None)
        at = rng.randrange(forgery.fields["sums"] - 8)
        write_at(forgery.descriptor, lie(forgery, {at: rng.randbytes(8)}), forgery.start)
        forgery.close()
        with blosc2.DictStore(str(forgery.path), mode="a") as store:
            store["/new"] = np.arange(3)
        compare(forgery.path, {**values, "/new": np.arange(3)})
        table = KeyTable.of_archive(archive_at(forgery.path), SUFFIXES, SKIPPED)
        assert table.sound() is table
        assert table.archive is not None
        assert table.archive.catalog is not None


def test_compact_asks_the_leaves(tmp_path: Path) -> None:
    """Descriptions that are wrong are not copied."""
    values = values_of(9)
    forgery = Forgery(tmp_path / "s.b2z", None)
    write_at(forgery.descriptor, lie(forgery, {40 + 8: b"\x55", 32: b"\x02"}), forgery.start)
    forgery.close()
    assert about_catalog(blosc2.check(forgery.path).findings)
    with blosc2.DictStore(str(forgery.path), mode="a") as store:
        store.compact()
    compare(forgery.path, values)
    assert check_descriptions(forgery.path) == 9
    assert check_of(forgery.path) == []


def test_a_damaged_leaf_is_in_nobodys_way(tmp_path: Path, source: str | None) -> None:
    """It is listed and not described, and commits and compact() go on without it."""
    values = values_of(12)
    path = make(tmp_path / "s.b2z", values, blosc2.DictStore)
    archive = archive_at(path)
    offset, _ = archive.byte_range_at(KeyTable.of_archive(archive, SUFFIXES, SKIPPED).find("/g/h/c"))
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes(20))
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/new"] = np.arange(3)
        store.flush()
        store.compact()
    catalog = catalog_of(path)
    assert catalog is not None
    assert (catalog.count, catalog.undescribed) == (13, 1)
    with blosc2.DictStore(str(path), mode="r", mmap_mode=source) as store:
        assert list(store) == sorted([*values, "/new"])
        with pytest.raises(FormatError, match="/g/h/c"):
            store["/g/h/c"]
        for key in set(values) - {"/g/h/c"}:
            np.testing.assert_array_equal(store[key][()], values[key])


def test_a_leaf_that_a_catalog_leaves_out_is_not_lost(tmp_path: Path) -> None:
    """Records of leaves before those that the catalog has are leaves all the same."""
    path = tmp_path / "s.b2z"
    make(path, values_of(5), blosc2.DictStore)
    leaf = archive_at(path).source.read(*archive_at(path).byte_range_at(KeyTable.of_archive(
        archive_at(path), SUFFIXES, SKIPPED).find("/a")))  # fmt: skip
    with zipfile.ZipFile(path) as z:
        embed = z.read("embed.b2e")
    with path.open("wb") as file:
        writer = ArchiveWriter(file.fileno(), 0, 8, file_checksum=0)
        writer.append(b"embed.b2e", embed)
        writer.append(b"hidden.b2nd", leaf)  # without a description it goes with those that are no leaves
        writer.append(b"x.b2nd", leaf, description=b"")
        runs, others = writer.collect()
        write_cataloged(writer, None, runs, others, b"embed.b2e")
        writer.write_end()
    table = KeyTable.of_archive(archive_at(path), SUFFIXES, SKIPPED)
    assert "/hidden" not in table
    assert KeyListing(table.sound()).below() == ["/hidden", "/x"]
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/new"] = np.arange(3)
    with blosc2.DictStore(str(path), mode="r") as store:
        assert list(store) == ["/hidden", "/new", "/x"]


# ---------------------------------------------------------------------- catalogs that do not fit any more
def leaf_bytes() -> bytes:
    return bytes(blosc2.asarray(np.arange(7)).to_cframe())


def expect_after(path: Path, values: dict[str, Any], source: str | None) -> None:
    compare(path, values, source)
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/later"] = np.arange(4)
    compare(path, {**values, "/later": np.arange(4)}, source)


def test_another_program_adds_a_member(tmp_path: Path, source: str | None) -> None:
    values = values_of(10)
    path = make(tmp_path / "s.b2z", values)
    with zipfile.ZipFile(path, "a") as z:
        z.writestr("added.b2nd", leaf_bytes())
    assert catalog_of(path) is None
    expect_after(path, {**values, "/added": np.arange(7)}, source)
    assert catalog_of(path) is not None
    assert zipfile.ZipFile(path).namelist().count(NAME) == 1


@pytest.mark.parametrize("order", ["same", "reversed", "sorted", "last"])
def test_another_program_packs_anew(tmp_path: Path, source: str | None, order: str) -> None:
    values = values_of(10)
    old = make(tmp_path / "old.b2z", values)
    path = tmp_path / "s.b2z"
    with zipfile.ZipFile(old) as z, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        names = z.namelist()
        if order == "reversed":
            names = names[::-1]
        elif order == "sorted":
            names = sorted(names)
        elif order == "last":
            names = [name for name in names if name != "g.h.b2nd"]
            values.pop("/g.h")
        for name in names:
            new.writestr(name, z.read(name))
    assert catalog_of(path) is None
    expect_after(path, values, source)
    assert zipfile.ZipFile(path).namelist().count(NAME) == 1


def test_another_program_writes_the_directory_anew(tmp_path: Path, source: str | None) -> None:
    values = values_of(10)
    path = make(tmp_path / "s.b2z", values)
    with zipfile.ZipFile(path, "a") as z:
        z.comment = b"looked at"
    expect_after(path, values, source)


def test_a_renamed_record(tmp_path: Path, source: str | None) -> None:
    """A name of the same length in both headers: the samples of the directory are others."""
    values = values_of(10)
    path = make(tmp_path / "s.b2z", values)
    data = path.read_bytes()
    assert data.count(b"g/h/c.b2nd") == 2
    path.write_bytes(data.replace(b"g/h/c.b2nd", b"g/h/d.b2nd"))
    values["/g/h/d"] = values.pop("/g/h/c")
    expect_after(path, values, source)


def test_a_tail_that_is_cut_or_grows(tmp_path: Path, source: str | None) -> None:
    values = values_of(10)
    path = make(tmp_path / "s.b2z", values)
    first = path.read_bytes()
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/new"] = np.arange(4)
    second = path.read_bytes()
    assert second.startswith(first)
    for cut in [*range(len(first), len(first) + 20), *range(len(first) + 20, len(second), 41), len(second) - 1]:
        path.write_bytes(second[:cut])
        compare(path, values, source)
    for more in (b"\0", b"PK\5\6", second[-54:-1], first[-200:-1], bytes(3000)):
        path.write_bytes(second + more)
        compare(path, {**values, "/new": np.arange(4)}, source)


def test_a_catalog_of_another_place(tmp_path: Path, source: str | None) -> None:
    """The bytes of a catalog and its directory, moved together."""
    values = values_of(10)
    path = make(tmp_path / "s.b2z", values)
    archive = archive_at(path)
    data = path.read_bytes()
    member = data[archive.catalog.start : archive.directory_offset] if archive.catalog else b""
    with zipfile.ZipFile(path) as z:
        names = [name for name in z.namelist() if name != NAME]
        contents = {name: z.read(name) for name in names}
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("before.txt", b"x" * 100)
        for name in names:
            z.writestr(name, contents[name])
        z.writestr(NAME, member)
    assert path.read_bytes()[archive_at(path).directory_offset - len(member) :].startswith(member)
    assert catalog_of(path) is None
    expect_after(path, values, source)


# ---------------------------------------------------------------------- archives of others
def test_any_order_of_members_gets_one(tmp_path: Path, source: str | None) -> None:
    values = values_of(10)
    made = make(tmp_path / "made.b2z", values)
    with zipfile.ZipFile(made) as z:
        members = {name: z.read(name) for name in z.namelist() if name != NAME}
    names = list(members)
    random.Random(1).shuffle(names)
    path = tmp_path / "s.b2z"
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            z.writestr(name, members[name])
        z.writestr("notes/readme.txt", "text")
        z.writestr("notes/empty/", b"")
    expect_after(path, values, source)
    catalog = catalog_of(path)
    assert catalog is not None
    # Those that it has not seen being written are not described, until all are written anew.
    assert (catalog.count, catalog.undescribed) == (11, 10)
    keys = sorted([*values, "/later"])
    assert [rank for rank in range(11) if catalog.description(rank)] == [keys.index("/later")]
    assert {"notes/readme.txt", "notes/empty/"} <= set(zipfile.ZipFile(path).namelist())
    with blosc2.DictStore(str(path), mode="a") as store:
        store.compact()
    compare(path, {**values, "/later": np.arange(4)}, source)
    catalog = catalog_of(path)
    assert catalog is not None
    assert (catalog.count, catalog.undescribed) == (11, 0)
    check_descriptions(path)


@pytest.mark.parametrize("odd", ["stranger", "clash", "duplicate", "cp437"])
def test_irregular_archives_never_get_one(tmp_path: Path, source: str | None, odd: str) -> None:
    values = values_of(6)
    made = make(tmp_path / "made.b2z", values)
    with zipfile.ZipFile(made) as z:
        members = [(name, z.read(name)) for name in z.namelist() if name != NAME]
    extra = {"stranger": "odd.frame", "clash": "a.b2f", "duplicate": "a.b2nd", "cp437": "ZZ.b2nd"}[odd]
    members.append((extra, leaf_bytes()))
    path = tmp_path / "s.b2z"
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members:
            if odd == "duplicate" and name == extra and name in z.namelist():
                with pytest.warns(UserWarning, match="Duplicate"):
                    z.writestr(name, data)
            else:
                z.writestr(name, data)
    if odd == "cp437":
        path.write_bytes(path.read_bytes().replace(b"ZZ", b"\x82\x81"))
    new = {"stranger": {"/odd": np.arange(7)}, "clash": {}, "duplicate": {"/a": np.arange(7)},
           "cp437": {"/éü": np.arange(7)}}[odd]  # fmt: skip
    values |= new
    said = {"stranger": "unusual suffix", "clash": "more than one member"}.get(odd)
    with pytest.warns(UserWarning, match=said) if said else nullcontext():
        compare(path, values, source)
        for n in range(2):
            with blosc2.DictStore(str(path), mode="a") as store:
                store[f"/later{n}"] = np.arange(4)
            values[f"/later{n}"] = np.arange(4)
            compare(path, values, source)
            assert catalog_of(path) is None
            assert NAME not in zipfile.ZipFile(path).namelist()


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


def test_descriptions(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    dtypes = ["?", "i1", "<u2", ">i4", "<f2", "<f8", ">c8", "S5", "<U7", "<M8[ns]", "V3", "<i4,<f8"]
    codecs = [blosc2.Codec.LZ4, blosc2.Codec.ZSTD, blosc2.Codec.BLOSCLZ, blosc2.Codec.ZLIB, blosc2.Codec.LZ4HC]
    shapes: list[tuple[int, ...]] = [(), (0,), (1,), (7,), (300, 30), (2, 1, 3, 1, 2), (1,) * 8, (5, 0, 2)]
    count = 0
    with blosc2.DictStore(str(path), mode="w") as store:
        for n, dtype in enumerate(dtypes):
            for m, shape in enumerate(shapes):
                cparams = {"codec": codecs[(n + m) % len(codecs)], "clevel": (n + m) % 10}
                store[f"/{n}/{m}"] = blosc2.asarray(np.zeros(shape, dtype), cparams=cparams)
                count += 1
        store["/table"] = np.zeros(3, [("a", "<i4"), ("b", "<f8", (2, 3))])
        store["/chunks"] = blosc2.SChunk(data=b"abc" * 1000, cparams={"codec": blosc2.Codec.LZ4})
        store["/empty"] = blosc2.SChunk()
    assert check_descriptions(path) == count + 3
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/late"] = np.ones((3, 3))
        store["/3/3"] = np.ones((3, 4), "i2")
        del store["/4/4"]
    assert check_descriptions(path) == count + 3
    catalog = catalog_of(path)
    assert catalog is not None
    with pytest.raises(IndexError):
        catalog.description(catalog.count)
    with pytest.raises(IndexError):
        catalog.description(-1)
    assert check_of(path) == []


def test_more_kinds_than_are_kept(tmp_path: Path) -> None:
    """Leaves of further kinds are not described; nothing else is wrong with them."""
    path = tmp_path / "s.b2z"
    with blosc2.DictStore(str(path), mode="w") as store:
        for n in range(4200):
            store[f"/{n}"] = np.zeros((), f"S{n + 1}")
    catalog = catalog_of(path)
    assert catalog is not None
    assert (catalog.count, catalog.kind_count) == (4200, 4098)
    assert catalog.undescribed == 4200 - 4097
    assert check_descriptions(path) == 4097


def test_a_catalog_in_memory(tmp_path: Path) -> None:
    """The same that a file would have, for an archive that has none."""
    path = make(tmp_path / "s.b2z", values_of(40), blosc2.DictStore)
    written = catalog_of(path)
    assert written is not None
    archive = Archive(Source.open(str(path)), False)
    made = catalog_in_memory(KeyTable.of_archive(archive, SUFFIXES, SKIPPED), parse_dtype)
    assert made is not None
    assert [made.description(n) for n in range(40)] == [written.description(n) for n in range(40)]
    assert (made.count, made.groups, made.hidden, made.undescribed) == (40, written.groups, 0, 0)
    assert catalog_in_memory(KeyTable.of_keys([]), parse_dtype) is None


# ---------------------------------------------------------------------- the hash, in parts
def test_a_hash_that_is_written_in_parts(tmp_path: Path) -> None:
    names = [f"/g{n % 13}/leaf {n}" for n in range(20_000)]
    written = []
    before = set_slots_budget(1)
    try:
        for budget in (1, 100_000, before):
            set_slots_budget(budget)
            path = tmp_path / f"{budget}.b2z"
            with path.open("wb") as file:
                writer = ArchiveWriter(file.fileno(), 0, 8, file_checksum=0)
                for name in names:
                    writer.append(name[1:].encode() + b".b2nd", b"", description=b"")
                runs, others = writer.collect()
                write_cataloged(writer, None, runs, others, b"embed.b2e")
                writer.write_end()
            written.append(path)
    finally:
        set_slots_budget(before)
    for path in written:
        archive = archive_at(path)
        assert archive.catalog is not None
        # More slots than fit into the smallest part, several times.
        assert archive.catalog.slot_count > 4 * 8192
        table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
        assert table.sound() is table
        for name in names:
            assert archive.name_at(table.find(name)) == name[1:] + ".b2nd"
            assert table.find(name + " ") == -1


# ---------------------------------------------------------------------- changes
@pytest.mark.parametrize("seed", range(8))
def test_against_a_dictionary(tmp_path: Path, seed: int, source: str | None) -> None:
    rng = random.Random(seed)
    path = tmp_path / "s.b2z"
    threshold = rng.choice([0, 0, 300])
    names = ["/a", "/a-/b", "/g/a", "/g/h/c", "/g/h-i", "/é", "/scans/a b", "/scans/a.b", "/q/w/e/r/t", "/+"]
    names += [f"/many/{n}" for n in range(20)]
    now: dict[str, Any] = {}
    published: dict[str, Any] = {}
    store = blosc2.DictStore(str(path), mode="w", threshold=threshold)
    store.flush()
    for _ in range(120):
        what = rng.choice(["put", "put", "put", "delete", "rename", "edit", "flush", "transaction", "fail", "reopen",
                           "discard", "compact"])  # fmt: skip
        key, value = rng.choice(names), np.arange(rng.choice([1, 10, 3000])) * rng.randrange(100)
        if what == "put":
            store[key] = value
            now[key] = value
        elif what == "delete" and key in now:
            del store[key]
            del now[key]
        elif what == "rename" and now:
            old = rng.choice(sorted(now))
            if key not in now:
                store.rename(old, key)
                now[key] = now.pop(old)
        elif what == "edit" and key in now:
            store[key][0] = 77
            now[key] = np.concatenate([[77], now[key][1:]])
        elif what in ("transaction", "fail"):
            try:
                with store.transaction():
                    store[key] = value
                    for other in [k for k in now if k != key][::2]:
                        del store[other]
                    if what == "fail":
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
            for other in [k for k in now if k != key][::2]:
                del now[other]
            now[key] = value
            published = dict(now)
        elif what == "discard":
            store.discard()
            now = dict(published)
        elif what in ("flush", "compact", "reopen"):
            if what == "compact":
                store.compact()
            store.flush()
            published = dict(now)
            compare(path, now, source)
            if what == "reopen":
                store.close()
                store = blosc2.DictStore(str(path), mode="a", threshold=threshold)
                assert check_of(path) == []
        assert list(store) == sorted(now)
        assert len(store) == len(now)
        for some in rng.sample(names, 3):
            assert (some in store) == (some in now)
            if some in now:
                np.testing.assert_array_equal(store[some][:], now[some])
    store.close()
    compare(path, now, source)
    assert check_of(path) == []


def test_an_emptied_store(tmp_path: Path) -> None:
    path = make(tmp_path / "s.b2z", values_of(5))
    with blosc2.DictStore(str(path), mode="a") as store:
        for key in list(store):
            del store[key]
    compare(path, {})
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/a"] = np.arange(3)
    compare(path, {"/a": np.arange(3)})
    assert catalog_of(path) is not None


def test_a_reader_keeps_its_version(tmp_path: Path, source: str | None) -> None:
    values = values_of(20)
    path = make(tmp_path / "s.b2z", values)
    reader = blosc2.DictStore(str(path), mode="r", mmap_mode=source)
    with blosc2.DictStore(str(path), mode="a") as store:
        for key in list(store)[::2]:
            del store[key]
        store["/new"] = [1]
    assert list(reader) == sorted(values)
    assert "/new" not in reader
    for key, value in values.items():
        np.testing.assert_array_equal(reader[key][()], value)
    assert reader.refresh()
    assert list(reader) == sorted([*sorted(values)[1::2], "/new"])
    reader.close()


# ---------------------------------------------------------------------- check and salvage
def check_of(path: Path) -> list[Any]:
    return list(blosc2.check(path))


def about_catalog(findings: Any) -> list[Any]:
    return [one for one in findings if "catalog" in one.problem]


def test_check_of_what_is_right(full: Path) -> None:
    report = blosc2.check(full)
    assert report.ok
    assert not report.notes
    assert not report.unverified


@pytest.mark.parametrize("value", [1, "text", {"a": [1, 2]}])
def test_check_of_attributes(value: Any, tmp_path: Path) -> None:
    """They are leaves of their own here, of which a catalog says nothing but that."""
    path = make(tmp_path / "s.b2z", values_of(300))
    for _ in range(2):
        with blosc2.TreeStore(str(path), mode="a", threshold=0) as store:
            store.attrs["k"] = store["/g"].attrs["k"] = value
        assert catalog_of(path) is not None
        report = blosc2.check(path)
        assert (report.findings, report.notes) == ((), ())
        with blosc2.TreeStore(str(path), mode="a") as store:
            assert store["/g"].attrs["k"] == value
            store.compact()


def test_check_of_damage(tmp_path: Path) -> None:
    path = make(tmp_path / "s.b2z", values_of(300))
    archive = archive_at(path)
    assert archive.catalog is not None
    data = path.read_bytes()
    start, stop = archive.catalog.start, archive.directory_offset
    sums = parts(data, archive)[0]["sums"]
    for at in [*range(start, stop, 977), stop - 1, stop - 200, start + sums]:
        changed = bytearray(data)
        changed[at] ^= 4
        path.write_bytes(changed)
        found = about_catalog(blosc2.check(path).findings)
        assert len(found) == 1, at
        assert "compact()" in found[0].problem
        assert "salvage" not in found[0].problem
        assert found[0].offset is not None
        if at < start + sums:
            assert found[0].offset == start + (at - start) // PAGE * PAGE
        assert start <= found[0].offset < stop
    with blosc2.DictStore(str(path), mode="a") as store:
        store.compact()
    assert check_of(path) == []


def test_check_of_lies(tmp_path: Path) -> None:
    forgery = Forgery(tmp_path / "s.b2z", None)
    fields = forgery.fields
    lies: dict[str, dict[int, bytes]] = {
        "place": {0: (fields["first_record"] + 1).to_bytes(8, "little")},
        "nbytes": {40 + 8: b"\x55"},
        "cbytes": {40 + 16: b"\x55\x01"},
        "groups": {40 * 9 + 24: b"\x77"},
        "hidden": {40 * 3 + 28: b"\x01"},
        "kind": {32: b"\x02"},
        "undescribed": {40 * 2 + 32: b"\x00"},
        "shape": {40 + 36: b"\x00"},
        "far shape": {40 + 36: b"\xff\xff\xff\xff"},
        "shapes": {fields["shapes"] + 16: b"\x09"},
        "kinds": {fields["kinds"] + 4 + 4: b"x"},
        "tally": {fields["tallies"] + 24: b"\x09"},
        "slots": {fields["slots"]: bytes(8 * fields["slot_count"])},
    }
    for name, changes in lies.items():
        write_at(forgery.descriptor, lie(forgery, changes), forgery.start)
        found = about_catalog(blosc2.check(forgery.path).findings)
        assert found, name
        assert all("compact()" in one.problem for one in found)
        assert forgery.start <= found[0].offset < forgery.stop
    for name in ("groups", "hidden", "vague", "tables", "embed", "leaves"):
        catalog = forgery.catalog
        at = len(catalog) - FOOTER + AT[name]
        catalog[at : at + 8] = ((fields[name] + 1) % 2).to_bytes(8, "little")
        write_at(forgery.descriptor, resealed(catalog, 0, fields["sums"]), forgery.start)
        assert about_catalog(blosc2.check(forgery.path).findings), name
    forgery.close()


def test_check_notes_a_catalog_that_is_stale(tmp_path: Path) -> None:
    path = make(tmp_path / "s.b2z", values_of(10))
    with zipfile.ZipFile(path, "a") as z:
        z.writestr("added.b2nd", leaf_bytes())
    report = blosc2.check(path)
    assert about_catalog(report.findings) == []
    assert len(about_catalog(report.notes)) == 1
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/x"] = [1]
    assert about_catalog([*blosc2.check(path).findings, *blosc2.check(path).notes]) == []


@pytest.mark.parametrize("damage", ["none", "catalog", "directory", "end"])
def test_salvage_takes_no_catalog_for_a_leaf(tmp_path: Path, damage: str) -> None:
    values = values_of(12)
    path = make(tmp_path / "s.b2z", values, blosc2.DictStore)
    archive = archive_at(path)
    assert archive.catalog is not None
    data = bytearray(path.read_bytes())
    if damage == "catalog":
        # Even one that looks like a frame.
        data[archive.catalog.start : archive.catalog.start + 9] = b"\x9e\xa8b2frame"
    elif damage == "directory":
        data[archive.record_offset(5) + archive.directory_offset] ^= 0xFF
    elif damage == "end":
        del data[archive.directory_offset + 10 :]
    path.write_bytes(data)
    blosc2.salvage(path, tmp_path / "out.b2z")
    compare(tmp_path / "out.b2z", values)


def test_copies_have_their_own(full: Path, tmp_path: Path) -> None:
    shutil.copy(full, tmp_path / "copy.b2z")
    assert answers(tmp_path / "copy.b2z") == answers(full)
    assert catalog_of(tmp_path / "copy.b2z") is not None


def test_a_dtype_that_is_none_is_asked_of_the_leaf(tmp_path: Path, source: str | None) -> None:
    """The catalog lies, with right checksums: it was a plain ValueError."""
    path = tmp_path / "forged.b2z"
    make(path, {f"/a{n}": np.arange(n + 1, dtype="i8") for n in range(5)})
    data = bytearray(path.read_bytes())
    footer = data.rfind(b"b2catlog")
    start = footer + 256 - int.from_bytes(data[footer + 40 : footer + 48], "little")
    at = data.index(b"<i8", start)
    data[at : at + 3] = b"<x8"
    repair_catalogs(data)
    path.write_bytes(data)
    with blosc2.open(path, mmap_mode=source) as store:
        assert store.describe("/a3")[:3] == ("array", (4,), np.dtype("i8"))
        assert "int64" in str(store.tree())
        assert [row.leaves for row in store.stats(by="dtype")] == [5]
    assert not blosc2.check(path).ok
