"""`zarr_references`: zarr reads stores and arrays where they are, and finds what NumPy has."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError, FormatError

fsspec = pytest.importorskip("fsspec")
zarr = pytest.importorskip("zarr")
pytestmark = pytest.mark.usefixtures("codecs")

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "data" / "fixtures"
MIXED = np.array([(1, 2.5, b"ab"), (3, np.nan, b"")], [("a", "<i4"), ("b", "<f8"), ("c", "S2")])
#: Dtypes that both formats of zarr know.
ARRAYS: dict[str, Any] = {
    "/mri/raw": np.arange(3 * 40 * 50, dtype="i2").reshape(3, 40, 50),
    "/mri/mask": np.arange(2000).reshape(40, 50) % 3 == 0,
    "/mri/deep/er/half": np.linspace(0, 1, 77).astype("f2"),
    "/one": np.array(7, "u4"),
    "/none": np.zeros((0, 4), "f4"),
    "/big-endian": np.arange(5, dtype=">i4"),
    "/complex": np.arange(5) * (1 - 2j),
    "/text": np.array(["a", "bcé"]),
    "/bytes": np.array([b"abc", b"d"]),
    "/raw": np.arange(14, dtype="u1").view("V7"),
    "/when": np.array(["2024-01-01", "NaT"], "M8[ns]"),
    "/long": np.arange(5).astype("m8[25s]"),
    "/mixed": MIXED,
    "/large": np.arange(600_000, dtype="i8").reshape(600, 1000),
}
STORES = {".b2z": blosc2.TreeStore, ".b2d": blosc2.TreeStore, ".b2e": blosc2.EmbedStore}


def opened(references: Any) -> Any:
    """The group or array that zarr sees."""
    how = {"asynchronous": True, "remote_options": {"asynchronous": True}}
    files = fsspec.filesystem("reference", fo=references, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # data types that zarr's specification does not have yet
        return zarr.open(zarr.storage.FsspecStore(files, read_only=True), mode="r")


def read(found: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return found[...]


def check(group: Any, wanted: dict[str, Any]) -> None:
    for key, items in wanted.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = read(group[key.strip("/")])
        assert found.shape == items.shape, key
        assert found.dtype in (items.dtype, items.dtype.newbyteorder("=")), key
        check_items(found, items, key)


def check_items(found: Any, wanted: Any, name: str) -> None:
    if wanted.dtype.names is None:
        np.testing.assert_array_equal(found, wanted, err_msg=name)
    else:  # NaN in a field is not equal to itself
        assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes()), name


@pytest.mark.parametrize("zarr_format", [3, 2])
@pytest.mark.parametrize("suffix", STORES)
def test_stores(tmp_path: Path, suffix: str, zarr_format: int) -> None:
    path = str(tmp_path / f"scans{suffix}")
    with STORES[suffix](path, mode="w") as store:
        for key, items in ARRAYS.items():
            store[key] = items
    target = tmp_path / "references.json"
    made = blosc2.zarr_references(path, target, zarr_format=zarr_format)
    assert json.loads(target.read_text(encoding="utf-8")) == made
    assert made["version"] == 1
    chunks = {key: ref for key, ref in made["refs"].items() if not isinstance(ref, str)}
    assert all(url.startswith("file:///") and size >= 32 for url, _, size in chunks.values())
    inline = [key for key, ref in made["refs"].items() if isinstance(ref, str) and ref.startswith("base64:")]
    # All chunks are byte ranges of files, but for those of an embedded value that is longer than a chunk of its frame.
    assert all(suffix == ".b2e" and key.startswith("large") for key in inline)
    check(opened(str(target)), ARRAYS)


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_chunks_that_are_stored_nowhere(tmp_path: Path, zarr_format: int) -> None:
    path = str(tmp_path / "special.b2z")
    sparse = np.zeros((50, 60))
    sparse[17, 33] = 5
    nans = np.full((20, 20), np.nan, "f4")
    nans[3, 3] = 1
    arrays = {
        "/zeros": np.zeros((70, 30)), "/nans": np.full((30, 30), np.nan, "f4"), "/sparse": sparse, "/some-nans": nans,
        "/full": np.full(50, 3), "/false": np.zeros(100, "?"), "/text": np.zeros(30, "U4"),
        "/when": np.zeros(9, "M8[s]"),
    }  # fmt: skip
    with blosc2.TreeStore(path, mode="w") as store:
        store["/zeros"] = blosc2.zeros((70, 30), chunks=(20, 20), blocks=(7, 20))
        store["/nans"] = blosc2.nans((30, 30), "f4", chunks=(20, 20), blocks=(7, 20))
        store["/full"] = blosc2.full(50, 3, chunks=(20,), blocks=(10,))
        for key, shape in (("/sparse", (50, 60)), ("/some-nans", (20, 20))):
            array = (blosc2.zeros if key == "/sparse" else blosc2.nans)(shape, arrays[key].dtype, chunks=(10, 10))
            array[np.nonzero(arrays[key] == arrays[key].max())] = 0  # a stored chunk
            array[...] = arrays[key]
            store[key] = array
        for key, items in arrays.items():
            if key not in store:
                store[key] = items
    check(opened(blosc2.zarr_references(path, zarr_format=zarr_format)), arrays)


def test_an_array_in_a_directory(tmp_path: Path) -> None:
    path = str(tmp_path / "one.b2nd")
    items = np.random.default_rng(1).random((1200, 1000))  # more than is read at once
    blosc2.asarray(items, chunks=(300, 1000), urlpath=path, mode="w", contiguous=False)
    references = blosc2.zarr_references(path)
    np.testing.assert_array_equal(read(opened(references)), items)


def test_attributes_and_names_of_axes(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/g/x"] = np.arange(6).reshape(2, 3)
        store["/g/x"].vlmeta.update({"_ARRAY_DIMENSIONS": ["lat", "lon"], "unit": "K", "braces": "{{ 1 + 1 }}"})
        store.attrs["title"] = ["scans", {"of": None}]
        store.get_subtree("/g").attrs["n"] = 3
    group = opened(blosc2.zarr_references(path))
    assert dict(group.attrs) == {"title": ["scans", {"of": None}]}
    assert dict(group["g"].attrs) == {"n": 3}
    assert group["g/x"].metadata.dimension_names == ("lat", "lon")
    assert dict(group["g/x"].attrs) == {"unit": "K", "braces": "{{ 1 + 1 }}"}
    text = json.dumps(blosc2.zarr_references(path))
    assert "{{" not in text
    old = opened(blosc2.zarr_references(path, zarr_format=2))
    assert old["g/x"].attrs["_ARRAY_DIMENSIONS"] == ["lat", "lon"]


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_datasets(tmp_path: Path, zarr_format: int) -> None:
    """What `to_store` has written is what xarray reads: also zeros, and values for what is missing, of any type."""
    xarray = pytest.importorskip("xarray")
    numbers = np.array([1.5, np.nan, -3])
    single = {"valid_min": np.float32(-4), "valid_range": np.array([-4, 4], "i2")}
    data = xarray.Dataset({
        "double": ("x", numbers), "single": ("x", numbers.astype("f4"), single), "half": ("x", numbers.astype("f2")),
        "packed": ("x", numbers), "filled": ("x", numbers.astype("f4")), "count": ("x", [0, 1, 2]),
    }, {"day": ("x", np.arange(3).astype("M8[D]").astype("M8[ns]"))})  # fmt: skip
    encoding: dict[str, Any] = {"filled": {"_FillValue": np.float32(-9999)}}
    encoding["packed"] = {"dtype": "i2", "scale_factor": np.float32(0.5), "_FillValue": np.int16(-1)}
    path = str(tmp_path / "a.b2z")
    blosc2.to_store(data, path, encoding=encoding)
    references = blosc2.zarr_references(path, zarr_format=zarr_format)
    files = fsspec.filesystem("reference", fo=references, asynchronous=True, remote_options={"asynchronous": True})
    store = zarr.storage.FsspecStore(files, read_only=True)
    xarray.testing.assert_equal(xarray.open_dataset(store, engine="zarr", consolidated=False).load(), data)
    raw = xarray.open_dataset(store, engine="zarr", consolidated=False, mask_and_scale=False)
    assert (raw["packed"].dtype, raw["packed"].attrs["_FillValue"]) == (np.dtype("i2"), -1)
    assert raw["filled"].attrs["_FillValue"] == -9999
    assert raw["single"].attrs["valid_min"] == -4
    changed: list[Any] = []
    blosc2.zarr_references(path, zarr_format=zarr_format, left_out=changed)
    assert {each.what for each in changed} >= {"the type of attribute 'valid_min'"}
    assert {type(each).__name__ for each in changed} == {"Changed"}


# ------------------------------------------------------------------ elsewhere
@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A store, and a copy of it in the memory that fsspec has."""
    path = tmp_path / "scans.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/x"] = np.arange(1000)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/bucket/scans.b2z", path.read_bytes())
    yield path
    memory.rm("/bucket", recursive=True)


def test_from_another_place(served: Path) -> None:
    """What the references name is read, and no byte of the file besides."""
    references = blosc2.zarr_references(served, url="memory://bucket/scans.b2z")
    assert {ref[0] for ref in references["refs"].values() if isinstance(ref, list)} == {"memory://bucket/scans.b2z"}
    served.unlink()
    files = fsspec.filesystem("reference", fo=references, asynchronous=True, remote_protocol="memory")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zarr, about file systems that are not asynchronous
        group = zarr.open(zarr.storage.FsspecStore(files, read_only=True), mode="r")
        np.testing.assert_array_equal(group["x"][...], np.arange(1000))


def test_a_source_on_a_server(served: Path, tmp_path: Path) -> None:
    url = "memory://bucket/scans.b2z"
    assert blosc2.zarr_references(url) == blosc2.zarr_references(served, url=url)
    assert blosc2.zarr_references(url, url="s3://b/s") == blosc2.zarr_references(served, url="s3://b/s")
    assert blosc2.merge([url], tmp_path / "merged.b2z") == 1


def test_urls_of_a_directory(tmp_path: Path) -> None:
    path = str(tmp_path / "scans.b2d")
    with blosc2.TreeStore(path, mode="w", threshold=None) as store:
        store["/a"] = np.arange(5)
    with blosc2.TreeStore(path, mode="a", threshold=0) as store:
        store["/b/c"] = np.arange(500)
    refs = blosc2.zarr_references(path, url="s3://bucket/scans.b2d/")["refs"]
    for key in ("a/c/0", "b/c/c/0"):
        url, offset, size = refs[key]
        name = url.removeprefix("s3://bucket/scans.b2d/")
        assert name != url
        chunk = (Path(path) / name).read_bytes()[offset : offset + size]
        assert len(blosc2.decompress2(chunk)) >= 5 * 8


def test_later_versions_leave_references_valid(tmp_path: Path) -> None:
    path = str(tmp_path / "scans.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/x"] = np.arange(1000)
    references = blosc2.zarr_references(path)
    with blosc2.TreeStore(path, mode="a") as store:
        store["/x"] = np.zeros(7)
        store["/y"] = np.ones(3)
    np.testing.assert_array_equal(read(opened(references)["x"]), np.arange(1000))


# ------------------------------------------------------------------ what zarr has not
def test_what_is_left_out(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/x"] = np.arange(6)
        store["/x"].vlmeta["when"] = np.arange(2)
        store["/list"] = blosc2.ObjectArray()
        store["/bytes"] = blosc2.SChunk(data=b"1234")
        store["/gaps"] = np.zeros(3, np.dtype([("a", "u1"), ("b", "f8")], align=True))
        store["/parts"] = np.zeros(3, [("a", "f8", (2,))])
        store["/zarr.json"] = np.arange(3)
        store["/x"].vlmeta["_FillValue"] = 0.5
    with pytest.raises(
        ConversionError, match=r"a.b2z: /bytes: all of it: .*; with left_out=\[\] it is left out, [^;]*$"
    ):
        blosc2.zarr_references(path, tmp_path / "r.json")
    assert os.listdir(tmp_path) == ["a.b2z"]
    left_out: list[Any] = []
    group = opened(blosc2.zarr_references(path, left_out=left_out))
    assert {each.key for each in left_out} == {"/x", "/list", "/bytes", "/gaps", "/parts", "/zarr.json"}
    assert [each.what for each in left_out if each.key == "/x"] == [
        "attribute '_FillValue'", "the type of attribute 'when'",
    ]  # fmt: skip
    assert list(group.array_keys()) == ["x"]
    check(group, {"/x": np.arange(6)})


def test_fields_of_big_endian_numbers(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2nd")
    items = np.array([(1, 2)], [("a", ">i4"), ("b", "<i4")])
    blosc2.asarray(items, urlpath=path, mode="w")
    with pytest.raises(ConversionError, match="zarr_format=2"):
        blosc2.zarr_references(path)
    np.testing.assert_array_equal(read(opened(blosc2.zarr_references(path, zarr_format=2))), items)


def test_too_many_chunks_that_are_stored_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._tools.integrations.references._MOST_SPECIAL", 10)
    path = str(tmp_path / "a.b2nd")
    blosc2.zeros((1 << 40,), chunks=(1 << 20,), blocks=(1 << 16,), urlpath=path, mode="w")
    assert list(blosc2.zarr_references(path)["refs"]) == ["zarr.json"]
    with pytest.raises(ConversionError, match="zarr_format=3 needs none"):
        blosc2.zarr_references(path, zarr_format=2)
    path = str(tmp_path / "b.b2nd")
    blosc2.nans((1 << 40,), chunks=(1 << 20,), blocks=(1 << 16,), urlpath=path, mode="w")
    with pytest.raises(ConversionError, match="stored nowhere"):
        blosc2.zarr_references(path)


def test_too_much_to_be_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a.b2e")
    with blosc2.EmbedStore(path, mode="w") as store:
        store["/x"] = np.random.default_rng(1).random(400_000)
    references = blosc2.zarr_references(path)
    monkeypatch.setattr("blosc2._tools.integrations.references._MOST_COPIED", 1000)
    if any(isinstance(ref, str) and ref.startswith("base64:") for ref in references["refs"].values()):
        with pytest.raises(ConversionError, match=r"convert it to a \.b2z first"):
            blosc2.zarr_references(path)
    else:
        assert blosc2.zarr_references(path) == references


def test_arguments(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(np.arange(3), urlpath=path, mode="w")
    target = tmp_path / "r.json"
    target.write_text("before", encoding="utf-8")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        blosc2.zarr_references(path, target)
    assert target.read_text(encoding="utf-8") == "before"
    blosc2.zarr_references(path, target, overwrite=True)
    assert json.loads(target.read_text(encoding="utf-8"))["version"] == 1
    with pytest.raises(ValueError, match="2 or 3"):
        blosc2.zarr_references(path, zarr_format=1)
    with pytest.raises(ValueError, match="braces"):
        blosc2.zarr_references(path, url="s3://{{u}}")
    with pytest.raises(FileNotFoundError):
        blosc2.zarr_references(str(tmp_path / "none.b2z"))
    blosc2.SChunk(data=b"12", urlpath=str(tmp_path / "c.b2frame"), mode="w")
    with pytest.raises(ConversionError, match="no array"):
        blosc2.zarr_references(str(tmp_path / "c.b2frame"))


# ------------------------------------------------------------------ files of others
@pytest.mark.parametrize("zarr_format", [3, 2])
def test_fixtures(zarr_format: int) -> None:
    """Arrays that the published package wrote, with each codec and filter, and in each shape."""
    listed = json.loads((FIXTURES / "manifest.json").read_text(encoding="utf-8"))["files"]
    paths = [each["path"] for each in listed if each["kind"] == "ndarray" and each["path"].endswith(".b2nd")]
    read_back = 0
    for path in paths:
        file = FIXTURES / path
        try:
            references = blosc2.zarr_references(file, zarr_format=zarr_format, left_out=[])
        except (ConversionError, NotImplementedError):
            continue
        array = blosc2.open(str(file))
        if array.nbytes > 1 << 28:
            continue
        check_items(read(opened(references)), array[...], path)
        read_back += 1
    assert read_back > 60, read_back


@pytest.mark.filterwarnings("ignore::UserWarning")  # of members that are not shown
def test_hostile_fixtures() -> None:
    """An error that says what is wrong, of ours or of the codec; or values."""
    refused = 0
    for file in sorted((FIXTURES / "hostile").iterdir()):
        try:
            references = blosc2.zarr_references(file, zarr_format=2, left_out=[])
            found = opened(references)
            for array in [found] if isinstance(found, zarr.Array) else [array for _, array in found.members()]:
                if array.nbytes < 1 << 28:
                    read(array)
        except (FormatError, ConversionError, NotImplementedError):
            refused += 1
    assert refused > 50, refused


def test_damaged_chunks_in_zarr(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    blosc2.asarray(np.arange(1000), chunks=(500,), blocks=(100,), urlpath=str(path), mode="w")
    references = blosc2.zarr_references(path)
    url, offset, size = references["refs"]["c/1"]
    references["refs"]["c/1"] = [url, offset, size - 5]
    found = opened(references)
    np.testing.assert_array_equal(found[:500], np.arange(500))
    with pytest.raises(FormatError):
        found[500:]
    metadata = json.loads(references["refs"]["zarr.json"])
    metadata["chunk_grid"]["configuration"]["chunk_shape"] = [400]
    references["refs"]["zarr.json"] = json.dumps(metadata)
    with pytest.raises(ValueError, match="is for chunks of"):
        opened(references)[:]


def test_zarr_writes_with_the_codec(tmp_path: Path) -> None:
    from blosc2._tools.integrations.zarr_codec import Blosc2Chunk

    codec = Blosc2Chunk(chunks=(20, 30), blocks=(10, 10), itemsize=4, codec="LZ4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the codec is none of the specification's
        array = zarr.create_array(
            tmp_path / "a.zarr", shape=(50, 50), chunks=(20, 30), dtype="f4", compressors=codec, fill_value=0
        )
        items = np.arange(2500, dtype="f4").reshape(50, 50)
        array[...] = items
        found = zarr.open(tmp_path / "a.zarr", mode="r")
        np.testing.assert_array_equal(found[...], items)
    assert found.metadata.codecs[-1] == codec
    chunk = (tmp_path / "a.zarr" / "c" / "0" / "0").read_bytes()
    copied = blosc2.zeros((20, 30), "f4", chunks=(20, 30), blocks=(10, 10))
    copied.schunk.update_chunk(0, chunk)
    np.testing.assert_array_equal(copied[...], items[:20, :30])
