"""`convert` of volumes: what nibabel makes of the bytes that are kept is what it makes of the file."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError

nibabel = pytest.importorskip("nibabel", reason="an extra")

AFFINE = np.array([[-2.0, 0.1, 0, 90], [0.1, 2, 0, -126], [0, 0, 3, -72], [0, 0, 0, 1]])
ITEMS = np.arange(3 * 4 * 5, dtype="i2").reshape(3, 4, 5)

# What is raised for damaged headers, by the library too.
ERRORS = (
    ConversionError, nibabel.filebasedimages.ImageFileError, nibabel.spatialimages.HeaderDataError, OSError,
)  # fmt: skip


def converted(path: Path, *, changed: tuple[str, ...] = ()) -> tuple[Any, dict[str, Any]]:
    """The items and attributes of the array; nothing is lost."""
    target = path.parent / "out" / "a.b2nd"
    target.parent.mkdir(exist_ok=True)
    report = blosc2.convert(path, target, verify=True, overwrite=True)
    assert report.complete
    assert tuple(each.what for each in report.changed) == changed
    array = blosc2.open(str(target))
    return array[...], array.vlmeta[:]


def check_image(items: Any, attributes: dict[str, Any], image: Any) -> None:
    """Items, with their scale, are those of an image of nibabel."""
    np.testing.assert_array_equal(items, image.dataobj.get_unscaled())
    scaled = items * attributes.get("scl_slope", 1) + attributes.get("scl_inter", 0)
    np.testing.assert_allclose(scaled, image.get_fdata())
    np.testing.assert_array_equal(attributes["affine"], image.affine)
    assert attributes["zooms"] == [float(zoom) for zoom in image.header.get_zooms()]


def made(kind: Any, *, scale: bool) -> Any:
    image = kind(ITEMS, AFFINE)
    image.header.set_qform(AFFINE, 2)
    image.header.set_sform(AFFINE, 4)
    image.header.set_intent("t test", (7,), "test")
    image.header["descrip"] = b"a scan"
    image.header.set_xyzt_units("mm", "sec")
    if scale:
        image.header.set_slope_inter(2, 5)
    return image


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(
    ("name", "kind"),
    [("v.nii", "Nifti1Image"), ("v.nii.gz", "Nifti1Image"), ("v.nii.gz", "Nifti2Image"), ("v.img", "Nifti1Pair"),
     ("v.hdr", "Nifti1Pair"), ("v.img.gz", "Nifti2Pair")],
)  # fmt: skip
def test_the_whole_header_is_kept(tmp_path: Path, name: str, kind: str, scale: bool) -> None:
    image = made(getattr(nibabel, kind), scale=scale)
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"a note"))
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(6, b"x" * 1000))
    nibabel.save(image, tmp_path / name)
    items, attributes = converted(tmp_path / name, changed=("the scale",) if scale else ())
    loaded = nibabel.load(tmp_path / name)
    check_image(items, attributes, loaded)
    assert (attributes["description"], attributes["units"]) == ("a scan", ["mm", "sec"])
    header = type(loaded.header)(binaryblock=attributes["nifti_header"])
    for field in header.keys():  # noqa: SIM118 - a header is no dict
        if field not in ("scl_slope", "scl_inter", "vox_offset"):  # nibabel forgets them when it loads
            np.testing.assert_array_equal(header[field], loaded.header[field], err_msg=field)
    assert (float(header["scl_slope"]), float(header["scl_inter"])) == ((2, 5) if scale else (1, 0))
    np.testing.assert_array_equal(header.get_best_affine(), loaded.affine)
    assert header.get_intent() == ("t test", (7.0,), "test")
    found = attributes["nifti_extensions"]
    assert [(code, content.rstrip(b"\0")) for code, content in found] == [(6, b"a note"), (6, b"x" * 1000)]


@pytest.mark.parametrize("kind", ["AnalyzeImage", "Spm99AnalyzeImage"])
def test_analyze(tmp_path: Path, kind: str) -> None:
    image = getattr(nibabel, kind)(ITEMS, np.diag([-2.0, 3, 4, 1]))
    image.header["descrip"] = b"old"
    image.to_filename(tmp_path / "v.img")
    for left in tmp_path.glob("*.mat"):
        left.unlink()
    items, attributes = converted(tmp_path / "v.img")
    loaded = nibabel.load(tmp_path / "v.img")
    check_image(items, attributes, loaded)
    assert attributes["description"] == "old"
    assert "nifti_header" not in attributes
    header = type(loaded.header)(binaryblock=attributes["analyze_header"])
    assert header.binaryblock == (tmp_path / "v.hdr").read_bytes()[:348]


def test_cifti(tmp_path: Path) -> None:
    cifti = nibabel.cifti2
    scalars = cifti.ScalarAxis(["one", "two"])
    brain = cifti.BrainModelAxis.from_mask(np.ones(7, bool), name="CORTEX_LEFT")
    times = cifti.SeriesAxis(0, 2.5, 3)
    for name, axis in (("v.dscalar.nii", scalars), ("v.dtseries.nii", times)):
        values = np.random.default_rng(0).random((len(axis), 7)).astype("f4")
        nibabel.Cifti2Image(values, (axis, brain)).to_filename(tmp_path / name)
        items, attributes = converted(tmp_path / name)
        np.testing.assert_array_equal(items, values)
        loaded = nibabel.load(tmp_path / name)
        header = nibabel.Nifti2Header(binaryblock=attributes["nifti_header"])
        assert header.get_intent() == loaded.nifti_header.get_intent()
        assert header.get_data_shape() == loaded.nifti_header.get_data_shape()
        ((code, text),) = attributes["nifti_extensions"]
        assert code == 32
        assert (
            cifti.parse_cifti2.Cifti2Extension(code, text.rstrip(b"\0")).get_content().to_xml()
            == loaded.header.to_xml()
        )


@pytest.mark.parametrize("name", ["v.mgh", "v.mgz"])
@pytest.mark.parametrize("dtype", ["u1", ">i4", ">f4"])
def test_mgh(tmp_path: Path, name: str, dtype: str) -> None:
    items = np.stack([ITEMS, ITEMS], -1).astype(dtype)
    image = nibabel.MGHImage(items, AFFINE)
    image.header.set_zooms((2, 2, 3, 1500))
    image.header["fov"] = 256
    image.to_filename(tmp_path / name)
    found, attributes = converted(tmp_path / name)
    with nibabel.openers.ImageOpener(tmp_path / name) as file:  # else the library leaves it open
        holder = nibabel.fileholders.FileHolder(str(tmp_path / name), file)
        loaded = nibabel.MGHImage.from_file_map({"image": holder})
        check_image(found, attributes, loaded)
    assert found.dtype == dtype
    header = nibabel.MGHImage.header_class(binaryblock=attributes["mgh_header"][:90] + attributes["mgh_footer"])
    assert header == loaded.header
    assert (header["fov"], len(attributes["mgh_header"])) == (256, 284)


def test_a_large_extension(tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes(1 << 20)
    image = nibabel.Nifti1Image(ITEMS, AFFINE)
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(44, content))
    nibabel.save(image, tmp_path / "v.nii")
    assert converted(tmp_path / "v.nii")[1]["nifti_extensions"][0][1].startswith(content)


def test_an_extension_that_is_cut(tmp_path: Path) -> None:
    image = nibabel.Nifti1Pair(ITEMS, AFFINE)
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(44, b"x" * 100))
    nibabel.save(image, tmp_path / "v.img")
    whole = (tmp_path / "v.hdr").read_bytes()
    for length in (400, 380, 355, 200, 0):
        (tmp_path / "v.hdr").write_bytes(whole[:length])
        with pytest.raises(ERRORS):
            blosc2.convert(tmp_path / "v.img", tmp_path / "a.b2z")
        assert not list(tmp_path.glob("*.b2z"))


def test_half_of_a_pair(tmp_path: Path) -> None:
    nibabel.Nifti1Pair(ITEMS, AFFINE).to_filename(tmp_path / "v.img")
    (tmp_path / "v.img").unlink()
    with pytest.raises(ConversionError, match=r"v\.hdr is of a pair: the image, .*v\.img, is not there"):
        blosc2.convert(tmp_path / "v.hdr", tmp_path / "a.b2z")


def test_a_damaged_mgz(tmp_path: Path) -> None:
    nibabel.MGHImage(ITEMS.astype(">i4"), AFFINE).to_filename(tmp_path / "v.mgz")
    data = bytearray((tmp_path / "v.mgz").read_bytes())
    data[-5] ^= 255  # of the sum
    (tmp_path / "v.mgz").write_bytes(data)
    with pytest.raises(ConversionError, match=r"v\.mgz: it cannot be read: "):
        blosc2.convert(tmp_path / "v.mgz", tmp_path / "a.b2z")


@pytest.mark.parametrize("name", ["v.nii", "v.nii.gz", "v.mgz"])
def test_a_header_that_claims_more_than_the_file_can_hold(tmp_path: Path, name: str) -> None:
    kind = nibabel.MGHImage if name == "v.mgz" else nibabel.Nifti1Image
    image = kind(np.zeros((2, 2, 2), "f4"), AFFINE)
    image.header.set_data_shape((1 << 10, 1 << 10, 1 << 10))
    header = image.header.binaryblock + bytes(16)
    (tmp_path / name).write_bytes(gzip.compress(header) if name != "v.nii" else header)
    with pytest.raises(ConversionError, match=rf"{name}: it cannot be read: its header speaks of 4294967296 bytes"):
        blosc2.convert(tmp_path / name, tmp_path / "a.b2z")
