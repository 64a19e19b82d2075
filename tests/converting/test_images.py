"""TIFF files and other pictures: what describes them is kept as attributes, or listed."""

from __future__ import annotations

import datetime as dt
import os
import random
import shutil
import struct
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError

tifffile = pytest.importorskip("tifffile", reason="an extra")

GREY = np.random.default_rng(0).integers(0, 255, (64, 48)).astype("u1")


def converted(path: Path) -> tuple[Any, dict[str, dict[str, Any]], list[tuple[str, str]]]:
    """The arrays and the attributes of each, and what is listed."""
    report = blosc2.convert(path, path.with_suffix(".b2z"), verify=True)
    assert report.complete == (not report.left_out)
    with blosc2.open(str(path.with_suffix(".b2z"))) as store:
        leaves = {key: store[key] for key in store if isinstance(store[key], blosc2.NDArray)}
        arrays = {key: leaf[...] for key, leaf in leaves.items()}
        return (
            arrays,
            {key: leaf.vlmeta[:] for key, leaf in leaves.items()},
            [each[:2] for each in report.left_out + report.changed],
        )


def test_tags_of_a_tiff_are_attributes(tmp_path: Path) -> None:
    geo = [
        (33550, "d", 3, (10.0, 10.0, 0.0)), (33922, "d", 6, (0.0, 0, 0, 4e5, 5e6, 0)),
        (34735, "H", 8, (1, 1, 0, 1, 1024, 0, 1, 1)), (34737, "s", 0, "WGS 84|"), (42112, "s", 0, "<GDALMetadata/>"),
        (42113, "s", 0, "-9999"), (274, "H", 1, 6), (65000, "s", 0, "private"),
    ]  # fmt: skip
    tifffile.imwrite(
        tmp_path / "a.tif", GREY, extratags=geo, resolution=(300, 150), resolutionunit="INCH", iccprofile=b"profile",
        software="test", datetime="2020:01:02 03:04:05", description="bones", metadata=None,
    )  # fmt: skip
    arrays, attributes, listed = converted(tmp_path / "a.tif")
    assert listed == []
    np.testing.assert_array_equal(arrays["/a"], GREY)
    assert attributes["/a"] == {
        "axes": "YX", "photometric": "minisblack", "description": "bones", "BitsPerSample": 8, "Software": "test",
        "DateTime": "2020:01:02 03:04:05", "XResolution": [300, 1], "YResolution": [150, 1], "ResolutionUnit": 2,
        "InterColorProfile": b"profile", "Orientation": 6, "ModelPixelScaleTag": [10.0, 10.0, 0.0],
        "ModelTiepointTag": [0.0, 0.0, 0.0, 4e5, 5e6, 0.0], "GeoKeyDirectoryTag": [1, 1, 0, 1, 1024, 0, 1, 1],
        "GeoAsciiParamsTag": "WGS 84|", "GDAL_METADATA": "<GDALMetadata/>", "GDAL_NODATA": "-9999", "65000": "private",
    }  # fmt: skip


def test_a_time_in_a_tag(tmp_path: Path) -> None:
    """Microscopes of Olympus have one, which tifffile decodes."""
    from blosc2._tools.converting.images import _plain

    when = dt.datetime(2001, 2, 3, 4, 5, 6)
    assert _plain({"datetime": when, "day": when.date()}) == {"datetime": "2001-02-03T04:05:06", "day": "2001-02-03"}


def test_a_tag_that_is_too_large(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", GREY, iccprofile=bytes(2 << 20))
    assert converted(tmp_path / "a.tif")[2] == [("/a", "tag 'InterColorProfile'")]


@pytest.mark.parametrize("how", ["SubIFDs", "overviews"])
def test_pyramids(tmp_path: Path, how: str) -> None:
    large = np.tile(GREY, (8, 8))
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        options = {"tile": (64, 64), "photometric": "minisblack", "metadata": None}
        file.write(large, subifds=2 if how == "SubIFDs" else 0, **options)
        for level in (2, 4):
            file.write(large[::level, ::level], subfiletype=1, **options)
    arrays, _, listed = converted(tmp_path / "a.tif")
    np.testing.assert_array_equal(arrays["/a"], large)
    assert listed == [("/a", "levels 1 to 2 of the pyramid")]


def test_labels_of_imagej(tmp_path: Path) -> None:
    table = np.arange(768, dtype="u1").reshape(3, 256)
    tifffile.imwrite(
        tmp_path / "a.tif", np.stack([GREY, GREY]), imagej=True,
        metadata={"axes": "ZYX", "Labels": ["one", "two"], "LUTs": [table], "Info": "text", "spacing": 3.0},
    )  # fmt: skip
    _, attributes, listed = converted(tmp_path / "a.tif")
    assert listed == []
    assert "spacing=3.0" in attributes["/a"]["description"]
    found = attributes["/a"]["IJMetadata"]
    assert (found["Labels"], found["Info"]) == (["one", "two"], "text")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        wanted = file.imagej_metadata["LUTs"]
    assert len(wanted) > 0
    np.testing.assert_array_equal(found["LUTs"], wanted)


def test_a_set_of_files_is_given_once(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Each file of it names all; the first one of a folder gives the images of all, and one alone does as well."""
    items, folder = np.arange(2 * 3 * 5 * 7, dtype="u2").reshape(2, 3, 5, 7), tmp_path / "in"
    folder.mkdir()
    places = "".join(
        f'<TiffData FirstC="{c}" FirstZ="{z}" FirstT="0" IFD="{z}" PlaneCount="1">'
        f'<UUID FileName="{c}.ome.tif">urn:uuid:{c}</UUID></TiffData>'
        for c in range(2)
        for z in range(3)
    )
    for c in range(2):
        described = (
            f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:{c}">'
            '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="7" SizeY="5" '
            f'SizeC="2" SizeZ="3" SizeT="1">{places}</Pixels></Image></OME>'
        )
        how = {"metadata": None, "photometric": "minisblack", "ome": False}
        tifffile.imwrite(folder / f"{c}.ome.tif", items[c], description=described, **how)
    for source in (folder, [folder / "1.ome.tif", folder / "0.ome.tif"], folder / "1.ome.tif"):
        report = blosc2.convert(source, tmp_path / "a.b2z", verify=True, overwrite=True)
        assert report.arrays == 1
        assert [each.what for each in report.changed] == (["a file of a set"] if source != folder / "1.ome.tif" else [])
        with blosc2.open(str(tmp_path / "a.b2z")) as store:
            np.testing.assert_array_equal(store[min(store)][...], items)
    assert not any("closed file" in str(each.message) for each in recwarn)


def test_tags_of_further_pages(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        for second in range(3):
            file.write(GREY, datetime=f"2020:01:02 03:04:0{second}", software="test", metadata=None, contiguous=False)
    arrays, attributes, listed = converted(tmp_path / "a.tif")
    assert arrays["/a"].shape == (3, *GREY.shape)
    assert attributes["/a"]["DateTime"] == "2020:01:02 03:04:00"
    assert listed == [("/a", "tags of further pages: DateTime")]


def test_white_is_zero_and_palettes(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", GREY, photometric="miniswhite")
    arrays, attributes, _ = converted(tmp_path / "a.tif")
    np.testing.assert_array_equal(arrays["/a"], GREY)
    assert attributes["/a"]["photometric"] == "miniswhite"
    colours = np.arange(768, dtype="u2").reshape(3, 256)
    tifffile.imwrite(tmp_path / "b.tif", GREY, photometric="palette", colormap=colours)
    _, attributes, listed = converted(tmp_path / "b.tif")
    assert (attributes["/b"]["photometric"], listed) == ("palette", [])
    assert np.ravel(attributes["/b"]["ColorMap"]).tolist() == colours.ravel().tolist()


def test_a_tiff_without_an_image(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(struct.pack("<2sHI", b"II", 42, 0))
    with pytest.raises(ConversionError, match=r"a\.tif"):
        blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2z")


def test_a_size_that_is_only_claimed(tmp_path: Path) -> None:
    """One strip, compressed, of which nothing is there."""
    side = 1 << 20
    tags = [(256, side), (257, side), (258, 8), (259, 8), (262, 1), (273, 0), (277, 1), (278, side), (279, 0)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    header = struct.pack("<2sHIH", b"II", 42, 8, len(tags))
    (tmp_path / "a.tif").write_bytes(header + entries + bytes(4))
    with pytest.raises(ConversionError, match="a file of 122 bytes claims items of 1099511627776: it is damaged"):
        blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2z")


def test_a_large_image_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = np.zeros((9000, 9000), "u1")
    tifffile.imwrite(tmp_path / "a.tif", large, compression="zlib", tile=(256, 256))
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: usage._replace(free=large.nbytes - 1))
        with pytest.raises(ConversionError, match=r"its items need 81000000 bytes in .*; TMPDIR names another place"):
            blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2z")
    arrays, _, listed = converted(tmp_path / "a.tif")
    assert (arrays["/a"].shape, arrays["/a"].any(), listed) == (large.shape, False, [])


def test_damaged_files_in_a_folder(tmp_path: Path) -> None:
    """Whatever the libraries raise, one line is listed, and the good file is converted."""
    image = pytest.importorskip("PIL.Image", reason="an extra")
    folder, rng = tmp_path / "in", random.Random(0)
    folder.mkdir()
    tifffile.imwrite(folder / "good.tif", GREY)
    tifffile.imwrite(tmp_path / "a.tif", GREY, compression="zlib", rowsperstrip=16, photometric="minisblack")
    image.fromarray(GREY).save(tmp_path / "a.png", dpi=(72, 72))
    for name in ("a.tif", "a.png"):
        data = (tmp_path / name).read_bytes()
        for number in range(150):
            damaged = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                damaged[rng.randrange(min(400, len(data)))] = rng.randrange(256)
            if number % 3 == 0:
                del damaged[rng.randrange(8, len(data)) :]
            (folder / f"{number}{name}").write_bytes(damaged)
    report = blosc2.convert(folder, tmp_path / "a.b2z")
    lost = [each for each in report.left_out if each.what == "all of it"]
    assert len(lost) > 50
    assert all("\n" not in str(each) for each in report.left_out)
    assert report.arrays == 301 - len(lost)
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        np.testing.assert_array_equal(store["/good.tif"][...], GREY)
    for number in range(0, 150, 10):  # alone, a file is refused, or converted
        try:
            blosc2.convert(folder / f"{number}a.tif", tmp_path / "b.b2z", overwrite=True)
        except ConversionError as error:
            assert "\n" not in str(error)  # noqa: PT017
    assert "in" in os.listdir(tmp_path)


# ------------------------------------------------------------------ other pictures
def picture(
    tmp_path: Path, name: str, *, mode: str = "L", **options: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The attributes of a picture that Pillow has saved with these options, and what is listed."""
    image = pytest.importorskip("PIL.Image", reason="an extra")
    (tmp_path / "in").mkdir()
    image.fromarray(GREY).convert(mode).save(tmp_path / "in" / name, **options)
    report = blosc2.convert(tmp_path / "in", tmp_path / "a.b2z", verify=True)
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        return store[f"/{name}"].vlmeta[:], [each[1:] for each in report.left_out]


@pytest.mark.parametrize("how", ["with it", "without it"])
@pytest.mark.parametrize("compression", ["tiff_lzw", "jpeg", "group4"])
def test_compressions_that_need_another_package(tmp_path: Path, compression: str, how: str) -> None:
    image = pytest.importorskip("PIL.Image", reason="an extra")
    picture = image.fromarray((np.arange(64 * 64).reshape(64, 64) % 128).astype("u1"))
    picture.convert("1" if compression == "group4" else "L").save(tmp_path / "a.tif", compression=compression)
    if how == "with it":
        pytest.importorskip("imagecodecs")
        assert blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2z", verify=True).complete
    elif find_spec("imagecodecs") is None:
        with pytest.raises(ConversionError, match=r"needs the package 'imagecodecs': pip install .*\[convert\]"):
            blosc2.convert(tmp_path / "a.tif", tmp_path / "a.b2z")
        assert os.listdir(tmp_path) == ["a.tif"]


def test_metadata_of_png(tmp_path: Path) -> None:
    png = pytest.importorskip("PIL.PngImagePlugin", reason="an extra")
    chunks = png.PngInfo()
    chunks.add_text("Title", "bones")
    chunks.add_itxt("Author", "é")
    chunks.add(b"tEXt", b"Late\0behind the pixels", after_idat=True)
    chunks.add_text("mode", "not that of the pixels")
    chunks.add(b"gAMA", struct.pack(">I", 45455))
    chunks.add(b"cHRM", struct.pack(">8I", *range(0, 80_000, 10_000)))
    chunks.add(b"bKGD", b"\0\1")
    chunks.add(b"prVt", b"private")
    for each in (b"one", b"two", b"three"):
        chunks.add(b"twIc", each)
    chunks.add(b"tIME", struct.pack(">H5B", 2001, 2, 3, 4, 5, 6))
    chunks.add_text("tIME", "not that of the chunk")
    attributes, listed = picture(tmp_path, "a.png", pnginfo=chunks, dpi=(300, 150), icc_profile=b"profile")
    assert [round(each) for each in attributes.pop("dpi")] == [300, 150]
    assert attributes == {
        "mode": "L", "Title": "bones", "Author": "é", "Late": "behind the pixels", "gamma": 0.45455,
        "chromaticity": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], "icc_profile": b"profile",
        "bKGD": b"\0\1", "prVt": b"private", "tIME": "not that of the chunk",
    }  # fmt: skip
    assert [each[0] for each in listed] == ["chunks tIME, twIc", "metadata 'mode'"]


def test_metadata_of_jpeg(tmp_path: Path) -> None:
    attributes, listed = picture(tmp_path, "a.jpg", dpi=(96, 96), comment=b"hello", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0")
    assert listed == []
    assert (attributes["dpi"], attributes["jfif_density"], attributes["comment"]) == ([96, 96], [96, 96], b"hello")
    assert attributes["exif"].startswith(b"Exif")


def test_metadata_of_gif(tmp_path: Path) -> None:
    attributes, listed = picture(tmp_path, "a.gif", comment=b"hello", background=5)
    assert (attributes["comment"], attributes["background"]) == (b"hello", 5)
    assert listed == []


def test_a_colour_that_is_clear(tmp_path: Path) -> None:
    assert picture(tmp_path, "a.png", transparency=7) == ({"mode": "L", "transparency": 7}, [])


def test_numbers_of_a_mask_with_a_palette(tmp_path: Path) -> None:
    """As those of VOC and DAVIS have: they are classes, and colours are only how they look."""
    image = pytest.importorskip("PIL.Image", reason="an extra")
    colours = np.array([[0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0]], "u1")
    classes = GREY % 4
    mask = image.fromarray(classes, "P")
    mask.putpalette(colours.tobytes())
    mask.save(tmp_path / "mask.png", transparency=bytes([255, 255, 0, 255]))
    report = blosc2.convert(tmp_path / "mask.png", tmp_path / "mask.b2nd", verify=True)
    assert (report.left_out, [each.what for each in report.changed]) == ([], ["the palette"])
    stored = blosc2.open(str(tmp_path / "mask.b2nd"))
    np.testing.assert_array_equal(stored[:], classes)
    assert stored.attrs["mode"] == "P"
    np.testing.assert_array_equal(stored.attrs["palette"][:4], colours)
    assert stored.attrs["transparency"] == 2 or stored.attrs["transparency"] == bytes([255, 255, 0, 255])


def test_colours_of_16_bits(tmp_path: Path) -> None:
    """Pillow would read 8 of them."""
    header = struct.pack(">II5B", 2, 2, 16, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(2 * 13))), (b"IEND", b"")]
    png = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    (tmp_path / "rgb16.png").write_bytes(b"\x89PNG\r\n\x1a\n" + png)
    for target in ("a.b2z", "a.b2nd", "a.npz", "a.tif"):
        with pytest.raises(ConversionError, match=r"rgb16\.png: nothing of it can be kept: .* only 8 of the 16 bits"):
            blosc2.convert(tmp_path / "rgb16.png", tmp_path / target)
    assert os.listdir(tmp_path) == ["rgb16.png"]
    tifffile.imwrite(tmp_path / "good.tif", GREY)
    report = blosc2.convert([tmp_path / "rgb16.png", tmp_path / "good.tif"], tmp_path / "a.b2z")
    assert (report.arrays, [each.key for each in report.left_out]) == (1, ["/rgb16.png"])
