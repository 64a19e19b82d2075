"""`store.read_many` against `store[key][:]`, for leaves that are alike and for others, in every store."""

from __future__ import annotations

import re
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

KINDS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "embed": (blosc2.EmbedStore, ".b2e", {}),
    "dict-zip": (blosc2.DictStore, ".b2z", {}),
    "dict-directory": (blosc2.DictStore, ".b2d", {}),
    "tree-zip": (blosc2.TreeStore, ".b2z", {}),
    "threshold": (blosc2.TreeStore, ".b2z", {"threshold": 300}),
}
Items = np.ndarray[Any, Any]


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"], autouse=True)
def nthreads(request: pytest.FixtureRequest) -> Iterator[None]:
    old = blosc2.set_nthreads(request.param)
    yield
    blosc2.set_nthreads(old)


def written(folder: Path, kind: str, values: dict[str, Any]) -> Path:
    cls, suffix, options = KINDS[kind]
    path = folder / f"store{suffix}"
    with cls(str(path), mode="w", **options) as store:
        store.write_many(values)
    return path


def assert_equal(found: Any, expected: list[Items]) -> None:
    if all(array.shape == expected[0].shape and array.dtype == expected[0].dtype for array in expected):
        assert isinstance(found, np.ndarray)
        assert found.shape == (len(expected), *expected[0].shape)
    else:
        assert isinstance(found, list)
    for array, other in zip(found, expected, strict=True):
        assert array.dtype == other.dtype
        np.testing.assert_array_equal(array, other)


def group_of_values(rng: np.random.Generator) -> dict[str, Any]:
    """Leaves of one shape and dtype, in as many forms as they can have."""
    values: dict[str, Any] = {}
    for n in range(40):
        values[f"/alike/{n}"] = np.arange(n, n + 96, dtype="i4").reshape(8, 12)
    forms: list[dict[str, Any]] = [
        {"cparams": {"codec": codec, "clevel": level, "filters": [f], "typesize": 4}}
        for codec in (blosc2.Codec.LZ4, blosc2.Codec.BLOSCLZ, blosc2.Codec.ZLIB, blosc2.Codec.ZSTD)
        for level in (0, 1, 9)
        for f in (blosc2.Filter.NOFILTER, blosc2.Filter.SHUFFLE, blosc2.Filter.BITSHUFFLE, blosc2.Filter.DELTA)
    ]
    forms += [{"chunks": (4, 12)}, {"chunks": (8, 12), "blocks": (2, 5)}, {"chunks": (3, 5), "blocks": (2, 2)}]
    forms += [{"meta": {"m": [1]}}, {"chunks": (16, 20)}, {"blocks": (8, 12)}]
    for n, form in enumerate(forms):
        values[f"/forms/{n}"] = blosc2.asarray(np.arange(n, n + 96, dtype="i4").reshape(8, 12), **form)
    for n in range(20):
        values[f"/noise/{n}"] = rng.integers(0, 1 << 31, (8, 12), dtype="i4")
        values[f"/attributes/{n}"] = blosc2.asarray(np.full((8, 12), n, "i4"))
        values[f"/attributes/{n}"].vlmeta["n"] = "x" * n * 10
    values["/special/zeros"] = blosc2.zeros((8, 12), dtype="i4")
    values["/special/ones"] = blosc2.full((8, 12), 1, dtype="i4")
    values["/special/empty"] = blosc2.asarray(np.zeros((8, 12), "i4"))
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_keys_without_a_slash_in_front(tmp_path: Path, kind: str, source: str | None) -> None:
    values = {f"/g/{n % 3}/k {n}": np.arange(n, n + 9) for n in range(40)}
    shorter = [key[1:] for key in values]
    path = written(tmp_path, kind, dict(zip(shorter, values.values(), strict=True)))
    with KINDS[kind][0](str(path), mode="r", mmap_mode=source) as store:
        np.testing.assert_array_equal(store.read_many(shorter), [*values.values()])
        np.testing.assert_array_equal(store.read_many([*values, *shorter]), 2 * [*values.values()])
        for key, value in values.items():
            for found in (store[key[1:]][...], store.read(key[1:]), store.get(key[1:])[...]):
                np.testing.assert_array_equal(found, value, strict=True)
            assert key[1:] in store
            assert store[key[1:]] is store[key]
        for wrong in ("g/0/k 40", "g/0/k 0/", "g//0/k 0", "g/0", "k 0"):
            with pytest.raises((KeyError, ValueError, TypeError)) as absolute:
                store.read_many([*values, "/" + wrong])
            with pytest.raises(absolute.type, match=re.escape(str(absolute.value))):
                store.read_many([*shorter, wrong])


@pytest.mark.parametrize("kind", KINDS)
def test_one_shape_in_many_forms(tmp_path: Path, kind: str, source: str | None, rng: np.random.Generator) -> None:
    values = group_of_values(rng)
    path = written(tmp_path, kind, values)
    keys = list(values)
    orders = [keys, keys[::-1], [keys[n] for n in rng.permutation(len(keys))], keys[:1], keys[-3:], keys[40:60]]
    orders += [[f"/noise/{n % 20}" for n in range(70)] + ["/alike/3"] * 30]
    orders += [[key] * 3 for key in keys[::7]]
    with blosc2.open(str(path), mode="r", mmap_mode=source) as store:
        for order in orders:
            expected = [np.asarray(values[key][:]) for key in order]
            assert_equal(store.read_many(order), expected)
            out = np.full((len(order), 8, 12), -7, "i4")
            assert store.read_many((key[1:] for key in order), out=out) is out
            assert_equal(out, expected)


SHAPES: list[tuple[tuple[int, ...], Any]] = [
    ((), "f8"), ((), [("a", "i2"), ("b", "S3")]), ((0,), "f4"), ((3, 0, 2), "i8"), ((1,), "u1"), ((7,), "M8[ns]"),
    ((5,), "<U4"), ((4, 3), [("x", "f4"), ("y", "i4", (2,))]), ((3, 4), ">i4"), ((2, 2, 2, 2), "c8"), ((9,), "?"),
    ((300_000,), "f4"), ((70, 80, 90), "i2"),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["embed", "dict-zip", "dict-directory"])
@pytest.mark.parametrize(("shape", "dtype"), SHAPES, ids=str)
def test_shapes_and_dtypes(tmp_path: Path, kind: str, source: str | None, shape: Any, dtype: Any) -> None:
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    arrays = []
    for n in range(5):
        raw = np.arange(n, n + size, dtype="u1")
        if dtype.kind == "b":
            raw &= 1
        flat = raw.view(dtype) if dtype.kind != "U" else np.arange(n, n + size // dtype.itemsize).astype(dtype)
        flat = flat.reshape(shape)
        if flat.dtype.names:
            flat = flat.copy()
        arrays.append(np.nan_to_num(flat) if dtype.kind in "fc" else flat)
    path = written(tmp_path, kind, {f"/k{n}": array for n, array in enumerate(arrays)} | {"/other": [1, 2]})
    keys = [f"/k{n}" for n in (3, 1, 4, 1, 0, 2)]
    expected = [arrays[int(key[2:])] for key in keys]
    with blosc2.open(str(path), mode="r", mmap_mode=source) as store:
        found = store.read_many(keys)
        assert_equal(found, expected)
        assert found.flags.writeable
        out = np.empty((6, *shape), dtype)
        assert store.read_many(keys, out=out) is out
        assert_equal(out, expected)
        mixed = store.read_many([*keys, "/other"])
        assert_equal(mixed, [*expected, np.array([1, 2])])
        if dtype.kind not in "mM" and out.size:
            out[...] = np.zeros((), dtype)
        before = out.tobytes()
        with pytest.raises(ValueError, match="/other"):
            store.read_many([*keys[:5], "/other"], out=out)
        assert out.tobytes() == before


@pytest.fixture
def store(tmp_path: Path, source: str | None) -> Iterator[Any]:
    values: dict[str, Any] = {f"/g/k{n}": np.arange(n, n + 12, dtype="i8").reshape(3, 4) for n in range(300)}
    values |= {"/other": np.arange(3), "/schunk": blosc2.SChunk(data=b"12345678")}
    path = written(tmp_path, "tree-zip", values)
    with blosc2.TreeStore(str(path), mode="a") as tree:
        tree["/g"].vlmeta["unit"] = "mm"
    with blosc2.TreeStore(str(path), mode="r", mmap_mode=source) as tree:
        yield tree


def rows(numbers: list[int]) -> Items:
    return np.stack([np.arange(n, n + 12, dtype="i8").reshape(3, 4) for n in numbers])


def test_arrays_to_read_into(store: Any) -> None:
    numbers = [7, 250, 7, 0, *range(100, 140)]
    keys = [f"/g/k{n}" for n in numbers]
    count = len(keys)
    expected = rows(numbers)
    room = np.full((2 * count, 6, 8), -1, "i8")
    read_only = np.zeros((count, 3, 4), "i8")
    read_only.flags.writeable = False
    unaligned = np.zeros(count * 96 + 1, "u1")[1:].view("i8").reshape(count, 3, 4)
    for out in (
        np.empty((count, 3, 4), "i8"), np.empty((count, 3, 4), "i8", order="F"), room[::2, ::2, ::2],
        room[:count, :3, :4], room[count - 1 :: -1, :3, :4], room[:count, 2::-1, 3::-1], unaligned,
        np.empty((3, 4, count), "i8").transpose(2, 0, 1),
        np.zeros((count, 3, 4), "i8").view(np.recarray), np.empty((3 * count, 3, 4), "i8")[::3], room[1::2, :3, 4:],
    ):  # fmt: skip
        room[...] = -1
        assert store.read_many(keys, out=out) is out
        np.testing.assert_array_equal(out, expected)
        if out.base is room:
            assert (room == -1).sum() == room.size - out.size
    for out, error in [
        (np.zeros((count, 4, 3), "i8"), ValueError), (np.zeros((count - 1, 3, 4), "i8"), ValueError),
        (np.zeros((count, 12), "i8"), ValueError), (np.zeros((count, 3, 4), "u8"), ValueError),
        (np.zeros((count, 3, 4), ">i8"), ValueError), (read_only, ValueError), (np.zeros((), "i8"), ValueError),
        ([[[0] * 4] * 3] * count, TypeError), (bytearray(count * 96), TypeError),
        (blosc2.zeros((count, 3, 4)), TypeError),
    ]:  # fmt: skip
        with pytest.raises(error):
            store.read_many(keys, out=out)
        if isinstance(out, np.ndarray):
            assert not out.any()


def test_no_keys(store: Any) -> None:
    assert store.read_many([]) == []
    out = np.empty((0, 3, 4), "i8")
    assert store.read_many(iter(()), out=out) is out
    for wrong in (np.empty((1, 3, 4)), [], 5, np.empty(())):
        with pytest.raises((ValueError, TypeError)):
            store.read_many([], out=wrong)


@pytest.mark.parametrize(
    ("key", "error"),
    [("/none", KeyError), ("/g/k300", KeyError), ("none", KeyError), ("/g/__vlmeta__", KeyError), ("/g/k1/x", KeyError),
     ("/g", TypeError), ("g", TypeError), ("/schunk", TypeError), ("/", TypeError),
     (5, TypeError), (None, TypeError), (b"/g/k1", TypeError), ("/g/", ValueError), ("", ValueError),
     ("//g/k1", ValueError), ("/\ud800", KeyError)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 1, 40])
def test_keys_that_cannot_be_read(store: Any, key: Any, error: type[Exception], at: int) -> None:
    keys: list[Any] = [f"/g/k{n}" for n in range(40)]
    keys.insert(at, key)
    out = np.zeros((41, 3, 4), "i8")
    for how in ({}, {"out": out}):
        with pytest.raises(error):
            store.read_many(keys, **how)
    assert not out.any()


def test_one_key_is_no_list_of_keys(store: Any) -> None:
    for keys in ("/g/k1", b"/g/k1", 5, None):
        with pytest.raises(TypeError):
            store.read_many(keys)


def test_views_of_groups(store: Any) -> None:
    view = store["/g"]
    np.testing.assert_array_equal(view.read_many(["k5", "/k299", np.str_("k0")]), rows([5, 299, 0]))
    for key, error in [("/other", KeyError), ("k1/x", KeyError), ("/", TypeError), ("/__vlmeta__", KeyError)]:
        with pytest.raises(error):
            view.read_many(["k1", key])


def test_closed(store: Any) -> None:
    view = store["/g"]
    store.close()
    for closed in (store, view):
        for keys in (["/g/k1"], []):
            with pytest.raises(ValueError, match="closed store"):
                closed.read_many(keys)


def test_a_generator_that_closes_the_store(store: Any) -> None:
    def closing() -> Iterator[str]:
        yield "/g/k1"
        store.close()
        yield "/g/k2"

    with pytest.raises(ValueError, match="closed store"):
        store.read_many(closing())


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_is_being_changed(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind, {f"/k{n}": np.full(100, n) for n in range(300)})
    cls, _, options = KINDS[kind]
    with cls(str(path), mode="a", **options) as store:
        store["/k1"][0] = -1
        held = store["/k2"]
        held[1] = -2
        store["/k3"] = np.full(100, -3)
        store["/new"] = np.full(100, -4)
        del store["/k5"]
        keys = ["/k1", "/k2", "/k3", "/new", "/k4"]
        for _ in range(2):
            found = store.read_many(keys)
            assert (found[:, 0].tolist(), found[1, 1]) == ([-1, 2, -3, -4, 4], -2)
            np.testing.assert_array_equal(found, [store[key][:] for key in keys])
            with pytest.raises(KeyError):
                store.read_many(["/k4", "/k5"])
            store.flush()


@pytest.mark.parametrize("kind", KINDS)
def test_verified(tmp_path: Path, kind: str, source: str | None) -> None:
    path = written(tmp_path, kind, {f"/k{n}": np.full(100, n) for n in range(30)})
    with KINDS[kind][0](str(path), mode="r", mmap_mode=source, verify=True) as store:
        assert (store.read_many([f"/k{n}" for n in range(30)])[:, 5] == np.arange(30)).all()


# ---------------------------------------------------------------------- damage
def damaged(tmp_path: Path, where: str) -> Path:
    noise = np.random.default_rng(4).integers(0, 1 << 60, (40, 50))
    noise[:, 25:] = 0
    path = written(tmp_path, "dict-zip", {f"/k{n:02}": noise[n] for n in range(40)})
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("k17.b2nd")
    with blosc2.DictStore(str(path), mode="r") as store:
        byte_range = store.member_window("/k17")
    assert byte_range is not None
    data = bytearray(path.read_bytes())
    if where == "name":
        data[member.header_offset + 30 + 2] ^= 1
    elif where == "header":
        data[byte_range[0] + 3] ^= 0xFF
    elif where == "length":
        data[byte_range[0] + 16 : byte_range[0] + 24] = (1 << 40).to_bytes(8, "big")
    else:
        start = byte_range[0] + int.from_bytes(data[byte_range[0] + 11 : byte_range[0] + 15], "big")
        data[start + 4 : start + 16] = b"\xff" * 12  # the sizes of the chunk
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("where", ["name", "header", "length", "chunk"])
def test_a_damaged_leaf_is_named(tmp_path: Path, where: str, source: str | None) -> None:
    path = damaged(tmp_path, where)
    sound = [f"/k{n:02}" for n in range(40) if n != 17]
    with blosc2.DictStore(str(path), mode="r", mmap_mode=source) as store:
        with pytest.raises(blosc2.FormatError, match="k17"):
            store["/k17"][:]
        for keys in (["/k17"], ["/k17", *sound], [*sound, "/k17"], ["k17", *sound], [*sound, "k17"]):
            with pytest.raises(blosc2.FormatError, match="k17"):
                store.read_many(keys)
        assert store.read_many(sound).shape == (39, 50)


# ---------------------------------------------------------------------- threads and processes
def test_many_threads_at_once(store: Any) -> None:
    barrier = threading.Barrier(16)

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        barrier.wait()
        for _ in range(10):
            numbers = rng.integers(0, 300, 150).tolist()
            np.testing.assert_array_equal(store.read_many([f"/g/k{n}" for n in numbers]), rows(numbers))

    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(read, seed) for seed in range(16)]:
            done.result()


# ---------------------------------------------------------------------- any choice of keys
# ---------------------------------------------------------------------- one leaf


def test_read_gives_what_an_open_leaf_gives(tmp_path: Path) -> None:
    """One leaf after the other, of several kinds in turn, by threads too, through every kind of store."""
    values: dict[str, Any] = {f"/same/{n}": np.arange(12, dtype="f4").reshape(3, 4) + n for n in range(40)}
    values |= {f"/noise/{n}": np.random.default_rng(n).bytes(2000) for n in range(3)}
    values = {key: np.frombuffer(v, "u1") if isinstance(v, bytes) else v for key, v in values.items()}
    values |= {"/zero": np.zeros((3, 4), "f4"), "/none": np.empty((0, 4), "f4"), "/one": np.array(7.5)}
    values |= {"/large": np.arange(60_000).reshape(200, 300), "/pairs": np.array([(1, 2.0)], "i4,f8")}
    values |= {f"/more/{n}": np.arange(5000, dtype="i2") * n for n in range(300)}
    for kind, name in ((blosc2.TreeStore, "t.b2z"), (blosc2.DictStore, "d.b2d"), (blosc2.EmbedStore, "e.b2e")):
        path = str(tmp_path / name)
        with kind(path, mode="w") as store:
            for key, value in values.items():
                store[key] = value
            np.testing.assert_array_equal(store.read("/same/3"), values["/same/3"])
        for mmap_mode in ("r", None):
            with kind(path, mode="r", mmap_mode=mmap_mode) as store:
                for key in [*values, *reversed(values)]:
                    found = store.read(key)
                    assert (found.shape, found.dtype) == (values[key].shape, values[key].dtype)
                    assert found.tobytes() == values[key].tobytes()
                    assert found.flags.writeable
                with pytest.raises(KeyError):
                    store.read("/nothing")
                with ThreadPoolExecutor(8) as pool:
                    for key, found in zip(values, pool.map(store.read, values)):
                        assert found.tobytes() == values[key].tobytes()
            with pytest.raises(blosc2.exceptions.ClosedStoreError):
                store.read("/one")


def test_read_of_what_is_no_array(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a/b"] = np.arange(3)
        store["/a"].attrs["unit"] = "m"
        store["/s"] = blosc2.SChunk(chunksize=8, data=b"12345678")
    with blosc2.TreeStore(path, mode="r", mmap_mode="r") as store:
        assert store.read("/a/b").tolist() == [0, 1, 2]
        assert store["/a"].read("b").tolist() == [0, 1, 2]
        for key in ("/a", "/s"):
            with pytest.raises(TypeError, match="not an array"):
                store.read(key)
        with pytest.raises(KeyError):
            store.read("/a/__vlmeta__")


def test_read_of_a_damaged_leaf_that_is_like_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.DictStore(str(path), mode="w") as store:
        for n in range(3):
            store[f"/{n}"] = np.arange(1000) * n
        store.flush()
        byte_range = store.member_window("/1")
        assert byte_range is not None
        offset, length = byte_range
    data = bytearray(path.read_bytes())
    for at in range(offset, offset + length, 3):
        damaged = data.copy()
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        with blosc2.DictStore(str(path), mode="r", mmap_mode="r") as store:
            assert store.read("/0").tolist() == [0] * 1000
            assert store.read("/2").tolist() == list(range(0, 2000, 2))
            # With another metalayer it is no array.
            try:
                opened = store["/1"][...]
            except (blosc2.FormatError, NotImplementedError, TypeError):
                opened = None
            try:
                found = store.read("/1")
            except (blosc2.FormatError, NotImplementedError, TypeError):
                assert opened is None
            else:
                # Bytes behind the chunk are not looked at, nor is what no decoder can notice.
                assert opened is None or found.tobytes() == opened.tobytes()


@pytest.mark.parametrize("row", [16, 3000, 100_000])
@pytest.mark.parametrize("source", ["r", None])
def test_batches_of_every_size(tmp_path: Path, row: int, source: str | None) -> None:
    """However the leaves are shared out, each is read, once, and its items are in its row."""
    count = 700 if row == 16 else 140
    path = tmp_path / "store.b2z"
    values = [np.full(row, number, "i2") for number in range(count)]
    with blosc2.DictStore(str(path), mode="w") as store:
        store.write_many((f"/é{n}" if n % 50 == 7 else f"/leaf{n}", value) for n, value in enumerate(values))
    store = blosc2.open(str(path), mmap_mode=source)
    old = blosc2.set_nthreads(1)
    for threads in (1, 2, 3, 8, 70):
        blosc2.set_nthreads(threads)
        for size in (1, 2, 3, 5, 31, 32, 33, 127, 128, 129, 255, 256, 257, 640):
            numbers = (np.arange(size) * 37 + threads) % count
            keys = [f"/é{n}" if n % 50 == 7 else f"/leaf{n}" for n in numbers]
            found = store.read_many(keys)
            assert (found == numbers[:, None]).all()
            assert found.shape == (size, row)
    blosc2.set_nthreads(old)
