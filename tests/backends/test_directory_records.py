"""Directories of ZIP archives that lie, with a catalog and without, and after they were opened.

What a record says of its own length, and what a catalog says of counts and slots, is checked at each use.
"""

from __future__ import annotations

import os
import struct
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends.zip import publishing as zip_backend
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.keys.key_admission import KeySet
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._core.leaves.catalog_writer import catalog_in_memory
from blosc2._core.zip.archive import Archive
from blosc2._frames.dtypes import parse_dtype

SUFFIXES = (b".b2nd", b".b2f", b".b2b")
SKIPPED = (b"embed.b2e", b"embed.b2e.b2lock", b".b2/")
# Offsets in the footer of a catalog; see doc/format/catalog.md.
GROUPS, VAGUE, SLOTS, SLOT_COUNT, SUMS, SUMS_CRC, OWN = 56, 72, 168, 176, 192, 244, 248


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


def written(path: Path, count: int, group: str = "/g") -> Path:
    with blosc2.TreeStore(str(path), mode="w") as store:
        for number in range(count):
            store[f"{group}/k{number:04d}"] = np.arange(3) + number
    return path


def opened(path: Path, source: str | None) -> Archive:
    return Archive(Source.map(str(path)) if source else Source.open(str(path)))


def table_of(path: Path, source: str | None) -> KeyTable:
    return KeyTable.of_archive(opened(path, source), SUFFIXES, SKIPPED)


def change(path: Path, at: int, data: bytes) -> None:
    """Write into a file that others may have mapped."""
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.lseek(descriptor, at, os.SEEK_SET)
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def state(path: Path, changes: dict[int, int]) -> None:
    """Have the footer of a catalog say something else, with right checksums."""
    data = bytearray(path.read_bytes())
    at = data.rindex(b"b2catlog")
    for offset, value in changes.items():
        struct.pack_into("<Q", data, at + offset, value)
    struct.pack_into("<I", data, at + OWN, crc32c(bytes(data[at : at + OWN])))
    change(path, 0, bytes(data))


def record_at(path: Path, name: bytes) -> int:
    """Where the central record of a member begins in the file."""
    return path.read_bytes().rindex(name) - 46


# ---------------------------------------------------------------------- lengths of records
@pytest.mark.parametrize("field", [28, 30, 32], ids=["name", "extra", "comment"])
def test_a_record_that_reaches_out_of_the_directory(tmp_path: Path, source: str | None, field: int) -> None:
    path = written(tmp_path / "s.b2z", 300)
    state(path, {VAGUE: 1})
    change(path, record_at(path, b"g/k0150.b2nd") + field, b"\xff\xff")
    with blosc2.open(str(path), mmap_mode=source) as store:
        for ask in (lambda: store["/g/k0150"], lambda: list(store), lambda: store.stats(by="kind"), store.tree):
            with pytest.raises(blosc2.FormatError, match=r"s\.b2z, byte"):
                ask()


@pytest.mark.parametrize("cataloged", [True, False])
@pytest.mark.parametrize("field", [28, 30, 32], ids=["name", "extra", "comment"])
def test_a_record_that_grows_after_it_was_checked(tmp_path: Path, field: int, cataloged: bool) -> None:
    path = written(tmp_path / "s.b2z", 300)
    state(path, {VAGUE: 1})
    archive = opened(path, "r")
    if not cataloged:
        archive.distrust()
    table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
    assert len(table.record_offsets()) == 300
    at = record_at(path, b"g/k0299.b2nd")
    record = at - archive.directory_offset
    change(path, at + field, b"\xff\xff")
    for ask in (
        lambda: catalog_in_memory(table, parse_dtype),
        lambda: archive.byte_range_at(record),
        lambda: archive.name_at(record),
        lambda: archive.records({record}),
    ):
        with pytest.raises(blosc2.FormatError, match=r"s\.b2z, byte"):
            ask()
    if not cataloged:  # a damaged record is not found under the name of its member
        assert archive.find(b"g/k0299.b2nd") < 0


# ---------------------------------------------------------------------- names that are not UTF-8
@pytest.fixture
def cp437(tmp_path: Path) -> Path:
    """A store of which one name is in cp437, as tools of DOS write them: 0x81 is the letter u with two dots."""
    path = tmp_path / "s.b2z"
    with blosc2.DictStore(str(path), mode="w") as store:
        for number in range(60):
            store[f"/k{number:03d}{'x' * (number % 7)}"] = np.arange(3) + number
        store["/b/k000"] = np.arange(5.0)
    path.write_bytes(path.read_bytes().replace(b"k000.b2nd", b"k00\x81.b2nd"))
    return path


def test_statistics_with_names_in_cp437(cp437: Path, source: str | None) -> None:
    with blosc2.open(str(cp437), mmap_mode=source) as store:
        rows = {(row.kind, row.dtype, row.leaves, row.nbytes) for row in store.stats(by=("kind", "dtype"))}
        assert rows == {("array", "int64", 60, 60 * 24), ("array", "float64", 1, 40)}
        assert store.describe("/k00ü").shape == (3,)
        assert store.read_many(["/k00ü", "/k001x"])[:, 0].tolist() == [0, 1]
        assert store.read("/b/k00ü").tolist() == [0, 1, 2, 3, 4]


def test_a_name_that_is_flagged_as_utf8_and_is_not(tmp_path: Path, source: str | None) -> None:
    """With a catalog too nothing is listed that no key can be."""
    path = tmp_path / "s.b2z"
    with blosc2.DictStore(str(path), mode="w") as store:
        for key in ("/é0", "/é1", "/é2"):
            store[key] = np.arange(3)
    change(path, record_at(path, "é1.b2nd".encode()) + 46, b"\xa9")
    for mode in ("r", "a"):
        with (
            pytest.raises(blosc2.FormatError, match="flagged as UTF-8"),
            blosc2.DictStore(str(path), mode=mode, mmap_mode=source if mode == "r" else None) as store,
        ):
            list(store)
    assert KeySet().add_folded("/\udca9") is False


# ---------------------------------------------------------------------- members that cannot be read in place


@pytest.mark.parametrize("header", [0xFFFFFFFE, 0x7FFFFFFF])
def test_a_member_outside_of_the_archive(tmp_path: Path, source: str | None, header: int) -> None:
    path = written(tmp_path / "s.b2z", 9)
    at = record_at(path, b"g/k0004.b2nd")
    change(path, at + 42, header.to_bytes(4, "little"))
    archive = opened(path, source)
    offset, length = archive.extent_at(at - archive.directory_offset)
    assert 0 <= offset <= offset + length <= archive.directory_offset
    with blosc2.open(str(path), mmap_mode=source) as store, pytest.raises(blosc2.FormatError, match="not inside"):
        store.read_many(["/g/k0001", "/g/k0004"])


# ---------------------------------------------------------------------- counts
def grown(path: Path) -> int:
    """By how much an append of one leaf makes an archive larger."""
    before = path.stat().st_size
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/new"] = np.arange(3)
    with blosc2.open(str(path)) as store:
        assert store["/new"][:].tolist() == [0, 1, 2]
        assert len(store.stats()) == 1
    return path.stat().st_size - before


@pytest.mark.parametrize("stated", [0, 1, 5000, 1 << 20])
def test_an_append_counts_the_groups_itself(tmp_path: Path, stated: int) -> None:
    """No catalog has it allocate or write for groups that are not there, nor too little for those that are."""
    group = "/g" + "".join(f"/a{number}" for number in range(40))
    honest, lying = (written(tmp_path / f"{name}.b2z", 120, group) for name in ("honest", "lying"))
    state(lying, {GROUPS: stated})
    # A catalog that is not believed at all takes its descriptions with it, which does not show in its size.
    assert abs(grown(lying) - grown(honest)) < 512
    assert blosc2.check(str(lying)).ok


def test_groups_that_are_named_like_leaves_have_slots(tmp_path: Path) -> None:
    """They are not among the groups that a catalog states: twice as many paths as leaves."""
    path = tmp_path / "s.b2z"
    value = np.arange(1)
    with blosc2.DictStore(str(path), mode="w") as store:
        store.write_many((f"/k{n}" + "/a" * step, value) for n in range(85) for step in range(200))
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/new"] = value
    table = table_of(path, None)
    assert len(table) == 85 * 200 + 1
    assert table.sound() is table


# ---------------------------------------------------------------------- slots
def with_slots(path: Path, junk: Any) -> None:
    """Put something into each free slot of a catalog but the last, with right checksums."""
    data = bytearray(path.read_bytes())
    footer = data.rindex(b"b2catlog")
    (size,) = struct.unpack_from("<Q", data, footer + 40)
    start = footer + 256 - size
    slots, count = struct.unpack_from("<QQ", data, footer + SLOTS)
    (sums_at,) = struct.unpack_from("<Q", data, footer + SUMS)
    for number in range(count - 1):
        at = start + slots + 8 * number
        if data[at : at + 8] == bytes(8):
            data[at : at + 8] = junk(number).to_bytes(8, "little")
    pages = [bytes(data[start + at : start + min(at + 4096, sums_at)]) for at in range(0, sums_at, 4096)]
    sums = struct.pack(f"<{len(pages)}I", *map(crc32c, pages))
    data[start + sums_at : start + sums_at + len(sums)] = sums
    struct.pack_into("<I", data, footer + SUMS_CRC, crc32c(sums))
    struct.pack_into("<I", data, footer + OWN, crc32c(bytes(data[footer : footer + OWN])))
    path.write_bytes(data)


def test_a_look_up_does_not_go_through_all_slots(tmp_path: Path, source: str | None) -> None:
    """The way of a path through a hash is short; where it is not, the directory is asked."""
    path = written(tmp_path / "s.b2z", 3000)
    with_slots(path, lambda number: 0xABCDEF << 40 | 1)
    table = table_of(path, source)
    assert table.cataloged
    assert table.find("/g/nothing") == -1
    assert not table.cataloged
    with blosc2.open(str(path), mmap_mode=source) as store:
        assert "/g/nothing" not in store
        assert store["/g/k0007"][:].tolist() == [7, 8, 9]
        assert len(list(store)) == 3001


def test_statistics_do_not_fail_because_of_a_catalog(tmp_path: Path, source: str | None) -> None:
    path = written(tmp_path / "s.b2z", 300)
    with blosc2.open(str(path), mmap_mode=source) as store:
        sound, about = store.stats(by="dtype"), store.describe("/g/k0101")
    data = bytearray(path.read_bytes())
    footer = data.rindex(b"b2catlog")
    (size,) = struct.unpack_from("<Q", data, footer + 40)
    start = footer + 256 - size
    for at in (40 * 101 + 8, *struct.unpack_from("<QQQQQQ", data, footer + 112)[::2]):
        change(path, 0, bytes(data))
        change(path, start + at, bytes([data[start + at] ^ 0x11]))
        with blosc2.open(str(path), mmap_mode=source) as store:
            assert store.stats(by="dtype") == sound
        with blosc2.open(str(path), mmap_mode=source) as store:
            assert store.describe("/g/k0101") == about


# ---------------------------------------------------------------------- long names
@pytest.fixture
def long_names(tmp_path: Path) -> Path:
    """Names of 60,000 characters, each of which could end a group that comes later, or does end one."""
    path = written(tmp_path / "s.b2z", 1)
    with zipfile.ZipFile(path) as before:
        leaf, embed = before.read("g/k0000.b2nd"), before.read("embed.b2e")
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(10):
            head = f"{number:06d}" + "-" * 60_000
            for end in ("x", "y", "/x"):
                archive.writestr(f"{head}{end}.b2nd", leaf)
            archive.writestr(f"{number:06d}" + "/a" * 30_000 + ".b2nd", leaf)
        archive.writestr("embed.b2e", embed)
    return path


def test_long_names_take_no_longer_for_each_byte(long_names: Path, source: str | None) -> None:
    """Where each beginning of a name was looked up or hashed, this took minutes."""
    before = time.process_time()
    table = table_of(long_names, source)
    assert catalog_in_memory(table, parse_dtype).count == 40
    with blosc2.open(str(long_names), mmap_mode=source) as store:
        (row,) = store.stats()
        assert row.leaves == 40
        with pytest.raises(blosc2.FormatError, match="more than 256 groups") as caught:
            list(store)
        assert caught.value.path == str(long_names)
        dashes = [key for number in range(10) for key in listed_below(table, f"{number:06d}-")]
        assert len(dashes) == 10 * 4
    # An append writes a catalog, and the next one checks it.
    for number in range(2):
        with blosc2.DictStore(str(long_names), mode="a") as store:
            store[f"/new{number}"] = np.arange(3)
    table = table_of(long_names, source)
    assert table.sound() is table
    assert blosc2.check(str(long_names)).ok
    assert time.process_time() - before < 10


def listed_below(table: KeyTable, start: str) -> list[str]:
    """What a listing gives of keys and groups that begin with something, of a table of these alone."""
    names = [table.archive.name_at(record)[:-5] for record in table.record_offsets()]
    own = KeyTable.of_keys([f"/{name}" for name in names if name.startswith(start)])
    return KeyCursor(KeyListing(own), "/", None, True).take(-1)


def test_an_iteration_over_a_directory_that_changes_twice(tmp_path: Path) -> None:
    """It is refused with an error that is documented, also while it looks for where it was."""
    path = written(tmp_path / "s.b2z", 300)
    listing = KeyListing(table_of(path, "r"))
    cursor = KeyCursor(listing)
    assert len(cursor.take(200)) == 200
    other = listing.table.archive
    change(path, record_at(path, b"g/k0250.b2nd") + 46, b"h")  # not in order any more, for the catalog
    catalog = path.read_bytes().rindex(b"b2catlog")
    (size,) = struct.unpack_from("<Q", path.read_bytes(), catalog + 40)
    change(path, catalog + 256 - size + 40 * 250, (1 << 40).to_bytes(8, "little"))
    assert len(listing.below()) == 300
    assert listing.table.archive is other
    change(path, record_at(path, b"g/k0010.b2nd"), b"XX")
    for ask in (lambda: cursor.take(-1), lambda: list(listing.walk("/")), lambda: listing.children("/g")):
        with pytest.raises(blosc2.FormatError, match="changed while it was read"):
            ask()


def test_a_batch_of_long_keys_is_not_large() -> None:
    keys = [f"/{'x' * 50_000}{number:04d}" for number in range(300)]
    cursor = KeyCursor(KeyListing(KeyTable.of_keys(keys)))
    sizes, found = [], []
    while batch := cursor.take(1000):
        sizes.append(sum(map(len, batch)))
        found += batch
    assert found == keys
    assert max(sizes) < 5 << 20


# ---------------------------------------------------------------------- leaves that batches would take
@pytest.mark.parametrize("at", [-23, -22, -19, "start", "start + 1"])
def test_a_batch_refuses_what_a_leaf_refuses(tmp_path: Path, source: str | None, at: int | str) -> None:
    """A leaf whose trailer is damaged, among others that are like it."""
    path = written(tmp_path / "s.b2z", 6)
    archive = opened(path, None)
    offset, length = archive.byte_range_at(table_of(path, None).find("/g/k0004"))
    frame = path.read_bytes()[offset : offset + length]
    start = length - int.from_bytes(frame[-22:-18], "big")
    position = {"start": start, "start + 1": start + 1}[at] if isinstance(at, str) else length + at
    change(path, offset + position, bytes([frame[position] ^ 0x40]))
    keys = [f"/g/k000{number}" for number in range(6)]
    with blosc2.open(str(path), mmap_mode=source) as store:
        assert store.read(keys[0]).tolist() == [0, 1, 2]
        assert store.read(keys[1]).tolist() == [1, 2, 3]
        for ask in (lambda: store[keys[4]], lambda: store.read(keys[4]), lambda: store.read_many(keys)):
            with pytest.raises(blosc2.FormatError, match="k0004"):
                ask()
