"""Files of a directory: their names and folders, what waits beside them, and what other threads list meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends import protocol, tiers
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
    """Of a leaf that is listed it is known that it is there; each question is a call of the system.

    Two are for the owner and the permissions that a leaf keeps.
    """
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
    assert asked[0] <= 8 * 600
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


def test_a_walk_that_began_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blosc2.asarray(np.arange(3), urlpath=str(tmp_path / "old.b2nd"))
    files = leaf_files.LeafFiles(str(tmp_path), None)
    walk = leaf_files.scan

    def slow_walk(root: str) -> Any:
        found = walk(root)
        monkeypatch.setattr(leaf_files, "scan", walk)
        blosc2.asarray(np.arange(3), urlpath=str(tmp_path / "new.b2nd"))
        files.forget()  # what `refresh` does in another thread
        return found

    monkeypatch.setattr(leaf_files, "scan", slow_walk)
    assert files.table().find("/old") >= 0
    assert files.table().find("/new") >= 0
    assert files.listed == {"/old": "old.b2nd", "/new": "new.b2nd"}


def test_files_that_come_while_a_table_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blosc2.asarray(np.arange(3), urlpath=str(tmp_path / "old.b2nd"))
    files = leaf_files.LeafFiles(str(tmp_path), None)
    assert files.table().find("/old") >= 0
    files.note_file("/one", ".b2nd")
    make = leaf_files.KeyTable

    class Slow:
        @staticmethod
        def of_keys(keys: Any) -> Any:
            made = make.of_keys(keys)
            monkeypatch.setattr(leaf_files, "KeyTable", make)
            files.note_file("/two", ".b2nd")
            return made

    monkeypatch.setattr(leaf_files, "KeyTable", Slow)
    assert files.table().find("/two") < 0
    assert files.table().find("/two") >= 0


@pytest.mark.parametrize(
    ("kind", "suffix", "module"),
    [
        (blosc2.EmbedStore, ".b2e", protocol),
        (blosc2.DictStore, ".b2d", tiers),
        (blosc2.DictStore, ".b2z", tiers),
    ],
    ids=["embed", "folder", "zip"],
)
def test_a_listing_that_began_before(
    kind: Any, suffix: str, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / f"store{suffix}")
    with kind(path, mode="w") as written:
        written["/old"] = np.arange(3)
        written.flush()
        with kind(path, mode="r") as store:
            make = module.KeyListing

            def slow_listing(*args: Any, **kwargs: Any) -> Any:
                made = make(*args, **kwargs)
                monkeypatch.setattr(module, "KeyListing", make)
                written["/new"] = np.arange(3)
                written.flush()
                assert store.refresh()
                return made

            monkeypatch.setattr(module, "KeyListing", slow_listing)
            store._table.backend.listing()
            assert "/new" in list(store)
            assert len(store) == 2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what is mapped in /proc")
@pytest.mark.parametrize("size", [10, 40_000])
def test_leaves_that_wait_in_files_take_few_mappings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A process has 65,530 of them. Large frames have a file each, and small ones lie together."""
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 100_000)
    path = str(tmp_path / "x.b2d")
    noise = np.random.default_rng(0).random(size)
    with blosc2.DictStore(path, mode="w") as store, store.transaction():
        before = len(Path("/proc/self/maps").read_text().splitlines())
        for number in range(3000 if size < 100 else 20):
            store[f"/{number}"] = noise + number
            store[f"/small/{number}"] = np.arange(number)
        staged = [byte_range for byte_range in store._table.pending.frames.values() if byte_range[0].path]
        assert len(staged) > 20
        assert len(Path("/proc/self/maps").read_text().splitlines()) - before < 60
        assert np.array_equal(store["/1"][:], noise + 1)
    with blosc2.open(path) as found:
        for number in range(0, len(found) // 2, 7):
            assert np.array_equal(found[f"/{number}"][:], noise + number)
            assert np.array_equal(found[f"/small/{number}"][:], np.arange(number))
    assert blosc2.check(path).ok
    assert sorted(os.listdir(tmp_path)) == ["x.b2d"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what is open in /proc")
def test_leaves_that_wait_in_files_are_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 1000)
    store = blosc2.DictStore(str(tmp_path / "x.b2d"), mode="w")
    before = len(os.listdir("/proc/self/fd"))
    for number in range(100):
        store[f"/{number}"] = np.arange(number, number + 50)
    assert len(os.listdir("/proc/self/fd")) - before < 20
    np.testing.assert_array_equal(store["/7"][:], np.arange(7, 57))
    leaf = store["/8"]
    leaf[0] = -1
    store.close()
    with blosc2.open(str(tmp_path / "x.b2d")) as found:
        assert len(found) == 100
        np.testing.assert_array_equal(found["/99"][:], np.arange(99, 149))
        assert found["/8"][0] == -1


@pytest.mark.parametrize("cut", [0, 40])
def test_a_store_goes_on_after_a_compaction_that_meets_a_damaged_leaf(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.TreeStore(str(path), mode="w", threshold=1000) as store:
        store["/small"], store["/gone"], store["/large"] = np.arange(5), np.arange(9), np.arange(1000)
    store = blosc2.TreeStore(str(path), mode="a", threshold=1000)
    del store["/gone"]
    store.flush()
    os.truncate(path / "large.b2nd", cut)
    with pytest.raises(blosc2.FormatError):
        store.compact()
    store["/more"] = np.arange(3)
    store.flush()
    with store.transaction():
        store["/again"] = np.arange(4)
    with pytest.raises(blosc2.FormatError):
        store.compact()
    del store["/large"]
    store.compact()
    store.close()
    with blosc2.open(str(path)) as found:
        assert {key: len(found[key]) for key in found} == {"/small": 5, "/more": 3, "/again": 4}


PAIRS = [("/b", "/b.b2nd/x"), ("/g/b", "/g/b.b2nd/c.b2nd/x"), ("/b.b2nd/x", "/b")]


def values(path: Path) -> dict[str, list[int]]:
    with blosc2.DictStore(path, mode="r") as store:
        return {key: leaf[:].tolist() for key, leaf in store.items()}


@pytest.mark.parametrize("cls", [blosc2.DictStore, blosc2.TreeStore])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_one_comes_as_the_other_goes(old: str, new: str, cls: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    with cls(path, mode="w") as store:
        store.update({old: [1], "/kept": [3]})
    with cls(path, mode="a") as store, store.transaction():
        del store[old]
        store[new] = [2]
    assert values(path) == {new: [2], "/kept": [3]}


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_failure_brings_the_old_one_back(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.DictStore(path, mode="w") as store:
        store.update({old: [1], "/kept": [3]})
    before = sorted(str(p) for p in path.rglob("*"))
    store = blosc2.DictStore(path, mode="a")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("blosc2._files.atomic_file.FileMoves.put", fail)
    with pytest.raises(OSError, match="No space"), store.transaction():
        del store[old]
        store[new] = [2]
    monkeypatch.undo()
    store.discard()
    store.close()
    assert values(path) == {old: [1], "/kept": [3]}
    assert sorted(str(p) for p in path.rglob("*")) == before
