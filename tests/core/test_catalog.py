"""Catalogs of `.b2z` files: the same answers as without, after any change; damaged or lying, an error.

The bytes are taken apart here by doc/format/catalog.md, not by the package.
"""

from __future__ import annotations

import gc
import random
import struct
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.catalogs import (
    AT,
    FIELDS,
    FOOTER,
    NAME,
    PAGE,
    SKIPPED,
    SUFFIXES,
    Forgery,
    about_catalog,
    answers,
    archive_at,
    catalog_of,
    check_descriptions,
    check_of,
    compare,
    full_tree,
    in_batches,
    leaf_bytes,
    lie,
    make,
    parts,
    values_of,
    with_new_file_checksum,
    write_at,
)
from fixture_kit.siphash import siphash13
from fuzz.repair import repair_catalogs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_makers import before_sync

import blosc2
from blosc2._backends.zip import publishing as zip_backend
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._core.leaves import catalog_writer
from blosc2._core.leaves.catalog_writer import write_cataloged
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2.exceptions import FormatError


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


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


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return full_tree(tmp_path / "full.b2z")


# ---------------------------------------------------------------------- the same answers
@pytest.mark.parametrize("kind", [blosc2.TreeStore, blosc2.DictStore])
def test_the_same_answers(full: Path, source: str | None, kind: Any) -> None:
    plain = answers(without(full), source, kind)
    assert answers(full, source, kind) == plain
    assert len(plain["keys"]) > 50
    assert plain["there"] == (["/scans", "/g/h", "g/h/c"] if kind is blosc2.TreeStore else ["g/h/c"])


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
    for key in reversed(keys):  # a group has the offset of the first leaf below it
        paths |= {key[:at] + "/": leaves[key] for at, c in enumerate(key) if c == "/"}
    assert sum(slot != 0 for slot in slots) == len(paths)
    for path, offset in paths.items():
        hashed = siphash13(footer["seed0"], footer["seed1"], path.rstrip("/").encode())
        slot = (hashed & 0xFFFFFFFF) * footer["homes"] >> 32
        while slots[slot] != (hashed >> 40 << 40 | offset + 1):
            assert slots[slot] != 0
            slot += 1
    # The running sums are those of the leaves' own sizes.
    with blosc2.DictStore(str(full), mode="r") as store:
        opened = [store["/" + key] for key in keys]
        sizes = [(leaf.nbytes, getattr(leaf, "schunk", leaf).cbytes) for leaf in opened]
    for n, (nbytes, cbytes) in enumerate(sizes):
        assert (entries[n + 1][1] - entries[n][1], entries[n + 1][2] - entries[n][2]) == (nbytes, cbytes)
    groups = {key[:i] for key in keys for i, c in enumerate(key) if c == "/"}
    assert footer["groups"] == entries[-1][3] == len(groups - set(keys))
    hidden = [key for key in keys if key.rpartition("/")[2] == "__vlmeta__"]
    assert footer["hidden"] == entries[-1][4] == len(hidden)


def expect_after(path: Path, values: dict[str, Any], source: str | None) -> None:
    compare(path, values, source)
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/later"] = np.arange(4)
    compare(path, {**values, "/later": np.arange(4)}, source)


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
    second = before_sync(path.read_bytes())
    assert second.startswith(first)
    for cut in [*range(len(first), len(first) + 20), *range(len(first) + 20, len(second), 41), len(second) - 1]:
        path.write_bytes(second[:cut])
        compare(path, values, source)
    for more in (b"\0", b"PK\5\6", second[-54:-1], first[-200:-1], bytes(3000)):
        path.write_bytes(second + more)
        compare(path, {**values, "/new": np.arange(4)}, source)


# ---------------------------------------------------------------------- archives of others


@pytest.mark.parametrize("irregular", ["unknown suffix", "clash", "duplicate", "cp437"])
def test_irregular_archives_never_get_one(tmp_path: Path, source: str | None, irregular: str) -> None:
    values = values_of(6)
    made = make(tmp_path / "made.b2z", values)
    with zipfile.ZipFile(made) as z:
        members = [(name, z.read(name)) for name in z.namelist() if name != NAME]
    extra = {"unknown suffix": "unknown.frame", "clash": "a.b2f", "duplicate": "a.b2nd", "cp437": "ZZ.b2nd"}[irregular]
    members.append((extra, leaf_bytes()))
    path = tmp_path / "s.b2z"
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members:
            if irregular == "duplicate" and name == extra and name in z.namelist():
                with pytest.warns(UserWarning, match="Duplicate"):
                    z.writestr(name, data)
            else:
                z.writestr(name, data)
    if irregular == "cp437":
        path.write_bytes(path.read_bytes().replace(b"ZZ", b"\x82\x81"))
    new = {"unknown suffix": {"/unknown": np.arange(7)}, "clash": {}, "duplicate": {"/a": np.arange(7)},
           "cp437": {"/éü": np.arange(7)}}[irregular]  # fmt: skip
    values |= new
    said = {"unknown suffix": "unusual suffix", "clash": "more than one member"}.get(irregular)
    with pytest.warns(UserWarning, match=said) if said else nullcontext():
        compare(path, values, source)
        for n in range(2):
            with blosc2.DictStore(str(path), mode="a") as store:
                store[f"/later{n}"] = np.arange(4)
            values[f"/later{n}"] = np.arange(4)
            compare(path, values, source)
            assert catalog_of(path) is None
            assert NAME not in zipfile.ZipFile(path).namelist()


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


def test_a_hash_that_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"/g{n % 13}/leaf {n}" for n in range(20_000)]
    written = []
    for budget in (1, 100_000, catalog_writer.SLOTS_BUDGET):
        monkeypatch.setattr(catalog_writer, "SLOTS_BUDGET", budget)
        path = tmp_path / f"{budget}.b2z"
        with path.open("wb") as file:
            writer = ArchiveWriter(file.fileno(), 0, 8, file_checksum=0)
            for name in names:
                writer.append(name[1:].encode() + b".b2nd", b"", description=b"")
            runs, others = writer.collect()
            write_cataloged(writer, None, runs, others, b"embed.b2e")
            writer.write_end()
        written.append(path)
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


@pytest.fixture
def forgery(tmp_path: Path, source: str | None) -> Iterator[Forgery]:
    made = Forgery(tmp_path / "forged.b2z", source)
    yield made
    made.close()


@pytest.mark.parametrize("value", [1, "text", {"a": [1, 2]}])
def test_check_of_attributes(value: Any, tmp_path: Path) -> None:
    """Attributes are leaves of their own here; the catalog says only that they are there."""
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
        "record offset": {0: (fields["first_record"] + 1).to_bytes(8, "little")},
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
        write_at(forgery.descriptor, with_new_file_checksum(catalog, 0, fields["sums"]), forgery.start)
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
        forgery.expect_no_harm(with_new_file_checksum(catalog, 0, sums_at))


@pytest.mark.parametrize("kind", [blosc2.DictStore, blosc2.TreeStore])
def test_changes_of_a_store_whose_catalog_leads_nowhere(forgery: Forgery, kind: type[blosc2.DictStore]) -> None:
    """Keys that are listed and not found are refused as damage, not as a missing key; nothing is lost."""
    catalog = forgery.catalog
    at = len(catalog) - FOOTER + AT["seed0"]
    catalog[at] ^= 1
    lie = bytes(with_new_file_checksum(catalog, 0, forgery.fields["sums"]))
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


def test_statistics_of_leaves_that_are_listed_and_not_found(tmp_path: Path, source: str | None) -> None:
    """Unknown kinds make `stats` look up each leaf, and no slot leads to one."""
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


def lies(forgery: Forgery) -> Iterator[dict[int, bytes]]:
    """Fields of leaves, out of range or inside of records; bytes of other sections; and any bytes anywhere."""
    inside = range(46, forgery.fields["directory"], 61)
    for n in range(forgery.fields["leaves"] + 1):
        for at, size in ((0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4)):
            for value in [*EXTREMES, *inside] if at in (0, 32, 36) else EXTREMES:
                if value < 1 << 8 * size:
                    yield {40 * n + at: value.to_bytes(size, "little")}
    for section in ("shapes", "kinds", "tallies"):
        start, size = forgery.fields[section], len(forgery.sections[section])
        for at in range(start, start + size, 8 if section == "shapes" else 1):
            for part in (b"\0", b"\xff", b"\x11", b"\xff" * 8, b"\0" * 8, b"\1" + bytes(7), b"\x11" + bytes(7)):
                if at + len(part) <= start + size:
                    yield {at: part}
    rng, sums = random.Random(17), forgery.fields["sums"]
    for _ in range(3000):
        kinds = [
            rng.randbytes(8),
            rng.choice(EXTREMES).to_bytes(8, "little"),
            rng.randrange(2000).to_bytes(8, "little"),
        ]
        yield {rng.randrange(sums - 8): rng.choice(kinds)[: rng.choice([1, 2, 4, 8])] for _ in range(rng.randint(1, 4))}


def test_any_lie(forgery: Forgery) -> None:
    for changes in lies(forgery):
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


SHAPES: list[tuple[int, ...]] = [(3,), (2, 5), (), (4, 1, 3), (7,)]
DTYPES = ["<i8", "<f4", "|u1", ">i2", "<c16", "<U3", "<M8[s]"]


def value(n: int) -> Any:
    return np.zeros(SHAPES[n % len(SHAPES)], DTYPES[n % len(DTYPES)])


def groups_of(keys: Any) -> set[str]:
    return {key[:at] for key in keys for at in range(1, len(key)) if key[at] == "/"}


def check_catalog(path: Path, keys: Any, others: Any = ()) -> None:
    """The catalog is whole, and its hash finds these keys and their groups, and no others."""
    report = blosc2.check(str(path))
    assert report.ok, list(report)
    archive = Archive(Source.open(str(path)))
    assert archive.catalog is not None
    table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
    listing = KeyListing(table)
    groups = groups_of(keys)
    assert all(table.find(key) >= 0 for key in keys)
    assert listing.below() == sorted(keys)
    assert all(listing.has_group(group) for group in groups)
    for other in others:
        assert (table.find(other) >= 0) == (other in keys)
        assert listing.has_group(other) == (other in groups)
    assert table.cataloged
    # Slots: one for each path, and copies of that of the first leaf for paths that are gone.
    fields, sections = parts(path.read_bytes(), archive)
    slots = np.frombuffer(sections["slots"], "<u8")[: fields["slot_count"]]
    first = table.find(min(keys)) + 1
    taken, copies = np.unique(slots[slots != 0], return_counts=True)
    assert len(taken) == len(keys) + len(groups)
    assert all((slot & ((1 << 40) - 1)) == first for slot in taken[copies > 1].tolist())
    assert 3 * np.count_nonzero(slots) <= 2 * fields["homes"]
    assert slots[-1] == 0


segments = st.sampled_from(["a", "b", "a-b", "a.b", "a+", "c", "é", "_meta", "x" * 30, "0"])
some_keys = st.lists(segments, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(some_keys, min_size=1, max_size=60, unique=True),
    st.lists(st.lists(st.tuples(some_keys, st.integers(0, 40)), min_size=1, max_size=9), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_changes(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], changes: list[list[tuple[str, int]]], reopen: bool
) -> None:
    """Leaves of a `DictStore`, in which a leaf may be named like a group, come, go and are replaced."""
    path = tmp_path_factory.mktemp("patch") / "s.b2z"
    fill = [f"/fill/{n % 5}/{n}" for n in range(60)]
    model = {key: value(n) for n, key in enumerate([*keys, *fill])}
    model = {key: leaf for key, leaf in model.items() if key.lower() == key}
    with blosc2.DictStore(str(path), mode="w") as store:
        for key, leaf in model.items():
            store[key] = leaf
    store = blosc2.DictStore(str(path), mode="a")
    gone: set[str] = set()
    for some in changes:
        for key, n in some:
            if n % 3 == 0 and key in model:
                del store[key], model[key]
                gone.add(key)
            elif n % 5 == 1 and fill[n] in model:
                del store[fill[n]], model[fill[n]]
                gone.add(fill[n])
            else:
                store[key] = model[key] = value(n)
        store.flush()
        check_catalog(path, model, gone | groups_of(gone))
        if reopen:
            store.close()
            store = blosc2.DictStore(str(path), mode="a")
    store.close()
    compare(path, model)


def test_what_the_catalog_claims_wrongly_is_not_kept(tmp_path: Path) -> None:
    """Counts of groups that nobody but a forger would write are found when a writer goes on from them."""
    path = make(tmp_path / "s.b2z", {f"/g{n % 4}/k{n}": value(0) for n in range(100)}, kind=blosc2.DictStore)
    data = bytearray(path.read_bytes())
    archive = Archive(Source.open(str(path)))
    assert archive.catalog is not None
    fields, _ = parts(bytes(data), archive)
    start = archive.directory_offset - fields["size"]
    data[start + 40 * 30 + 24] += 1  # groups before leaf 30
    repair_catalogs(data)
    path.write_bytes(data)
    assert not blosc2.check(str(path)).ok
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/later"] = value(1)
    catalog = catalog_of(path)
    assert catalog is not None
    assert (catalog.seed0, catalog.seed1) != (fields["seed0"], fields["seed1"])
    report = blosc2.check(str(path))
    assert not [finding for finding in report if "catalog" in finding.problem], list(report)


def test_slots_that_nobody_can_tell_apart(tmp_path: Path) -> None:
    """A slot that stands there twice: the hash is made anew rather than guessed at."""
    keys = [f"/k{n}" for n in range(300)]
    path = make(tmp_path / "s.b2z", {key: value(0) for key in keys}, kind=blosc2.DictStore)
    data = bytearray(path.read_bytes())
    archive = Archive(Source.open(str(path)))
    fields, sections = parts(bytes(data), archive)
    slots = np.frombuffer(sections["slots"], "<u8")[: fields["slot_count"]].copy()
    # Behind each run of taken slots, the last of them stands a second time: no search for a key comes there by itself.
    ends = np.flatnonzero((slots[:-1] != 0) & (slots[1:] == 0))
    slots[ends + 1] = slots[ends]
    start = archive.directory_offset - fields["size"]
    at = start + fields["slots"]
    data[at : at + slots.nbytes] = slots.tobytes()
    repair_catalogs(data)
    path.write_bytes(data)
    with blosc2.DictStore(str(path), mode="a") as store:
        for key in keys[:30]:
            del store[key]
    catalog = catalog_of(path)
    assert catalog is not None
    assert (catalog.seed0, catalog.seed1) != (fields["seed0"], fields["seed1"])
    compare(path, {key: value(0) for key in keys[30:]})


def test_slots_that_point_elsewhere(forgery: Forgery) -> None:
    fields = forgery.fields
    raw = forgery.sections["slots"]
    taken = [n for n in range(fields["slot_count"]) if raw[8 * n : 8 * n + 8] != bytes(8)]
    directory = fields["directory"]
    for n in taken[:3]:
        slot = int.from_bytes(raw[8 * n : 8 * n + 8], "little")
        for offset in [*range(directory + 3), (1 << 40) - 2, (1 << 40) - 1]:
            changed = (slot >> 40 << 40 | (offset + 1) & (1 << 40) - 1).to_bytes(8, "little")
            lying = lie(forgery, {fields["slots"] + 8 * n: changed})
            if offset % 97 == 0:
                forgery.expect_no_harm(lying)
            archive = forgery.opened(lying)
            table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
            for key in forgery.keys:
                found = table.find(key)
                assert found < 0 or archive.byte_range_at(found) == forgery.byte_ranges[key]


def test_iterators_when_the_catalog_is_left_meanwhile(forgery: Forgery) -> None:
    """Positions of a catalog that states one leaf more than there is mean nothing without it."""
    catalog = forgery.catalog
    at = len(catalog) - FOOTER + AT["leaves"]
    catalog[at : at + 8] = (forgery.fields["leaves"] + 1).to_bytes(8, "little")
    wrong = bytes(with_new_file_checksum(catalog, 0, forgery.fields["sums"]))
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
                assert archive.byte_range_at(table.find(key)) == forgery.byte_ranges[key]
            assert archive.embedded(b"embed.b2e") == forgery.embed
            assert listing.children("/")[1] == [key[1:] for key in forgery.keys if key.count("/") == 1]
            return in_batches(listing)

        with ThreadPoolExecutor(6) as pool:
            assert all(found == forgery.keys for found in pool.map(look, range(0, 1000, 50)))
    forgery.close()
