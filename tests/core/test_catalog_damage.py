"""Catalogs that are damaged, or lie: the same answers, or an error."""

from __future__ import annotations

import random
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fixture_kit.catalogs import (
    AT,
    FIELDS,
    FOOTER,
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
    lie,
    make,
    values_of,
    with_new_file_checksum,
    write_at,
)

import blosc2
from blosc2._backends.zip import publishing as zip_backend
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._core.leaves.catalog_writer import write_cataloged
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2._stores import new_keys
from blosc2.exceptions import FormatError


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


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


def test_leaves_that_lie(forgery: Forgery) -> None:
    """Each field of each leaf, with values that are out of range and offsets inside of records."""
    values = [*EXTREMES, *range(46, forgery.fields["directory"], 61)]
    for n in range(forgery.fields["leaves"] + 1):
        for at, size in ((0, 8), (8, 8), (16, 8), (24, 4), (28, 4), (32, 4), (36, 4)):
            for value in values if at in (0, 32, 36) else EXTREMES:
                if value < 1 << 8 * size:
                    forgery.expect_no_harm(lie(forgery, {40 * n + at: value.to_bytes(size, "little")}))


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


@pytest.mark.parametrize("beside", [False, True])
def test_a_commit_puts_a_lie_right(tmp_path: Path, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the catalog is checked by a thread of its own, as that of a large store is, or by the commit."""
    threads = []
    check = new_keys._check_catalog
    monkeypatch.setattr(new_keys, "_MANY_KEYS", 1 if beside else sys.maxsize)
    monkeypatch.setattr(new_keys, "get_nthreads", lambda: 2)
    monkeypatch.setattr(
        new_keys, "_check_catalog", lambda table: (threads.append(threading.current_thread().name), check(table))
    )
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
    assert threads == (["blosc2-catalog"] * 25 if beside else [])


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
    """A damaged leaf is listed and not described; commits and compact() work without it."""
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
