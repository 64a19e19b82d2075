"""Pickled handles whose file or store was changed meanwhile: the same items, or an error that says what to do."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2
from blosc2 import StaleHandleError

SMALL = np.arange(30)
LARGE = np.random.default_rng(3).integers(0, 1 << 60, (150, 200))
STORES = {
    ".b2e": blosc2.EmbedStore, ".b2d": blosc2.TreeStore, ".b2z": blosc2.DictStore,
    "embedded.b2d": blosc2.DictStore, "embedded.b2z": blosc2.TreeStore,
}  # fmt: skip


@pytest.fixture(params=list(STORES))
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[..., Any]]:
    """Where a store is, and what opens it for writing."""
    name: str = request.param
    path = tmp_path / f"s{name}"
    how = {"threshold": None} if name.startswith("embedded") else {}

    def make(mode: str = "a") -> Any:
        return STORES[name](str(path), mode=mode, **how)

    # The first frames of a kind in a process are compressed, later ones of so few bytes are not.
    for _ in range(3):
        with make("w") as store:
            store["/g/small"] = SMALL
    with make("w") as store:
        store["/g/small"], store["/g/large"] = SMALL, LARGE
        store["/g/bytes"] = blosc2.SChunk(data=b"abc" * 100)
    return path, make


def test_leaves_that_stayed_open(made: Any, source: str | None) -> None:
    path, make = made
    with blosc2.open(path, mmap_mode=source) as store:
        assert store["/g/large"].cbytes > 1 << 16  # not compared byte by byte
        pickled = pickle.dumps([store["/g/small"], store["/g/large"], store["/g/bytes"], store["/g/large"].schunk])
    for change in ("append", "delete", "compact"):
        with make() as store:
            if change == "append":
                store["/other"] = np.ones(1000)
            elif change == "delete":
                del store["/other"]
            else:
                store.compact()
        small, large, data, below = pickle.loads(pickled)
        np.testing.assert_array_equal(small[:], SMALL)
        np.testing.assert_array_equal(large[:], LARGE)
        assert data[:] == b"abc" * 100
        assert type(below) is blosc2.SChunk
        assert below.nbytes == large.schunk.nbytes


@pytest.mark.local
@pytest.mark.parametrize("key", ["/g/small", "/g/large"])
@pytest.mark.parametrize("change", ["replace", "edit", "attribute", "delete", "group"])
def test_leaves_that_changed_are_refused(made: Any, key: str, change: str, source: str | None) -> None:
    path, make = made
    with blosc2.open(path, mmap_mode=source) as store:
        pickled, unchanged = pickle.dumps(store[key]), pickle.dumps(store["/g/bytes"])
        pickle.loads(pickled)[:]  # the store is known here from now on
    with make() as store:
        if change == "replace":
            store[key] = np.roll(store[key][:], 1)  # of the same shape and, as it is, the same size
        elif change == "edit":
            store[key][3] = 7
        elif change == "attribute":
            store[key].vlmeta["a"] = 1
        else:
            del store[key]
            if change == "group":
                store[key + "/below"] = SMALL
    stale = pickle.loads(pickled)
    assert isinstance(stale, blosc2.NDArray)
    for use in (lambda: stale[:], lambda: stale.shape, lambda: np.asarray(stale), lambda: stale.vlmeta["a"]):
        with pytest.raises(StaleHandleError, match=r"hand over the open store") as caught:
            use()
        assert (caught.value.path, caught.value.key) == (str(path), key)
    assert (stale.urlpath, stale.mode) == (str(path), "r")
    assert pickle.loads(unchanged)[:3] == b"abc"
    with make() as store:
        if change == "group":
            del store[key + "/below"]
        store[key] = SMALL if key == "/g/small" else LARGE
    # It may travel on, to where what it stands for is there again.
    again = pickle.loads(pickle.dumps(stale))
    np.testing.assert_array_equal(again[:], SMALL if key == "/g/small" else LARGE)


def test_a_leaf_that_is_held_does_not_hide_newer_ones(tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/g/a"] = SMALL
    first = pickle.loads(pickle.dumps(blosc2.open(path)["/g/a"]))
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/g/a"] = SMALL + 1
        store["/g/b"] = SMALL + 2
    leaves = blosc2.open(path)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(leaves["/g/a"]))[:], SMALL + 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(leaves["/g/b"]))[:], SMALL + 2)
    np.testing.assert_array_equal(first[:], SMALL)


def test_unpublished_leaves_travel_as_their_bytes(made: Any) -> None:
    _, make = made
    with make() as store:
        leaf = store["/g/small"]
        leaf[0] = 99
        other = pickle.loads(pickle.dumps(leaf))
        assert (other[0], other.urlpath) == (99, None)
        other[0] = 1
        assert leaf[0] == 99


def test_leaves_of_other_programs(tmp_path: Path) -> None:
    """Their frames carry no checksums."""
    seen = 0
    for entry in manifest.files(*manifest.STORE_KINDS):
        path = manifest.path_of(entry)
        if path.suffix not in (".b2z", ".b2e") or entry["path"].startswith("hostile"):
            continue
        target = tmp_path / path.name
        shutil.copyfile(path, target)
        with blosc2.open(target) as store:
            pickled = [(key, pickle.dumps(store[key])) for key in store if hasattr(store[key], "to_cframe")]
            want = {key: store[key].to_cframe() for key, _ in pickled}
            seen += len(want)
        with blosc2.open(target, "a") as store:
            store["/another"] = SMALL
        for key, data in pickled:
            assert pickle.loads(data).to_cframe() == want[key]
    assert seen


@pytest.mark.local
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_arrays_in_files(mode: str, contiguous: bool, source: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    blosc2.asarray(LARGE, urlpath=path, contiguous=contiguous)
    if mode == "a":
        source = None
    array = blosc2.open(path, mode, mmap_mode=source)
    pickled = pickle.dumps(array), pickle.dumps(array.squeeze()), pickle.dumps(array.schunk)
    if contiguous:
        os.utime(path, (1, 1))
        shutil.copyfile(path, tmp_path / "copy")
        os.replace(tmp_path / "copy", path)
    np.testing.assert_array_equal(pickle.loads(pickled[0])[:], LARGE)
    blosc2.open(path, "a")[0, 0] = 0
    for one in pickled:
        stale = pickle.loads(one)
        with pytest.raises(StaleHandleError, match="locking=True" if mode == "a" else "open it in the process"):
            stale[0]
    with pytest.raises(StaleHandleError):
        len(copy.copy(pickle.loads(pickled[0])))


def test_what_a_handle_was_opened_with_travels(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    array = blosc2.asarray(SMALL, urlpath=path)
    array = blosc2.open(path, "a", exclusive=False, dparams={"nthreads": 3}, cparams={"clevel": 2, "nthreads": 2},
                        advise="random")  # fmt: skip
    other = pickle.loads(pickle.dumps(array))
    assert (other._handle._exclusive, other.dparams.nthreads) == (False, 3)
    assert (other.cparams.clevel, other.cparams.nthreads, other.cparams.typesize) == (2, 2, 8)
    assert other._handle.frame.source.advice == "random"
    other = pickle.loads(pickle.dumps(blosc2.open(path, "a", verify=True)))
    assert (other._handle._exclusive, other._handle.verify) == (True, True)
    sparse = blosc2.asarray(SMALL, urlpath=tmp_path / "sparse.b2nd", contiguous=False)
    sparse = blosc2.open(sparse.urlpath, "a", exclusive=False)
    assert not pickle.loads(pickle.dumps(sparse))._handle._exclusive
    memory = blosc2.asarray(SMALL)
    memory.cparams = {"clevel": 7}
    memory.dparams = {"nthreads": 2}
    other = pickle.loads(pickle.dumps(memory))
    assert (other.cparams.clevel, other.dparams.nthreads) == (7, 2)
    with blosc2.EmbedStore(str(tmp_path / "s.b2e"), mode="w") as store:
        store["/a"] = SMALL
    with blosc2.DictStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store["/a"] = SMALL
    for name in ("s.b2e", "s.b2z"):
        store = blosc2.open(tmp_path / name, dparams={"nthreads": 3}, verify=True, advise="random")
        other = pickle.loads(pickle.dumps(store))
        assert (other.dparams.nthreads, other._verify, other._table.session.advice) == (3, True, "random")
        leaf = store["/a"]
        leaf.dparams = {"nthreads": 5}
        assert pickle.loads(pickle.dumps(leaf)).dparams.nthreads == 5


@pytest.mark.parametrize("suffix", [".b2e", ".b2d", ".b2z"])
def test_stores_that_went(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"s{suffix}"
    kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    with kind(str(path), mode="w") as store:
        store["/g/a"] = SMALL
    store = blosc2.open(path)
    things = [store, store["/g/a"]] if suffix == ".b2e" else [store, store["/g/a"], store["/g"]]
    pickled = [pickle.dumps(thing) for thing in things]
    os.rename(path, tmp_path / "aside")
    lost = [pickle.loads(one) for one in pickled]
    assert [type(one) for one in lost] == [type(one) for one in things]
    uses: list[Callable[[Any], Any]] = [
        lambda x: x["/g/a" if hasattr(type(x), "keys") else slice(None)], len, list, lambda x: x.__enter__(),
    ]  # fmt: skip
    for one in lost:
        for use in uses:
            if isinstance(one, blosc2.NDArray) and use is uses[-1]:
                continue
            with pytest.raises(FileNotFoundError, match=r"s\.b2"):
                use(one)
    for one in (lost[0], *lost[2:]):
        assert "s.b2" in repr(one)
        with pytest.raises(FileNotFoundError):
            "/g/a" in one  # noqa: B015
        one.close()
    os.rename(tmp_path / "aside", path)
    for one in lost:
        again = pickle.loads(pickle.dumps(one))
        leaf = (
            again if isinstance(again, blosc2.NDArray) else again["/a" if len(lost) > 2 and one is lost[2] else "/g/a"]
        )
        np.testing.assert_array_equal(leaf[:], SMALL)


def total(array: Any) -> int:
    return int(array[:].sum())


def give_back(name: str) -> Any:
    found = blosc2.open(name)
    array = found["/a"] if isinstance(found, blosc2.EmbedStore) else found
    os.remove(name)
    return array


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_pool_gets_the_error(method: str, tmp_path: Path) -> None:
    """A task whose arguments or result raise while they are unpickled is lost in a pool, which waits for ever."""
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/a"], store["/b"] = SMALL, SMALL
    array = blosc2.asarray(SMALL, urlpath=tmp_path / "a.b2nd")
    one, other = blosc2.open(path)["/a"], blosc2.open(path)["/b"]
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/b"] = SMALL + 1
    view = array.squeeze()
    stale = blosc2.open(tmp_path / "a.b2nd", "a")
    array[0] = 1
    blosc2.asarray(SMALL, urlpath=tmp_path / "gone.b2nd")
    with blosc2.EmbedStore(str(tmp_path / "gone.b2e"), mode="w") as store:
        store["/a"] = SMALL
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply_async(total, (one,)).get(60) == SMALL.sum()
        for wrong, text in ((other, "open store"), (stale, "locking=True")):
            with pytest.raises(StaleHandleError, match=text):
                pool.apply_async(total, (wrong,)).get(60)
        assert pool.apply_async(total, (view,)).get(60) == SMALL.sum() + 1
        for name in ("gone.b2nd", "gone.b2e"):
            result = pool.apply_async(give_back, (str(tmp_path / name),)).get(60)
            with pytest.raises(FileNotFoundError):
                result[:]
        pool.close()
        pool.join()


@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize("read", [lambda array: array[...], lambda array: array.read()])
def test_a_file_that_others_change_in_place_is_not_called_damaged(
    tmp_path: Path, mmap_mode: str | None, read: Callable[[Any], Any]
) -> None:
    path = tmp_path / "x.b2nd"
    blosc2.asarray(LARGE, urlpath=str(path), chunks=(50, 200))
    array = blosc2.open(str(path), mmap_mode=mmap_mode)
    data = path.read_bytes()
    with open(path, "r+b") as file:  # in place, as the published package does
        file.seek(300)
        file.write(bytes(len(data) - 400))
    os.utime(path, ns=(1, 1))
    with pytest.raises(blosc2.FormatError, match=r"changed since it was opened, so perhaps .* refresh\(\)"):
        read(array)
    with open(path, "r+b") as file:
        file.write(data)
    array.refresh()
    np.testing.assert_array_equal(read(array), LARGE)
