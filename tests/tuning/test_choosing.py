"""Compression chosen from the data: smaller where it can be, never wrong, always the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import Codec, Filter
from blosc2._arrays import ArrayPlan, made
from blosc2._tuning import choosing

Items = np.ndarray[Any, Any]


def steps(shape: tuple[int, ...], dtype: str = "i2", seed: int = 0) -> Items:
    """Random walks along the last axis, of small steps: what differences of bytes compress."""
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, shape).cumsum(axis=-1).astype(dtype)


def picture(side: int = 300) -> Items:
    """Colours that change slowly, with a little noise."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[0:side, 0:side]
    planes = [100 + 60 * np.sin(x / (20 + 9 * n)) + 50 * np.cos(y / (31 - 5 * n)) for n in range(3)]
    return (np.stack(planes, -1) + rng.normal(0, 2, (side, side, 3))).clip(0, 255).astype("u1")


def noise(nbytes: int) -> Items:
    return np.random.default_rng(2).integers(0, 256, nbytes, dtype="u1")


def chosen_line(array: Any) -> str:
    return dict(array.info_items).get("chosen", "")


@pytest.mark.parametrize("items", [steps((64, 8000)), picture()], ids=["steps", "picture"])
def test_it_is_smaller_than_the_default(items: Items) -> None:
    usual = blosc2.asarray(items)
    found = blosc2.asarray(items, cparams="smallest")
    assert found.cbytes < 0.85 * usual.cbytes
    assert np.array_equal(found[...], items)
    assert found.cbytes <= blosc2.asarray(items, cparams="auto").cbytes <= usual.cbytes


def test_colours_are_taken_apart() -> None:
    found = blosc2.tune(picture(), "size")
    used = {one: meta for one, meta in zip(found.filters, found.filters_meta, strict=True) if one.value}
    assert used == {Filter.SHUFFLE: 3, Filter.BYTEDELTA: 3}


def test_the_fastest_to_read_has_a_fast_codec() -> None:
    found = blosc2.tune(steps((64, 8000)), "read")
    assert found.codec in (Codec.LZ4, Codec.LZ4HC)


def test_limits() -> None:
    items = steps((64, 8000))
    usual = blosc2.tune(items)
    speeds = sorted(one.read for one in usual.tried)
    fast = blosc2.tune(items, min_read=speeds[-1])
    assert max(one.ratio for one in fast.tried if one.read >= speeds[-1]) == next(
        one.ratio for one in fast.tried if one[:2] == (fast.codec, fast.clevel) and one.filters == fast_filters(fast)
    )
    small = blosc2.tune(items, max_size=0.5)
    assert blosc2.asarray(items, cparams=small).cbytes <= 0.55 * items.nbytes
    assert "none" in blosc2.tune(items, max_size="10 B").why
    assert "none" in blosc2.tune(items, min_read="900 TB/s").why


def fast_filters(found: Any) -> tuple[Filter, ...]:
    return tuple(one for one in found.filters if one.value)


# ---------------------------------------------------------------- always the same
_PROGRAM = """
import json, sys, threading
import numpy as np
import blosc2

blosc2.set_nthreads(int(sys.argv[1]))
stop = False
def work():
    while not stop:
        blosc2.asarray(np.arange(100_000))
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[2]))]
for thread in threads:
    thread.start()
items = np.random.default_rng(0).integers(-3, 4, (64, 8000)).cumsum(axis=-1).astype("i2")
found = [blosc2.tune(items, goal) for goal in ("balanced", "size", "read", "write")]
stop = True
for thread in threads:
    thread.join()
print(json.dumps([[one.why, one.clevel, [f.value for f in one.filters], one.filters_meta] for one in found]))
"""


def test_the_choice_is_the_same_in_other_processes_and_beside_busy_threads() -> None:
    answers = [
        json.loads(subprocess.check_output([sys.executable, "-c", _PROGRAM, str(nthreads), str(busy)], text=True))
        for nthreads, busy in ((1, 0), (2, 3))
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("how", ["auto", {"precision": 3}])
def test_parts_that_come_one_by_one_give_the_same_for_any_number_of_threads(how: Any) -> None:
    rng = np.random.default_rng(5)
    items = np.concatenate([steps((6 << 20,), "i2"), np.repeat(rng.integers(0, 9, 1 << 16), 96).astype("i2")])
    frames = set()
    for nthreads in (1, 2, 5):
        given = {"goal": how} if isinstance(how, str) else how
        plan = ArrayPlan(items.shape, items.dtype, {"cparams": {**given, "nthreads": nthreads}})
        frames.add(plan.write(made(plan, lambda box: items[box])).to_cframe())
    assert len(frames) == 1


# ---------------------------------------------------------------- data that mislead
def test_noise_is_stored() -> None:
    items = noise(3 << 20)
    found = blosc2.asarray(items, cparams="auto")
    assert found.cparams.clevel == 0
    assert found.cbytes <= blosc2.asarray(items).cbytes
    assert np.array_equal(found[...], items)


_HALVES = {
    "noise": lambda: noise(16 << 20).view("i4"),
    "walk": lambda: steps((1 << 22,), "i4", 3),
    "repeated": lambda: np.tile(np.arange(1000, dtype="i4") ** 2, 4200),
}


@pytest.mark.parametrize(
    ("first", "then"), [("noise", "repeated"), ("walk", "repeated"), ("repeated", "walk"), ("walk", "noise")]
)
@pytest.mark.parametrize("as_stream", [False, True])
def test_data_that_change_halfway_are_no_larger(first: str, then: str, as_stream: bool) -> None:
    items = np.concatenate([_HALVES[first](), _HALVES[then]()])
    given: Any = items
    how: dict[str, Any] = {}
    if as_stream:  # only the first part is looked at
        given, how = (items[n : n + 100_000] for n in range(0, len(items), 100_000)), {"shape": items.shape}
    found = blosc2.asarray(given, cparams="auto", **how)
    assert found.cbytes <= 1.01 * blosc2.asarray(items).cbytes
    assert np.array_equal(found[...], items)


# ---------------------------------------------------------------- unusual data
_UNUSUAL = [
    np.zeros((0, 3)), np.float32(3.5), np.arange(3), np.array([np.nan, 1]), np.zeros((100, 100)), np.array(["a", "bc"]),
    np.array(5, "M8[s]"), np.zeros(5, [("a", "i4"), ("b", "S3")]), np.ones((3, 0, 4)), np.ones((300, 1000), bool),
    np.arange(100_000).astype(">i4"), np.arange(9000) + 1j, np.frombuffer(b"text " * 9000, "S5"), noise(1000),
    np.array([0x7FF8000000000001, 0x7FF0000000000002, 0xFFF8DEAD00000003] * 9000, "u8").view("f8"),
    np.zeros((40, 50, 3), "u1"), np.ones((2000, 2), "S70"), np.asfortranarray(steps((200, 300))), steps((999,))[::-3],
]  # fmt: skip


@pytest.mark.parametrize("items", _UNUSUAL, ids=[f"{n}-{np.asarray(one).dtype}" for n, one in enumerate(_UNUSUAL)])
@pytest.mark.parametrize("how", ["auto", "smallest", "fastest", "write", {"min_read": "3 GB/s"}, {"max_size": 0.5}])
def test_unusual_data_are_stored_whole(items: Any, how: Any) -> None:
    items = np.asarray(items)
    found = blosc2.asarray(items, cparams=how)
    assert (found.shape, found.dtype) == (items.shape, items.dtype)
    assert np.ascontiguousarray(found[...]).tobytes() == np.ascontiguousarray(items).tobytes()


def test_objects_are_refused_as_ever() -> None:
    with pytest.raises(TypeError, match="object"):
        blosc2.asarray(np.array([object()]), cparams="auto")


def test_codecs_that_the_build_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    items = steps((64, 8000))
    real = choosing.Encoder

    def lacking(encoding: Any) -> Any:
        if encoding.codec == Codec.ZSTD.value and encoding.clevel == 1:
            raise ValueError("not in this build")
        return real(encoding)

    monkeypatch.setattr(choosing, "Encoder", lacking)
    found = blosc2.asarray(items, cparams="auto")
    assert np.array_equal(found[...], items)


@pytest.mark.parametrize(
    "wrong",
    ["zstd", "", 7, {"goal": "small"}, {"goal": "size", "min_read": "x"}, {"max_size": -1}, {"precision": 0},
     {"min_read": 1, "max_size": 1}, {"precision": "much"}, {"goal": "size", "colour": 3}],
)  # fmt: skip
def test_wrong_goals_are_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        blosc2.asarray(np.arange(10), cparams=wrong)


# ---------------------------------------------------------------- where it is told, and where it is taken
def test_what_was_chosen_stays_with_the_array(tmp_path: Path) -> None:
    items = steps((64, 8000))
    array = blosc2.asarray(items, cparams="smallest", urlpath=tmp_path / "a.b2nd")
    line = chosen_line(blosc2.open(tmp_path / "a.b2nd"))
    assert line.startswith("size: zstd")
    assert line == chosen_line(array) == chosen_line(array.copy())
    assert not chosen_line(array.copy(cparams={"clevel": 3}))
    assert not chosen_line(blosc2.asarray(items))
    assert chosen_line(array.copy(cparams="fastest")).startswith("read: lz4")
    assert blosc2.check(tmp_path / "a.b2nd").ok


def test_what_tune_gives_can_be_used() -> None:
    items = steps((64, 8000))
    found = blosc2.tune(items, "size")
    assert isinstance(found, blosc2.CParams)
    assert blosc2.asarray(items, cparams=found).cbytes == blosc2.asarray(items, cparams="smallest").cbytes
    assert str(found.tried).count("zstd 9") >= 1
    assert "tried" not in repr(found)
    array = blosc2.asarray(items)
    assert blosc2.tune(array, "size").why == found.why
    assert (blosc2.tune(array).chunks, blosc2.tune(array).blocks) == (array.chunks, array.blocks)
    first = blosc2.tune((items[n : n + 8] for n in range(0, 64, 8)), shape=items.shape)
    assert first.filters == blosc2.tune(items).filters


def test_buffers_and_super_chunks() -> None:
    items = steps((64, 8000))
    schunk = blosc2.SChunk(data=items, cparams="smallest")
    assert schunk[:] == items.tobytes()
    assert schunk.cbytes < blosc2.SChunk(data=items).cbytes
    chunk = blosc2.compress2(items, cparams="smallest")
    assert blosc2.decompress2(chunk) == items.tobytes()
    assert len(chunk) < len(blosc2.compress2(items, typesize=2))
    assert blosc2.tune(schunk, "size").filters == schunk.cparams.filters
    with pytest.raises(ValueError, match="precision"):
        blosc2.SChunk(data=items, cparams={"precision": 1})


@pytest.mark.parametrize(("kind", "name"), [("TreeStore", "a.b2z"), ("DictStore", "a.b2d"), ("EmbedStore", "a.b2e")])
def test_each_leaf_by_its_own_data(kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = {"/walk": steps((64, 8000)), "/picture": picture(), "/noise": noise(1 << 20), "/tiny": np.arange(3)}
    with getattr(blosc2, kind)(str(tmp_path / name), mode="w", cparams="smallest") as store:
        for key, items in leaves.items():
            store[key] = items
    with getattr(blosc2, kind)(str(tmp_path / name), mode="r") as store:
        for key, items in leaves.items():
            assert np.array_equal(store[key][...], items)
        assert fast_filters(store["/walk"].cparams) == (Filter.SHUFFLE, Filter.BYTEDELTA)
        assert store["/noise"].cparams.clevel == 0
        assert {key for key in leaves if chosen_line(store[key])} == {"/walk", "/picture", "/noise"}


@pytest.mark.parametrize("nbytes", [20_000, 200_000])
@pytest.mark.parametrize("at_once", [False, True])
def test_leaves_learn_from_one_another(
    nbytes: int, at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = []
    real = choosing.choose
    monkeypatch.setattr(choosing, "choose", lambda *given: searches.append(0) or real(*given))
    leaves = {f"/{n}": steps((nbytes // 200, 100), seed=n) for n in range(20)}
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w", cparams="auto") as store:
        store.write_many(leaves) if at_once else store.update(leaves)
    assert 1 <= len(searches) <= 3
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="r") as store:
        assert all(np.array_equal(store[key][...], items) for key, items in leaves.items())
        assert {fast_filters(store[key].cparams) for key in leaves} == {(Filter.SHUFFLE, Filter.BYTEDELTA)}


def test_a_store_is_the_same_twice(tmp_path: Path) -> None:
    for name in ("a.b2z", "b.b2z"):
        with blosc2.TreeStore(str(tmp_path / name), mode="w", cparams="auto") as store:
            store.write_many({f"/{n}": steps((1000, 100), seed=n % 7) for n in range(30)})
    with blosc2.open(str(tmp_path / "a.b2z")) as one, blosc2.open(str(tmp_path / "b.b2z")) as other:
        assert all(one[key].to_cframe() == other[key].to_cframe() for key in one)


def test_conversion_chooses_for_each_array(tmp_path: Path) -> None:
    walk, colours = steps((64, 8000)), picture()
    np.savez(tmp_path / "a.npz", walk=walk, colours=colours)
    blosc2.convert(tmp_path / "a.npz", tmp_path / "a.b2z", cparams="smallest")
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert np.array_equal(store["/walk"][...], walk)
        assert np.array_equal(store["/colours"][...], colours)
        assert all(chosen_line(store[key]).startswith("size: ") for key in ("/walk", "/colours"))


# ---------------------------------------------------------------- reads
def decoded_for_a_column(array: Any) -> int:
    """Items of the blocks that hold the items of column 7."""
    touched = {(row // array.chunks[0], row % array.chunks[0] // array.blocks[0]) for row in range(array.shape[0])}
    return len(touched) * int(np.prod(array.blocks))


def test_a_layout_for_reads() -> None:
    items = steps((4000, 300), "i4")
    found = blosc2.tune(items, reads=[(slice(None), 7), (slice(None), 250)])
    array = blosc2.asarray(items, cparams=found, chunks=found.chunks, blocks=found.blocks)
    assert np.array_equal(array[:, 7], items[:, 7])
    usual = blosc2.asarray(items)
    assert decoded_for_a_column(array) < 0.6 * decoded_for_a_column(usual)
    assert blosc2.tune(items, reads=[5, 17]).blocks[0] < usual.blocks[0]
    with pytest.raises(TypeError):
        blosc2.tune(items, reads=[[1, 2]])
    with pytest.raises(ValueError, match="reads"):
        blosc2.tune(items, reads=[])
    with pytest.raises(IndexError):
        blosc2.tune(items, reads=[5000])


# ---------------------------------------------------------------- arrays of arrays
def test_what_is_made_of_other_arrays_is_chosen_for() -> None:
    items = steps((64, 8000))
    array = blosc2.asarray(items)
    for found, want in (
        (blosc2.concat([array, array], cparams="smallest"), np.concatenate([items, items])),
        (array.slice((slice(None), slice(0, 8000)), cparams="smallest"), items),
        (blosc2.stack([array, array], cparams="smallest"), np.stack([items, items])),
        (array.T.copy(cparams="smallest"), items.T),
        (blosc2.astype(array, "i4", cparams="smallest"), items.astype("i4")),
        (blosc2.fromiter(iter(items.ravel().tolist()), items.size, "i2", cparams="smallest"), items.ravel()),
    ):
        assert np.array_equal(found[...], want)
        assert chosen_line(found).startswith("size: ")
        assert chosen_line(found.copy()) == chosen_line(found)


def test_parts_that_dask_writes(tmp_path: Path) -> None:
    dask = pytest.importorskip("dask.array")
    items = steps((640, 2000))
    blosc2.to_store(dask.from_array(items, chunks=(80, 2000)), str(tmp_path / "a.b2nd"), cparams="auto")
    found = blosc2.open(tmp_path / "a.b2nd")
    assert np.array_equal(found[...], items)
    assert found.cbytes < 0.95 * blosc2.asarray(items, chunks=found.chunks, blocks=found.blocks).cbytes
