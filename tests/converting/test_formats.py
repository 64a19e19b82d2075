"""`convert`: each format there and, where it can be written, back, with the names of dimensions."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._options.paths import NOT_CONVERTED, OTHER_FORMATS
from blosc2._tools.converting.conversion import FORMATS
from blosc2.exceptions import ConversionError

ARRAYS = {
    "/mri/raw": np.arange(3 * 40 * 50, dtype="i2").reshape(3, 40, 50),
    "/mri/mask": np.arange(2000).reshape(40, 50) % 3 == 0,
    "/age": np.array([1.5, np.nan, 3]),
    "/one": np.array(7, "u4"),
    "/none": np.zeros((0, 4), "f4"),
    "/big-endian": np.arange(5, dtype=">i4"),
}


def store_of(path: Path, arrays: dict[str, Any], attributes: Any = None) -> str:
    with blosc2.TreeStore(str(path), mode="w") as store:
        for key, items in arrays.items():
            store[key] = items
        store.attrs.update(attributes or {})
    return str(path)


def arrays_in(path: str | Path) -> dict[str, Any]:
    with blosc2.open(str(path)) as store:
        return {key: store[key][...] for key in store if isinstance(store[key], blosc2.NDArray)}


def check_same(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert sorted(found) == sorted(wanted)
    for key, items in wanted.items():
        assert found[key].dtype == items.dtype, key
        np.testing.assert_array_equal(found[key], items, err_msg=key)


def test_no_array_or_store_is_made_under_a_name_that_is_converted() -> None:
    named = {suffix for found in FORMATS.values() if found.name != "blosc2" for suffix in found.suffixes}
    assert named == {*OTHER_FORMATS} - {*NOT_CONVERTED}


# ------------------------------------------------------------------ without any extra
@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_npz_there_and_back(tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / "a.npz", tmp_path / f"a{suffix}"
    np.savez(source, **{key[1:]: items for key, items in ARRAYS.items()})
    report = blosc2.convert(source, target, verify=True)
    assert (report.arrays, report.left_out, report.verified, report.complete) == (6, [], True, True)
    assert report.nbytes == sum(items.nbytes for items in ARRAYS.values())
    check_same(arrays_in(target), ARRAYS)
    assert blosc2.check(str(target)).ok
    report = blosc2.convert(target, tmp_path / "b.npz", verify=True)
    assert report.left_out == []
    with np.load(tmp_path / "b.npz") as found:
        check_same({f"/{name}": found[name] for name in found.files}, ARRAYS)
    assert sorted(os.listdir(tmp_path)) == sorted(["a.npz", f"a{suffix}", "b.npz"])


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_members_of_npz_are_unpacked_once(tmp_path: Path, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read in pieces of their own, several chunks beside each other."""
    items = np.asarray(np.arange(3000 * 2000, dtype="i8").reshape(3000, 2000), order=order)
    np.savez_compressed(tmp_path / "a.npz", x=items)
    opened: list[str] = []
    really = zipfile.ZipFile.open

    def counting(self: Any, name: Any, *more: Any, **keywords: Any) -> Any:
        opened.append(str(name))
        return really(self, name, *more, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(zipfile.ZipFile, "open", counting)
        blosc2.convert(tmp_path / "a.npz", tmp_path / "a.b2z")
    assert opened.count("x.npy") == 2  # its header, and its items
    np.testing.assert_array_equal(arrays_in(tmp_path / "a.b2z")["/x"], items)


def test_a_store_to_another(tmp_path: Path) -> None:
    source = store_of(tmp_path / "a.b2z", ARRAYS, {"who": "me"})
    with blosc2.open(source, mode="a") as store:
        store["/texts"] = blosc2.ObjectArray()
        store["/texts"].extend(["a", "é"])
        store["/age"].vlmeta["unit"] = "y"
    report = blosc2.convert(source, tmp_path / "b.b2d", cparams={"codec": blosc2.Codec.LZ4}, verify=True)
    assert (report.arrays, report.objects, report.left_out) == (6, 1, [])
    with blosc2.open(str(tmp_path / "b.b2d")) as store:
        assert store.attrs[:] == {"who": "me"}
        assert store["/age"].vlmeta["unit"] == "y"
        assert list(store["/texts"]) == ["a", "é"]
        assert store["/mri/raw"].cparams.codec == blosc2.Codec.LZ4
    check_same(arrays_in(tmp_path / "b.b2d"), ARRAYS)


def test_tar(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "w.tar", "w") as archive:
        members = {"0/image.npy": io.BytesIO(), "0/class": io.BytesIO(b"3"), "bad.npy": io.BytesIO(b"\x93NUMPY...")}
        np.save(members["0/image.npy"], np.eye(3))
        for name, file in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(file.getvalue())
            archive.addfile(member, io.BytesIO(file.getvalue()))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "bad.npy"
        archive.addfile(link)
    report = blosc2.convert(tmp_path / "w.tar", tmp_path / "w.b2z", verify=True)
    assert [(each.key, each.why) for each in report.left_out] == [("/link", "it is a link or a device, and no file")]
    found = arrays_in(tmp_path / "w.b2z")
    np.testing.assert_array_equal(found["/0/image.npy"], np.eye(3))
    assert found["/0/class"].tobytes() == b"3"
    assert found["/bad.npy"].tobytes() == b"\x93NUMPY..."


def test_chunks(tmp_path: Path) -> None:
    source = blosc2.asarray(np.zeros((600, 700)), chunks=(100, 300), blocks=(50, 100), urlpath=str(tmp_path / "a.b2nd"))
    for chunks, wanted in (("auto", source.chunks), ("keep", source.chunks), ("new", None)):
        blosc2.convert(tmp_path / "a.b2nd", tmp_path / "b.b2nd", chunks=chunks, overwrite=True)
        found = blosc2.open(str(tmp_path / "b.b2nd")).chunks
        assert (found == source.chunks) == (wanted is not None)
    small = blosc2.asarray(np.zeros((600, 700)), chunks=(10, 10), urlpath=str(tmp_path / "c.b2nd"))
    for chunks in ("auto", "keep"):
        blosc2.convert(tmp_path / "c.b2nd", tmp_path / "d.b2nd", chunks=chunks, overwrite=True)
        assert (blosc2.open(str(tmp_path / "d.b2nd")).chunks == small.chunks) == (chunks == "keep")


# ------------------------------------------------------------------ with the libraries of the formats
def test_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    source = store_of(tmp_path / "a.b2z", ARRAYS, {"who": "me", "odd": np.arange(3)})
    for name in ("a.zarr", "a.zarr.zip"):
        report = blosc2.convert(source, tmp_path / name, verify=True)
        assert report.complete
        assert [(each.key, each.what) for each in report.changed] == [
            ("/", "the type of attribute 'odd'"), ("/big-endian", "the byte order of >i4"),
        ]  # fmt: skip
        stored = zarr.storage.ZipStore(tmp_path / name, mode="r") if name.endswith("zip") else tmp_path / name
        group = zarr.open_group(stored, mode="r")
        assert dict(group.attrs) == {"who": "me", "odd": [0, 1, 2]}
        native = {**ARRAYS, "/big-endian": ARRAYS["/big-endian"].astype("i4")}
        check_same({key: np.asarray(group[key[1:]][...]) for key in ARRAYS}, native)
        if name.endswith("zip"):
            stored.close()
        report = blosc2.convert(tmp_path / name, tmp_path / "back.b2z", verify=True, overwrite=True)
        assert report.left_out == []
        check_same(arrays_in(tmp_path / "back.b2z"), native)


def test_safetensors(tmp_path: Path) -> None:
    tensors = pytest.importorskip("safetensors.numpy")
    arrays = {key[1:]: items for key, items in ARRAYS.items() if key != "/big-endian"}
    tensors.save_file(arrays, tmp_path / "m.safetensors", metadata={"who": "me"})
    assert blosc2.convert(tmp_path / "m.safetensors", tmp_path / "m.b2z", verify=True).left_out == []
    check_same(arrays_in(tmp_path / "m.b2z"), {f"/{name}": items for name, items in arrays.items()})
    source = store_of(tmp_path / "a.b2z", ARRAYS, {"who": "me"})
    report = blosc2.convert(source, tmp_path / "n.safetensors", verify=True)
    assert [(each.key, each.why) for each in report.left_out] == [("/big-endian", "safetensors has no >i4")]
    check_same(tensors.load_file(tmp_path / "n.safetensors"), arrays)


def test_verify_compares_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting import stores

    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store["/g/a"] = np.arange(3)
        store["/g/a"].vlmeta["unit"] = "mm"
        store["/g"].attrs["n"] = 3
    for lost in ("unit", "n"):

        def forgetting(key: str, target: Any, attributes: Any, lost: str = lost) -> Any:
            target.update({name: value for name, value in attributes.items() if name != lost})
            return iter(())

        with monkeypatch.context() as patched:
            patched.setattr(stores, "_set_attributes", forgetting)
            with pytest.raises(ConversionError, match="is not what the source has"):
                blosc2.convert(tmp_path / "s.b2z", tmp_path / "t.b2z", cparams={"clevel": 1}, verify=True)
        assert os.listdir(tmp_path) == ["s.b2z"]
    blosc2.convert(tmp_path / "s.b2z", tmp_path / "t.b2z", cparams={"clevel": 1}, verify=True)


def test_attributes_that_a_conversion_needs_for_itself(tmp_path: Path) -> None:
    source = store_of(tmp_path / "s.b2z", {"/a": np.arange(3)}, {"blosc2.convert": 1, "kept": 2})
    report = blosc2.convert(source, tmp_path / "t.b2z", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [("/", "attribute 'blosc2.convert'")]
    with blosc2.open(str(tmp_path / "t.b2z")) as store:
        assert store.attrs[:] == {"kept": 2}


# ------------------------------------------------------------------ refused, and left out
def test_what_cannot_be_converted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.arange(4))
    store = store_of(tmp_path / "s.b2z", ARRAYS)
    for source, target, error, text in [
        ("none.npz", "n.b2z", FileNotFoundError, "does not exist"),
        ("a.npz", "n.unknown", ConversionError, "is not known by its name"),
        ("a.npz", "n.png", ConversionError, "picture files cannot be written; these can: blosc2"),
        ("a.npz", "s.b2z", FileExistsError, "overwrite=True"),
        ("a.npz", "n.b2nd", ConversionError, "holds one array, and there are several: /x, /y"),
        ("s.b2z", "s.b2z", ConversionError, "are the same"),
    ]:
        with pytest.raises(error, match=text):
            blosc2.convert(tmp_path / source, tmp_path / target)
    with pytest.raises(ValueError, match="'auto', 'keep' or 'new'"):
        blosc2.convert(tmp_path / "a.npz", tmp_path / "n.b2z", chunks="some")
    with pytest.raises(ConversionError, match="there is no format 'x'"):
        blosc2.convert(tmp_path / "a.npz", tmp_path / "n.b2z", source_format="x")
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "s.b2z"]
    check_same(arrays_in(store), ARRAYS)


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_keys_that_no_store_can_have(tmp_path: Path, suffix: str) -> None:
    good = ["b", "g/c", "é/ü", "x y"]
    bad = ["<b>", "..", "../up", "x\ny", "l" * 300, "d/" * 999 + "e", "a//b", "nul\x01"]
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in good + bad:
            member = io.BytesIO()
            np.save(member, np.arange(3))
            archive.writestr(name + ".npy", member.getvalue())
    report = blosc2.convert(tmp_path / "a.npz", tmp_path / f"a{suffix}", verify=True)
    assert sorted(arrays_in(tmp_path / f"a{suffix}")) == sorted(f"/{name}" for name in good)
    assert sorted(each.key for each in report.left_out) == sorted(f"/{name}" for name in bad)
    assert all(line.isprintable() for line in str(report).splitlines())


def test_a_value_that_comes_back_wrong_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting import stores

    np.savez(tmp_path / "a.npz", x=np.arange(3))
    real = stores.new_array
    monkeypatch.setattr(
        stores, "new_array", lambda item, *more: real(stores.ArrayItem.of(item.key, item.whole() + 1), *more)
    )
    with pytest.raises(ConversionError, match="read back at '/x'"):
        blosc2.convert(tmp_path / "a.npz", tmp_path / "a.b2z", verify=True)
    assert os.listdir(tmp_path) == ["a.npz"]


def test_a_package_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.h5").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "h5py", None)
    why = r"hdf5 needs the package 'h5py': pip install 'python-blosc2\[convert\]'"
    with pytest.raises(ConversionError, match=why) as error:
        blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z")
    assert not getattr(error.value, "__notes__", [])  # nothing is wrong with the file


def test_progress_and_memory_of_many_pieces(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4000, 4000)))
    seen: list[tuple[int, int]] = []
    blosc2.convert(tmp_path / "a.npy", tmp_path / "a.b2z", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (128_000_000, 128_000_000)
    assert len(seen) > 5
    assert seen == sorted(seen)


# ------------------------------------------------------------------ what a reviewer found
def test_a_source_is_never_in_the_way(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.arange(3))
    store = store_of(tmp_path / "a.partial.b2z", {"/x": np.arange(3)})
    with pytest.raises(ConversionError, match="rename it first"):
        blosc2.convert(store, tmp_path / "a.b2z")
    check_same(arrays_in(store), {"/x": np.arange(3)})
    store_of(tmp_path / "t.b2d", {"/x": np.arange(3)})
    os.replace(tmp_path / "one.npy", tmp_path / "t.b2d" / "one.npy")
    with pytest.raises(ConversionError, match="lies in the other"):
        blosc2.convert(tmp_path / "t.b2d" / "one.npy", tmp_path / "t.b2d", overwrite=True)
    assert (tmp_path / "t.b2d" / "one.npy").exists()


def test_fields_with_names_in_utf_8(tmp_path: Path) -> None:
    items = np.array([(1, 2.5)], [("名", "i4"), ("y", "f8")])
    with pytest.warns(UserWarning, match="format 3.0"):
        np.savez(tmp_path / "a.npz", x=items)
    blosc2.convert(tmp_path / "a.npz", tmp_path / "a.b2z", verify=True)
    assert arrays_in(tmp_path / "a.b2z")["/x"].dtype == items.dtype


@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_an_old_target_survives_a_failure(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._files import Owner

    np.savez(tmp_path / "a.npz", x=np.arange(3))
    target = store_of(tmp_path / f"t{suffix}", {"/old": np.arange(4)})
    for name in ("rename", "replace"):
        real = getattr(Owner, name)

        def fail(self: Any, old: str, new: str, real: Any = real) -> None:
            if str(new) == target and ".partial" in str(old):
                raise OSError(5, "I/O error", new)
            real(self, old, new)

        monkeypatch.setattr(Owner, name, fail)
    with pytest.raises(OSError, match="I/O error"):
        blosc2.convert(tmp_path / "a.npz", target, overwrite=True, resume=False)
    monkeypatch.undo()
    check_same(arrays_in(target), {"/old": np.arange(4)})
    assert sorted(os.listdir(tmp_path)) == ["a.npz", f"t{suffix}"]


def test_fields_in_another_byte_order(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    items = np.array([(1, 2.5)], [("a", ">i4"), ("b", ">f8")])
    source = store_of(tmp_path / "a.b2z", {"/x": items})
    report = blosc2.convert(source, tmp_path / "a.zarr")
    assert [each.what for each in report.changed] == [f"the byte order of {items.dtype}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zarr.errors.UnstableSpecificationWarning)
        assert zarr.open_group(tmp_path / "a.zarr", mode="r")["x"][:].tolist() == items.tolist()


def test_depths_of_pictures(tmp_path: Path) -> None:
    """Pillow gives 8 of 16 bits; such a file is left out."""
    import struct
    import zlib

    pytest.importorskip("PIL")

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    (tmp_path / "in").mkdir()
    for name, depth, colour, row in (("deep", 16, 2, b"\0" + bytes(range(12))), ("shallow", 4, 0, b"\0\x12")):
        header = struct.pack(">IIBBBBB", 2, 1, depth, colour, 0, 0, 0)
        data = part(b"IHDR", header) + part(b"IDAT", zlib.compress(row)) + part(b"IEND", b"")
        (tmp_path / "in" / f"{name}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + data)
    report = blosc2.convert(tmp_path / "in", tmp_path / "a.b2z")
    assert [(each.key, each.what) for each in report.left_out] == [("/deep.png", "all of it")]
    assert [(each.key, each.what) for each in report.changed] == [("/shallow.png", "the scale of its grey")]


# ---------------------------------------------------------------------- names of dimensions
ITEMS = np.arange(12, dtype="f4").reshape(3, 4)


@pytest.mark.parametrize("names", [("y", "x"), ("y", None)])
def test_zarr_3_there_and_back(names: tuple[str, str | None], tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(str(tmp_path / "a.zarr"), zarr_format=3)
    group.create_array("t", shape=ITEMS.shape, dtype="f4", dimension_names=names)[:] = ITEMS
    report = blosc2.convert(tmp_path / "a.zarr", tmp_path / "a.b2z", verify=True)
    assert report.complete
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/t"].attrs["_ARRAY_DIMENSIONS"] == list(names)
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.zarr", verify=True).complete
    back = zarr.open(str(tmp_path / "b.zarr"), mode="r")["t"]
    assert back.metadata.dimension_names == names
    assert not dict(back.attrs)


@pytest.mark.parametrize("form", [2, 3])
def test_a_zip_file_of_the_folder_of_a_zarr_group(form: int, tmp_path: Path) -> None:
    """What `zip -r a.zarr.zip a.zarr` makes has the name of the folder before each name."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=form)
    group.create_array("g/x", data=np.arange(6))
    group.attrs["who"] = "me"
    shutil.make_archive(str(tmp_path / "a.zarr"), "zip", tmp_path, "a.zarr")
    assert blosc2.convert(tmp_path / "a.zarr.zip", tmp_path / "a.b2z", verify=True).complete
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert (store["/g/x"][:].tolist(), store.attrs[:]) == ([0, 1, 2, 3, 4, 5], {"who": "me"})


@pytest.mark.parametrize("target", ["w.b2z", "w.b2d", "w.b2e"])
def test_what_was_left_out_is_not_compared_with_another(target: str, tmp_path: Path) -> None:
    """Stores have no keys with a colon."""
    np.savez(tmp_path / "w.npz", **{"kernel": np.arange(6), "bias:0": np.ones(6)})
    report = blosc2.convert(tmp_path / "w.npz", tmp_path / target, verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [("/bias:0", "all of it")]
    assert report.verified
    with blosc2.open(str(tmp_path / target)) as store:
        assert list(store) == ["/kernel"]


def test_each_leaf_is_compared_with_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that lost one of two equal arrays is not taken for the other."""
    from blosc2._tools.converting import files

    source = store_of(tmp_path / "a.b2z", {"/x": np.arange(3), "/y": np.arange(3)})
    add = files.NewNpz.add
    monkeypatch.setattr(files.NewNpz, "add", lambda self, item: iter(()) if item.key == "/y" else add(self, item))
    with pytest.raises(ConversionError, match="read back at '/y'"):
        blosc2.convert(source, tmp_path / "a.npz", verify=True)
    assert not (tmp_path / "a.npz").exists()


def test_texts_in_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(tmp_path / "a.zarr")
    texts = np.array([["é", "b"], ["", "long one"]], object)
    group.create_array("t", shape=(2, 2), dtype=str)[...] = texts
    assert blosc2.convert(tmp_path / "a.zarr", tmp_path / "a.b2z", verify=True).complete
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.zarr", verify=True).complete
    np.testing.assert_array_equal(np.asarray(zarr.open_group(tmp_path / "b.zarr")["t"][...], object), texts)


def test_names_of_axes_become_scales(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    source = store_of(tmp_path / "a.b2z", {"/g/t": np.zeros((2, 3)), "/g/lat": np.arange(2.0), "/g/z": np.zeros(5)})
    with blosc2.open(source, mode="a") as store:
        store["/g/t"].vlmeta["_ARRAY_DIMENSIONS"] = ["lat", "lon"]
        store["/g/lat"].vlmeta["_ARRAY_DIMENSIONS"] = ["lat"]
        store["/g/z"].vlmeta["_ARRAY_DIMENSIONS"] = ["lon"]  # which has 3 items elsewhere
    assert blosc2.convert(source, tmp_path / "a.h5", verify=True).complete
    with h5py.File(tmp_path / "a.h5") as file:
        assert [axis[0].name for axis in file["g/t"].dims] == ["/g/lat", "/g/lon"]
        assert file["g/lat"].is_scale
        assert list(file["g/z"].attrs["_ARRAY_DIMENSIONS"]) == ["lon"]
    blosc2.convert(tmp_path / "a.h5", tmp_path / "b.b2z", verify=True)
    with blosc2.open(str(tmp_path / "b.b2z")) as store:
        assert sorted(store.keys()) == ["/g", "/g/lat", "/g/t", "/g/z"]
        assert store["/g/t"].vlmeta["_ARRAY_DIMENSIONS"] == ["lat", "lon"]


def test_other_files_under_a_known_name(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0 MAT-file, Platform: GLNX86".ljust(500, b" "))
    with pytest.raises(ConversionError, match=r"a\.mat is no MATLAB file of version 7\.3"):
        blosc2.convert(tmp_path / "a.mat", tmp_path / "a.b2z")
    np.save(tmp_path / "o.npy", np.array([{}, 1], object))
    with pytest.raises(ConversionError, match=r"o\.npy: its items are pickled Python objects"):
        blosc2.convert(tmp_path / "o.npy", tmp_path / "a.b2z")


def test_structured_items_in_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    fields = np.dtype([("a", "i4"), ("b", "f8")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zarr.errors.UnstableSpecificationWarning)
        group = zarr.create_group(tmp_path / "a.zarr")
        group.create_array("zeros", shape=(4,), dtype=fields)[:2] = np.array([(5, 6.0), (7, 8.0)], fields)
        group.create_array("other", shape=(4,), dtype=fields, fill_value=np.array((1, 2.5), fields)[()])
        assert blosc2.convert(tmp_path / "a.zarr", tmp_path / "a.b2z", verify=True).complete
        blosc2.convert(tmp_path / "a.b2z", tmp_path / "c.zarr", verify=True)
        assert zarr.open_group(tmp_path / "c.zarr")["other"].fill_value.tolist() == (1, 2.5)
    aligned = np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True))
    aligned["a"] = [1, 2, 3]
    report = blosc2.convert(store_of(tmp_path / "b.b2z", {"/x": aligned}), tmp_path / "b.zarr", verify=True)
    assert [each.what for each in report.changed] == ["the gaps between fields"]


@pytest.mark.parametrize(("target", "library"), [("b.h5", "h5py"), ("b.nc", "netCDF4")])
def test_arrays_of_texts_become_lists(tmp_path: Path, target: str, library: str) -> None:
    """It is listed there and back; what would lose its end is left out."""
    pytest.importorskip(library)
    texts = np.array([["a", "\u00e9t\u00e9"], ["", "d"]])
    odd = {"/zeros": np.array(["b", "a\0b"]), "/surrogates": np.array("\ud800")}
    store_of(tmp_path / "a.b2z", {"/grid": texts, "/line": texts[0], "/one": np.array("d\u00e9f"), **odd})
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target, verify=True)
    assert [(each.key, each.what) for each in report.changed] == [
        (key, "the type <U3") for key in ("/grid", "/line", "/one")
    ]  # fmt: skip
    assert {(each.key, each.what) for each in report.left_out} == {(key, "all of it") for key in odd}
    report = blosc2.convert(tmp_path / target, tmp_path / "c.b2z", verify=True)
    assert [(each.key, each.what) for each in report.changed] == [("/grid", "its axes"), ("/one", "its axes")]
    with blosc2.open(str(tmp_path / "c.b2z")) as store:
        assert (list(store), list(store["/grid"])) == (["/grid", "/line", "/one"], texts.reshape(-1).tolist())
        assert (list(store["/one"]), store["/one"].attrs["hdf5_shape"]) == (["d\u00e9f"], [])
        assert store["/grid"].attrs["hdf5_shape"] == [2, 2]


@pytest.mark.parametrize(("dtype", "fill"), [("f4", np.nan), ("i4", -9), ("f8", 2.5), ("?", True), ("u1", 7)])
def test_fill_values_of_zarr(dtype: str, fill: Any, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    zarr.create_group(tmp_path / "a.zarr").create_array("x", shape=(4,), dtype=dtype, fill_value=fill)[:2] = 1
    for source, target in (("a.zarr", "a.b2z"), ("a.b2z", "b.zarr")):
        report = blosc2.convert(tmp_path / source, tmp_path / target, verify=True)
        assert report.left_out + report.changed == []
    found = zarr.open_group(tmp_path / "b.zarr")["x"]
    np.testing.assert_array_equal(found.fill_value, np.array(fill, dtype))
    assert dict(found.attrs) == {}


@pytest.mark.parametrize(
    ("dtype", "fill"), [("f4", np.nan), ("i4", -9), ("u1", 0), ("c16", 1 + 2j), ("S3", b"ab"), ("U3", "ab")]
)
def test_fill_values_of_zarr_arrays_with_names_of_axes(dtype: str, fill: Any, tmp_path: Path) -> None:
    """In zarr 2 they stand for what is missing."""
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    group.create_array("x", shape=(4,), dtype=dtype, fill_value=fill).attrs["_ARRAY_DIMENSIONS"] = ["t"]
    for source, target in (("a.zarr", "a.b2z"), ("a.b2z", "b.zarr"), ("b.zarr", "c.b2z")):
        blosc2.convert(tmp_path / source, tmp_path / target, verify=True)
    found = zarr.open_group(tmp_path / "b.zarr")["x"]
    np.testing.assert_array_equal(found.fill_value, np.array(fill, dtype))
    with blosc2.open(str(tmp_path / "a.b2z")) as first, blosc2.open(str(tmp_path / "c.b2z")) as last:
        assert set(first["/x"].attrs) == {"_ARRAY_DIMENSIONS", "_FillValue"}
        assert dtype[0] in "SU" or set(last["/x"].attrs) == set(first["/x"].attrs)


@pytest.mark.parametrize("fill", [-9, 5])
def test_a_fill_value_beside_what_stands_for_missing_items(fill: int, tmp_path: Path) -> None:
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    missing = np.int32(-9)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (4,), "i4", fillvalue=fill).attrs["_FillValue"] = missing
    for source, target in (("a.h5", "a.b2z"), ("a.b2z", "b.zarr"), ("b.zarr", "b.b2z"), ("b.b2z", "c.zarr")):
        report = blosc2.convert(tmp_path / source, tmp_path / target, verify=True)
        listed = ["attribute 'hdf5_fillvalue'"] if (target, fill) == ("b.zarr", missing) else []
        assert [each.what for each in report.left_out + report.changed] == listed
    for name in ("b.zarr", "c.zarr"):
        found = zarr.open_group(tmp_path / name)["x"]
        assert (found.fill_value, dict(found.attrs)) == (fill, {"_FillValue": missing})


@pytest.mark.parametrize(("target", "library"), [("b.h5", "h5py"), ("b.zarr", "zarr")])
@pytest.mark.parametrize("name", ["_FillValue", "hdf5_fillvalue"])
def test_a_number_as_the_fill_value_of_records(tmp_path: Path, name: str, target: str, library: str) -> None:
    pytest.importorskip(library)
    records = np.array([(1,), (2,)], [("a", "i4")])
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        store["/x"] = records
        store["/x"].attrs[name] = 5
    blosc2.convert(tmp_path / "a.b2z", tmp_path / target)
    blosc2.convert(tmp_path / target, tmp_path / "c.b2z")
    with blosc2.open(str(tmp_path / "c.b2z")) as back:
        np.testing.assert_array_equal(back["/x"][...], records)


# ------------------------------------------------------------------ attributes that only have the names of known ones
_KNOWN = (
    "_ARRAY_DIMENSIONS", "hdf5_userblock", "netcdf_unlimited", "hdf5_shape", "hdf5_enum", "hdf5_fillvalue",
    "_FillValue", "safetensors_dtype", "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST",
)  # fmt: skip
_ODD: list[Any] = [
    5, 300.5, 1e40, None, True, "x", "", [], [1, 2], ["a", "b"], ["a", None], ["t/u"], ["."], [""], ["\u00e9" * 300],
    [["a"], 3], {"a": 1}, {"a": 300}, np.arange(2), np.zeros((2, 0)), b"\xff",
]  # fmt: skip
_ODD_ARRAYS = [np.arange(3, dtype="i1"), np.arange(3.0), np.array([b"ab", b"c"]), np.arange(3) > 1]
_TARGETS = [
    ("b.npz", "numpy"), ("b.h5", "h5py"), ("b.nc", "netCDF4"), ("b.zarr", "zarr"), ("b.zarr.zip", "zarr"),
    ("b.safetensors", "safetensors"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "library"), _TARGETS)
def test_every_array_is_kept_whatever_its_attributes_are(tmp_path: Path, target: str, library: str) -> None:
    pytest.importorskip(library)
    wanted, odd = {}, {}
    for number, name in enumerate(_KNOWN):
        for value in range(len(_ODD)):
            for which, items in enumerate(_ODD_ARRAYS):
                if items.dtype.kind == "S" and target == "b.safetensors":
                    continue
                key = f"/g{number}_{value}_{which}/x"
                wanted[key], odd[key] = items, (name, _ODD[value])
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        for key, items in wanted.items():
            array = blosc2.asarray(items)
            array.vlmeta[odd[key][0]] = odd[key][1]
            store[key] = array
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target)
    assert [each for each in report.left_out if each.what == "all of it"] == []
    listed = {each.key for each in (*report.left_out, *report.changed)}
    blosc2.convert(tmp_path / target, tmp_path / "c.b2z")
    with blosc2.open(str(tmp_path / "c.b2z")) as back:
        for key, items in wanted.items():
            stored = back[key][...]
            if stored.ndim > 1:  # netCDF has single characters
                stored = np.ascontiguousarray(stored).view(items.dtype).reshape(-1)
            np.testing.assert_array_equal(stored, items, err_msg=key)
            name, value = odd[key]
            found = back[key].vlmeta.get(name)
            is_unnamed = name == "_ARRAY_DIMENSIONS" and repr(value) in ("[]", "['']")
            assert key in listed or is_unnamed or _same(found, value), (key, name, value, found)


def _same(found: Any, value: Any) -> bool:
    if isinstance(value, (list, dict)) and type(found) is type(value):
        return bool(found == value)
    return found is value or (found is not None and np.array_equal(found, value))


@pytest.mark.parametrize(("target", "library"), _TARGETS)
def test_names_that_a_format_refuses_are_listed(tmp_path: Path, target: str, library: str) -> None:
    pytest.importorskip(library)
    keys = ["/ lead", "/-m", "/(1)", "/.x", "/%x", "/a/-m/b", "/\u00e9", "/n", "/" + "x" * 200]
    store_of(tmp_path / "a.b2z", dict.fromkeys(keys, np.arange(4)))
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target)
    refused = {each.key for each in report.left_out if each.what == "all of it"}
    assert {key for key in refused if key in keys} == (
        set(keys[:4]) | {keys[4], keys[5]} if target == "b.nc" else set()
    )
    blosc2.convert(tmp_path / target, tmp_path / "c.b2z")
    assert sorted(arrays_in(tmp_path / "c.b2z")) == sorted(set(keys) - refused)


def test_attributes_that_json_lacks(tmp_path: Path) -> None:
    """It is told which part of a value is to blame."""
    pytest.importorskip("zarr", reason="an extra")
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/a"] = [1]
        store["/a"].attrs.update(ids=[1, [b"x"]], affine=np.eye(2), named={b"x": 2}, plain={"a": [1.5, None]})
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.zarr")
    told = {each.what: each.why for each in (*report.left_out, *report.changed)}
    assert told == {
        "attribute 'ids'": "JSON has no bytes",
        "attribute 'named'": "JSON has no names that are no texts",
        "the type of attribute 'affine'": "JSON has no float64 of NumPy, only lists and numbers",
    }


@pytest.mark.parametrize("target", ["a.h5", "a.nc", "a.zarr"])
def test_tuples_of_attributes_are_lists_elsewhere(tmp_path: Path, target: str) -> None:
    pytest.importorskip({"a.h5": "h5py", "a.nc": "netCDF4", "a.zarr": "zarr"}[target])
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        store["/x"] = np.arange(3)
        store["/x"].attrs.update({"zooms": (1.0, 2, 2.5), "names": ("a", "b")})
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / target, verify=True)
    assert report.complete
    assert {each.what for each in report.changed} == {"the type of attribute 'zooms'", "the type of attribute 'names'"}
    blosc2.convert(tmp_path / target, tmp_path / "b.b2z")
    with blosc2.open(tmp_path / "b.b2z") as store:
        assert list(store["/x"].attrs["zooms"]) == [1.0, 2, 2.5]
        assert list(store["/x"].attrs["names"]) == ["a", "b"]


def test_what_is_open_is_no_path(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        store["/x"] = np.arange(3)
        for source in (store, store["/x"], np.arange(3), [store]):
            with pytest.raises(TypeError, match="convert takes paths"):
                blosc2.convert(source, tmp_path / "a.h5")
