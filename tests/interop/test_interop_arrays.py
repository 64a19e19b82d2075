"""Arrays and super-chunks go back and forth between this package and the reference with the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest, peer, recipes

import blosc2

pytestmark = pytest.mark.interop

RECIPES = recipes.recipes()
each = pytest.mark.parametrize("recipe", RECIPES, ids=[r["name"] for r in RECIPES])


def check_array(got: dict[str, Any], recipe: dict[str, Any]) -> None:
    """A description against the recipe."""
    want = recipes.values(recipe)
    assert got["kind"] == "ndarray"
    assert (got["shape"], got["dtype"]) == (list(want.shape), repr(want.dtype))
    assert got["sha256"] == manifest.sha256(np.ascontiguousarray(want).tobytes())
    for name in ("chunks", "blocks"):
        if recipe[name] is not None:
            assert got[name] == recipe[name]
    cparams = recipe.get("cparams", {})
    for name in ("codec", "clevel", "use_dict"):
        if name in cparams:
            assert got[name] == cparams[name]
    if "filters" in cparams:
        assert [f for f in got["filters"] if f != "NOFILTER"] == cparams["filters"]
    user = {k: v for k, v in got.get("meta", {}).items() if not k.startswith("_pad")}
    assert user == (manifest.tagged(recipes.metalayers()) if recipe.get("meta") else {})
    assert got.get("vlmeta", {}) == (manifest.tagged(recipes.vlmeta()) if recipe.get("vlmeta") else {})


@each
def test_our_array_is_read_by_upstream(recipe: dict[str, Any], tmp_path: Path, upstream: Any) -> None:
    path = str(tmp_path / "x.b2nd")
    peer.make_array(path, recipe)
    report = blosc2.check(path)
    assert report.ok, report
    assert not report.unverified
    check_array(upstream.describe(path=path), recipe)
    check_array(peer.describe(path), recipe)


@each
def test_upstreams_array_is_read_by_us(
    recipe: dict[str, Any], tmp_path: Path, upstream: Any, source: str | None
) -> None:
    path = str(tmp_path / "x.b2nd")
    upstream.make_array(path=path, recipe=recipe)
    report = blosc2.check(path)
    assert report.ok, report
    assert report.unverified  # as it carries no checksums
    check_array(peer.describe(path, source), recipe)


@each
def test_slices_of_both_are_those_of_numpy(
    recipe: dict[str, Any], tmp_path: Path, upstream: Any, source: str | None
) -> None:
    if not recipe["shape"]:
        return
    ours, theirs = str(tmp_path / "ours.b2nd"), str(tmp_path / "theirs.b2nd")
    peer.make_array(ours, recipe)
    upstream.make_array(path=theirs, recipe=recipe)
    data = recipes.values(recipe)
    rng = np.random.default_rng(recipe["seed"])
    want = []
    for _ in range(30):
        got = np.asarray(data[peer.basic_key(rng, data.shape)], dtype=data.dtype)
        want.append([list(got.shape), manifest.sha256(np.ascontiguousarray(got).tobytes())])
    for path in (ours, theirs):
        assert peer.slices(path, recipe["seed"], 30, source) == want
    cparams = recipe.get("cparams", {})
    if "DELTA" not in cparams.get("filters", []) and not cparams.get("use_dict"):
        # slices of those are wrong there, or never end
        assert upstream.slices(path=ours, seed=recipe["seed"], count=30) == want


@each
def test_keys_with_arrays_give_the_same_everywhere(
    recipe: dict[str, Any], tmp_path: Path, upstream: Any, source: str | None
) -> None:
    data = recipes.values(recipe)
    if not recipe["shape"] or 0 in recipe["shape"]:
        return
    path = str(tmp_path / "theirs.b2nd")
    upstream.make_array(path=path, recipe=recipe)
    rng = np.random.default_rng(recipe["seed"])
    want = []
    for _ in range(20):
        got = np.asarray(data[peer.array_key(rng, data.shape)], dtype=data.dtype)
        want.append([list(got.shape), manifest.sha256(np.ascontiguousarray(got).tobytes())])
    assert peer.slices(path, recipe["seed"], 20, source, arrays=True) == want
    cparams = recipe.get("cparams", {})
    if "DELTA" not in cparams.get("filters", []) and not cparams.get("use_dict"):
        assert upstream.slices(path=path, seed=recipe["seed"], count=20, arrays=True) == want


CHANGEABLE = [
    r
    for r in RECIPES
    if len(r["shape"]) in (1, 2, 3) and r["shape"][0] > 3 and all(r["shape"]) and r["dtype"] in ("<i4", "<f8", "<f4")
]


@pytest.mark.parametrize("recipe", CHANGEABLE, ids=[r["name"] for r in CHANGEABLE])
@pytest.mark.parametrize("first", ["ours", "upstream"])
def test_both_change_one_array_in_turn(recipe: dict[str, Any], first: str, tmp_path: Path, upstream: Any) -> None:
    path = str(tmp_path / "x.b2nd")
    if recipe.get("vlmeta"):
        recipe = {**recipe, "vlmeta": False}  # there is room for 16 entries only
    (peer if first == "ours" else upstream).make_array(path=path, recipe=recipe)
    data = recipes.values(recipe)
    for turn, rows in enumerate((3, 5, 20, 1), start=first == "ours"):
        added = (upstream if turn % 2 else peer).change_array(path=path, rows=rows)
        data = np.concatenate([data, np.full((added, *data.shape[1:]), rows, data.dtype)])
        data[1:3] = -rows
        for got in (peer.describe(path), peer.describe(path, "r"), upstream.describe(path=path)):
            assert got["shape"] == list(data.shape)
            assert got["sha256"] == manifest.sha256(data.tobytes())
            assert got["vlmeta"]["rows"] == rows
        report = blosc2.check(path)
        assert report.ok, report


SCHUNKS = [
    {"typesize": typesize, "chunksize": chunksize, "items": items, "vlmeta": vlmeta, "clevel": clevel}
    for typesize, chunksize, items, vlmeta, clevel in (
        (8, 800, 250, False, 5), (8, 800, 200, True, 5), (3, 300, 170, False, 5), (1, 100, 1, True, 9),
        (4, 400, 0, False, 5), (4, 400, 0, True, 5), (2, 20, 3000, False, 1), (8, 800, 250, True, 0),
    )
]  # fmt: skip


@pytest.mark.parametrize("spec", SCHUNKS, ids=str)
@pytest.mark.parametrize("writer", ["ours", "upstream"])
def test_super_chunks(spec: dict[str, Any], writer: str, tmp_path: Path, upstream: Any, source: str | None) -> None:
    path = str(tmp_path / "x.b2frame")
    (peer if writer == "ours" else upstream).make_schunk(path=path, **spec)
    data = np.arange(spec["items"] * spec["typesize"], dtype=np.uint64).astype(np.uint8).tobytes()
    for got in (peer.describe(path, source), upstream.describe(path=path)):
        assert (got["kind"], got["typesize"], got["nbytes"]) == ("schunk", spec["typesize"], len(data))
        assert got["sha256"] == manifest.sha256(data)
        assert got["nchunks"] == -(-len(data) // spec["chunksize"])
        user = {k: v for k, v in got.get("meta", {}).items() if not k.startswith("_pad")}
        assert user == ({"m": [1, 2]} if spec["vlmeta"] else {})
        assert got.get("vlmeta", {}) == (manifest.tagged(recipes.vlmeta()) if spec["vlmeta"] else {})


@pytest.mark.parametrize("first", ["ours", "upstream"])
def test_both_change_one_super_chunk_in_turn(first: str, tmp_path: Path, upstream: Any) -> None:
    path = str(tmp_path / "x.b2frame")
    (peer if first == "ours" else upstream).make_schunk(path=path, typesize=8, chunksize=800, items=400, vlmeta=False)
    for turn, seed in enumerate(range(6), start=first == "ours"):
        want = (upstream if turn % 2 else peer).change_schunk(path=path, seed=seed)
        for mmap_mode in (None, "r"):
            s = blosc2.open(path, mmap_mode=mmap_mode)
            assert [manifest.sha256(s.decompress_chunk(n)) for n in range(s.nchunks)] == want
            assert s.vlmeta["seed"] == seed
        theirs = upstream.describe(path=path)
        assert (theirs["nchunks"], theirs["vlmeta"]) == (len(want), {"seed": seed})
        assert theirs["sha256"] == peer.describe(path)["sha256"]
        report = blosc2.check(path)
        assert report.ok, report


ZEROS, ONES = bytes(800), b"\1" * 800
SPECIAL = blosc2.SpecialValue
NAN_CHUNK = blosc2.full(100, np.nan, dtype="f8", chunks=(100,), blocks=(100,)).schunk.get_chunk(0)

CHANGES: dict[str, Any] = {
    "append_data": lambda s: s.append_data(ZEROS),
    "append_data, a short last one": lambda s: s.append_data(ZEROS[:80]),
    "insert_data": lambda s: s.insert_data(1, ZEROS, True),
    "update_data": lambda s: s.update_data(1, ZEROS, True),
    "assigned": lambda s: s.__setitem__(slice(100, 200), ZEROS),
    "assigned, and grown": lambda s: s.__setitem__(slice(100, 400), 3 * ZEROS),
    "append_chunk": lambda s: s.append_chunk(blosc2.compress2(ZEROS, typesize=8)),
    "insert_chunk": lambda s: s.insert_chunk(0, blosc2.compress2(ZEROS, typesize=8)),
    "update_chunk": lambda s: s.update_chunk(2, blosc2.compress2(ZEROS, typesize=1)),
    "update_chunk of NaN": lambda s: s.update_chunk(1, NAN_CHUNK),
    "a value": lambda s: s.append_data(ONES),
    **{f"fill_special {kind.name}": lambda s, kind=kind: s.fill_special(150, kind, 1.5) for kind in list(SPECIAL)[1:]},
    **{
        f"update_special {kind.name}": lambda s, kind=kind: s.update_special(1, kind, 1.5) for kind in list(SPECIAL)[1:]
    },
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("form", ["file", "directory", "memory"])
def test_chunks_of_one_value_are_sliced_and_grown_by_the_other_package(
    how: str, form: str, tmp_path: Path, upstream: Any
) -> None:
    path = str(tmp_path / "x.b2frame")
    where = {} if form == "memory" else {"urlpath": path, "mode": "w", "contiguous": form == "file"}
    data = np.arange(300.0)
    s = blosc2.SChunk(chunksize=800, data=data, cparams={"typesize": 8}, **where)
    CHANGES[how](s)
    if form == "memory":
        (tmp_path / "x.b2frame").write_bytes(s.to_cframe())
    kinds = [info.special.value for info in s.iterchunks_info()]
    whole = bytes(blosc2.open(path)[:])
    items = len(whole) // 8
    *digests, theirs, count = upstream.slice_and_append(path=path)
    assert (theirs, count) == (kinds, len(kinds) + 1)
    if "UNINIT" not in how:  # whose items are anything
        assert digests == [manifest.sha256(whole), manifest.sha256(whole[items // 3 * 8 : (items - 5) * 8])]


def test_frames_in_memory_go_both_ways(tmp_path: Path, upstream: Any) -> None:
    """`to_cframe` gives a file that the reference opens."""
    for recipe in RECIPES[:8]:
        x = blosc2.asarray(recipes.values(recipe))
        path = tmp_path / "memory.b2nd"
        path.write_bytes(x.to_cframe())
        got = upstream.describe(path=str(path))
        assert got["sha256"] == manifest.sha256(recipes.values(recipe).tobytes())
        path.unlink()


@pytest.mark.parametrize("recipe", CHANGEABLE, ids=[r["name"] for r in CHANGEABLE])
def test_both_assign_by_arrays(recipe: dict[str, Any], tmp_path: Path, upstream: Any) -> None:
    ours, theirs = str(tmp_path / "ours.b2nd"), str(tmp_path / "theirs.b2nd")
    peer.make_array(ours, recipe)
    upstream.make_array(path=theirs, recipe=recipe)
    data = recipes.values(recipe)
    rng = np.random.default_rng(5)
    data[rng.random(data.shape) < 0.1] = 3
    data[rng.permutation(data.shape[0])[:5]] = 4
    peer.change_points(ours, 5)
    upstream.change_points(path=theirs, seed=5)
    want = manifest.sha256(np.ascontiguousarray(data).tobytes())
    assert upstream.describe(path=ours)["sha256"] == want
    assert peer.describe(theirs)["sha256"] == want


@pytest.mark.parametrize("count", [17, 1900, 8000])
def test_upstream_reads_thousands_of_attributes(count: int, tmp_path: Path, upstream: Any) -> None:
    """Above some 1,700 the table of names has no room for its size, which nobody reads."""
    want = {f"{n:04d}" + "n" * 27: n for n in range(count)}
    array = blosc2.asarray([1.5, 2.5], urlpath=tmp_path / "a.b2nd")
    array.attrs[:] = want
    found = upstream.describe(path=str(tmp_path / "a.b2nd"))
    assert found["vlmeta"] == want
    assert found["sha256"] == manifest.sha256(np.array([1.5, 2.5]).tobytes())


@pytest.mark.parametrize("dtype", [["<f8", [10]], [">i4", [2, 3]]], ids=str)
def test_items_that_are_arrays(dtype: list[Any], tmp_path: Path, upstream: Any, source: str | None) -> None:
    """The axes of such a dtype follow those of the array, as in NumPy."""
    path = str(tmp_path / "x.b2nd")
    made = bytes.fromhex(upstream.make_shaped_items(path=path, dtype=dtype, rows=7))
    want = np.frombuffer(made, dtype[0]).reshape(7, *dtype[1])
    array = blosc2.open(path, mmap_mode=source)
    assert (array.shape, array.dtype, array.chunks, array.blocks) == (
        want.shape, want.dtype, (4, *dtype[1]), (2, *dtype[1]),
    )  # fmt: skip
    for key in (..., 3, slice(2, 6), (slice(2, 6), slice(1, None)), [1, 5], (..., 1), (5, ..., None)):
        np.testing.assert_array_equal(array[key], want[key])
    np.testing.assert_array_equal(array.copy()[:], want)
    np.testing.assert_array_equal(blosc2.concat([array, array])[:], np.concatenate([want, want]))
    with blosc2.DictStore(tmp_path / "s.b2z", mode="w") as store:
        store["/a"] = array
    with blosc2.DictStore(tmp_path / "s.b2z", mode="r") as store:
        np.testing.assert_array_equal(store.read("/a"), want)
        assert (store.describe("/a").shape, store.describe("/a").dtype) == (want.shape, want.dtype)
    changed = blosc2.open(path, mode="a")
    changed[2] = want[5]
    changed.append(want[:4])
    with pytest.raises(ValueError, match="belong to the dtype"):
        changed.resize((11, 5, *want.shape[2:]))
    want = np.concatenate([want, want[:4]]).astype(dtype[0])
    want[2] = want[5]
    np.testing.assert_array_equal(blosc2.open(path)[:], want)
    assert blosc2.check(path).ok
    assert upstream.describe(path=path)["sha256"] == manifest.sha256(want.tobytes())
