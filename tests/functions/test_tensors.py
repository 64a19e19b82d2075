"""Arrays and tensors as plain frames: what comes back, what is on disk, and frames that hold something else."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.isolated import environment
from fixture_kit.mutation import mutate
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import blosc2
from blosc2 import Codec, Filter, FormatError
from blosc2._frames.metadata import pack
from blosc2.exceptions import UnsafeDeserializationError

ENTRY = "__pack_tensor__"
PACKERS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (blosc2.pack_array2, blosc2.unpack_array2), (blosc2.pack_tensor, blosc2.unpack_tensor)]  # fmt: skip
SAVERS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (blosc2.save_array, blosc2.load_array), (blosc2.save_tensor, blosc2.load_tensor)]  # fmt: skip
PACKING = pytest.mark.parametrize(("pack_it", "unpack_it"), PACKERS, ids=["array2", "tensor"])
SAVING = pytest.mark.parametrize(("save_it", "load_it"), SAVERS, ids=["array", "tensor"])


pytestmark = pytest.mark.usefixtures("no_sync")


def same(got: Any, want: np.ndarray[Any, Any]) -> None:
    """Shape, dtype and every byte in C order, in memory of its own."""
    assert type(got) is np.ndarray
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert got.tobytes() == want.tobytes()
    assert got.flags.writeable
    assert got.flags.c_contiguous


def frame_with(entry: Any, data: bytes = bytes(24), **more: Any) -> bytes:
    """A frame with this description of its data."""
    schunk = blosc2.SChunk(data=data, **more)
    schunk.vlmeta[ENTRY] = entry
    return schunk.to_cframe()


# --------------------------------------------------------------------- round trips

DTYPES = (
    hnp.boolean_dtypes() | hnp.integer_dtypes(endianness="?") | hnp.floating_dtypes(endianness="?")
    | hnp.complex_number_dtypes(endianness="?") | hnp.datetime64_dtypes(endianness="?")
    | hnp.timedelta64_dtypes(endianness="?") | hnp.byte_string_dtypes(endianness="?", min_len=1)
    | hnp.unicode_string_dtypes(endianness="?", min_len=1)
)  # fmt: skip


@given(
    items=st.one_of(DTYPES, hnp.array_dtypes(DTYPES), hnp.nested_dtypes(DTYPES, max_itemsize=200)).flatmap(
        lambda dtype: hnp.arrays(dtype.base, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6))
    ),
    order=st.sampled_from("CF"),
    reverse=st.booleans(),
    codec=st.sampled_from([Codec.LZ4, Codec.ZSTD]),
    chunksize=st.none() | st.integers(1, 200),
)
@settings(max_examples=200, deadline=None)
def test_arrays_come_back(
    items: np.ndarray[Any, Any], order: str, reverse: bool, codec: Codec, chunksize: int | None
) -> None:
    items = np.asarray(items, order=order)  # type: ignore[call-overload]
    if reverse and items.ndim:
        items = items[::-1]
    for pack_it, unpack_it in PACKERS:
        frame = pack_it(items, chunksize, cparams={"codec": codec})
        assert type(frame) is bytes
        same(unpack_it(frame), items)
        same(unpack_it(bytearray(frame)), items)


ARRAYS = [
    np.arange(24).reshape(2, 3, 4), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(5), np.zeros((0, 3)),
    np.zeros((3, 0, 2), "M8[s]"), np.arange(6, dtype=">i4"), np.array([b"ab", b"c"]), np.array(["ab", "çd"]),
    np.zeros(3, [("a", "i4"), ("b", "f8")]), np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    np.ones(3, [("a", "i4", (2, 2)), ("b", "S3")]), np.ones(2, [("a", [("b", ">i2"), ("c", "M8[ns]")])]),
    np.zeros(3, [(("a title", "a"), "i4")]), np.ones(2, "V5"), np.ones(2, "V300"), np.zeros((), [("a", "i4")]),
    np.arange(5).astype("m8[3D]"), np.array(["1970-01-02", "NaT"], "M8[D]"), np.arange(20)[::3],
    np.array([True, False]),
]  # fmt: skip


@SAVING
@pytest.mark.parametrize("items", ARRAYS, ids=lambda a: f"{a.dtype}-{a.shape}")
def test_files_come_back(save_it: Any, load_it: Any, items: np.ndarray[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "items.b2frame"
    assert save_it(items, path) == path.stat().st_size
    for name in (path, str(path), os.fsencode(path)):
        same(load_it(name), items)
    same(load_it(path, {"nthreads": 1}), items)
    same(load_it(path, dparams=blosc2.DParams(nthreads=2)), items)
    frame = blosc2.open(path).to_cframe()
    for pack_it, unpack_it in PACKERS:
        assert pack_it(items) == frame
        same(unpack_it(frame), items)
        same(unpack_it(path.read_bytes()), items)  # which carries checksums


def test_the_entry_names_kind_shape_and_dtype(tmp_path: Path) -> None:
    path = tmp_path / "items.b2frame"
    for items, entry in (
        (np.zeros((2, 3)), ("numpy", (2, 3), "<f8")),
        (np.array(1, ">i2"), ("numpy", (), ">i2")),
        (np.zeros(1, [("a", "i4"), ("b", "S2")]), ("numpy", (1,), [("a", "<i4"), ("b", "|S2")])),
    ):
        blosc2.save_array(items, path, mode="w")
        found = blosc2.open(path)
        assert type(found) is blosc2.SChunk
        assert found.vlmeta[:] == {ENTRY: entry}
        assert found.typesize == items.itemsize


def test_parameters_and_metalayers(tmp_path: Path) -> None:
    path = tmp_path / "items.b2frame"
    blosc2.save_array(np.arange(1000), path, cparams=blosc2.CParams(codec=Codec.LZ4, typesize=4), meta={"m": [1]})
    found = blosc2.open(path)
    assert (found.cparams.codec, found.typesize, found.meta["m"]) == (Codec.LZ4, 4, [1])
    assert blosc2.pack_array2(np.arange(3), urlpath=tmp_path / "a") == (tmp_path / "a").stat().st_size
    assert blosc2.pack_tensor(np.arange(3), storage={"urlpath": tmp_path / "b"}) == (tmp_path / "b").stat().st_size
    same(blosc2.load_tensor(tmp_path / "b"), np.arange(3))
    same(blosc2.unpack_array2(blosc2.pack_array2(np.arange(3), contiguous=False)), np.arange(3))


def test_many_filters_leave_the_array_alone() -> None:
    items = np.arange(20_000, dtype="i8") % 977
    before = items.tobytes()
    how = {"filters": [Filter.BITSHUFFLE, Filter.SHUFFLE, Filter.BYTEDELTA], "filters_meta": [0, 0, 8]}
    for chunksize in (None, 30_000):
        same(blosc2.unpack_array2(blosc2.pack_array2(items, chunksize, cparams=how)), np.frombuffer(before, "i8"))
        assert items.tobytes() == before


def test_directories(tmp_path: Path) -> None:
    """A frame that is a directory of chunk files."""
    path = tmp_path / "items"
    items = np.arange(100_000, dtype="i4")
    for _ in range(2):
        assert 0 < blosc2.save_tensor(items, path, chunksize=100_000, mode="w", contiguous=False) < items.nbytes
        assert path.is_dir()
        same(blosc2.load_tensor(path), items)


def test_arrays_of_this_package_and_subclasses() -> None:
    items = np.arange(12.0).reshape(3, 4)
    same(blosc2.unpack_array2(blosc2.pack_array2(blosc2.asarray(items))), items)
    same(blosc2.unpack_tensor(blosc2.pack_tensor(items.view(np.matrix))), items)
    records = np.zeros(2, [("a", "i4")]).view(np.recarray)
    same(blosc2.unpack_tensor(blosc2.pack_tensor(records)), np.zeros(2, [("a", "i4")]))


# --------------------------------------------------------------------- tensors of other libraries


class Stand:
    """What stands for a tensor: an array that only `numpy.asarray` gets at."""

    def __init__(self, items: Any) -> None:
        self.items = np.asarray(items)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return self.items


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> dict[str, type[Stand]]:
    """Two small modules under the names of large ones."""
    made: dict[str, type[Stand]] = {}
    for name, maker in (("torch", "from_numpy"), ("tensorflow", "constant")):
        module = types.ModuleType(name)
        made[name] = type("Tensor", (Stand,), {"__module__": name})
        module.Tensor = made[name]  # type: ignore[attr-defined]
        setattr(module, maker, made[name])
        monkeypatch.setitem(sys.modules, name, module)
    return made


@pytest.mark.parametrize("kind", ["torch", "tensorflow"])
def test_tensors(kind: str, libraries: dict[str, type[Stand]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor_type = libraries[kind]
    path = tmp_path / "tensor.b2frame"
    for items in (np.arange(6.0).reshape(2, 3), np.array(5), np.zeros(0), np.ones(3, bool), np.arange(9)[::2]):
        tensor = tensor_type(items)
        for frame in (blosc2.pack_tensor(tensor), blosc2.pack_array2(tensor)):
            assert blosc2.schunk_from_cframe(frame).vlmeta[ENTRY] == (kind, items.shape, items.dtype.str)
            got = blosc2.unpack_tensor(frame)
            assert type(got) is tensor_type
            same(got.items, items)
            same(blosc2.unpack_array2(frame), items)
        blosc2.save_tensor(tensor, path, mode="w")
        got = blosc2.load_tensor(path)
        assert type(got) is tensor_type
        same(got.items, items)
        same(blosc2.load_array(path), items)
    monkeypatch.setitem(sys.modules, kind, None)  # it is not installed
    extra = r": pip install 'python-blosc2\[torch\]' adds it" if kind == "torch" else "; "
    with pytest.raises(
        ImportError, match=f"a tensor of {kind} needs the package '{kind}'{extra}.*load_array"
    ) as caught:
        blosc2.load_tensor(path)
    assert caught.value.name == kind
    same(blosc2.load_array(path), items)
    with pytest.raises(TypeError, match="Unrecognized tensor/array"):
        blosc2.pack_tensor(tensor)


@pytest.mark.parametrize(("kind", "bits"), [("bfloat16", "uint16"), ("float8_e5m2", "uint8")])
def test_tensors_of_types_that_numpy_has_not(kind: str, bits: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(4).to(getattr(torch, kind))
    store, array = blosc2.EmbedStore(), blosc2.zeros(4)
    acts: list[Callable[[Any], Any]] = [
        blosc2.pack_tensor, blosc2.asarray, lambda item: store.__setitem__("/a", item),
        lambda item: array.__setitem__(slice(None), item), lambda item: blosc2.Samples({"a": item}),
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(TypeError, match=rf"give the bits, .*torch\.{bits}"):
            act(tensor)
    packed = blosc2.pack_tensor(tensor.view(getattr(torch, bits)))
    assert blosc2.unpack_tensor(packed).view(tensor.dtype).tolist() == [0, 1, 2, 3]


def test_a_library_is_imported_where_it_is_needed(tmp_path: Path) -> None:
    code = """
import sys, types
import numpy as np
import blosc2
torch = types.ModuleType("torch")
torch.Tensor = type("Tensor", (), {"__array__": lambda self, dtype=None, copy=None: np.arange(3)})
sys.modules["torch"] = torch
path = sys.argv[1]
blosc2.save_tensor(torch.Tensor(), path)
del sys.modules["torch"]
assert blosc2.load_array(path).tolist() == [0, 1, 2]
assert not {"torch", "tensorflow", "pickle5"} & set(sys.modules)
assert blosc2.load_tensor(path) == ("tensor", [0, 1, 2])
"""
    (tmp_path / "torch.py").write_text("def from_numpy(array): return ('tensor', array.tolist())")
    subprocess.run([sys.executable, "-c", code, "tensor"], check=True, env=environment(), cwd=tmp_path)


# --------------------------------------------------------------------- what is refused


@PACKING
def test_what_cannot_be_packed(pack_it: Any, unpack_it: Any) -> None:
    for other in ([1, 2], b"abc", 5, np.float64(5), "abc", None, {"a": 1}, bytearray(3), memoryview(b"abc")):
        with pytest.raises(TypeError, match="Unrecognized tensor/array"):
            pack_it(other)
    for items, text in (
        (np.array([object()]), "pointers"),
        (np.zeros(2, [("a", "O")]), "pointers"),
        (np.array(["a"], np.dtypes.StringDType()), "pointers"),
        (np.ma.masked_array([1, 2], [True, False]), "masked"),
        (np.zeros(1, np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]})), "overlap"),
    ):
        with pytest.raises(TypeError, match=text):
            pack_it(items)
    with pytest.raises(ValueError, match="no bytes"):
        pack_it(np.zeros(2, "S0").view("V0") if np.zeros(2, "S0").itemsize == 0 else np.zeros(2, []))
    for how, kind in (
        ({"foo": 1}, ValueError), ({"clevel": 1}, ValueError), ({"mode": "r"}, ValueError), ({"mode": "q"}, ValueError),
        ({"chunksize": 0}, ValueError), ({"chunksize": 2**31}, ValueError), ({"chunksize": 1.5}, TypeError),
        ({"cparams": {"codec": Codec.NDLZ}}, ValueError), ({"cparams": {"clevel": 10}}, ValueError),
        ({"cparams": {"filters": [Filter.DELTA, Filter.DELTA]}}, ValueError),
        ({"storage": {"mode": "w"}, "mode": "w"}, AttributeError),
    ):  # fmt: skip
        with pytest.raises(kind):
            pack_it(np.arange(10), **how)
    for data in ("abc", 5, None):
        with pytest.raises(TypeError):
            unpack_it(data)


@SAVING
def test_nothing_is_written_that_is_refused(save_it: Any, load_it: Any, tmp_path: Path) -> None:
    path = tmp_path / "items.b2frame"
    save_it(np.arange(5), path)
    before = path.read_bytes()
    for call, kind in (
        (lambda: save_it(np.arange(6), path), RuntimeError),
        (lambda: save_it(np.arange(6), path), FileExistsError),
        (lambda: save_it(np.arange(6), path, mode="x"), FileExistsError),
        (lambda: save_it([1], path, mode="w"), TypeError),
        (lambda: save_it(np.array([None]), path, mode="w"), TypeError),
        (lambda: save_it(np.arange(6), path, mode="w", foo=1), ValueError),
        (lambda: save_it(np.arange(6), path, mode="r"), ValueError),
        (lambda: save_it(np.arange(6), path, urlpath=path), TypeError),
        (lambda: save_it(np.arange(6), tmp_path, mode="w"), OSError),
        (lambda: save_it(np.arange(6), tmp_path / "no" / "such"), FileNotFoundError),
        (lambda: save_it(np.arange(6), "https://127.0.0.1:1/x"), (ImportError, OSError)),
        (lambda: save_it(np.arange(6), 5), TypeError),
    ):
        with pytest.raises(kind):
            call()
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, [path.name])
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        load_it(tmp_path / "nope")
    with pytest.raises(ValueError, match="storage_options"):
        load_it(path, storage_options={"anon": True})
    same(load_it(path, storage_options=None), np.arange(5))


@SAVING
def test_files_of_other_kinds(save_it: Any, load_it: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    blosc2.SChunk(data=b"12345678", urlpath=path)
    array = str(tmp_path / "x.b2nd")
    blosc2.ones(3, urlpath=array)
    store = str(tmp_path / "x.b2e")
    blosc2.EmbedStore(store, mode="w").close()
    for name in (path, array, store):
        with pytest.raises(KeyError, match="__pack_tensor__"):
            load_it(name)
    (tmp_path / "text").write_text("no frame at all, but rather more than 100 bytes of text" * 3)
    with pytest.raises(FormatError):
        load_it(tmp_path / "text")


BAD_ENTRIES = [
    "numpy", ("numpy", (3,)), ("numpy", (3,), "<i8", 1), {"numpy": 1}, None, ("jax", (3,), "<i8"), (5, (3,), "<i8"),
    ("numpy", 3, "<i8"), ("numpy", (3.0,), "<i8"), ("numpy", (-3,), "<i8"), ("numpy", (True, 3), "<i8"),
    ("numpy", (4,), "<i8"), ("numpy", (2,), "<i8"), ("numpy", (), "<i8"), ("numpy", (2**62, 2**62), "<i8"),
    ("numpy", (10**9,), "<i8"), ("numpy", (3,), "|O"), ("numpy", (3,), "nonsense"), ("numpy", (3,), 8),
    ("numpy", (3,), []), ("numpy", (1,), ("<i8", (3,))), ("numpy", (3,), [("a", "|O")]), ("numpy", (3,), [("a",)]),
    ("numpy", (3,), [("a", "<i4"), ("a", "<i4")]), ("numpy", (3,), {"names": ["a"]}),
    ("numpy", (3,), "__import__('os')"),
    ("numpy", (1,) * 65 + (3,), "<i8"), (["numpy"], (3,), "<i8"), ("numpy", "abc", "<i8"),
    ("numpy", (1,), [("a", "V24", (2**31,))]), ("numpy", (3,), [(1, "<i8")]), ("numpy", (3,), [[["a"], "<i8"]]),
]  # fmt: skip


@PACKING
@pytest.mark.parametrize("entry", BAD_ENTRIES, ids=repr)
def test_descriptions_that_cannot_be(pack_it: Any, unpack_it: Any, entry: Any) -> None:
    with pytest.raises(FormatError, match="__pack_tensor__"):
        unpack_it(frame_with(entry))


@PACKING
def test_sizes_that_overflow_though_nothing_is_there(pack_it: Any, unpack_it: Any) -> None:
    for shape in ((0, 2**62), (2**62, 0, 2**62), (0,) * 65):
        with pytest.raises(FormatError, match="shape"):
            unpack_it(frame_with(("numpy", shape, "<i8"), b""))


@PACKING
def test_old_files_have_lists_for_tuples(pack_it: Any, unpack_it: Any) -> None:
    data = np.arange(6, dtype="<i4").tobytes()
    for entry, dtype in (
        (["numpy", [3], "<i8"], "i8"),
        (["numpy", [3], [["a", "<i4"], ["b", "<i4"]]], [("a", "i4"), ("b", "i4")]),
        (["numpy", [1], [["a", [["b", "<i4"]], [2, 3]]]], [("a", [("b", "i4")], (2, 3))]),
        (["numpy", [3], [["", "|V8"]]], "V8"),
        (["numpy", [3], [[["title", "a"], "<i8"]]], [(("title", "a"), "i8")]),
    ):
        got = unpack_it(frame_with(entry, data))
        same(got, np.frombuffer(data, dtype))


@PACKING
def test_active_values_are_not_opened(pack_it: Any, unpack_it: Any, tmp_path: Path) -> None:
    frame = frame_with(("numpy", (3,), blosc2.SChunk(data=b"12345678")))
    path = tmp_path / "x"
    path.write_bytes(frame)
    for call in (lambda: unpack_it(frame), lambda: blosc2.load_array(path), lambda: blosc2.load_tensor(path)):
        with pytest.raises(UnsafeDeserializationError):
            call()


@PACKING
def test_frames_that_are_cut_or_damaged(pack_it: Any, unpack_it: Any, tmp_path: Path) -> None:
    items = np.arange(300, dtype="i4").reshape(30, 10)
    frame = pack_it(items, 400, cparams={"codec": Codec.LZ4})
    for cut in range(len(frame)):
        with pytest.raises(FormatError):
            unpack_it(frame[:cut])
    for seed in range(800):
        damaged, _, what = mutate(frame, seed)
        with contextlib.suppress(FormatError, KeyError, UnsafeDeserializationError, ImportError):
            got = unpack_it(damaged)
            assert got.nbytes <= 10 * items.nbytes, what


@PACKING
def test_claims_of_sizes_take_no_memory(pack_it: Any, unpack_it: Any) -> None:
    """The sizes in header and description agree, and no chunks are there for them."""
    frame = bytearray(frame_with(("numpy", (2**40,), "|u1"), bytes(range(24)), cparams={"typesize": 1}))
    assert frame[29] == 0xD3
    frame[30:38] = (2**40).to_bytes(8, "big")
    with pytest.raises(FormatError):
        unpack_it(bytes(frame))


def test_the_entry_is_packed_as_it_always_was() -> None:
    schunk = blosc2.schunk_from_cframe(blosc2.pack_array2(np.zeros((2, 3), "i8")))
    packed = b"\x94\xa9__tuple__\xa5numpy\x93\xa9__tuple__\x02\x03\xa3<i8"
    assert pack(schunk.vlmeta[ENTRY]) == packed
    assert schunk._handle.frame.vlmeta(ENTRY) == packed


def test_large_tensors_are_divided(tmp_path: Path) -> None:
    """Threads share chunks, and Ctrl-C waits for a few."""
    items = np.arange(1_500_000)
    blosc2.save_tensor(items, tmp_path / "a.b2frame")
    assert blosc2.open(tmp_path / "a.b2frame").chunksize == 4 << 20
    same(blosc2.load_tensor(tmp_path / "a.b2frame"), items)
    blosc2.save_tensor(items[:10], tmp_path / "b.b2frame")
    assert blosc2.open(tmp_path / "b.b2frame").chunksize == 80
