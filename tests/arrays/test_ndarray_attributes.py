"""Arrays: threads, attributes, and what is done with an array as a whole."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import cases
from fixture_kit.cases import assert_same

import blosc2
from blosc2 import Codec, Filter
from blosc2.exceptions import FormatError
from blosc2.ndarray import NDArray

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("arrays") / "array.b2nd")


# --------------------------------------------------------------------- threads


@pytest.mark.parametrize(
    "cparams", [{"clevel": 1}, {"clevel": 0}, {"filters": [Filter.DELTA]}, {"use_dict": True}], ids=str
)
def test_one_chunk_divided_between_threads(cparams: dict[str, Any], path: str, source: str | None) -> None:
    items = np.random.default_rng(1).integers(0, 1 << 30, (600, 700)).astype("<i4")
    blosc2.asarray(items, chunks=(640, 704), blocks=(64, 100), cparams=cparams, urlpath=path, mode="w")
    for nthreads in (1, 4):
        array = blosc2.open(path, mmap_mode=source, dparams={"nthreads": nthreads})
        for key in (..., (slice(3, 599), slice(None)), (slice(1, None, 3), slice(650, 10, -2)), (slice(500, 600),)):
            assert_same(array[key], items[key])


@pytest.mark.parametrize("in_file", [False, True])
def test_threads_change_one_array_together(in_file: bool, path: str) -> None:
    """Each change reads a version and publishes the next one: none may be lost to another thread's."""
    keywords: dict[str, Any] = {"urlpath": path, "mode": "w"} if in_file else {}
    dtype = np.dtype([("a", "i4"), ("b", "i4")])
    array = blosc2.zeros(400, dtype=dtype, chunks=(64,), blocks=(16,), **keywords)
    growing = blosc2.zeros(0, dtype="i4", chunks=(10,), blocks=(5,))
    schunk = blosc2.SChunk(chunksize=8)
    errors: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for i in range(n, 400, 4):
                array["a" if i % 8 < 4 else "b"][i] = i + 1
                growing.append(i)
                schunk.append_data(i.to_bytes(8, "little"))
            array.vlmeta[f"thread {n}"] = n
        except BaseException as error:  # noqa: BLE001 - raised by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        got = array[:]  # readers are not in the way
        assert set(got["a"].tolist()) <= {0, *range(1, 401)}
    for thread in threads:
        thread.join()
    assert not errors
    want = np.zeros(400, dtype)
    for i in range(400):
        want["a" if i % 8 < 4 else "b"][i] = i + 1
    assert_same(array[:], want)
    assert dict(array.vlmeta) == {f"thread {n}": n for n in range(4)}
    assert sorted(growing[:].tolist()) == list(range(400))
    assert sorted(np.frombuffer(schunk[:], "<i8").tolist()) == list(range(400))


def test_kept_blocks_are_never_those_of_another_array_or_version() -> None:
    """Each array holds one number, its own and that of its version; every read must give a single current one."""
    count, rounds = 12, 60
    arrays = [blosc2.full((64, 64), 1000 * n, dtype="i8", chunks=(32, 32), blocks=(8, 16)) for n in range(count)]
    for array in arrays:
        array[:] = array[:]  # stored chunks, not special ones
    versions = [0] * count
    stop = threading.Event()
    wrong: list[Any] = []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not stop.is_set() and not wrong:
            n = int(rng.integers(count))
            row, column = (int(i) for i in rng.integers(0, 60, 2))
            oldest = versions[n]
            got = set(arrays[n][row : row + 3, column : column + 3].ravel().tolist())
            if len(got) != 1 or not 1000 * n + oldest <= min(got) <= 1000 * n + versions[n] + 1:
                wrong.append((n, oldest, got, versions[n]))

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for version in range(1, rounds):
        for n in range(count):
            arrays[n][...] = 1000 * n + version
            versions[n] = version
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong


# --------------------------------------------------------------------- attributes


def test_attributes(tmp_path: Path) -> None:
    items = np.arange(100 * 64, dtype="<f8").reshape(100, 64)
    urlpath = str(tmp_path / "a.b2nd")
    array = blosc2.asarray(items, chunks=(60, 40), blocks=(16, 16), urlpath=urlpath, meta={"unit": "mm"})
    # the geometry of FORMATS 3.2
    assert (array.shape, array.ndim, array.size, array.dtype) == ((100, 64), 2, 6400, items.dtype)
    assert (array.chunks, array.blocks) == ((60, 40), (16, 16))
    assert (array.ext_shape, array.ext_chunks) == ((120, 80), (64, 48))
    assert (array.nbytes, array.chunksize, array.blocksize) == (items.nbytes, 19200, 16 * 16 * 8)
    schunk = array.schunk
    assert schunk is array.schunk is array._schunk
    assert (schunk.nbytes, schunk.nchunks, schunk.chunksize, schunk.blocksize) == (98304, 4, 24576, 2048)
    assert array.cbytes == schunk.cbytes > 0
    assert array.cratio == pytest.approx(schunk.nbytes / schunk.cbytes)
    assert (array.urlpath, array.mode, array.mmap_mode) == (urlpath, "a", None)
    assert blosc2.open(urlpath, mmap_mode="r").mmap_mode == "r"
    assert blosc2.open(urlpath, mmap_mode="r").schunk.mmap_mode == "r"
    assert array.device == "cpu"
    assert dict(array.meta)["unit"] == "mm"
    assert isinstance(array.cparams, blosc2.CParams)
    assert array.cparams.typesize == 8
    assert array.cparams.blocksize == 2048
    assert isinstance(array.dparams, blosc2.DParams)
    array.attrs["a"] = 1
    assert dict(array.vlmeta) == {"a": 1} == array.vlmeta[:]
    assert len(array) == 100
    assert array.fields == {}
    np.testing.assert_array_equal(array.T, items.T)
    np.testing.assert_array_equal(array.mT, items.T)
    assert array.tobytes() == items.tobytes()
    assert array.refresh() is False
    with array as same:
        assert same is array
    assert array[0, 1] == 1
    for name in ("shape", "ndim", "dtype", "chunks", "blocks", "schunk", "nbytes", "urlpath"):
        with pytest.raises(AttributeError):
            setattr(array, name, None)
    with pytest.raises(TypeError, match="unhashable"):
        hash(array)


@pytest.mark.parametrize("where", ["memory", "file", "leaf"])
def test_chunks_that_were_replaced_are_not_counted(tmp_path: Path, where: str) -> None:
    items = np.random.default_rng(0).normal(size=(40, 500))
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        array = blosc2.zeros(items.shape, chunks=(20, 500), urlpath=tmp_path / "a.b2nd" if where == "file" else None)
        if where == "leaf":
            store["/a"] = array
            array = store["/a"]
        for first in range(0, 40, 5):
            array[first : first + 5] = items[first : first + 5]
            array.attrs["rows"] = first + 5
        stored = [len(array.get_chunk(n)) for n in range(2)]
        assert array.cbytes == array.schunk.cbytes == sum(stored)
        assert array.cratio == items.nbytes / sum(stored)


@pytest.mark.parametrize("field", [False, True])
def test_there_are_no_operators(field: bool) -> None:
    """Least of all a comparison that is silently False."""
    array: Any = blosc2.asarray(np.ones(3, [("a", "f8")])).fields["a"] if field else blosc2.ones(3)
    numbers = np.ones(3)
    operations: list[Any] = [
        lambda: array == array, lambda: array == 1, lambda: array != numbers, lambda: array < 1, lambda: 1 + array,
        lambda: array + 1, lambda: array @ numbers, lambda: -array, lambda: array**2, lambda: ~array, lambda: array & 1,
    ]  # fmt: skip
    for operate in operations:
        with pytest.raises(TypeError, match=r"np.asarray\(a\) or a\[:\]"):
            operate()
    assert (numbers + array).tolist() == [2, 2, 2]


def test_texts_are_bounded() -> None:
    array = blosc2.zeros((1000,) * 3, dtype=[(f"field{n}", "f8") for n in range(300)])
    assert len(repr(blosc2.zeros((10,) * 5))) < 300
    assert len(repr(array)) < 300
    assert len(repr(array["field1"])) < 400
    array = blosc2.asarray(np.arange(10))
    lines = repr(array.info).splitlines()
    names = [line.split(":")[0].strip() for line in lines if ":" in line]
    assert names[:8] == ["type", "shape", "chunks", "blocks", "dtype", "nbytes", "cbytes", "cratio"]
    assert [name for name, _ in array.info_items][-2:] == ["cparams", "dparams"]
    html = array.info._repr_html_()
    assert "<table" in html
    assert "int64" in html
    assert len(repr(array.info)) < 2000


@pytest.mark.parametrize("length", [64, 65])
def test_info_tells_the_ratio_of_the_items_where_padding_is_counted(length: int) -> None:
    array = blosc2.asarray(np.arange(length), chunks=(64,), blocks=(64,), cparams={"clevel": 0})
    padded = 512 if length == 64 else 1024
    texts = [f"{nbytes / array.cbytes:.2f}x" for nbytes in (padded, 8 * length)]
    shown = texts[0] if length == 64 else f"{texts[0]} with padding, {texts[1]} without"
    assert dict(array.info_items)["cratio"] == shown
    assert array.cratio == padded / array.cbytes


def test_conversions_to_scalars() -> None:
    one = blosc2.asarray(np.array([[2.5]]))
    assert (float(one), int(one), bool(one), one.item()) == (2.5, 2, True, 2.5)
    array = blosc2.arange(6, shape=(2, 3))
    assert array.item(1, 2) == array.item((1, 2)) == array.item(5) == 5
    assert type(array.item(0, 0)) is int
    converters: list[Any] = [float, int, bool, NDArray.item]
    for convert in converters:
        with pytest.raises(ValueError):
            convert(array)
    zero = blosc2.asarray(np.array(7))
    assert zero.item() == 7
    assert zero[()].shape == ()
    with pytest.raises(TypeError, match="unsized"):
        len(zero)
    with pytest.raises(TypeError):
        iter(zero).__next__()


def test_iteration_is_along_the_first_axis() -> None:
    items = np.arange(35).reshape(7, 5)
    rows = list(blosc2.asarray(items, chunks=(3, 2), blocks=(2, 2)))
    np.testing.assert_array_equal(np.stack(rows), items)
    assert [type(item) for item in blosc2.arange(3)] == [np.int64] * 3
    assert list(blosc2.zeros((0, 3))) == []


def test_as_a_numpy_array() -> None:
    items = np.arange(12, dtype=">i4").reshape(3, 4)
    array = blosc2.asarray(items)
    assert_same(np.asarray(array), items)
    assert_same(np.ascontiguousarray(array), items)
    assert np.asarray(array, dtype="f4").dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, copy=False)
    np.testing.assert_array_equal(np.add(array, 1), items + 1)


def test_chunks_as_they_are_stored() -> None:
    items = np.zeros((6, 4), "i4")
    items[4:] = np.arange(8).reshape(2, 4)
    array = blosc2.asarray(items, chunks=(4, 4), blocks=(2, 4), cparams={"clevel": 0})
    raw = array.get_chunk(1)
    # raw: 32 bytes of header, then the items, padded (FORMATS 2.2)
    assert raw[32:] == items[4:].tobytes() + bytes(32)
    infos = list(blosc2.full((6, 4), 9, dtype="i4", chunks=(4, 4), blocks=(2, 4)).iterchunks_info())
    assert [(info.nchunk, info.coords, info.special, info.repeated_value) for info in infos] == [
        (0, (0, 0), blosc2.SpecialValue.VALUE, 9), (1, (1, 0), blosc2.SpecialValue.VALUE, 9),
    ]  # fmt: skip
    assert infos[0].cratio == pytest.approx(64 / 36)
    for number in (2, -1):
        with pytest.raises(RuntimeError, match="Error while getting the chunk"):
            array.get_chunk(number)


def test_fields() -> None:
    dtype = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3")])
    items = cases.values(np.random.default_rng(3), dtype, (9, 4))
    array = blosc2.asarray(items, chunks=(4, 4), blocks=(2, 2))
    assert list(array.fields) == ["a", "b", "c"]
    field = array["a"]
    assert (field.shape, field.dtype, field.ndim, len(field)) == ((9, 4), np.dtype("<i4"), 2, 9)
    assert field.schunk is array.schunk
    assert_same(field[1:3], np.ascontiguousarray(items["a"][1:3]))
    assert_same(np.asarray(array.fields["b"]), np.ascontiguousarray(items["b"]))
    assert_same(field[5, 1], np.asarray(items["a"][5, 1]))  # no axes
    field[2:4] = items["a"][2:4] = 77
    array.fields["c"][...] = items["c"] = b"xyz"
    assert_same(array[:], items)
    assert len(list(field)) == 9
    with pytest.raises(TypeError, match="assign through the field view"):
        array.fields["a"] = 1  # type: ignore[index]
    with pytest.raises(KeyError):
        array.fields["d"]
    assert "'a'" in repr(field)
    assert repr(field) in repr(array.fields)


# --------------------------------------------------------------------- as a whole


def test_copy_keeps_everything(tmp_path: Path, rng: np.random.Generator) -> None:
    items = rng.integers(0, 99, (30, 20)).astype("<i4")
    array = blosc2.asarray(items, chunks=(8, 9), blocks=(3, 3), meta={"m": [1, 2]},
                           cparams={"codec": Codec.LZ4, "clevel": 3})  # fmt: skip
    array.vlmeta["v"] = {"x": 1}
    array.save(str(tmp_path / "saved.b2nd"))
    copies = [
        array.copy(), array.copy(urlpath=str(tmp_path / "copy.b2nd")), blosc2.copy(array),
        blosc2.open(str(tmp_path / "saved.b2nd")), array.copy(chunks=(10, 20)), array.copy(cparams={"clevel": 9}),
        blosc2.from_cframe(array.to_cframe()), array.copy("f8"),
    ]  # fmt: skip
    for copy in copies:
        np.testing.assert_array_equal(copy[:], items)
        assert (copy.meta["m"], dict(copy.vlmeta)) == ([1, 2], {"v": {"x": 1}})
    assert {copy.dtype for copy in copies} == {np.dtype("<i4"), np.dtype("f8")}
    assert copies[4].chunks == (10, 20)
    assert [copy.chunks for copy in copies[:4]] == [(8, 9)] * 4
    assert (copies[0].cparams.codec, copies[0].cparams.clevel, copies[5].cparams.clevel) == (Codec.LZ4, 3, 9)
    copies[0][:] = 0
    copies[0].vlmeta["v"] = 0
    np.testing.assert_array_equal(array[:], items)
    assert array.vlmeta["v"] == {"x": 1}
    with pytest.raises(ValueError, match="meta should not be passed to copy"):
        array.copy(meta={})
    with pytest.raises(FileExistsError):
        array.save(str(tmp_path / "saved.b2nd"))
    array.save(str(tmp_path / "saved.b2nd"), mode="w")


def test_slice_squeeze_and_reshape() -> None:
    items = np.arange(2 * 3 * 4).reshape(2, 1, 3, 4)
    array = blosc2.asarray(items, chunks=(1, 1, 2, 4), blocks=(1, 1, 1, 4), meta={"m": 1},
                           cparams={"codec": Codec.LZ4})  # fmt: skip
    array.vlmeta["v"] = 2
    part = array.slice((slice(None), 0, slice(1, None)))
    assert isinstance(part, NDArray)
    assert_same(part[...], np.ascontiguousarray(items[:, 0, 1:]))
    assert part.cparams.codec is Codec.LZ4
    axis: Any
    for axis in (None, 1, -3, (1,)):
        flat = array.squeeze(axis)
        assert_same(flat[...], items.squeeze(axis))
        assert (flat.chunks, flat.blocks) == ((1, 2, 4), (1, 1, 4))
        assert (flat.meta["m"], flat.vlmeta["v"]) == (1, 2)
    for axis in (0, 4, (1, 1)):
        with pytest.raises(ValueError):
            array.squeeze(axis)
    assert_same(array.reshape((4, 6))[...], items.reshape(4, 6))
    assert_same(array.reshape(24, chunks=(5,))[...], items.reshape(24))
    assert array.reshape(24, chunks=(5,)).chunks == (5,)
    with pytest.raises(ValueError, match="total size of new array must be unchanged"):
        array.reshape((5, 5))
    with pytest.raises(TypeError):
        NDArray()


def test_object_items_are_refused_in_both_directions(tmp_path: Path) -> None:
    urlpath = tmp_path / "objects.b2nd"
    makers: list[Any] = [
        lambda: blosc2.asarray(np.array([{}, 1], dtype=object), urlpath=str(urlpath)),
        lambda: blosc2.zeros(3, dtype=object, urlpath=str(urlpath)),
        lambda: blosc2.full(3, None, urlpath=str(urlpath)),
        lambda: blosc2.empty(3, dtype=[("a", "i4"), ("b", "O")], urlpath=str(urlpath)),
        lambda: blosc2.zeros(3).copy(object, urlpath=str(urlpath)),
    ]
    for make in makers:
        with pytest.raises(TypeError, match="object"):
            make()
        assert not urlpath.exists()
    blosc2.zeros(3, dtype="|V8", urlpath=str(urlpath))
    data = urlpath.read_bytes()
    assert data.count(b"|V8") == 1
    urlpath.write_bytes(data.replace(b"|V8", b"|O8"))
    with pytest.raises(blosc2.FormatError, match="pointers"):
        blosc2.open(str(urlpath), verify=False)


def test_the_super_chunk_of_an_array_cannot_break_it(tmp_path: Path) -> None:
    urlpath = tmp_path / "a.b2nd"
    items = np.arange(10, dtype="i4")
    array = blosc2.asarray(items, chunks=(4,), blocks=(2,), urlpath=str(urlpath))
    before = urlpath.read_bytes()
    schunk = array.schunk
    for change in (
        lambda: schunk.append_data(items[:4]), lambda: schunk.delete_chunk(0), lambda: schunk.insert_data(0, items[:4]),
        lambda: schunk.update_data(0, items[:3]), lambda: schunk.fill_special(4, blosc2.SpecialValue.ZERO),
        lambda: schunk.set_slice(bytes(4 * 20), 0, 20),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="resize the array"):
            change()
        assert urlpath.read_bytes() == before
    schunk.update_data(1, items[:4] + 100)
    want = items.copy()
    want[4:8] = items[:4] + 100
    np.testing.assert_array_equal(array[:], want)
    schunk.update_special(0, blosc2.SpecialValue.ZERO)
    want[:4] = 0
    np.testing.assert_array_equal(blosc2.open(str(urlpath))[:], want)


def test_lifetimes() -> None:
    """Views keep the storage alive, and nothing refers in a circle."""
    gc.disable()
    try:
        array = blosc2.arange(10)
        schunk, vlmeta = array.schunk, array.vlmeta
        handle = weakref.ref(array._handle)
        gone = weakref.ref(array)
        del array
        assert gone() is None
        assert schunk[0] == bytes(8)
        vlmeta["a"] = 1
        assert schunk.vlmeta["a"] == 1
        del schunk, vlmeta
        assert handle() is None
    finally:
        gc.enable()


def test_a_change_of_data_marks_stored_indexes_stale() -> None:
    array = blosc2.arange(10)
    array.vlmeta["blosc2_indexes"] = {"indexes": {"x": {"stale": False, "kind": "k"}}, "version": 1}
    array[0] = 5
    assert array.vlmeta["blosc2_indexes"] == {"indexes": {"x": {"stale": True, "kind": "k"}}, "version": 1}


def test_new_parameters_apply_to_new_chunks() -> None:
    array = blosc2.asarray(np.arange(100), chunks=(50,), blocks=(25,))
    array.cparams = blosc2.CParams(codec=Codec.LZ4, clevel=1)
    array[:10] = 1
    array.dparams = {"nthreads": 1}
    want = np.arange(100)
    want[:10] = 1
    np.testing.assert_array_equal(array[:], want)
    assert array.get_chunk(0)[22] == Codec.LZ4.value
    assert array.get_chunk(1)[22] == Codec.ZSTD.value
    array.cparams = {"codec": Codec.NDLZ, "codec_meta": 4, "filters": []}
    with pytest.raises(ValueError, match="only in arrays made with it"):
        array[:10] = 2
    np.testing.assert_array_equal(array[:], want)


@pytest.mark.parametrize(
    "key",
    [
        ([0, 2, 2], slice(1, 9, 3), [4]),
        (1, [3, 1], slice(None)),
        (np.array([True, False, True]), 0, -1),
        ([], [1], [2]),
    ],
)
def test_orthogonal_keys_pick_all_combinations(key: tuple[Any, ...]) -> None:
    items = np.arange(3 * 10 * 7).reshape(3, 10, 7)
    array = blosc2.asarray(items, chunks=(2, 4, 7), blocks=(1, 4, 3))
    want = items
    for axis in reversed(range(3)):
        part = np.zeros(0, int) if isinstance(key[axis], list) and not key[axis] else key[axis]
        want = want[(slice(None),) * axis + (part,)]
    found = array.oindex[key]
    assert found.shape == want.shape
    assert (found == want).all()
    array.oindex[key] = want + 1000
    assert (array.oindex[key] == want + 1000).all()
    changed = items.copy()
    changed[np.isin(items, want)] += 1000
    assert (array[:] == changed).all()


@pytest.mark.parametrize(
    ("key", "whole"),
    [
        (([0, 2],), np.s_[[0, 2]]), ((..., [0, 2]), np.s_[:, :, [0, 2]]), (([2, 0], ..., 1), np.s_[[2, 0], :, 1]),
        (([0, 2], ..., 1, slice(3)), np.s_[[0, 2], 1, :3]), (..., np.s_[:]), ((), np.s_[:]), (1, np.s_[1]),
        (np.array([True, False, True]), np.s_[[0, 2]]),
    ],
)  # fmt: skip
def test_orthogonal_keys_are_completed(key: Any, whole: Any) -> None:
    items = np.arange(3 * 10 * 7).reshape(3, 10, 7)
    array = blosc2.asarray(items, chunks=(2, 4, 7), blocks=(1, 4, 3))
    assert_same(array.oindex[key], items[whole])
    array.oindex[key] = -items[whole]
    items[whole] = -items[whole]
    assert_same(array[:], items)


def test_orthogonal_keys_that_are_refused() -> None:
    array = blosc2.zeros((3, 4))
    with pytest.raises(ValueError, match="each of the 2 axes, not 3"):
        array.oindex[[1], ..., [1], [1]]
    for key in ((..., ...), (None, [1])):
        with pytest.raises(IndexError, match="oindex takes no newaxis"):
            array.oindex[key]
    with pytest.raises(IndexError):
        array.oindex[[5], [0]]


def test_orthogonal_keys_in_a_list() -> None:
    items = np.arange(1000).reshape(10, 10, 10)
    array = blosc2.asarray(items, chunks=(4, 4, 4))
    keys = [[3, 1, 2], [2, 5], [3, 3, 9, 0]]
    assert_same(array.oindex[keys], items[np.ix_(*keys)])
    assert_same(array.oindex[[np.array([1]), slice(2), [0, -1]]], items[[1], :2][..., [0, -1]])
    array.oindex[keys] = -1
    items[np.ix_(*keys)] = -1
    assert_same(array[:], items)
    assert_same(blosc2.asarray(items[0, 0]).oindex[[3, 1]], items[0, 0, [3, 1]])


def test_one_view_of_the_metadata() -> None:
    array = blosc2.zeros(3)
    for found in (array, array.schunk):
        assert found.attrs is found.vlmeta
    assert array.vlmeta is array.vlmeta
    array.attrs["a"] = 1
    assert array.schunk.vlmeta[:] == {"a": 1}
    gone = weakref.ref(array)
    metadata = array.vlmeta
    del array, found
    assert gone() is None
    assert metadata["a"] == 1


@pytest.mark.parametrize(("width", "value"), [(1, 0x0505), (2, 5), (4, None), (3, None)])
def test_a_repeated_value_need_not_be_one_item(width, value):
    """Chunks may repeat values of any size; what is told of them is an item, where all items are the same."""
    stored = bytearray(blosc2.full((12,), 5, "i2", chunks=(12,), blocks=(12,)).schunk.get_chunk(0))
    stored[32:] = (5).to_bytes(width, "little")
    stored[12:16] = len(stored).to_bytes(4, "little")
    array = blosc2.zeros((12,), "i2", chunks=(12,), blocks=(12,))
    array.schunk.update_chunk(0, bytes(stored))
    found = next(array.iterchunks_info())
    assert found.special == blosc2.SpecialValue.VALUE
    assert (None if found.repeated_value is None else int(found.repeated_value)) == value


def test_text_of_numbers_that_are_no_characters(tmp_path: Path, source: str | None) -> None:
    """NumPy raises a SystemError when it makes a string of such an item."""
    path = str(tmp_path / "a.b2nd")
    numbers = np.full((3, 1), 65, "u4")
    numbers[1] = 0xDEADBEEF
    text = numbers.view("<U1")[:, 0]
    with pytest.raises(SystemError):
        text[1]
    blosc2.asarray(text, urlpath=path)
    array = blosc2.open(path, mmap_mode=source)
    assert bytes(array[:]) == text.tobytes()
    with pytest.raises(FormatError, match="no Unicode character"):
        list(array)
    with pytest.raises(FormatError, match="no Unicode character") as refused:
        array.item(1)
    assert refused.value.path == path
    assert array.item(2) == "A"
