"""``with array.transaction()``: many changes are published at once, or none of them."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.syncs import is_of_others
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2

STORAGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "memory": lambda _: {},
    "file": lambda folder: {"urlpath": str(folder / "x.b2nd")},
    "shared file": lambda folder: {"urlpath": str(folder / "x.b2nd"), "locking": True},
    "mapped file": lambda folder: {"urlpath": str(folder / "x.b2nd"), "mmap_mode": "w+"},
    "durable file": lambda folder: {"urlpath": str(folder / "x.b2nd"), "durable": True},
    "directory": lambda folder: {"urlpath": str(folder / "x.b2nd"), "contiguous": False},
}
ON_DISK = [name for name in STORAGES if name != "memory"]


def noise(count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1 << 30, count, np.int32)


def state(array: Any) -> tuple[Any, ...]:
    return array.shape, array[:].tobytes(), dict(array.vlmeta[:])


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    how: dict[str, Any] = STORAGES[request.param](tmp_path)
    return how


@pytest.fixture(params=ON_DISK)
def on_disk(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    how: dict[str, Any] = STORAGES[request.param](tmp_path)
    return how


def test_many_changes_are_one(on_disk: dict[str, Any]) -> None:
    array = blosc2.asarray(noise(100), chunks=(30,), **on_disk)
    path = on_disk["urlpath"]
    reader = blosc2.open(path)
    before = state(reader)
    with array.transaction():
        array.append(noise(50, 2))
        array[:10] = 7
        array.vlmeta["unit"] = "mm"
        array.resize(140)
        array[95:120] = noise(25, 3)
        assert array.shape == (140,)
        assert array[3] == 7
        assert state(blosc2.open(path)) == before
        assert not array.refresh()
    model = np.concatenate([noise(100), noise(50, 2)])[:140]
    model[:10] = 7
    model[95:120] = noise(25, 3)
    want = (140,), model.tobytes(), {"unit": "mm"}
    assert state(array) == state(blosc2.open(path)) == want
    assert reader.refresh()
    assert state(reader) == want
    assert blosc2.check(path).ok
    array[0] = 1  # and goes on
    assert blosc2.open(path)[0] == 1


def test_one_publication(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: is_of_others() or syncs.append(descriptor))
    path = tmp_path / "x.b2nd"
    array = blosc2.zeros(0, "i4", chunks=(10,), urlpath=path)
    header = path.read_bytes()[:200]
    syncs.clear()
    with array.transaction():
        for n in range(100):
            array.append([n])
        assert path.read_bytes()[:200] == header
    assert len(syncs) == 3  # the new bytes, the header, and once the name of the file
    assert path.stat().st_size < 10 * (40 + 32) + 2000
    assert array[:].tolist() == list(range(100))


def test_a_block_that_raises_changes_nothing(storage: dict[str, Any]) -> None:
    array = blosc2.asarray(noise(100), chunks=(30,), **storage)
    array.vlmeta["unit"] = "m"
    before, path = state(array), storage.get("urlpath")
    stored = Path(path).read_bytes() if path and os.path.isfile(path) else b""
    with pytest.raises(ZeroDivisionError), array.transaction():
        array.append(noise(50, 2))
        array.vlmeta["unit"] = "mm"
        array[0] = 5 / 0
    assert state(array) == before
    if path:
        assert state(blosc2.open(path)) == before
    if stored:
        assert Path(path).read_bytes() == stored
    with array.transaction():
        array.append([1, 2])
    assert state(array)[0] == (102,)
    assert array[100:].tolist() == [1, 2]


def test_empty_blocks_publish_nothing(storage: dict[str, Any]) -> None:
    array = blosc2.asarray(noise(100), chunks=(30,), **storage)
    version = array.schunk.change_tick
    with array.transaction():
        pass
    assert array.schunk.change_tick == version


@pytest.mark.parametrize("fill", ["zeros", "full", "empty array"])
def test_arrays_without_stored_chunks(on_disk: dict[str, Any], fill: str) -> None:
    length = 0 if fill == "empty array" else 100
    array = blosc2.full(length, 3 if fill == "full" else 0, dtype="i4", chunks=(30,), **on_disk)
    model = np.full(length, 3 if fill == "full" else 0, "i4")
    with array.transaction():
        array.vlmeta["x"] = 1
    with array.transaction():
        array.append([5, 6])
        array.append([7])
    model = np.append(model, [5, 6, 7]).astype("i4")
    np.testing.assert_array_equal(blosc2.open(on_disk["urlpath"])[:], model)
    with array.transaction():
        array.resize(0)
        array.vlmeta["x"] = 2
    found = blosc2.open(on_disk["urlpath"])
    assert found.shape == (0,)
    assert found.vlmeta["x"] == 2
    with array.transaction():
        array.append([8])
    assert blosc2.open(on_disk["urlpath"])[:].tolist() == [8]


def test_other_axes_too(on_disk: dict[str, Any]) -> None:
    """Where chunks get other numbers, the file is written anew, once."""
    model = noise(600).reshape(20, 30)
    array = blosc2.asarray(model, chunks=(7, 11), **on_disk)
    with array.transaction():
        array.resize((25, 40))
        array[20:, 30:] = 9
        array.resize((25, 35))
    want = np.zeros((25, 35), "i4")
    want[:20, :30] = model
    want[20:, 30:] = 9
    np.testing.assert_array_equal(blosc2.open(on_disk["urlpath"])[:], want)
    np.testing.assert_array_equal(array[:], want)


@pytest.mark.parametrize("name", STORAGES)
def test_super_chunks(name: str, tmp_path: Path) -> None:
    storage = STORAGES[name](tmp_path)
    schunk = blosc2.SChunk(chunksize=400, data=noise(250), cparams={"typesize": 4}, **storage)
    with schunk.transaction():
        for n in range(20):
            schunk.append_data(noise(100 - n, n))
        schunk.delete_chunk(1)
        schunk.insert_data(0, noise(100, 77))
        schunk.vlmeta["x"] = [1, 2]
    first = noise(250)
    want = [noise(100, 77), first[:100], first[200:]] + [noise(100 - n, n) for n in range(20)]
    assert [schunk.decompress_chunk(n) for n in range(schunk.nchunks)] == [one.tobytes() for one in want]
    with pytest.raises(KeyError), schunk.transaction():
        schunk.append_data(b"1234")
        raise KeyError
    found = blosc2.open(storage["urlpath"]) if storage else schunk
    assert found[:] == np.concatenate(want).tobytes()
    assert found.vlmeta["x"] == [1, 2]


@pytest.mark.parametrize("kind", [blosc2.ObjectArray, blosc2.BatchArray])
@pytest.mark.parametrize("name", STORAGES)
def test_lists(kind: Any, name: str, tmp_path: Path) -> None:
    storage = STORAGES[name](tmp_path)
    values = kind(**storage)
    one = (lambda n: [n, "x" * n]) if kind is blosc2.BatchArray else str
    values.extend([one(n) for n in range(5)])
    with values.transaction():
        for n in range(5, 30):
            values.append(one(n))
        del values[0]
        values[0] = one(99)
    want = [one(99), *(one(n) for n in range(2, 30))]
    found = blosc2.open(storage["urlpath"]) if storage else values
    assert [list(v) if kind is blosc2.BatchArray else v for v in found] == want
    with pytest.raises(KeyError), values.transaction():
        values.append(one(3))
        raise KeyError
    assert len(values) == len(want)


def test_what_is_refused(storage: dict[str, Any], tmp_path: Path) -> None:
    array = blosc2.asarray(noise(100), chunks=(30,), **storage)
    if storage:
        with array.transaction():
            with pytest.raises(RuntimeError, match="nest"), array.transaction():
                pass
            with pytest.raises(RuntimeError, match="compact"):
                if storage.get("contiguous", True):
                    array.compact()
                else:
                    raise RuntimeError("compact: there is nothing to do")
            array[0] = 3
        assert blosc2.open(storage["urlpath"])[0] == 3
        with pytest.raises(ValueError, match="mode"), blosc2.open(storage["urlpath"]).transaction():
            pass
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store["/a"] = noise(10)
        with pytest.raises(RuntimeError, match="store"), store["/a"].transaction():
            pass


def test_another_writer_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = blosc2.asarray(noise(100), chunks=(30,), urlpath=path)
    other = blosc2.open(path, mode="a")
    with pytest.raises(blosc2.StaleHandleError), array.transaction():
        array[0] = 1
        other[1] = 2
    assert blosc2.open(path)[:2].tolist() == [noise(100)[0], 2]
    array.refresh()
    assert array[:2].tolist() == [noise(100)[0], 2]


def test_a_full_disk_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2nd"
    array = blosc2.asarray(noise(100), chunks=(30,), urlpath=path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"), array.transaction():
            array.append(noise(10))
    assert path.read_bytes() == before
    assert array.shape == (100,)
    array.append([1])
    assert blosc2.open(path).shape == (101,)


def test_a_view_shows_and_makes_changes(on_disk: dict[str, Any]) -> None:
    array = blosc2.asarray(noise(100).reshape(1, 100), chunks=(1, 30), **on_disk)
    view = array.squeeze(0)
    with view.transaction():
        view[0] = 5
        assert array[0, 0] == 5
        assert blosc2.open(on_disk["urlpath"])[0, 0] == noise(100)[0]
    assert blosc2.open(on_disk["urlpath"])[0, 0] == 5


def test_other_threads_wait(on_disk: dict[str, Any]) -> None:
    array = blosc2.asarray(noise(100), chunks=(30,), **on_disk)
    done: list[Any] = []

    def change() -> None:
        array.append([1])
        done.append(array.shape)

    with array.transaction():
        array.append([2])
        thread = threading.Thread(target=change)
        thread.start()
        thread.join(0.2)
        assert not done
        array.append([3])
    thread.join(20)
    assert done == [(103,)]
    assert blosc2.open(on_disk["urlpath"])[100:].tolist() == [2, 3, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_ends_nothing(on_disk: dict[str, Any]) -> None:
    array = blosc2.asarray(noise(100), chunks=(30,), **on_disk)
    child = 0
    try:
        with array.transaction():
            array[0] = 77
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    array[1] = 78
                except OSError:
                    code = 0 if array[0] == 77 else 2
                if code:
                    os._exit(code)
    except BaseException:
        if child == 0:
            os._exit(3)
        raise
    if child == 0:
        # Who follows the file sees what the parent has published, if it has by then.
        seen = (noise(100)[0], 77) if on_disk.get("locking") else (noise(100)[0],)
        os._exit(0 if array[0] in seen else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert blosc2.open(on_disk["urlpath"])[:2].tolist() == [77, noise(100)[1]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("name", [name for name in ON_DISK if name != "shared file"])  # there it waits for the block
def test_a_child_forked_beside_a_block_goes_on_with_what_is_published(name: str, tmp_path: Path) -> None:
    on_disk = STORAGES[name](tmp_path)
    array = blosc2.asarray(noise(100), chunks=(30,), **on_disk)
    in_block, go_on = threading.Event(), threading.Event()

    def change() -> None:
        with array.transaction():
            array[0] = 77
            in_block.set()
            go_on.wait(20)

    thread = threading.Thread(target=change)
    thread.start()
    assert in_block.wait(20)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            array.refresh()
            code = 0 if array[0] == noise(100)[0] else 2
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    go_on.set()
    thread.join(20)
    assert os.waitstatus_to_exitcode(status) == 0
    assert blosc2.open(on_disk["urlpath"])[0] == 77


def test_pickles_in_a_block_are_of_what_is_published(on_disk: dict[str, Any]) -> None:
    array = blosc2.asarray(noise(100), chunks=(30,), **on_disk)
    with array.transaction():
        array[0] = 77
        copy = pickle.loads(pickle.dumps(array)) if "locking" not in on_disk else blosc2.open(on_disk["urlpath"])
        assert copy[0] == noise(100)[0]


STEP = st.tuples(
    st.sampled_from(["append", "set", "resize", "metadata", "zero", "begin", "end", "raise"]), st.integers(0, 300)
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEP, min_size=5, max_size=40), name=st.sampled_from(list(STORAGES)))
def test_any_changes(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], name: str) -> None:
    storage = STORAGES[name](tmp_path_factory.mktemp("transactions"))
    array = blosc2.asarray(noise(20), chunks=(16,), **storage)
    model, metadata = noise(20), {}
    published = model.copy(), dict(metadata)
    block: Any = None
    for number, (kind, size) in enumerate([*steps, ("end", 0)]):
        if kind == "begin" and block is None:
            block = array.transaction()
            block.__enter__()
        elif kind == "end" and block is not None:
            block.__exit__(None, None, None)
            block = None
        elif kind == "raise" and block is not None:
            error = KeyError()
            assert not block.__exit__(KeyError, error, None)
            model, metadata = published[0].copy(), dict(published[1])
            block = None
        elif kind == "append":
            array.append(noise(size % 50 + 1, number))
            model = np.concatenate([model, noise(size % 50 + 1, number)])
        elif kind in ("set", "zero"):
            part = slice(size, size + 20)
            values = noise(len(model[part]), number) if kind == "set" else 0
            array[part] = values
            model[part] = values
        elif kind == "resize":
            array.resize(size)
            model = np.concatenate([model[:size], np.zeros(max(0, size - len(model)), "i4")])
        elif kind == "metadata":
            array.vlmeta["x"] = size
            metadata["x"] = size
        np.testing.assert_array_equal(array[:], model)
        if block is None:
            published = model.copy(), dict(metadata)
        if storage:
            found = blosc2.open(storage["urlpath"])
            np.testing.assert_array_equal(found[:], published[0])
            assert dict(found.vlmeta[:]) == published[1]
