"""Files of a directory: the order in which they get their new names, and what follows their frames."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends.directory import leaf_files
from blosc2._backends.directory.leaf_files import LeafFiles, in_steps


@pytest.mark.parametrize(
    ("keys", "renamed", "expected"),
    [
        ([], {}, []),
        (["/a", "/b"], {}, [["/a", "/b"]]),
        (["/a", "/b"], {"/b": "/a"}, [["/b"], ["/a"]]),
        (["/a", "/b", "/c"], {"/a": "/b", "/b": "/c"}, [["/a"], ["/b"], ["/c"]]),
        (["/d", "/e"], {"/e": "/d", "/d": "/was"}, [["/e"], ["/d"]]),
        (["/a", "/b", "/x"], {"/a": "/b", "/b": "/a"}, [["/x"], ["/a", "/b"]]),
        (["/a"], {"/a": "/a"}, [["/a"]]),
        (["/a", "/b", "/c"], {"/a": "/b", "/b": "/a", "/c": "/z"}, [["/c"], ["/a", "/b"]]),
    ],
)
def test_steps(keys: list[str], renamed: dict[str, str], expected: list[list[str]]) -> None:
    assert in_steps(keys, renamed) == expected


@pytest.mark.parametrize("count", [10, 100_000])
def test_what_an_append_left_behind_a_leaf(count: int, source: str | None, tmp_path: Path) -> None:
    """A leaf that was opened alone may have been changed by a program that was killed."""
    values = np.random.default_rng(1).integers(0, 1 << 60, count)
    path, packed, copy = tmp_path / "s.b2d", tmp_path / "s.b2z", tmp_path / "t.b2d"
    with blosc2.TreeStore(str(path), mode="w", threshold=0) as store:
        store["/g/a"], store["/b"] = values, values + 1
    for name in ("g/a.b2nd", "b.b2nd"):
        with open(path / name, "ab") as file:
            file.write(b"rest")
    assert blosc2.check(str(path)).ok
    with blosc2.open(str(path), mmap_mode=source) as store:
        assert np.array_equal(store["/g/a"][:], values)
        assert [row.nbytes for row in store.stats()] == [2 * values.nbytes]
        store.to_b2z(str(packed))
        store.to_b2d(str(copy))
    with blosc2.open(str(path), mode="a") as store:
        store.rename("/b", "/c")
        store["/d"] = store["/c"]
        store["/g/a"][0] = 7
    for folder, keys in ((path, ("/c", "/d")), (packed, ("/b",)), (copy, ("/b",))):
        assert blosc2.check(str(folder)).ok
        with blosc2.open(str(folder), mmap_mode=source) as store:
            assert all(np.array_equal(store[key][:], values + 1) for key in keys)
            assert np.array_equal(store["/g/a"][1:], values[1:])
            assert store["/g/a"][0] == (7 if folder == path else values[0])


def test_replacing_a_leaf_asks_little_about_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a leaf that is listed it is known that it is there; each question is a call of the system."""
    with blosc2.TreeStore(str(tmp_path / "s.b2d"), mode="w") as store:
        for n in range(600):
            store[f"/g{n % 10}/k{n}"] = np.arange(100)
    asked = [0]
    for name in ("stat", "lstat"):
        real = getattr(os, name)

        def ask(*args: object, real: Any = real, **how: object) -> Any:
            asked[0] += 1
            return real(*args, **how)

        monkeypatch.setattr(os, name, ask)
    with blosc2.TreeStore(str(tmp_path / "s.b2d"), mode="a") as store:
        store.update({f"/g{n % 10}/k{n}": np.arange(100) + n for n in range(600)})
    assert asked[0] <= 6 * 600
    monkeypatch.undo()
    with blosc2.open(tmp_path / "s.b2d") as store:
        assert all(store[f"/g{n % 10}/k{n}"][0] == n for n in range(600))


def test_quick_syncs_need_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._files import sync

    def started(work: object) -> None:
        raise AssertionError("threads were started")

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(sync, "_LONG", 60.0)
    monkeypatch.setattr(sync, "_sync_together", started)
    paths = [str(tmp_path / str(n)) for n in range(30)]
    for path in paths:
        Path(path).touch()
    sync.sync_files(paths, [str(tmp_path)])
    monkeypatch.setattr(sync, "_LONG", -1.0)
    with pytest.raises(AssertionError, match="threads were started"):
        sync.sync_files(paths)


def test_files_that_come_or_go_while_another_thread_walks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its walk may have come by before."""
    root = tmp_path / "s.b2d"
    with blosc2.DictStore(str(root), mode="w", threshold=0) as store:
        store.update({f"/{name}": [1] for name in ("gone", "stays", "back")})
    files, walk = LeafFiles(str(root), None), leaf_files.scan

    def slow(path: str) -> Any:
        found = walk(path)
        os.rename(root / "gone.b2nd", root / "new.b2nd")
        files.note_file("/gone", None)
        files.note_file("/new", ".b2nd")
        files.note_file("/back", None)
        files.note_file("/back", ".b2nd")
        return found

    monkeypatch.setattr(leaf_files, "scan", slow)
    keys = ["/back", "/gone", "/new", "/stays"]
    assert [key for key in keys if files.table().find(key) >= 0] == ["/back", "/new", "/stays"]
    assert files.listed == {f"/{name}": f"{name}.b2nd" for name in ("back", "new", "stays")}
    monkeypatch.undo()
    files.note_file("/stays", None)
    assert [key for key in keys if files.table().find(key) >= 0] == ["/back", "/new"]
    assert files.locate("/stays") is None


def test_an_unusual_file_that_goes_while_another_thread_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "s.b2d"
    with blosc2.DictStore(str(root), mode="w", threshold=0) as store:
        store["/a"] = store["/b"] = [1]
    os.rename(root / "a.b2nd", root / "a.odd")
    files, look = LeafFiles(str(root), None), leaf_files.Folder

    def slow(*given: Any, **more: Any) -> Any:
        found = look(*given, **more)
        os.remove(root / "a.odd")
        files.note_file("/a", None)
        return found

    monkeypatch.setattr(leaf_files, "Folder", slow)
    files.has("/a")
    monkeypatch.undo()
    assert not files.has("/a")
