"""`convert` from and to HDF5: what h5py sees, chunks that are taken over, and what has no counterpart."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError

h5py = pytest.importorskip("h5py")
hdf5plugin = pytest.importorskip("hdf5plugin")

NOISE = np.random.default_rng(0).integers(0, 100, (1000, 700)).astype("i4")


def make(path: Path) -> Any:
    """A file of all that has a counterpart."""
    with h5py.File(path, "w") as file:
        file.attrs.update({
            "title": "hé", "n": np.int32(4), "m": 7, "v": np.arange(3, dtype="f4"), "t": ["a", "bb"], "b": True,
            "fixed": np.bytes_(b"abc"), "big": np.array(3, ">i2"), "f": 2.5,
        })  # fmt: skip
        blosc = hdf5plugin.Blosc2(cname="zstd", clevel=3)
        file.create_dataset("g/plain", data=np.arange(7000, dtype="i4").reshape(100, 70)).attrs["unit"] = "mm"
        file.create_dataset("g/b2", data=NOISE, chunks=(320, 400), **blosc)
        file.create_dataset("g/b1", data=np.arange(1e6), chunks=(65536,), **hdf5plugin.Blosc2(cname="lz4", clevel=3))
        file.create_dataset("g/b3", data=NOISE.reshape(10, 100, 700), chunks=(3, 50, 300), **blosc)
        file.create_dataset(
            "gzip", data=np.arange(1e5, dtype=">f4").reshape(100, 1000), chunks=(10, 100), compression=1
        )
        sparse = file.create_dataset("sparse", (1000, 1000), "f4", chunks=(100, 100), fillvalue=3.5, **blosc)
        sparse[150:250, 3] = 1
        file["scalar"], file["text"], file["bool"] = np.float32(2.5), "hello", np.array([True, False])
        file["texts"], file["grid"] = np.array(["a", "bé", ""], object), np.array([["a", "b"]], object)
        file["fixed"], file["complex"] = np.array([b"ab", b"c"]), np.array([1 + 2j])
        file["fields"] = np.array([(1, 2.5)], dtype=[("x", "i4"), ("y", ">f8")])
        file["enum"] = np.array([0, 1], dtype=h5py.enum_dtype({"A": 0, "B": 1}, "i1"))
        file["none"] = np.zeros((0, 3))
        file.create_group("empty").attrs["x"] = 1.5


def contents(path: Path) -> dict[str, Any]:
    """All groups and datasets: dtype, items, attributes."""
    found: dict[str, Any] = {}

    def note(name: str, item: Any) -> None:
        attributes = {
            name: (str(getattr(value, "dtype", type(value))), str(value)) for name, value in item.attrs.items()
        }
        if isinstance(item, h5py.Dataset):
            found[name] = (
                item.dtype,
                item.shape,
                str(item.fillvalue),
                item[()].tobytes() if item.dtype.kind != "O" else str(item[()]),
                attributes,
            )
        else:
            found[name] = attributes

    with h5py.File(path) as file:
        note("/", file)
        file.visititems(note)
    return found


def test_there_and_back(tmp_path: Path) -> None:
    make(tmp_path / "a.h5")
    for suffix in (".b2z", ".b2d"):
        there = blosc2.convert(tmp_path / "a.h5", tmp_path / f"a{suffix}", verify=True)
        back = blosc2.convert(tmp_path / f"a{suffix}", tmp_path / "b.h5", verify=True, overwrite=True)
        assert [*there.left_out, *back.left_out, *back.changed] == []
        assert [(each.key, each.what) for each in there.changed] == [("/grid", "its axes"), ("/text", "its axes")]
        assert contents(tmp_path / "b.h5") == contents(tmp_path / "a.h5")


@pytest.mark.parametrize("name", ["g/b1", "g/b2", "g/b3", "sparse"])
def test_chunks_are_taken_over(tmp_path: Path, name: str) -> None:
    """The compressed bytes of a chunk are those of the HDF5 file, and nothing is decoded for them."""
    make(tmp_path / "a.h5")
    blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z")
    with h5py.File(tmp_path / "a.h5") as file, blosc2.open(str(tmp_path / "a.b2z")) as store:
        source, leaf = file[name], store["/" + name]
        np.testing.assert_array_equal(leaf[...], source[...])
        assert leaf.chunks == source.chunks
        taken = 0
        for number, index in enumerate(
            np.ndindex(*(-(-n // c) for n, c in zip(source.shape, source.chunks, strict=True)))
        ):
            try:
                _, stored = source.id.read_direct_chunk(tuple(i * c for i, c in zip(index, source.chunks, strict=True)))
            except (ValueError, RuntimeError, OSError):  # never written
                continue
            taken += blosc2.schunk_from_cframe(stored).get_chunk(0) == leaf.schunk.get_chunk(number)
        assert taken == (source.id.get_num_chunks() if name != "sparse" else 2)


def test_a_chunk_of_another_kind_is_compressed_anew(tmp_path: Path) -> None:
    """A chunk that no filter has touched, and one whose frame is of another array."""
    items = NOISE[:300, :300]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        found = file.create_dataset("x", data=items, chunks=(100, 100), **hdf5plugin.Blosc2())
        found.id.write_direct_chunk((100, 100), np.ascontiguousarray(items[100:200, 100:200]).tobytes(), filter_mask=1)
    blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        np.testing.assert_array_equal(store["/x"][...], items)


def test_enums_and_fill_values_of_lists(tmp_path: Path) -> None:
    colours = h5py.enum_dtype({"red": 1, "blue": 2}, "i1")
    fields = np.dtype([("text", h5py.string_dtype()), ("one", colours), ("some", h5py.vlen_dtype(colours))])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("fields", (1,), fields)[0] = ("x", 1, np.array([1, 2], "i1"))
        file.create_dataset("ragged", (1,), h5py.vlen_dtype(colours))[0] = np.array([2], "i1")
        file.create_dataset("texts", data=["a", "b"], dtype=h5py.string_dtype(), fillvalue="é", maxshape=(None,))
        file.create_dataset("plain", data=["a", "b"], dtype=h5py.string_dtype(), fillvalue="")
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [
        ("/fields", "the enum of 'one', 'some'"), ("/ragged", "the enum of its items"),
    ]  # fmt: skip
    with blosc2.open(str(tmp_path / "a.b2z"), mode="a") as store:
        assert (store["/texts"].vlmeta[:], store["/plain"].vlmeta[:]) == ({"hdf5_fillvalue": "é"}, {})
        del store["/fields"]
        store["/ragged"].vlmeta["hdf5_fillvalue"] = "of a text"
        store["/plain"].vlmeta["hdf5_fillvalue"] = "zero\0"
    blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.h5", verify=True)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["texts"].fillvalue.decode() == "é"
        assert "hdf5_fillvalue" not in file["texts"].attrs
        assert file["ragged"].attrs["hdf5_fillvalue"] == "of a text"


def test_a_damaged_chunk_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        found = file.create_dataset("x", data=NOISE[:300, :300], chunks=(100, 100), **hdf5plugin.Blosc2())
        _, stored = found.id.read_direct_chunk((100, 100))
        found.id.write_direct_chunk((100, 100), stored[: len(stored) // 2])
    with pytest.raises(ConversionError, match=r"nothing of it can be read: /x: .*filter"):
        blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", resume=False)
    assert os.listdir(tmp_path) == ["a.h5"]


def test_what_has_no_counterpart(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        file["same"] = file["x"]
        file["soft"] = h5py.SoftLink("/x")
        file["dangling"] = h5py.SoftLink("/nothing")
        file["out"] = h5py.ExternalLink("other.h5", "/x")
        file["null"] = h5py.Empty("f4")
        file["type"] = np.dtype("i4")
        file["reference"] = np.array([file["x"].ref], dtype=h5py.ref_dtype)
        ragged = file.create_dataset("ragged", (2,), h5py.vlen_dtype("i4"))
        ragged[0], ragged[1] = np.arange(2), np.arange(3)
        file["loop"] = file["/"]
        file.create_dataset("utf8", data=np.array([b"a"], h5py.string_dtype("utf-8", 4)))
        file.attrs["reference"], file.attrs["null"] = file["x"].ref, h5py.Empty("f4")
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    assert {(each.key, each.what) for each in report.left_out} == {
        ("/", "attribute 'null'"), ("/", "attribute 'reference'"), ("/dangling", "soft link"),
        ("/null", "all of it"), ("/out", "external link"),
        ("/reference", "all of it"), ("/type", "named datatype"),
    }  # fmt: skip
    assert {(each.key, each.what) for each in report.changed} == {
        ("/loop", "hard link"), ("/soft", "soft link"), ("/utf8", "the character set"), ("/x", "hard link"),
    }  # fmt: skip
    assert not report.complete
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert list(store) == ["/ragged", "/same", "/utf8"]
    store = blosc2.TreeStore(str(tmp_path / "b.b2z"), mode="w")
    with store:
        store["/when"], store["/bytes"] = np.array(["2020-01-01"], "M8[D]"), blosc2.SChunk(data=b"abc")
        store["/objects"] = blosc2.ObjectArray()
        store["/objects"].append({"a": 1})
        store.attrs["who"] = "me"
    report = blosc2.convert(tmp_path / "b.b2z", tmp_path / "b.h5")
    assert [each.key for each in report.left_out] == ["/bytes", "/objects", "/when"]
    assert "; store array[...].astype('i8')" in report.left_out[2].why


GIVEN = [
    {"chunks": (100, 300), "blocks": (30, 70)}, {"chunks": (100, 300), "blocks": (100, 300)},
    {"chunks": (1000, 700), "blocks": (7, 700)}, {"chunks": (100, 300), "cparams": {"clevel": 0}},
    *({"chunks": (300, 300), "cparams": {"codec": codec, "clevel": 3}} for codec in list(blosc2.Codec)[:5]),
    {"chunks": (300, 300), "cparams": {"filters": [blosc2.Filter.BITSHUFFLE]}},
    {"chunks": (300, 300), "cparams": {"filters": [blosc2.Filter.TRUNC_PREC], "filters_meta": [20]}},
    {"chunks": (300, 300), "cparams": {"codec": blosc2.Codec.ZSTD, "use_dict": True}},
]  # fmt: skip
ITEMS = {"noise": NOISE.astype("f4"), "zeros": np.zeros((1000, 700)), "nan": np.full((1000, 700), np.nan, "f4")}


@pytest.mark.parametrize("how", GIVEN, ids=str)
@pytest.mark.parametrize("name", ITEMS)
def test_chunks_are_given_back(tmp_path: Path, how: dict[str, Any], name: str) -> None:
    """h5py, with the filter of hdf5plugin, reads chunks that were compressed here."""
    source = blosc2.asarray(ITEMS[name], urlpath=str(tmp_path / "a.b2nd"), **how)
    blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.h5", verify=True)
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["a"][...], source[...])
        assert file["a"].chunks == how["chunks"]
    blosc2.convert(tmp_path / "a.h5", tmp_path / "b.b2nd", verify=True)
    np.testing.assert_array_equal(blosc2.open(str(tmp_path / "b.b2nd"))[...], source[...])


@pytest.mark.parametrize(
    ("cparams", "filters"),
    [
        ({"codec": blosc2.Codec.ZLIB, "clevel": 7}, ("gzip", 7, True)), ({"clevel": 0}, (None, None, False)),
        (blosc2.CParams(codec=blosc2.Codec.ZLIB), ("gzip", 5, True)), ({"codec": blosc2.Codec.LZ4}, "32026"),
        (None, "32026"),
    ],
    ids=["gzip", "none", "an object", "lz4", "default"],
)  # fmt: skip
def test_how_hdf5_is_compressed(tmp_path: Path, cparams: Any, filters: Any) -> None:
    """h5py alone reads gzip, and what is not compressed; else the report names the plug-in."""
    blosc2.asarray(NOISE, chunks=(100, 700), urlpath=str(tmp_path / "a.b2nd"))
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.h5", cparams=cparams, verify=True)
    with h5py.File(tmp_path / "a.h5") as file:
        found = file["a"]
        assert found.chunks == (100, 700)
        if filters == "32026":
            assert list(found._filters) == [filters]
        else:
            assert (found.compression, found.compression_opts, found.shuffle) == filters
            assert found.id.get_create_plist().get_nfilters() == (2 if found.shuffle else 0)
    assert ("import hdf5plugin" in str(report)) == (filters == "32026")


@pytest.mark.parametrize(
    ("target", "cparams", "why"),
    [
        ("a.h5", "auto", "takes codec .* and clevel of cparams, and not a goal"),
        ("a.h5", {"filters": [blosc2.Filter.BITSHUFFLE]}, "and not filters"),
        ("a.h5", {"codec": blosc2.Codec.NDLZ}, "and not the codec NDLZ"),
        ("a.h5", {"clevel": 99}, "0-9"),
        ("a.npz", {"clevel": 1}, "cparams is for stores, arrays and HDF5, and not for npz"),
    ],
)
def test_compression_that_a_target_has_not(tmp_path: Path, target: str, cparams: Any, why: str) -> None:
    blosc2.asarray(NOISE, urlpath=str(tmp_path / "a.b2nd"))
    with pytest.raises(ValueError, match=why):
        blosc2.convert(tmp_path / "a.b2nd", tmp_path / target, cparams=cparams)
    assert [path.name for path in tmp_path.iterdir()] == ["a.b2nd"]


def test_odd_attributes_and_types(tmp_path: Path) -> None:
    row = np.array([(1, b"ab")], [("n", "i4"), ("s", "S3")])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["row"] = row
        file.create_dataset("arrays", (2,), np.dtype(("i4", (3,))))[...] = np.arange(6).reshape(2, 3)
        deep = file
        for _ in range(400):
            deep = deep.create_group("d")
        deep["x"] = 1
        file.create_dataset("grows", (3,), "f4", maxshape=(None,))
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    found = {(each.key, each.what) for each in report.changed}
    assert found == {("/arrays", "the type of an array for each item"), ("/grows", "maxshape")}
    assert any(len(each.key) > 50 for each in report.left_out)
    assert blosc2.check(str(tmp_path / "a.b2z")).ok
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store.attrs["row"].tolist() == row.tolist()
        np.testing.assert_array_equal(store["/arrays"][...], np.arange(6).reshape(2, 3))


def test_attributes_that_hdf5_has_not(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/x"] = np.arange(3)
        store["/x"].vlmeta.update(
            {"list": [1, 2], "mixed": [1, "a"], "none": None, "bytes": b"a", "texts": ["a"], "n": 1, "no": []}
        )
        store["/x"].vlmeta["pair"] = (1, "a")
        store["/x"].vlmeta.update({"hdf5_shape": "odd", "hdf5_enum": "text"})
        store["/t"] = blosc2.ObjectArray()
        store["/t"].append("with \0")
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.h5")
    assert sorted((each.key, each.what) for each in report.left_out) == [
        ("/t", "all of it"), ("/x", "attribute 'mixed'"), ("/x", "attribute 'none'"), ("/x", "attribute 'pair'"),
    ]  # fmt: skip
    assert next(each.why for each in report.left_out if "'pair'" in each.what).endswith("such a tuple")
    assert [(each.key, each.what) for each in report.changed] == [("/x", "the type of attribute 'list'")]
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["x"].attrs["list"].tolist() == [1, 2]
        assert (file["x"].attrs["hdf5_enum"], list(file["x"].attrs["texts"])) == ("text", ["a"])
        assert (file["x"].attrs["no"].shape, file["x"].attrs["no"].dtype) == ((0,), object)


def test_numbers_of_attributes_are_kept_whatever_their_types(tmp_path: Path) -> None:
    values: dict[str, Any] = {
        "sizes": [1, 1, 2.5], "rows": [[1, 2], [3, 4.5]], "flags": [True, False], "seed": 2**63, "complex": 1 + 2j,
        "none": np.array(5),
    }  # fmt: skip
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/x"] = np.arange(3)
        store["/x"].attrs.update({**values, "lossy": [2**53 + 1, 0.5], "mixed": [True, 2]})
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.h5", verify=True)
    assert [each.what for each in report.left_out] == ["attribute 'lossy'", "attribute 'mixed'"]
    with h5py.File(tmp_path / "a.h5") as file:
        for name, value in values.items():
            assert file["x"].attrs[name].tolist() == value


def test_bytes_come_back_as_bytes(tmp_path: Path) -> None:
    whole = {
        "zeros": b"ab\0\xff" + bytes(344), "several": [b"a\0", b"", bytes(100_000)],
        "nifti_extensions": [[6, b"a note\0\0"], [-1, b""]], "empty": b"",
    }  # fmt: skip
    changed = {"opaque": np.array(b"a\0", "V2")}
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/x"] = np.arange(3)
        store["/x"].attrs.update(whole | changed)
        store.attrs.update(whole)
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.h5", verify=True)
    assert [each.what for each in report.changed] == [f"the type of attribute {name!r}" for name in changed]
    assert report.complete
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["zeros"].tobytes() == whole["zeros"]
        assert file.attrs["nifti_extensions"]["code"].tolist() == [6, -1]
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "b.b2z", verify=True)
    assert (report.left_out, {each.what for each in report.changed}) == ([], {"the type of attribute 'several'"})
    with blosc2.open(tmp_path / "b.b2z") as store:
        assert store.attrs[:] == whole
        assert {name: store["/x"].attrs[name] for name in whole} == whole
        assert store["/x"].attrs["opaque"] == b"a\0"


def test_zeros_that_a_text_loses_are_left_out(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/x"] = np.arange(3)
        store["/x"].attrs["missing_value"] = b"q\0"
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.h5", verify=True)
    assert [each.what for each in report.left_out] == ["the type of attribute 'missing_value'"]


def test_numbers_of_one_byte_that_are_read_as_bytes_are_listed(tmp_path: Path) -> None:
    ragged, records = np.empty(2, object), np.empty(1, [("code", "i4"), ("content", h5py.vlen_dtype("u1"))])
    ragged[:], records[0] = [np.array([1, 2], "u1"), np.array([3], "u1")], (3, np.array([4], "u1"))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3)
        file["x"].attrs.create("ragged", ragged, dtype=h5py.vlen_dtype("u1"))
        file["x"].attrs["records"] = records
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    assert [each.what for each in report.changed] == [f"the type of attribute {n!r}" for n in ("ragged", "records")]
    with blosc2.open(tmp_path / "a.b2z") as store:
        assert store["/x"].attrs[:] == {"ragged": [b"\1\2", b"\3"], "records": [[3, b"\4"]]}


def test_losses_that_are_listed(tmp_path: Path) -> None:
    """Enums of fields, enums of attributes, and further scales of an axis."""
    names = h5py.enum_dtype({"A": 0, "B": 1}, "i1")
    kind = np.dtype([("n", "i4"), ("k", names), ("b", bool), ("in", [("k", names, (2,))])])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("fields", (3,), kind, fillvalue=np.array((5, 1, True, ([0, 1],)), kind)[()])
        file.create_dataset("zeros", (3,), np.dtype([("n", "i4")]), fillvalue=np.zeros((), [("n", "i4")])[()])
        file.attrs.create("one", np.int8(1), dtype=names)
        file["t"], file["x"], file["x2"] = np.zeros((3, 4)), np.arange(4), np.arange(4)
        file["t"].attrs.create("rows", np.zeros(2, kind))
        for name in ("x", "x2"):
            file[name].make_scale(name)
            file["t"].dims[1].attach_scale(file[name])
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    found = {each[:2] for each in report.left_out if "_LIST" not in each.what}
    assert found == {
        ("/", "the enum of attribute 'one'"), ("/fields", "the enum of 'k', 'in.k'"),
        ("/t", "the enum of attribute 'rows'"),        ("/t", "the dimension scales /x2"),
    }  # fmt: skip


def test_a_virtual_dataset_whose_file_is_gone(tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((2, 4), "i4")
    for row in range(2):
        with h5py.File(tmp_path / f"{row}.h5", "w") as file:
            file["x"] = np.arange(4, dtype="i4") + 1
        layout[row] = h5py.VirtualSource(f"{row}.h5", "x", (4,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("v", layout)
    assert blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True).complete
    (tmp_path / "1.h5").unlink()
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "b.b2z")
    assert [each[:2] for each in report.left_out] == [("/v", "the items in '1.h5'")]
    with h5py.File(tmp_path / "0.h5", "a") as file:
        del file["x"]
    why = "/v: all of it: none of its items are there: they are in '0.h5', '1.h5'"
    with pytest.raises(ConversionError, match=f"nothing of it can be kept: {why}"):
        blosc2.convert(tmp_path / "a.h5", tmp_path / "c.b2z")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.attrs["who"] = "me"
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "c.b2z", verify=True)  # which has something else
    assert [str(each) for each in report.left_out] == [why]
    assert report.arrays == 0


@pytest.mark.parametrize("link", [None, h5py.ExternalLink("gone.h5", "x"), h5py.SoftLink("/nowhere"), "there"])
def test_a_virtual_dataset_of_its_own_file(link: Any, tmp_path: Path) -> None:
    """It claims 8 TB, of which nothing is there, but for the last one."""
    layout = h5py.VirtualLayout((2 if link == "there" else 1 << 40,), "i8")
    layout[:2] = h5py.VirtualSource(".", "g/x", (2,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("v", layout)
        file["y"] = [1, 2]
        if link is not None:
            file["g/x"] = [3, 4] if link == "there" else link
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    lost = {each.key: each.why for each in report.left_out}
    if link == "there":
        assert lost == {}
    else:
        assert lost["/v"] == "none of its items are there: they are in 'g/x'"
        assert report.arrays == 1


def test_items_of_variable_length(tmp_path: Path) -> None:
    rows = [np.array([1, 2, 3], "i2"), np.zeros(0, "i2"), np.array([4], "i2"), np.array([5, 6], "i2")]
    people = np.dtype([("name", h5py.string_dtype()), ("age", "i4"), ("scores", h5py.vlen_dtype("f4"))])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        ragged = file.create_dataset("ragged", (2, 2), h5py.vlen_dtype("i2"))
        for n, row in enumerate(rows):
            ragged[n // 2, n % 2] = row
        file.create_dataset("people", (2,), people)[0] = ("é", 7, np.array([1.5, 2], "f4"))
        file.create_dataset("links", (1,), h5py.ref_dtype)
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [("/links", "all of it")]
    assert [(each.key, each.what) for each in report.changed] == [
        ("/people", "the types of its fields"), ("/ragged", "its axes"),
    ]  # fmt: skip
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        for found, row in zip(store["/ragged"], rows, strict=True):
            np.testing.assert_array_equal(found, row)
        first, second = store["/people"]
        assert (first["name"], first["age"], first["scores"].tolist()) == ("é", 7, [1.5, 2.0])
        assert (second["name"], second["age"], len(second["scores"])) == ("", 0, 0)
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.h5", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [("/people", "all of it")]
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["ragged"].shape == (2, 2)
        for n, row in enumerate(rows):
            np.testing.assert_array_equal(file["ragged"][n // 2, n % 2], row)


def test_bytes_that_are_no_text_stay_bytes(tmp_path: Path) -> None:
    kind = np.dtype([("tag", "S3"), ("scores", h5py.vlen_dtype("f4"))])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        found = file.create_dataset("x", (2,), kind)
        found[0], found[1] = (b"ab", np.ones(1, "f4")), (b"\xff\xfe", np.ones(2, "f4"))
    blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert [each["tag"] for each in store["/x"]] == ["ab", b"\xff\xfe"]


@pytest.mark.parametrize("value", [5, "x", [1, 2], [1], ["a"], np.zeros((2, 0))])
@pytest.mark.parametrize("name", ["DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME"])
def test_an_attribute_with_the_name_of_one_of_scales(name: str, value: Any, tmp_path: Path) -> None:
    """PyTables has a CLASS for each array; and HDF5 ends the process where a DIMENSION_LIST has other values."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(2)
        file["x"].attrs[name] = value
        file.attrs["CLASS"] = "GROUP"
    assert blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True).left_out == []
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        np.testing.assert_array_equal(store["/x"].vlmeta[name], value)
        assert store.attrs["CLASS"] == "GROUP"
        assert "_ARRAY_DIMENSIONS" not in store["/x"].vlmeta
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.h5")
    assert [each.what for each in report.left_out] == ([f"attribute {name!r}"] if name.endswith("LIST") else [])


@pytest.mark.parametrize("size", [512, 2 << 20])
def test_the_user_block(tmp_path: Path, size: int) -> None:
    """As MATLAB has one in each file."""
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=size) as file:
        file["x"] = np.arange(3)
    with open(tmp_path / "a.mat", "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")
    report = blosc2.convert(tmp_path / "a.mat", tmp_path / "a.b2z", verify=True)
    assert [each.what for each in report.left_out] == ([] if size == 512 else ["the user block"])
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        kept = store.attrs[:].get("hdf5_userblock", b"")
    assert kept == (b"MATLAB 7.3 MAT-file".ljust(512, b"\0") if size == 512 else b"")


# ------------------------------------------------------------------ what only has another form
KIND = np.dtype([("n", "i4"), ("x", ">f8")])
FILLS = {
    "f4": np.float32(np.nan), "i8": np.int64(-9), "bool": np.bool_(True), "text": np.bytes_(b"none"),
    "fields": np.array((5, 2.5), KIND)[()], ">i2": np.array(-1, ">i2")[()],
}  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_fill_values_there_and_back(tmp_path: Path, name: str) -> None:
    dtype = {"text": np.dtype("S5"), "fields": KIND}.get(name) or np.dtype(name)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("flat", (3,), dtype, fillvalue=FILLS[name])
        file.create_dataset("chunked", (300,), dtype, fillvalue=FILLS[name], chunks=(100,))[:2] = np.zeros(2, dtype)
    for source, target in (("a.h5", "a.b2z"), ("a.b2z", "b.h5")):
        report = blosc2.convert(tmp_path / source, tmp_path / target, verify=True)
        assert report.left_out + report.changed == []
    with h5py.File(tmp_path / "a.h5") as file, h5py.File(tmp_path / "b.h5") as back:
        for key in file:
            np.testing.assert_array_equal(back[key].fillvalue, file[key].fillvalue)
            assert back[key].dtype == dtype
            assert dict(back[key].attrs) == {}


def test_a_fill_value_that_does_not_fit(tmp_path: Path) -> None:
    """It stays an attribute."""
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        for key, value in {"/a": 2.5, "/b": "text", "/c": np.arange(3)}.items():
            store[key] = np.arange(3)
            store[key].vlmeta["hdf5_fillvalue"] = value
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.h5", verify=True).complete
    with h5py.File(tmp_path / "a.h5") as file:
        assert [file[key].fillvalue for key in "abc"] == [0, 0, 0]
        assert file["a"].attrs["hdf5_fillvalue"] == 2.5


def test_xarray_does_not_show_fill_values_of_hdf5(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="an extra")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (3,), "f4", fillvalue=2.5)
    blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z")
    with xarray.open_dataset(tmp_path / "a.b2z", engine="python-blosc2") as found:
        assert found["x"].attrs == {}


def test_equal_lines_are_printed_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for number in range(5):
            file.create_dataset(f"x{number}", (3,), "f4", maxshape=(None,))
        file["out"] = h5py.ExternalLink("other.h5", "/x")
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    assert str(report).splitlines()[1:] == [
        "left out: 1 thing",
        "  /out: external link: it names '/x' in other.h5: convert that file, too",
        "in another form: 5 things",
        "  /x0, /x1, /x2, ... (5 keys): maxshape: arrays can be resized to any shape, not only to (None,)",
    ]


def test_links_that_lead_to_other_files(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = np.arange(3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["out"], file["around"] = h5py.ExternalLink("b.h5", "/x"), h5py.SoftLink("/out")
        file["y"] = np.arange(4)
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    assert ([each.key for each in report.left_out], report.changed) == (["/around", "/out"], [])


def test_a_resumed_run_tells_what_was_lost_and_what_changed(tmp_path: Path, interrupted: Callable[..., None]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (3,), "f4", maxshape=(None,))
        file["a:b"] = np.arange(3)
    interrupted(tmp_path / "a.h5", tmp_path / "a.b2z")
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    assert report.resumed == 1
    assert [each[:2] for each in report.left_out] == [("/a:b", "all of it")]
    assert [each[:2] for each in report.changed] == [("/x", "maxshape")]
