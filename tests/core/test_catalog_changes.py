"""Catalogs of files that were changed: they fit again, or are left."""

from __future__ import annotations

import random
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.catalogs import (
    NAME,
    archive_at,
    catalog_of,
    check_descriptions,
    check_of,
    compare,
    leaf_bytes,
    make,
    values_of,
)

import blosc2
from blosc2._backends.zip import publishing as zip_backend


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


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


def test_a_catalog_of_another_offset(tmp_path: Path, source: str | None) -> None:
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
