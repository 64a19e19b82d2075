"""`merge`: the leaves of several stores in one, copied as bytes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

KINDS = (".b2z", ".b2d", ".b2e")


def store_at(path: Path, leaves: dict[str, Any], attributes: dict[str, dict[str, Any]] | None = None) -> str:
    kind: Any = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore
    with kind(str(path), mode="w") as store:
        for key, value in leaves.items():
            store[key] = value
        for group, values in (attributes or {}).items():
            store.get_subtree(group).attrs.update(values)
    return str(path)


def part(folder: Path, number: int, suffix: str = ".b2z") -> str:
    array = blosc2.asarray(np.arange(1000) + number, cparams={"codec": blosc2.Codec.LZ4HC, "clevel": 7}, chunks=(300,))
    array.vlmeta["number"] = number
    return store_at(
        folder / f"part-{number}{suffix}", {f"/scans/{number}": array, f"/labels/{number}": np.array(number)}
    )


def leaves_of(path: Any) -> dict[str, bytes]:
    with blosc2.open(str(path)) as store:
        return {key: store[key].to_cframe() for key in store if hasattr(store[key], "to_cframe")}


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_the_bytes_are_the_same(source: str, target: str, tmp_path: Path) -> None:
    parts = [part(tmp_path, number, source) for number in range(3)]
    wanted = {key: frame for path in parts for key, frame in leaves_of(path).items()}
    assert blosc2.merge(parts, tmp_path / f"whole{target}") == 6
    assert leaves_of(tmp_path / f"whole{target}") == wanted
    assert len(wanted) == 6
    assert blosc2.check(str(tmp_path / f"whole{target}")).ok
    with blosc2.open(str(tmp_path / f"whole{target}")) as store:
        np.testing.assert_array_equal(store["/scans/2"][:], np.arange(1000) + 2)
        assert store["/scans/2"].vlmeta[:] == {"number": 2}


def test_nothing_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.b2d"
    items = np.random.default_rng(0).random(100_000)
    store_at(path, {"/x": items})
    file = next(path.rglob("x.b2nd"))
    content = bytearray(file.read_bytes())
    with blosc2.open(str(path)) as store:
        start, stop = 200_000, 200_100  # in the middle of compressed bytes
        assert len(content) > stop
        before = store["/x"].to_cframe()
    blosc2.merge([path], tmp_path / "b.b2d")
    with blosc2.open(str(tmp_path / "b.b2d")) as store:
        assert store["/x"].to_cframe() == before
    content[start:stop] = bytes(100)
    file.write_bytes(content)
    # A damaged leaf is not copied silently.
    with pytest.raises(blosc2.FormatError):
        blosc2.merge([path], tmp_path / "c.b2d")
        with blosc2.open(str(tmp_path / "c.b2d")) as store:
            store["/x"][:]


def test_attributes_of_groups(tmp_path: Path) -> None:
    one = store_at(tmp_path / "1.b2z", {"/g/a": [1]}, {"/": {"title": "t", "n": 1}, "/g": {"x": 1}, "/bare": {"y": 2}})
    two = store_at(tmp_path / "2.b2z", {"/g/b": [2]}, {"/": {"title": "t", "more": [1]}, "/g": {"z": np.arange(2)}})
    with blosc2.TreeStore(two, mode="a") as store:
        store.create_group("/empty/inner")
    blosc2.merge([one, two], tmp_path / "whole.b2z")
    with blosc2.open(str(tmp_path / "whole.b2z")) as store:
        assert store.attrs[:] == {"title": "t", "n": 1, "more": [1]}
        assert store["/g"].attrs["x"] == 1
        assert store["/g"].attrs["z"].tolist() == [0, 1]
        assert store["/bare"].attrs[:] == {"y": 2}
        assert list(store["/empty"]) == ["/inner"]
    with pytest.raises(ValueError, match="has attributes, which only a TreeStore can have"):
        blosc2.merge([one, two], tmp_path / "whole.b2e")
    assert not (tmp_path / "whole.b2e").exists()


@pytest.mark.parametrize("target", KINDS)
def test_clashing_keys(target: str, tmp_path: Path) -> None:
    one = store_at(tmp_path / "1.b2z", {"/a": [1], "/b": [1]})
    two = store_at(tmp_path / "2.b2d", {"/b": [2], "/c": [2]})
    whole = tmp_path / f"whole{target}"
    with pytest.raises(ValueError, match=r"1 key or attribute is in several stores: '/b' \(in .*1\.b2z and .*2\.b2d\)"):
        blosc2.merge([one, two], whole)
    assert sorted(os.listdir(tmp_path)) == ["1.b2z", "2.b2d"]
    for how, wanted in (("first", 1), ("last", 2)):
        assert blosc2.merge([one, two], whole, mode="w", on_clash=how) == 3
        with blosc2.open(str(whole)) as store:
            assert [store[key][0] for key in ("/a", "/b", "/c")] == [1, wanted, 2]
    blosc2.merge({"/first": one, "second/inner": two}, whole, mode="w")
    with blosc2.open(str(whole)) as store:
        assert store["/first/b"][0] == 1
        assert store["/second/inner/b"][0] == 2


def test_clashing_attributes(tmp_path: Path) -> None:
    one = store_at(tmp_path / "1.b2z", {"/a": [1]}, {"/": {"x": 1}})
    two = store_at(tmp_path / "2.b2z", {"/b": [1]}, {"/": {"x": 2}})
    with pytest.raises(ValueError, match="attribute 'x' of '/'"):
        blosc2.merge([one, two], tmp_path / "whole.b2z")
    for how, wanted in (("first", 1), ("last", 2)):
        blosc2.merge([one, two], tmp_path / "whole.b2z", on_clash=how, mode="w")
        with blosc2.open(str(tmp_path / "whole.b2z")) as store:
            assert store.attrs["x"] == wanted


@pytest.mark.parametrize("on_clash", ["error", "first", "last"])
def test_a_leaf_and_a_group(on_clash: str, tmp_path: Path) -> None:
    one = store_at(tmp_path / "1.b2z", {"/a": [1]})
    two = store_at(tmp_path / "2.b2z", {"/a/b": [1]})
    for sources in ([one, two], [two, one]):
        with pytest.raises(ValueError, match="'/a': a leaf in one store"):
            blosc2.merge(sources, tmp_path / "whole.b2z", on_clash=on_clash)
    assert not (tmp_path / "whole.b2z").exists()


@pytest.mark.parametrize("suffix", KINDS)
def test_added_to_a_store(suffix: str, tmp_path: Path) -> None:
    whole = tmp_path / f"whole{suffix}"
    store_at(whole, {"/kept": [7], "/scans/0": [8]})
    parts = [part(tmp_path, number) for number in range(2)]
    before = leaves_of(whole)
    with pytest.raises(FileExistsError, match="mode='a' adds to it"):
        blosc2.merge(parts, whole)
    with pytest.raises(ValueError, match=r"'/scans/0' \(in .*whole"):
        blosc2.merge(parts, whole, mode="a")
    assert leaves_of(whole) == before
    assert blosc2.merge(parts, whole, mode="a", on_clash="first") == 3
    with blosc2.open(str(whole)) as store:
        assert store["/kept"][0] == 7
        assert store["/scans/0"][0] == 8
        assert store["/scans/1"][999] == 1000
    assert blosc2.merge(parts, whole, mode="a", on_clash="last") == 4
    with blosc2.open(str(whole)) as store:
        assert store["/scans/0"][1] == 1
    assert blosc2.check(str(whole)).ok


def test_open_stores_and_groups(tmp_path: Path) -> None:
    source = store_at(tmp_path / "1.b2z", {"/g/a": [1], "/g/h/b": [2], "/other": [3]}, {"/g": {"x": 1}})
    memory = blosc2.EmbedStore()
    memory["/m"] = [4]
    with blosc2.open(source) as found, blosc2.TreeStore(str(tmp_path / "t.b2z"), mode="w") as target:
        assert blosc2.merge([found["/g"], memory], target) == 3
        assert not found.closed
        assert target.attrs["x"] == 1
        assert sorted(target) == ["/a", "/h", "/h/b", "/m"]
        assert blosc2.merge({"/again": found}, target.create_group("/view")) == 3
        assert target["/view/again/g/h/b"][0] == 2
        with pytest.raises(ValueError, match="is a source and the target"):
            blosc2.merge([target], target)
        with pytest.raises(ValueError, match="mode='w' replaces a store by its path"):
            blosc2.merge([found], target, mode="w")
        with pytest.raises(ValueError, match=r"3 keys or attributes are in several stores: '/again/"):
            blosc2.merge({"/again": found}, target.get_subtree("/view"), mode="a")
    with pytest.raises(ValueError, match="is a source and the target"):
        blosc2.merge([tmp_path / "t.b2z"], tmp_path / "t.b2z", mode="a")


def test_lists_and_chunks_are_copied_too(tmp_path: Path) -> None:
    texts = blosc2.ObjectArray()
    texts.extend(["a", {"b": 1}])
    source = store_at(tmp_path / "1.b2z", {"/texts": texts, "/chunk": blosc2.SChunk(data=b"abc" * 100)})
    blosc2.merge([source], tmp_path / "whole.b2z")
    with blosc2.open(str(tmp_path / "whole.b2z")) as store:
        assert list(store["/texts"]) == ["a", {"b": 1}]
        assert store["/chunk"][:] == b"abc" * 100


def test_many(tmp_path: Path) -> None:
    for number in range(4):
        with blosc2.TreeStore(str(tmp_path / f"{number}.b2z"), mode="w") as store:
            store.write_many((f"/{number}/{n}", np.full(3, n)) for n in range(1500))
    seen: list[tuple[int, int]] = []
    sources = [tmp_path / f"{number}.b2z" for number in range(4)]
    assert blosc2.merge(sources, tmp_path / "whole.b2z", progress=lambda *done: seen.append(done)) == 6000
    assert seen[-1] == (6000, 6000 * 24)
    with blosc2.open(str(tmp_path / "whole.b2z")) as store:
        assert len(store) == 6004
        assert all(store[f"/{number}/{n}"][0] == n for number in range(4) for n in range(0, 1500, 100))


def test_refused(tmp_path: Path) -> None:
    array = str(tmp_path / "a.b2nd")
    blosc2.zeros(3, urlpath=array)
    source = part(tmp_path, 0)
    with pytest.raises(TypeError, match="is a NDArray, and no store"):
        blosc2.merge([source, array], tmp_path / "whole.b2z")
    with pytest.raises(TypeError, match="several sources"):
        blosc2.merge(source, tmp_path / "whole.b2z")
    with pytest.raises(FileNotFoundError):
        blosc2.merge([source, tmp_path / "none.b2z"], tmp_path / "whole.b2z")
    with pytest.raises(ValueError, match="mode must be"):
        blosc2.merge([source], tmp_path / "whole.b2z", mode="r")
    with pytest.raises(ValueError, match="on_clash must be"):
        blosc2.merge([source], tmp_path / "whole.b2z", on_clash="both")
    with pytest.raises(ValueError, match=r"a store in \.b2z"):
        blosc2.merge([source], tmp_path / "whole.zip")
    with pytest.raises(TypeError, match="groups as its keys, which are strings, not 5"):
        blosc2.merge({5: source}, tmp_path / "whole.b2z")
    with pytest.raises(NotImplementedError, match="written as a whole"):
        blosc2.merge([source], "memory://bucket/whole.b2z")
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd", "part-0.b2z"]
    assert blosc2.merge([], tmp_path / "empty.b2z") == 0
    with blosc2.open(str(tmp_path / "empty.b2z")) as store:
        assert len(store) == 0


def test_tables_of_the_other_package_are_merged_whole(tmp_path: Path) -> None:
    description = blosc2.SChunk(chunksize=64)
    description.vlmeta["kind"] = "ctable"
    leaves = {"/tab/_cols/x": np.arange(100), "/arr": np.arange(10), "/tab/_meta": description}
    paths = [store_at(tmp_path / name, leaves) for name in ("a.b2z", "b.b2d")]
    whole = tmp_path / "whole.b2z"
    assert blosc2.merge({"/a": paths[0], "/b": paths[1]}, whole) == 4
    with pytest.raises(ValueError, match="'/a/tab'"):
        blosc2.merge({"/a": paths[0]}, whole, mode="a")
    assert blosc2.merge({"/a": paths[1]}, whole, mode="a", on_clash="last") == 2
    with blosc2.open(str(whole)) as store:
        assert list(store) == ["/a", "/a/arr", "/a/tab", "/b", "/b/arr", "/b/tab"]
        assert store["/a/tab"].kind == store["/b/tab"].kind == "ctable"
    with pytest.raises(TypeError, match="'/tab': a ForeignObject cannot be stored"):
        blosc2.merge(paths[:1], tmp_path / "no.b2e")
    assert not (tmp_path / "no.b2e").exists()
