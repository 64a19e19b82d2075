"""Files in which macOS keeps attributes of others: "._a.b2nd" beside "a.b2nd" is no leaf."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

# A header, and the entry of an empty resource fork.
APPLE_DOUBLE = (
    bytes.fromhex("00051607 00020000") + b"Mac OS X        " + bytes.fromhex("0001 00000002 00000026 00000000")
)
VALUES = {"/a": np.arange(5), "/g/b": np.arange(6), "/g/h/c": np.arange(7)}
FILES = [".DS_Store", "._a.b2nd", "._embed.b2e", "g/._b.b2nd", "g/h/._c.b2f", "g/h/._d.b2b", "__MACOSX/g/._b.b2nd"]


def directory(tmp_path: Path) -> Path:
    path = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(path), mode="w", threshold=0) as store:
        store.update(VALUES)
    for name in FILES:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"\0\0\0\1Bud1" if name == ".DS_Store" else APPLE_DOUBLE)
    return path


def archive(tmp_path: Path) -> Path:
    """An archive without a catalog, as other tools write it."""
    folder, path = directory(tmp_path), tmp_path / "s.b2z"
    with zipfile.ZipFile(path, "w") as packed:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                packed.write(file, file.relative_to(folder).as_posix())
    return path


@pytest.fixture(params=[directory, archive], ids=lambda make: make.__name__)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made: Path = request.param(tmp_path)
    return made


def names_in(path: Path) -> set[str]:
    if path.is_dir():
        return {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}
    with zipfile.ZipFile(path) as packed:
        return set(packed.namelist())


def expect(path: Path, values: dict[str, Any], source: str | None = None) -> None:
    with blosc2.open(str(path), mmap_mode=source) as store:
        for key in ("/._a", "/g/._b", "/g/h/._c", "/g/h/._d", "/__MACOSX/g/._b", "/.DS_Store"):
            assert (key in store) == (key in values)
            if key not in values:
                with pytest.raises(KeyError):
                    store[key]
        # Looked up before and after all are listed.
        for _ in range(2):
            for key, value in values.items():
                assert np.array_equal(store[key][:], value)
            assert {key for key, leaf in store.items() if hasattr(leaf, "shape")} == {*values}
        assert {row.leaves for row in store.stats(by=())} == {len(values)}


def test_they_are_no_leaves(path: Path, source: str | None) -> None:
    expect(path, VALUES, source)
    with blosc2.open(str(path), mmap_mode=source) as store:
        assert [tuple(map(sorted, found[1:])) for found in store.walk()] == [
            (["g"], ["a"]),
            (["h"], ["b"]),
            ([], ["c"]),
        ]
    report = blosc2.check(str(path))
    assert report.ok
    assert sum("macOS" in str(one) for one in report.notes) == len(FILES) - 1


def test_copies_do_not_have_them(path: Path, tmp_path: Path) -> None:
    with blosc2.open(str(path)) as store:
        store.to_b2z(filename=str(tmp_path / "copy.b2z"))
        store.to_b2d(str(tmp_path / "copy.b2d"))
    blosc2.salvage(str(path), str(tmp_path / "saved.b2d"))
    for copy in ("copy.b2z", "copy.b2d", "saved.b2d"):
        expect(tmp_path / copy, VALUES)
        assert not [name for name in names_in(tmp_path / copy) if "._" in name]


def test_changes_leave_them_where_they_are(path: Path, source: str | None) -> None:
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/g/new"] = np.arange(8)
        store["/a"] = np.arange(9)
        store.rename("/g/h", "/i")
    values = {"/a": np.arange(9), "/g/b": VALUES["/g/b"], "/g/new": np.arange(8), "/i/c": VALUES["/g/h/c"]}
    expect(path, values, source)
    with blosc2.TreeStore(str(path), mode="a") as store:
        del store["/i"]
        store.compact()
    del values["/i/c"]
    expect(path, values, source)
    assert {*FILES} <= names_in(path)
    assert blosc2.check(str(path)).ok


def test_an_archive_with_a_catalog(tmp_path: Path, source: str | None) -> None:
    path = archive(tmp_path)
    values = {**VALUES, **{f"/many/k{n}": np.arange(n) for n in range(400)}}
    with blosc2.TreeStore(str(path), mode="a") as store:
        store.update(values)
    expect(path, values, source)
    with blosc2.TreeStore(str(path), mode="a") as store:
        store.compact()
        store["/later"] = values["/later"] = np.arange(3)
    expect(path, values, source)
    assert blosc2.check(str(path)).ok
    assert {*FILES} <= names_in(path)


def test_a_damaged_leaf_that_is_called_so_is_no_attribute(tmp_path: Path) -> None:
    path = directory(tmp_path)
    (path / "._x.b2nd").write_bytes(b"\x9e\xa8b2frame")
    assert not blosc2.check(str(path)).ok
    with blosc2.open(str(path)) as store, pytest.raises(blosc2.FormatError):
        store["/._x"]


def test_compressed_ones_of_finder_are_not_told(tmp_path: Path) -> None:
    path = archive(tmp_path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("__MACOSX/._a.b2nd", APPLE_DOUBLE * 9)
    expect(path, VALUES)  # warnings are errors


def test_merging(path: Path, tmp_path: Path) -> None:
    blosc2.merge([str(path)], str(tmp_path / "merged.b2z"))
    expect(tmp_path / "merged.b2z", VALUES)
