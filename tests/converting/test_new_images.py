"""NIfTI and TIFF files that `convert` writes: nibabel and tifffile read what the first file said."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

nibabel = pytest.importorskip("nibabel")
tifffile = pytest.importorskip("tifffile")

import blosc2
from blosc2.exceptions import ConversionError

AFFINE = np.array([[-2.0, 0.1, 0, 90], [0.1, 2, 0, -126], [0, 0, 3, -72], [0, 0, 0, 1]])
ITEMS = np.arange(60).reshape(3, 4, 5)


def there_and_back(source: Path, target: Path) -> None:
    """Through a store, with nothing lost or in another form."""
    store = source.parent / "between.b2z"
    blosc2.convert(source, store, verify=True)
    report = blosc2.convert(store, target, verify=True)
    assert (report.left_out, report.changed, report.verified) == ([], [], True)
    assert sorted(path.name for path in source.parent.iterdir()) == sorted([source.name, store.name, target.name])


@pytest.mark.parametrize("channels", ["RGB", "RGBA"])
def test_nifti_of_colours(tmp_path: Path, channels: str) -> None:
    items = np.zeros(ITEMS.shape, [(channel, "u1") for channel in channels])
    items["G"] = ITEMS
    nibabel.Nifti1Image(items, AFFINE).to_filename(tmp_path / "a.nii.gz")
    there_and_back(tmp_path / "a.nii.gz", tmp_path / "b.nii.gz")
    np.testing.assert_array_equal(nibabel.load(tmp_path / "b.nii.gz").dataobj, items)


@pytest.mark.parametrize("suffix", [".nii", ".nii.gz"])
@pytest.mark.parametrize("kind", ["Nifti1Image", "Nifti2Image"])
@pytest.mark.parametrize("dtype", ["u1", "<i2", ">i2", "f4", "c8"])
def test_nifti(tmp_path: Path, kind: str, dtype: str, suffix: str) -> None:
    image = getattr(nibabel, kind)(ITEMS.astype(dtype), AFFINE)
    image.header.set_data_dtype(dtype)
    image.header.set_slope_inter(0.5, -10)
    image.header.set_xyzt_units("mm", "sec")
    image.header.set_intent("t test", (7,), "test")
    image.header["descrip"] = b"a scan"
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"a note"))
    nibabel.save(image, tmp_path / f"a{suffix}")
    there_and_back(tmp_path / f"a{suffix}", tmp_path / f"b{suffix}")
    first, second = (nibabel.load(tmp_path / f"{name}{suffix}") for name in "ab")
    np.testing.assert_array_equal(first.dataobj, second.dataobj)
    np.testing.assert_array_equal(first.affine, second.affine)
    assert (first.header, first.header.extensions) == (second.header, second.header.extensions)
    assert (second.dataobj.slope, second.dataobj.inter) == (0.5, -10)


def test_nifti_of_a_slice(tmp_path: Path) -> None:
    """It keeps its thickness, and all of the file is the same."""
    nibabel.save(nibabel.Nifti1Image(ITEMS[..., 0].astype("f4"), np.diag([2, 2, 2.5, 1])), tmp_path / "a.nii")
    there_and_back(tmp_path / "a.nii", tmp_path / "b.nii")
    assert nibabel.load(tmp_path / "b.nii").header["pixdim"][3] == 2.5
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "b.nii").read_bytes()


def test_nifti_by_way_of_hdf5(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="an extra")
    image = nibabel.Nifti1Image(ITEMS.astype("i2"), AFFINE)
    image.header.set_qform(AFFINE, 1)
    image.header.set_xyzt_units("mm", "sec")
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"a note"))
    nibabel.save(image, tmp_path / "a.nii")
    for one, other in (("a.nii", "a.b2z"), ("a.b2z", "a.h5"), ("a.h5", "b.b2z"), ("b.b2z", "b.nii")):
        assert blosc2.convert(tmp_path / one, tmp_path / other, verify=True).complete
    first, second = (nibabel.load(tmp_path / name).header for name in ("a.nii", "b.nii"))
    assert first["qform_code"] == second["qform_code"] == 1
    assert (first, first.extensions) == (second, second.extensions)


def test_nifti_of_an_array_of_ones_own(tmp_path: Path) -> None:
    scan = blosc2.asarray(ITEMS > 7, urlpath=tmp_path / "a.b2nd")
    scan.attrs.update({"affine": AFFINE, "voxel_sizes": [1.0, 1.0, 2.5], "patient": "007"})
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.nii", verify=True)
    assert [each.what for each in report.left_out] == ["attribute 'patient'"]
    # A header has the matrix in single precision, and takes the sizes from it.
    assert [each.what for each in report.changed] == [
        "the type bool", "attribute 'affine'", "attribute 'voxel_sizes'"
    ]  # fmt: skip
    assert report.changed[-1].why.startswith("the file says [2.0")
    image = nibabel.load(tmp_path / "a.nii")
    np.testing.assert_array_equal(image.get_fdata(), ITEMS > 7)
    np.testing.assert_allclose(image.affine, AFFINE, rtol=1e-6)
    del scan.attrs["affine"]
    blosc2.convert(tmp_path / "a.b2nd", tmp_path / "b.nii")
    assert nibabel.load(tmp_path / "b.nii").header.get_zooms() == (1.0, 1.0, 2.5)


def tiff(path: Path, kind: str) -> Any:
    """A file as ImageJ, as OME or as neither describes images."""
    items, steps = ITEMS.astype("u2"), {"axes": "ZYX"}
    if kind == "imagej":
        steps |= {"spacing": 2.5, "unit": "um"}
        tifffile.imwrite(path, items, imagej=True, resolution=(2, 4), metadata=steps)
    elif kind == "ome":
        steps |= {"PhysicalSizeXUnit": "µm"} | {
            f"PhysicalSize{axis}": size for axis, size in (("X", 0.5), ("Y", 0.25), ("Z", 2.5))
        }
        tifffile.imwrite(path, items, ome=True, metadata=steps)
    else:
        items = (np.arange(72) % 256).astype("u1").reshape(6, 4, 3)
        geo = [(33550, "d", 3, (10.0, 10.0, 0.0)), (34735, "H", 4, (1, 1, 0, 0)), (274, "H", 1, 6)]
        tifffile.imwrite(
            path, items, photometric="rgb", resolution=(300, 150), resolutionunit="INCH", software="test",
            datetime="2020:01:02 03:04:05", extratags=geo, metadata=None,
        )  # fmt: skip
    return items


@pytest.mark.parametrize("kind", ["imagej", "ome", "plain"])
def test_tiff(tmp_path: Path, kind: str) -> None:
    items = tiff(tmp_path / "a.tif", kind)
    there_and_back(tmp_path / "a.tif", tmp_path / "b.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as first, tifffile.TiffFile(tmp_path / "b.tif") as second:
        np.testing.assert_array_equal(second.asarray(), items)
        assert (first.series[0].axes, first.series[0].kind) == (second.series[0].axes, second.series[0].kind)
        for name in ("XResolution", "YResolution", "ResolutionUnit", "ImageDescription", "DateTime", "Orientation"):
            one, other = first.pages[0].tags.get(name), second.pages[0].tags.get(name)
            assert (one and one.value) == (other and other.value)


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "CMYK", "P"])
def test_colours_of_pictures_in_tiff(tmp_path: Path, mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    channels = {"LA": (2,), "RGBA": (4,), "CMYK": (4,)}.get(mode, (3,))
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, *channels), "u1")
    name = "a.jpg" if mode == "CMYK" else "a.png"
    if mode == "P":
        image.fromarray(pixels).quantize(17).save(tmp_path / name)
    else:
        image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode).save(tmp_path / name)
    blosc2.convert(tmp_path / name, tmp_path / "a.b2nd")
    blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif")
    with image.open(tmp_path / name) as wanted, image.open(tmp_path / "a.tif") as found:
        assert (found.mode, found.size, found.n_frames) == (mode, wanted.size, 1)
        np.testing.assert_array_equal(found.convert("RGBA"), wanted.convert("RGBA"))


def test_which_last_axes_of_tiff_are_colours(tmp_path: Path) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (5, 20, 30, 3), "u1")
    blosc2.asarray(pictures, urlpath=tmp_path / "a.b2nd")
    blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif")
    blosc2.asarray(pictures[0], urlpath=tmp_path / "b.b2nd").vlmeta["axes"] = ["y", "x", "colour"]
    report = blosc2.convert(tmp_path / "b.b2nd", tmp_path / "b.tif")
    assert [str(each) for each in report.changed] == ["/b: attribute 'axes': the file says 'YXS'"]
    blosc2.asarray(pictures[0], urlpath=tmp_path / "c.b2nd").vlmeta["axes"] = "YXZ"
    blosc2.convert(tmp_path / "c.b2nd", tmp_path / "c.tif")
    for name, pages in (("a", 5), ("b", 1), ("c", 20)):
        with tifffile.TiffFile(tmp_path / f"{name}.tif") as file:
            assert len(file.pages) == pages
            assert (file.pages[0].photometric.name == "RGB") == (name != "c")
    blosc2.asarray(pictures.astype("u2"), urlpath=tmp_path / "d.b2nd")
    with pytest.raises(ConversionError, match="attribute axes, such as 'TZYX', or photometric='rgb' if"):
        blosc2.convert(tmp_path / "d.b2nd", tmp_path / "d.tif")


def test_a_palette_of_tiff_comes_back(tmp_path: Path) -> None:
    colours = np.arange(768, dtype="u2").reshape(3, 256)
    items = np.arange(200, dtype="u1").reshape(10, 20)
    tifffile.imwrite(tmp_path / "a.tif", items, photometric="palette", colormap=colours)
    blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2nd")
    assert not blosc2.convert(tmp_path / "a.b2nd", tmp_path / "b.tif").left_out
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        np.testing.assert_array_equal(file.pages[0].colormap, colours)
        np.testing.assert_array_equal(file.asarray(), items)


@pytest.mark.parametrize("kind", ["imagej", "ome"])
def test_sizes_of_voxels(tmp_path: Path, kind: str) -> None:
    """One attribute has them, whatever the format; and a new TIFF file says them as ImageJ does."""
    tiff(tmp_path / "a.tif", kind)
    blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2nd")
    stored = blosc2.open(str(tmp_path / "a.b2nd"))
    assert stored.attrs["voxel_sizes"] == [2.5, 0.25, 0.5]  # along z, y and x, as the axes are
    own = blosc2.asarray(stored[...], urlpath=tmp_path / "own.b2nd")
    own.attrs.update({"axes": ["z", "y", "x"], "voxel_sizes": [2.5, 0.25, 0.5]})
    report = blosc2.convert(tmp_path / "own.b2nd", tmp_path / "own.tif", verify=True)
    assert [each.what for each in (*report.left_out, *report.changed)] == ["attribute 'axes'"]  # "ZYX"
    with tifffile.TiffFile(tmp_path / "own.tif") as file:
        assert file.imagej_metadata["spacing"] == 2.5
        assert file.series[0].axes == "ZYX"


OF_OME = {"axes": "ZYX", "PhysicalSizeX": 250.0, "PhysicalSizeY": 500.0, "PhysicalSizeZ": 1.5}
IN_UNITS = {
    "mixed": ({"PhysicalSizeXUnit": "nm", "PhysicalSizeYUnit": "nm"}, [1.5, 0.5, 0.25], "micron"),
    "one": ({f"PhysicalSize{axis}Unit": "mm" for axis in "XYZ"}, [1.5, 500.0, 250.0], "mm"),
    "none said": ({}, [1.5, 500.0, 250.0], "micron"),
    "no length": ({f"PhysicalSize{axis}Unit": "pixel" for axis in "XYZ"}, [1.5, 500.0, 250.0], None),
    "part of no length": ({"PhysicalSizeZUnit": "pixel"}, None, None),
    "not of all axes": ({"PhysicalSizeZ": None}, None, None),
}


@pytest.mark.parametrize("case", IN_UNITS)
def test_sizes_of_voxels_have_one_unit(tmp_path: Path, case: str) -> None:
    more, sizes, unit = IN_UNITS[case]
    said = {name: value for name, value in {**OF_OME, **more}.items() if value is not None}
    tifffile.imwrite(tmp_path / "a.ome.tif", ITEMS.astype("u2"), metadata=said)
    report = blosc2.convert(tmp_path / "a.ome.tif", tmp_path / "a.b2nd")
    attributes = blosc2.open(tmp_path / "a.b2nd").attrs[:]
    assert attributes.get("voxel_sizes") == sizes
    assert attributes.get("units") == (unit and [unit, "unknown"])
    assert [each.what for each in report.changed] == ([] if sizes else ["the sizes of voxels"])


def test_a_part_keeps_what_imagej_says(tmp_path: Path) -> None:
    """The unit and the interval between frames; what OME alone says is lost, and listed so."""
    said = {"axes": "ZYX", "spacing": 1.5, "unit": "nm", "finterval": 0.5, "Labels": ["a", "b", "c"]}
    tifffile.imwrite(tmp_path / "a.tif", ITEMS.astype("u2"), imagej=True, resolution=(0.004, 0.004), metadata=said)
    report = changed_copy(tmp_path / "a.tif", tmp_path / "c.tif", ITEMS[1:].astype("u2"))
    assert [each.what for each in report.left_out] == ["attribute 'IJMetadata'"]
    with tifffile.TiffFile(tmp_path / "c.tif") as file:
        found = file.imagej_metadata
        pixels, length = file.pages[0].tags["XResolution"].value
    assert (found["unit"], found["finterval"], found["slices"]) == ("um", 0.5, 2)
    np.testing.assert_allclose([found["spacing"], length / pixels], [0.0015, 0.25])
    tifffile.imwrite(tmp_path / "a.ome.tif", ITEMS.astype("u2"), metadata={**OF_OME, "Channel": {"Name": ["DAPI"]}})
    report = changed_copy(tmp_path / "a.ome.tif", tmp_path / "d.tif", ITEMS[1:].astype("u2"))
    assert [each.what for each in report.left_out] == ["attribute 'description'"]
    assert "names of channels" in report.left_out[0].why
    with tifffile.TiffFile(tmp_path / "d.tif") as file:
        assert (file.imagej_metadata["unit"], file.imagej_metadata["spacing"]) == ("um", 1.5)


def test_units_of_nifti_in_tiff(tmp_path: Path) -> None:
    array = blosc2.asarray(ITEMS.astype("u2"), urlpath=tmp_path / "a.b2nd")
    array.attrs.update({"axes": "ZYX", "voxel_sizes": [3.0, 2.0, 1.0], "units": ["mm", "sec"]})
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif", verify=True)
    assert report.left_out + report.changed == []
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert (file.imagej_metadata["unit"], file.imagej_metadata["tunit"]) == ("mm", "sec")


TAGS = [
    (65000, "s", 0, "private", True), (65001, "H", 2, (3, 4), True), (65002, "B", 3, b"abc", True),
    (65003, "s", 0, "", True),
]  # fmt: skip
OF_IMAGEJ = {
    "axes": "ZYX", "Labels": ["a", "b", "c"], "Info": "today", "Overlays": [b"Iout" + bytes(60)], "Ranges": (0.0, 9.0),
    "LUTs": [np.arange(768, dtype="u1").reshape(3, 256)],
}  # fmt: skip
WRITTEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "imagej": (ITEMS.astype("u2"), {"imagej": True, "metadata": OF_IMAGEJ}),
    "imagej, big endian": (ITEMS.astype("u2"), {"imagej": True, "metadata": OF_IMAGEJ, "byteorder": ">"}),
    "private tags": (ITEMS.astype("u2"), {"extratags": TAGS, "photometric": "minisblack"}),
    "two descriptions": (np.zeros((6, 4, 3), "u1"), {"description": "a photograph", "photometric": "rgb"}),
    "bits": (ITEMS % 3 == 0, {"photometric": "minisblack"}),
    "bits, white is zero": (ITEMS[0] % 3 == 0, {"photometric": "miniswhite"}),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_tags_of_tiff_come_back(tmp_path: Path, case: str) -> None:
    items, how = WRITTEN[case]
    tifffile.imwrite(tmp_path / "a.tif", items, **how)
    blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2nd", verify=True)
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "b.tif", verify=True)
    assert report.left_out == []
    with tifffile.TiffFile(tmp_path / "a.tif") as first, tifffile.TiffFile(tmp_path / "b.tif") as second:
        np.testing.assert_array_equal(second.asarray(), items)
        one, other = ([(tag.code, repr(tag.value)) for tag in file.pages[0].tags] for file in (first, second))
    places = (273, 50838, 50839) if "big" in case else (273,)  # of strips; bytes are counted by the order of the file
    assert [tag for tag in one if tag[0] not in places] == [tag for tag in other if tag[0] not in places]


@pytest.mark.parametrize(("axes", "photometric"), [("YXS", "minisblack"), ("YXS", "miniswhite"), ("ZYX", "minisblack")])
def test_masks_with_samples_are_bytes(tmp_path: Path, axes: str, photometric: str) -> None:
    mask = np.random.default_rng(0).random((20, 30, 3)) < 0.5
    array = blosc2.asarray(mask, urlpath=tmp_path / "a.b2nd")
    array.attrs.update(photometric=photometric, axes=axes)
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif")
    found = tifffile.imread(tmp_path / "a.tif")
    np.testing.assert_array_equal(found, mask)
    assert found.dtype == (bool if axes == "ZYX" else np.uint8)
    assert [each.what for each in report.changed] == ["the type bool"] * (axes == "YXS")


@pytest.mark.parametrize("value", [5, b"a", {"Labels": 5}, {"Labels": ["a", 3]}])
def test_metadata_that_imagej_has_not(tmp_path: Path, value: Any) -> None:
    array = blosc2.asarray(ITEMS.astype("u2"), urlpath=tmp_path / "a.b2nd")
    array.attrs.update({"IJMetadata": value, "axes": "ZYX"})
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif", verify=True)
    assert [each.what for each in report.left_out] == ["attribute 'IJMetadata'"]


def test_names_and_sizes_of_nifti_and_mgh(tmp_path: Path) -> None:
    items = np.zeros((3, 4, 5, 2), "f4")
    nibabel.save(nibabel.Nifti1Image(items, np.diag([1, 2, 3, 1])), tmp_path / "a.nii")
    nibabel.save(nibabel.MGHImage(items, np.diag([1, 2, 3, 1])), tmp_path / "a.mgz")
    for name in ("a.nii", "a.mgz"):
        blosc2.convert(tmp_path / name, tmp_path / "a.b2nd", overwrite=True)
        attributes = blosc2.open(str(tmp_path / "a.b2nd")).attrs[:]
        assert (attributes["axes"], attributes["voxel_sizes"]) == (["x", "y", "z", "t"], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ["new.nii.gz", "new.tif"])
def test_what_cannot_be_written(tmp_path: Path, name: str) -> None:
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w") as store:
        store["/one"] = ITEMS.astype("i2")
        store["/two"] = ITEMS.astype("i2")
        store["/empty"] = np.zeros((0, 3))
        store["/text"] = np.array(["a"])
    (tmp_path / name).write_bytes(b"what is there")
    for source, why in (
        ("a.b2z", "no items of float64"), ("a.b2z/empty", "no items of float64"), ("a.b2z/text", "no items of <U1"),
    ):  # fmt: skip
        with pytest.raises(ConversionError, match=why):
            blosc2.convert(f"{tmp_path}/{source}", tmp_path / name, overwrite=True)
    with blosc2.open(str(tmp_path / "a.b2z"), mode="a") as store:
        del store["/empty"], store["/text"]
    with pytest.raises(ConversionError, match=r"holds one array, and there are several: /one, /two, .*b2z/one"):
        blosc2.convert(tmp_path / "a.b2z", tmp_path / name, overwrite=True)
    assert (tmp_path / name).read_bytes() == b"what is there"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.b2z", name])
    blosc2.convert(f"{tmp_path}/a.b2z/two", tmp_path / name, overwrite=True, verify=True)
    with pytest.raises(ConversionError, match="pairs of files"):
        blosc2.convert(f"{tmp_path}/a.b2z/two", tmp_path / "a.hdr")


@pytest.mark.parametrize("shape", [(1, 4, 5), (1, 1, 4, 5), (1, 5)])
@pytest.mark.parametrize("attributes", [{}, {"axes": "ZYX"}, {"description": "a scan"}])
def test_axes_of_one_item_stay_in_tiff(tmp_path: Path, shape: tuple[int, ...], attributes: dict[str, str]) -> None:
    stored = blosc2.asarray(np.arange(np.prod(shape), dtype="u2").reshape(shape), urlpath=tmp_path / "a.b2nd")
    stored.attrs.update(attributes)
    assert blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif", verify=True).verified
    blosc2.convert(tmp_path / "a.tif", tmp_path / "b.b2nd")
    back = blosc2.open(tmp_path / "b.b2nd")
    np.testing.assert_array_equal(back[:], stored[:])
    assert attributes.get("description") in (None, back.attrs.get("description"))


def test_the_order_of_bytes_is_told(tmp_path: Path) -> None:
    blosc2.asarray(ITEMS.astype(">i2"), urlpath=tmp_path / "a.b2nd")
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif", verify=True)
    assert [each.what for each in report.changed] == ["the type >i2"]
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif"), ITEMS)


def test_groups_around_an_array_say_what_its_axes_are(tmp_path: Path) -> None:
    store = tmp_path / "study.b2z"
    with blosc2.TreeStore(store, mode="w") as made:
        made["/patient/007/scan"] = np.arange(60, dtype="i2").reshape(3, 4, 5)
        made["/patient"].attrs["voxel_sizes"] = [1.0, 2.0, 9.0]
        made["/patient/007"].attrs["axes"] = ["x", "y", "z"]
        made["/patient/007"].attrs["voxel_sizes"] = [1.0, 2.0, 3.0]
    for source in (store / "patient/007/scan", store / "patient", store):
        target = tmp_path / "out.nii.gz"
        blosc2.convert(source, target, overwrite=True)
        image = nibabel.load(target)
        assert image.header.get_zooms() == (1, 2, 3)
        assert image.shape == (3, 4, 5)


def test_axes_in_another_order_are_no_nifti(tmp_path: Path) -> None:
    store = tmp_path / "s.b2z"
    with blosc2.TreeStore(store, mode="w") as made:
        array = blosc2.asarray(np.zeros((2, 3, 4, 5), "i2"))
        array.vlmeta["axes"], array.vlmeta["voxel_sizes"] = ["t", "z", "y", "x"], [3.0, 2.0, 1.0]
        made["/a"] = array
    with pytest.raises(ConversionError, match=r"NIfTI begins with x, y, z: .*permute_dims\(array, \(3, 2, 1, 0\)\)"):
        blosc2.convert(store, tmp_path / "a.nii")
    assert not (tmp_path / "a.nii").exists()


def test_the_resolution_of_tiff_is_that_of_rows_and_columns(tmp_path: Path) -> None:
    store = tmp_path / "s.b2z"
    with blosc2.TreeStore(store, mode="w") as made:
        array = blosc2.asarray(np.zeros((6, 7, 8), "u2"))
        array.vlmeta["axes"], array.vlmeta["voxel_sizes"] = ["x", "y", "z"], [1.0, 2.0, 4.0]
        made["/a"] = array
    blosc2.convert(store, tmp_path / "a.tif")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        tags = file.pages[0].tags
        assert [tags[name].value[0] / tags[name].value[1] for name in ("XResolution", "YResolution")] == [0.25, 0.5]


def test_axes_in_another_order_and_other_texts_have_no_sizes_in_tiff(tmp_path: Path) -> None:
    array = blosc2.zeros((3, 8, 6), dtype="u2", urlpath=tmp_path / "a.b2nd")
    for attributes, is_kept in (
        ({"axes": "ZYX"}, True), ({"axes": "XYZ"}, False), ({"axes": "ZYX", "description": "TE=30"}, False),
    ):  # fmt: skip
        array.attrs.update({**attributes, "voxel_sizes": [3.0, 2.0, 1.0]})
        left_out = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif", overwrite=True).left_out
        whys = [each.why for each in left_out if each.what == "attribute 'voxel_sizes'"]
        assert whys == [] if is_kept else "without another description" in whys[0]


STACK = np.arange(3 * 2 * 8 * 6, dtype="u2").reshape(3, 2, 8, 6)


def changed_copy(source: Path, target: Path, items: np.ndarray[Any, Any], **attributes: Any) -> blosc2.ConversionReport:
    """Other items with the attributes of a TIFF file, but for some, as another TIFF file."""
    blosc2.convert(source, source.parent / "a.b2nd", overwrite=True)
    array = blosc2.asarray(np.ascontiguousarray(items))
    array.attrs.update({**blosc2.open(source.parent / "a.b2nd").attrs, **attributes})
    array.save(source.parent / "b.b2nd", mode="w")
    return blosc2.convert(source.parent / "b.b2nd", target, verify=True)


@pytest.mark.parametrize("how", ["ome", "imagej", "shaped"])
@pytest.mark.parametrize(
    ("part", "axes"),
    [(np.s_[:, 1], "ZYX"), (np.s_[:, :, 2:6, :4], "ZCYX"), (np.s_[1], "CYX"), (np.s_[0, 0], "YX")],
    ids=["channel", "crop", "plane of channels", "one plane"],
)
def test_a_part_with_the_attributes_of_the_whole(
    tmp_path: Path, how: str, part: Any, axes: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The description of other programs names the old shape, and is left out."""
    name = tmp_path / ("a.ome.tif" if how == "ome" else "a.tif")
    tifffile.imwrite(name, STACK, imagej=how == "imagej", metadata=None if how == "shaped" else {"axes": "ZCYX"})
    report = changed_copy(name, tmp_path / "c.tif", STACK[part], axes=axes)
    assert caplog.records == []
    with tifffile.TiffFile(tmp_path / "c.tif") as file:
        np.testing.assert_array_equal(file.asarray(), STACK[part])
        assert file.series[0].axes == axes
    assert caplog.records == []
    known = {"attribute 'description'", *(["attribute 'voxel_sizes'"] if axes == "YX" else [])}  # which has three
    assert {each.what for each in report.left_out} <= known


def test_a_text_of_the_user_stays(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", STACK, imagej=True, metadata={"axes": "ZCYX"})
    changed_copy(
        tmp_path / "a.tif", tmp_path / "c.tif", STACK[:, 0], axes="ZYX", description="moved", voxel_sizes=[1, 2, 3]
    )
    with tifffile.TiffFile(tmp_path / "c.tif") as file:
        assert file.pages[0].description == "moved"


@pytest.mark.parametrize(("shape", "axes", "dtype"), [((8, 6), "YX", "u2"), ((8, 6, 3), "YXS", "u1")])
def test_sizes_of_a_picture_are_those_of_imagej(shape: Any, axes: str, dtype: str, tmp_path: Path) -> None:
    array = blosc2.zeros(shape, dtype=dtype, urlpath=tmp_path / "a.b2nd")
    copied = {"XResolution": [40000, 1], "YResolution": [40000, 1], "ResolutionUnit": 3}
    array.attrs.update(axes=axes, voxel_sizes=[0.5, 0.25], units=["micron", "sec"], **copied)
    report = blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif", verify=True)
    assert report.left_out == []
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert file.imagej_metadata["unit"] == "um"
        assert file.pages[0].resolution == (4, 2)


def test_sizes_for_other_axes_are_left_out_and_tags_stay(tmp_path: Path) -> None:
    array = blosc2.zeros((2, 8, 6), dtype="u2", urlpath=tmp_path / "a.b2nd")
    copied = {"XResolution": [40000, 1], "YResolution": [40000, 1], "ResolutionUnit": 3}
    array.attrs.update(axes="CYX", voxel_sizes=[1.5, 0.25, 0.25], units=["micron", "sec"], **copied)
    blosc2.convert(tmp_path / "a.b2nd", tmp_path / "a.tif", verify=True)
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert "unit" not in file.imagej_metadata  # so that ImageJ takes that of the tags, centimetres
        assert (file.pages[0].resolution, file.pages[0].resolutionunit) == ((40000, 40000), 3)
    blosc2.convert(tmp_path / "a.tif", tmp_path / "b.b2nd")
    back = blosc2.open(tmp_path / "b.b2nd").attrs
    assert back["units"][0] == "micron"
    np.testing.assert_allclose(back["voxel_sizes"], [0.25, 0.25])


@pytest.mark.parametrize(
    ("unit", "tag", "sizes"), [({"unit": "um"}, 3, [3.0, 0.25, 0.5]), ({}, 2, None), ({}, 3, None)]
)
def test_sizes_of_planes_beside_tags(unit: Any, tag: int, sizes: Any, tmp_path: Path) -> None:
    """ImageJ reads "um" beside centimetres as 10000 of them (FileOpener.java); the tags say nothing of other planes."""
    metadata = {"axes": "ZYX", "spacing": 3.0, **unit}
    tifffile.imwrite(
        tmp_path / "a.tif", np.ones((3, 8, 6), "u2"), imagej=True, metadata=metadata, resolution=(20000, 40000),
        resolutionunit=tag,
    )  # fmt: skip
    report = blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2nd")
    found = blosc2.open(tmp_path / "a.b2nd").attrs
    assert [each.what for each in report.changed] == ["the sizes of voxels"] * (sizes is None)
    assert found.get("voxel_sizes") == (None if sizes is None else pytest.approx(sizes))


@pytest.mark.parametrize(("dtype", "name"), [("f4", "float"), ("u1", "uint8"), ("f8", "double")])
def test_the_description_of_ome_has_the_type_of_the_items(dtype: str, name: str, tmp_path: Path) -> None:
    metadata = {"axes": "ZYX", "SignificantBits": 12}
    tifffile.imwrite(tmp_path / "a.ome.tif", np.ones((3, 8, 6), "u2"), ome=True, metadata=metadata)
    report = changed_copy(tmp_path / "a.ome.tif", tmp_path / "c.ome.tif", np.ones((3, 8, 6), dtype))
    assert "attribute 'description'" in [each.what for each in report.changed]
    with tifffile.TiffFile(tmp_path / "c.ome.tif") as file:
        pixels = ET.fromstring(file.ome_metadata).find(".//{*}Pixels")
        assert pixels is not None
        assert (pixels.get("Type"), pixels.get("SignificantBits")) == (name, None)


def test_a_grey_picture_of_colours(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((8, 6, 3), "u1"), photometric="rgb")
    report = changed_copy(tmp_path / "a.tif", tmp_path / "c.tif", np.ones((8, 6), "u1"), axes="YX")
    assert "attribute 'photometric'" in [each.what for each in report.changed]
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "c.tif"), np.ones((8, 6)))


@pytest.mark.parametrize("keeps_description", [True, False])
def test_sizes_of_voxels_are_those_of_the_attribute(tmp_path: Path, keeps_description: bool) -> None:
    """Tags that were copied say the old ones."""
    tifffile.imwrite(
        tmp_path / "a.tif", STACK, imagej=True, resolution=(5, 5), metadata={"axes": "ZCYX", "spacing": 2.0}
    )
    more = {} if keeps_description else {"description": ""}
    report = changed_copy(
        tmp_path / "a.tif", tmp_path / "c.tif", STACK[..., ::2, ::2], voxel_sizes=[2.0, 0.4, 0.4], **more
    )
    blosc2.convert(tmp_path / "c.tif", tmp_path / "c.b2nd")
    np.testing.assert_allclose(blosc2.open(tmp_path / "c.b2nd").attrs["voxel_sizes"], [2.0, 0.4, 0.4])
    assert "attribute 'XResolution'" in {each.what for each in report.changed}
