"""Catalogs, and what `check`, `salvage` and copies make of them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.catalogs import (
    AT,
    FOOTER,
    PAGE,
    Forgery,
    about_catalog,
    archive_at,
    catalog_of,
    check_of,
    compare,
    leaf_bytes,
    lie,
    make,
    parts,
    values_of,
    with_new_file_checksum,
    write_at,
)
from fuzz.repair import repair_catalogs

import blosc2
from blosc2._backends.zip import publishing as zip_backend


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


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
