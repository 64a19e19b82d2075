"""Arrays of dask, written to stores by tasks: alignment, failures, restarts."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask.array")

import dask
import dask.array as da

import blosc2
from blosc2 import to_store
from blosc2._tools.integrations.array_writing import Part, Parts
from blosc2.exceptions import UnexpectedKeywordError

RNG = np.random.default_rng(0)
ITEMS = RNG.integers(0, 1000, (300, 200))
KINDS = (".b2z", ".b2d", ".b2e")


@pytest.fixture(autouse=True)
def _by_threads() -> Any:
    with dask.config.set(scheduler="threads"):
        yield


def listed(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.parametrize("kind", KINDS)
def test_a_leaf(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{kind}"
    to_store(da.from_array(ITEMS, chunks=(100, 70)), path, "/g/x", cparams={"clevel": 1}, attributes={"units": "m"})
    with blosc2.open(str(path)) as store:
        found = store["/g/x"]
        np.testing.assert_array_equal(found[:], ITEMS)
        assert found.chunks == (100, 70)
        assert found.cparams.clevel == 1
        assert found.vlmeta[:] == {"units": "m"}
    assert blosc2.check(str(path)).ok
    assert listed(tmp_path) == [f"a{kind}"]


def test_a_file_of_one_array(tmp_path: Path) -> None:
    array = da.from_array(ITEMS, chunks=(100, 70))
    to_store(array, tmp_path / "a.b2nd", chunks=(50, 35), blocks=(10, 35))
    found = blosc2.open(str(tmp_path / "a.b2nd"))
    np.testing.assert_array_equal(found[:], ITEMS)
    assert (found.chunks, found.blocks) == ((50, 35), (10, 35))
    with pytest.raises(FileExistsError):
        to_store(array, tmp_path / "a.b2nd")
    to_store(array + 1, tmp_path / "a.b2nd", mode="w")
    np.testing.assert_array_equal(blosc2.open(str(tmp_path / "a.b2nd"))[:], ITEMS + 1)
    with pytest.raises(ValueError, match="holds one array, which has no key"):
        to_store(array, tmp_path / "b.b2nd", "/x")
    assert listed(tmp_path) == ["a.b2nd"]


def test_several_at_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def shared(items: Any) -> Any:
        calls.append(1)
        return items * 2

    source = da.from_array(ITEMS, chunks=(100, 200)).map_blocks(shared, dtype=ITEMS.dtype, meta=ITEMS[:0])
    arrays = {"/double": source, "sums": source.sum(axis=1), "/one": source.sum(), "/none": da.zeros((0, 4))}
    path = tmp_path / "a.b2z"
    to_store(arrays, path, "/g")
    assert len(calls) == 3  # once for each block, for all that need it
    with blosc2.open(str(path)) as store:
        np.testing.assert_array_equal(store["/g/double"][:], ITEMS * 2)
        np.testing.assert_array_equal(store["/g/sums"][:], ITEMS.sum(axis=1) * 2)
        assert store["/g/one"][()] == ITEMS.sum() * 2
        assert store["/g/none"].shape == (0, 4)
    with blosc2.TreeStore(str(path), mode="a") as store:  # into a store that is open
        to_store({"/again": source}, store.get_subtree("/h"))
        np.testing.assert_array_equal(store["/h/again"][:], ITEMS * 2)


@pytest.mark.parametrize("dtype", ["u1", ">f4", "S3", "U2", "?", "c8", "M8[s]", [("a", "i4"), ("b", "f8")]])
def test_dtypes(dtype: Any, tmp_path: Path) -> None:
    items = np.zeros(50, dtype) if isinstance(dtype, list) else RNG.integers(0, 9, 50).astype(dtype)
    to_store(da.from_array(items, chunks=20), tmp_path / "a.b2z", "/x")
    found = blosc2.open(str(tmp_path / "a.b2z"))["/x"]
    assert found.dtype == items.dtype
    np.testing.assert_array_equal(found[:], items)


def test_zeros_take_no_space(tmp_path: Path) -> None:
    to_store(da.zeros((4000, 4000), chunks=1000), tmp_path / "a.b2z", "/x")
    assert (tmp_path / "a.b2z").stat().st_size < 10_000
    assert not blosc2.open(str(tmp_path / "a.b2z"))["/x"][::100].any()


# ------------------------------------------------------------------ alignment
def test_blocks_that_end_inside_of_chunks(tmp_path: Path) -> None:
    array = da.from_array(ITEMS, chunks=(100, 200))
    with pytest.raises(
        ValueError, match=r"on axis 0, blocks of .100, 100, 100. items end inside of chunks of 64"
    ) as error:
        to_store(array, tmp_path / "a.b2z", "/x", chunks=(64, 200))
    assert listed(tmp_path) == []
    advice = re.search(r"array\.rechunk\((.*)\)", str(error.value))
    assert advice is not None
    shape = tuple(int(n) for n in re.findall(r"\d+", advice[1]))
    to_store(array.rechunk(shape), tmp_path / "a.b2z", "/x", chunks=(64, 200))  # what the message says works
    np.testing.assert_array_equal(blosc2.open(str(tmp_path / "a.b2z"))["/x"][:], ITEMS)


def test_blocks_with_nothing_in_common(tmp_path: Path) -> None:
    wide = da.ones((300, 20000), chunks=((7, 50, 3, 240), 20000))
    with pytest.raises(ValueError, match=r"too small for a chunk: blocks of a multiple of .* array.rechunk"):
        to_store(wide[:, :500].rechunk(((7, 50, 3, 240), (3, 497))), tmp_path / "a.b2z", "/x")
    with pytest.raises(ValueError, match="call compute_chunk_sizes"):
        to_store(wide[wide[:, 0] > 0], tmp_path / "a.b2z", "/x")
    assert listed(tmp_path) == []


@pytest.mark.parametrize(
    "blocks", [((300,), (200,)), ((128, 128, 44), (200,)), ((10,) * 30, (66, 66, 68)), ((299, 1), (200,))]
)
def test_any_aligned_blocks(blocks: Any, tmp_path: Path) -> None:
    to_store(da.from_array(ITEMS, chunks=blocks), tmp_path / "a.b2z", "/x")
    found = blosc2.open(str(tmp_path / "a.b2z"))["/x"]
    np.testing.assert_array_equal(found[:], ITEMS)
    for lengths, chunk in zip(blocks, found.chunks, strict=True):
        assert all(end % chunk == 0 for end in np.cumsum(lengths)[:-1])


# ------------------------------------------------------------------ failures
class Failing:
    """Blocks of which one fails, as often as it is told; it notes which were computed."""

    def __init__(self, times: int) -> None:
        self.times, self.done, self.lock = times, [], threading.Lock()

    def __dask_tokenize__(self) -> Any:
        return "failing"

    def __call__(self, items: Any, block_info: Any = None) -> Any:
        where = block_info[0]["chunk-location"]
        with self.lock:
            if where == (1, 1) and self.times:
                self.times -= 1
                raise OSError("the detector is away")
            self.done.append(where)
        return items + 1

    def array(self) -> Any:
        return da.from_array(ITEMS, chunks=(100, 100), name="items").map_blocks(
            self, dtype=ITEMS.dtype, meta=ITEMS[:0, :0]
        )


@pytest.mark.parametrize("kind", [*KINDS, ".b2nd"])
def test_a_run_is_repeated(kind: str, tmp_path: Path) -> None:
    path, key = tmp_path / f"a{kind}", "/" if kind == ".b2nd" else "/x"
    failing = Failing(1)
    with pytest.raises(OSError, match="detector"):
        to_store(failing.array(), path, key, scheduler="synchronous")
    assert not path.exists()
    (staging,) = tmp_path.iterdir()
    assert re.fullmatch(r"a\.b2\w+\.staging-[0-9a-f]{8}", staging.name)
    first = set(failing.done)
    (staging / "0" / "9-left.tmp").write_bytes(b"of a worker that died")
    (staging / "0" / "3-torn.part").write_bytes(b"of a machine that lost power")
    failing.done.clear()
    to_store(failing.array(), path, key, scheduler="synchronous")
    assert first
    assert first.isdisjoint(failing.done)
    assert len(first) + len(failing.done) == 6
    found = blosc2.open(str(path))
    np.testing.assert_array_equal((found if kind == ".b2nd" else found["/x"])[:], ITEMS + 1)
    assert listed(tmp_path) == [path.name]


def test_a_run_of_something_else_begins_anew(tmp_path: Path) -> None:
    failing, path = Failing(1), tmp_path / "a.b2z"
    with pytest.raises(OSError):
        to_store(failing.array(), path, "/x", scheduler="synchronous")
    to_store(da.from_array(ITEMS * 5, chunks=(100, 100)), path, "/x")  # same shape and chunks
    np.testing.assert_array_equal(blosc2.open(str(path))["/x"][:], ITEMS * 5)
    assert listed(tmp_path) == ["a.b2z"]


def test_other_compression_begins_anew(tmp_path: Path) -> None:
    failing, path = Failing(1), tmp_path / "a.b2z"
    with pytest.raises(OSError):
        to_store(failing.array(), path, "/x", scheduler="synchronous")
    to_store(failing.array(), path, "/x", cparams={"codec": blosc2.Codec.LZ4})
    assert len(failing.done) >= 6
    assert blosc2.open(str(path))["/x"].cparams.codec == blosc2.Codec.LZ4
    assert blosc2.check(str(path)).ok


def test_nothing_is_kept_if_not_wanted(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        to_store(Failing(1).array(), tmp_path / "a.b2z", "/x", resume=False)
    assert listed(tmp_path) == []


def test_an_existing_store_shows_nothing_before_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/kept"] = np.arange(3)
    before = path.read_bytes()
    seen: list[bool] = []

    def looking(items: Any) -> Any:
        seen.append(path.read_bytes() == before)
        return items

    array = da.from_array(ITEMS, chunks=(100, 200)).map_blocks(looking, dtype=ITEMS.dtype, meta=ITEMS[:0])
    to_store(array, path, "/x")
    assert seen == [True] * 3
    with blosc2.open(str(path)) as store:
        assert sorted(store) == ["/kept", "/x"]
        assert store["/kept"][2] == 2
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="has '/x'; mode='w' replaces arrays"):
        to_store(array, path, "/x")
    failing = Failing(9)
    with pytest.raises(OSError, match="detector"):
        to_store(failing.array(), path, "/x", mode="w")
    assert path.read_bytes() == before
    to_store(array * 2, path, "/x", mode="w")
    np.testing.assert_array_equal(blosc2.open(str(path))["/x"][:], ITEMS * 2)


def test_blocks_that_are_not_what_the_array_says(tmp_path: Path) -> None:
    source = da.from_array(ITEMS, chunks=(100, 200))
    short = source.map_blocks(lambda items: items[:-1], dtype=ITEMS.dtype, meta=ITEMS[:0])
    with pytest.raises(
        ValueError, match=r"block \(\d, 0\) has items of shape \(99, 200\) and int64, and the array says"
    ):
        to_store(short, tmp_path / "a.b2z", "/x", resume=False)
    floats = source.map_blocks(lambda items: items / 2, dtype=ITEMS.dtype, meta=ITEMS[:0])
    with pytest.raises(ValueError, match="float64, and the array says"):
        to_store(floats, tmp_path / "a.b2z", "/x", resume=False)
    assert listed(tmp_path) == []


def test_one_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.b2z"
    messages: list[str] = []

    def second(items: Any) -> Any:
        try:
            to_store(da.from_array(ITEMS, chunks=100), path, "/x")
        except blosc2.StoreLockedError as error:
            messages.append(str(error))
        return items

    to_store(da.from_array(ITEMS, chunks=(300, 200)).map_blocks(second, dtype=ITEMS.dtype, meta=ITEMS[:0]), path, "/x")
    assert len(messages) == 1
    assert "another run writes /x" in messages[0]


def test_refused(tmp_path: Path) -> None:
    array = da.ones(5)
    with pytest.raises(ValueError, match="an array in a store has a key"):
        to_store(array, tmp_path / "a.b2z")
    with pytest.raises(ValueError, match=r"a\.txt: a store in \.b2z"):
        to_store(array, tmp_path / "a.txt", "/x")
    with pytest.raises(ValueError, match="could not be the name of a file"):
        to_store(array, tmp_path / "a.b2z", "/a:b")
    with pytest.raises(ValueError, match="mode must be"):
        to_store(array, tmp_path / "a.b2z", "/x", mode="r")
    with pytest.raises(ValueError, match="a store in memory cannot be shared with tasks"):
        to_store(array, blosc2.EmbedStore(), "/x")
    with pytest.raises(TypeError, match="not a ndarray; store"):
        to_store(np.ones(3), tmp_path / "a.b2z", "/x")
    with pytest.raises(UnexpectedKeywordError, match="append_dim= is for data of xarray"):
        to_store(array, tmp_path / "a.b2z", "/x", append_dim="x")
    for wrong, right in (("chunkz", "chunks"), ("schedular", "scheduler")):
        with pytest.raises(UnexpectedKeywordError, match=f"has no keyword '{wrong}'; did you mean '{right}'"):
            to_store(array, tmp_path / "a.b2z", "/x", **{wrong: 5})
    with pytest.raises(TypeError, match="not a dict"):
        to_store({}, tmp_path / "a.b2z", "/x")
    assert listed(tmp_path) == []


def _never(items: Any) -> Any:
    raise AssertionError("this was computed, and could not be written")


def uncomputed() -> Any:
    return da.from_array(ITEMS, chunks=(100, 200)).map_blocks(_never, dtype=ITEMS.dtype, meta=ITEMS[:0])


def test_masks_are_not_dropped(tmp_path: Path) -> None:
    source = da.from_array(ITEMS, chunks=(100, 200))
    masked = da.ma.masked_greater(source, 5)
    with pytest.raises(TypeError, match="array '/x': masked arrays would lose their mask"):
        to_store(masked, tmp_path / "a.b2z", "/x")
    hidden = source.map_blocks(lambda items: np.ma.masked_greater(items, 5), dtype=ITEMS.dtype, meta=ITEMS[:0])
    with pytest.raises(TypeError, match="masked arrays would lose their mask"):
        to_store(hidden, tmp_path / "a.b2z", "/x", resume=False)
    assert listed(tmp_path) == []
    to_store(
        {"/items": da.ma.getdata(masked), "/mask": da.ma.getmaskarray(masked), "/full": da.ma.filled(masked, -1)},
        tmp_path / "a.b2z",
    )
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        np.testing.assert_array_equal(store["/items"][:], ITEMS)
        np.testing.assert_array_equal(store["/mask"][:], ITEMS > 5)
        np.testing.assert_array_equal(store["/full"][:], np.where(ITEMS > 5, -1, ITEMS))


TOO_LATE: dict[str, tuple[Any, str, dict[str, Any], type[Exception], str]] = {
    "below a leaf": ("/g/x/y", "a.b2z", {}, ValueError, "that already contains data"),
    "a group": ("/g", "a.b2z", {}, ValueError, "that already has children"),
    "a group, replacing": ("/g", "a.b2z", {"mode": "w"}, ValueError, "that already has children"),
    "below another": (["/p/q", "/p"], "a.b2z", {}, ValueError, "that already contains data"),
    "below another, new": (["/p/q", "/p"], "new.b2z", {}, ValueError, "that already contains data"),
    "below another, folder": (["/p", "/p/q/r"], "new.b2d", {}, ValueError, "that already contains data"),
    "case": (["/p", "/P"], "new.b2z", {}, ValueError, "in case only"),
    "case of the store": ("/g/X", "a.b2z", {}, ValueError, "in case only"),
    "same": (["/p", "p"], "new.b2z", {}, ValueError, "two arrays have the key '/p'"),
    "no key": ([5], "new.b2z", {}, TypeError, "keys are strings, not 5"),
    "attribute": ("/p", "new.b2z", {"attributes": {"u": object()}}, TypeError, "can not serialize 'object'"),
    "long name": ("/p", "new.b2z", {"attributes": {"u" * 70_000: 1}}, ValueError, "1 to 65536 bytes"),
    "one array": ("/", "new.b2nd", {"attributes": {"u": object()}}, TypeError, "can not serialize 'object'"),
    "no folder": ("/", "none/new.b2nd", {}, FileNotFoundError, "make the folder first"),
}


@pytest.mark.parametrize("case", TOO_LATE)
def test_refused_before_anything_is_computed(case: str, tmp_path: Path) -> None:
    keys, name, how, kind, words = TOO_LATE[case]
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/g/x"] = np.arange(3)
    data, key = (dict.fromkeys(keys, uncomputed()), "/") if isinstance(keys, list) else (uncomputed(), keys)
    with pytest.raises(kind, match=words):
        to_store(data, tmp_path / name, key, **how)
    assert listed(tmp_path) == ["a.b2z"]


@pytest.mark.parametrize("suffix", KINDS)
def test_keys_of_an_open_store(suffix: str, tmp_path: Path) -> None:
    kind: Any = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    with kind(str(tmp_path / f"a{suffix}"), mode="w") as store:
        store["/g/x"] = np.arange(3)
        if suffix == ".b2e":  # has no groups: a key may be below another
            to_store({"/g/x/y": da.ones(3), "/g": da.zeros(2)}, store)
            assert sorted(store) == ["/g", "/g/x", "/g/x/y"]
            return
        for where, key in ((store, "/g/x/y"), (store.get_subtree("/g"), "x/y"), (store, "/g")):
            with pytest.raises(ValueError, match="already"):
                to_store(uncomputed(), where, key, mode="w")
        with pytest.raises(ValueError, match="already contains data"):
            to_store({"/p": uncomputed(), "/p/q": uncomputed()}, store)
        to_store(da.ones(3), store.get_subtree("/g"), "x", mode="w")
        assert store["/g/x"][0] == 1
    assert listed(tmp_path) == [f"a{suffix}"]


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotImplementedError, match="written as a whole"):
        to_store(uncomputed(), "memory://bucket/q.b2z", "/x")
    with pytest.raises(TypeError, match="a path must be"):
        to_store(uncomputed(), 5, "/x")
    assert listed(tmp_path) == []
    to_store(da.ones(3), (tmp_path / "a.b2z").as_uri(), "/x")
    assert listed(tmp_path) == ["a.b2z"]


# ------------------------------------------------------------------ parts
def parts_of(folder: Path) -> tuple[Part, Parts]:
    part = Part(str(folder), bytes(16), ITEMS.shape, ITEMS.dtype, {"chunks": (50, 100)}, ((0, 100, 300), (0, 200)))
    part.write(ITEMS[:100], (0, 0))
    part.write(ITEMS[100:], (1, 0))
    parts = Parts(part)
    parts.find()
    return part, parts


def test_each_byte_of_a_part_is_checked(tmp_path: Path) -> None:
    _, parts = parts_of(tmp_path)
    assert sorted(parts.paths) == [0, 1]
    wanted = [bytes(chunk) for chunk in parts.chunks(12)]
    path = parts.paths[0]
    good = Path(path).read_bytes()
    for position in range(0, len(good), 97):
        for kept in (good[:position], good[:position] + bytes([good[position] ^ 1]) + good[position + 1 :]):
            Path(path).write_bytes(kept)
            parts.find()
            if 0 not in parts.paths:
                assert not os.path.exists(path)  # another task will write it
                continue
            with pytest.raises(blosc2.FormatError, match="damaged and was removed"):
                list(parts.chunks(12))
            assert not os.path.exists(path)
    Path(path).write_bytes(good)
    parts.find()
    assert [bytes(chunk) for chunk in parts.chunks(12)] == wanted


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    part, _ = parts_of(tmp_path)
    with pytest.raises(FileNotFoundError, match="all workers need the same files"):
        part._replace(folder=str(tmp_path / "none")).write(ITEMS[:100], (0, 0))
