"""The commands cat, show and view: items as text and tables, as pictures, and as a page or in the viewer."""

from __future__ import annotations

import csv
import io
import math
import os
import struct
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import RAW, Answer, failing

import blosc2
from blosc2._display import text_picture
from blosc2._tools.cli import printing
from blosc2._tools.cli.locations import parsed_selection

BOX = np.arange(11 * 13 * 7, dtype="i4").reshape(11, 13, 7)
SELECTIONS = ["...", "3", "::-2", "5:5", "..., ::3", "2:9, -1", ":, 4:, 1", "-1:0:-3, ::-1, 2", "1, 2, 3", ":, :0"]


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("most", [1, 100, 1 << 20])
def test_npy(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, selection: str, most: int) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(printing, "_PIECE", most)
    blosc2.asarray(BOX, urlpath="box.b2nd", chunks=(4, 5, 7))
    run("cat", "box.b2nd", selection, "-f", "npy", "-o", "box.npy")
    whole = io.BytesIO()
    np.save(whole, np.array(BOX[parsed_selection(selection)], order="C"))
    assert Path("box.npy").read_bytes() == whole.getvalue()


@pytest.mark.parametrize("names", [["x", "y"], ["größe", "длина"]])
def test_npy_of_records(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(printing, "_PIECE", 100)
    items = np.zeros(9, [(name, "i2") for name in names])
    items[names[-1]] = np.arange(9)
    blosc2.asarray(items, urlpath="r.b2nd")
    run("cat", "r.b2nd", "-f", "npy", "-o", "r.npy")
    found = np.load("r.npy")
    assert found.dtype == items.dtype
    np.testing.assert_array_equal(found, items)


TABLES = {
    "matrix": BOX[0],
    "line": BOX[:, 0, 0],
    "floats": np.array([[0.1, np.nan], [1e300, -0.0]]),
    "words": np.array([["", "a,b", "c"], ["", "", ""], ['"', "e\nf", ""]]),
    "empty words": np.array(["", "a", ""]),
    "records": np.array([(1, b"x"), (2, b"y,"), (3, b"")], [("n", "i4"), ("s", "S2")]),
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((3, 0)),
    "one item": np.array(7.5),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("most", [1, 2, 5, 1000])
def test_csv(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(printing, "_CELLS", most)
    items = TABLES[name]
    blosc2.asarray(items, urlpath="t.b2nd")
    expected = io.StringIO()
    table = csv.writer(expected, lineterminator="\n")
    if items.dtype.names:
        table.writerow(items.dtype.names)
        table.writerows((n, s.decode()) for n, s in items.tolist())
    else:
        table.writerows(items.tolist() if items.ndim == 2 else [[item] for item in np.atleast_1d(items).tolist()])
    assert run("cat", "t.b2nd", "-f", "csv") == expected.getvalue()
    run("cat", "t.b2nd", "-f", "csv", "-o", "t.csv")
    assert Path("t.csv").read_bytes() == expected.getvalue().encode()


def test_super_chunks_and_lists(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "_PIECE", 24)
    monkeypatch.setattr(printing, "_CELLS", 2)
    monkeypatch.setattr(printing, "_VALUES", 3)
    data = bytes(range(160))
    blosc2.SChunk(chunksize=64, data=data, cparams={"typesize": 8}, urlpath="c.b2frame", mode="w")
    run("cat", "c.b2frame", "2:17", "-f", "npy", "-o", "c.npy")
    np.testing.assert_array_equal(np.load("c.npy"), np.frombuffer(data[16:136], np.uint8))
    assert run("cat", "c.b2frame", "-1", "-f", "csv").split() == [str(byte) for byte in data[-8:]]
    assert run("cat", "c.b2frame", "1") == "[ 8  9 10 11 12 13 14 15]\n"
    assert "step" in failing(run, "cat", "c.b2frame", "::2")
    values = blosc2.ObjectArray(urlpath="v.b2frame", mode="w")
    values.extend(range(10))
    assert run("cat", "v.b2frame", "::-2").split() == ["9", "7", "5", "3", "1"]
    assert run("cat", "v.b2frame", "4:").split() == ["4", "5", "6", "7", "8", "9"]


def test_a_file_that_is_not_finished_does_not_appear(
    folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(printing, "_write_table", broken)
    before = sorted(folder.iterdir())
    assert "the disk is full" in failing(run, "cat", "a.b2nd", "-f", "csv", "-o", "a.csv")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_memory_is_bounded(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(printing, "_PIECE", 1 << 20)
    monkeypatch.setattr(printing, "_CELLS", 1 << 12)
    blosc2.zeros((2000, 10_000) if kind == "npy" else (40, 10_000), dtype="u1", urlpath="z.b2nd")
    tracemalloc.start()
    try:
        run("cat", "z.b2nd", "-f", kind, "-o", "out")
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()
    assert Path("out").stat().st_size == (20_000_128 if kind == "npy" else 800_000)


# ---------------------------------------------------------------------- show
@pytest.fixture
def arrays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the other tests, and a terminal of known size."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "20")
    blosc2.asarray(RAW, urlpath="raw.b2nd")
    return folder


def pixels_of(path: str) -> np.ndarray[Any, Any]:
    """The pixels of a PNG file without filters, and its checksums checked."""
    data, at = Path(path).read_bytes(), 8
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    parts: dict[bytes, bytes] = {}
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(name + body)
        parts[name] = body
        at += 12 + length
    assert list(parts) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, kind = struct.unpack_from(">IIBB", parts[b"IHDR"])
    count = {0: 1, 2: 3, 6: 4}[kind]
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, 1 + width * count)
    assert depth == 8
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape((height, width) if count == 1 else (height, width, count))


def shades(items: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    return np.floor(np.clip((items - low) / (high - low), 0, 1) * 255 + 0.5)


@pytest.mark.parametrize(
    ("selection", "items"),
    [([], RAW[1]), (["0"], RAW[0]), (["..., 3"], RAW[..., 3]), (["::-1, 2, ::2"], RAW[::-1, 2, ::2]),
     (["1:"], RAW[2]), (["-1, 1:3"], RAW[2, 1:3])],
)  # fmt: skip
def test_png_of_a_plane(arrays: Path, run: Answer, selection: list[str], items: np.ndarray[Any, Any]) -> None:
    run("show", "raw.b2nd", *selection, "--percentiles", "0", "100", "-o", "x.png")
    np.testing.assert_array_equal(pixels_of("x.png"), shades(items, items.min(), items.max()))
    assert run.err.startswith("raw.b2nd[")
    assert " x ".join(map(str, items.shape)) in run.err


def test_contrast(arrays: Path, run: Answer) -> None:
    run("show", "raw.b2nd", "0", "--range", "-5", "9.5", "-o", "x.png")
    np.testing.assert_array_equal(pixels_of("x.png"), shades(RAW[0], -5, 9.5))
    run("show", "raw.b2nd", "0", "--percentiles", "10", "90", "-o", "x.png", "--force")
    np.testing.assert_array_equal(pixels_of("x.png"), shades(RAW[0], *np.percentile(RAW[0], [10, 90])))
    for wrong in (["--range", "3", "3"], ["--range", "nan", "1"], ["--percentiles", "9", "1"]):
        run("show", "raw.b2nd", *wrong, code=2)
        assert "LOW must be less than HIGH" in run.err
    run("show", "raw.b2nd", "--range", "0", "1", "--percentiles", "0", "1", code=2)
    assert "use one" in run.err


def test_colours(arrays: Path, run: Answer) -> None:
    for count in (3, 4):
        photo = np.random.default_rng(1).integers(0, 256, (2, 6, 9, count), np.uint8)
        blosc2.asarray(photo, urlpath=f"{count}.b2nd")
        run("show", f"{count}.b2nd", "0", "-o", f"{count}.png")
        np.testing.assert_array_equal(pixels_of(f"{count}.png"), photo[0])
        run("show", f"{count}.b2nd", "-o", "middle.png", "--force")
        np.testing.assert_array_equal(pixels_of("middle.png"), photo[1])
    run("show", "3.b2nd", "0, :, :, 2", "-o", "blue.png")
    assert pixels_of("blue.png").shape == (6, 9)


@pytest.mark.parametrize(("shape", "dtype", "attributes", "index"), [
    ((40, 50, 3), "f4", {}, "0:40, 0:50, 1"),
    ((5, 40, 4, 50), "f4", {}, "2, 0:40, 2, 0:50"),
    ((9, 9, 9), "f4", {}, "4, 0:9, 0:9"),
    ((2, 3, 4, 50, 60), "u2", {"axes": "TZCYX"}, "1, 1, 2, 0:50, 0:60"),
    ((2, 50, 4, 6), "u1", {"axes": "TZYX"}, "1, 25, 0:4, 0:6"),
    ((30, 4, 3), "u1", {"axes": "ZYX"}, "15, 0:4, 0:3"),
    ((90, 4, 5), "f4", {"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]}, "45, 0:4, 0:5"),
    ((4, 5, 90), "f4", {"_ARRAY_DIMENSIONS": ["Latitude", "Longitude", "time"]}, "0:4, 0:5, 45"),
    ((9, 8, 70), "f4", {"_ARRAY_DIMENSIONS": ["x", "y", "z"]}, "0:9, 0:8, 35"),
    ((90, 4, 5), "f4", {"axes": "YX"}, "0:90, 2, 0:5"),
    ((90, 4, 5), "f4", {"axes": ["x", "y", "y"]}, "0:90, 2, 0:5"),
    ((90, 4, 5), "f4", {"axes": ["time", "y", "lat"]}, "0:90, 2, 0:5"),
    ((90, 4, 5), "f4", {"axes": 3, "mode": None}, "0:90, 2, 0:5"),
    ((6, 9, 3), "u2", {}, "0:6, 0:9, 1"),
    ((6, 9, 3), "u1", {}, "0:6, 0:9, 0:3"),
    ((6, 9, 3), "u1", {"axes": "YXS", "photometric": "rgb"}, "0:6, 0:9, 0:3"),
    ((8, 6, 9, 4), "u2", {"axes": "ZYXS", "photometric": "rgb"}, "4, 0:6, 0:9, 0:4"),
    ((6, 9, 4), "f4", {"mode": "RGBA"}, "0:6, 0:9, 0:4"),
    ((6, 9, 4), "f4", {"mode": np.arange(2)}, "0:6, 0:9, 2"),
    ((6, 9, 4), "u1", {"photometric": np.arange(2), "mode": ["RGB"]}, "0:6, 0:9, 0:4"),
    ((6, 9), "u1", {"photometric": np.arange(2)}, "0:6, 0:9"),
])  # fmt: skip
def test_the_axes_that_make_a_picture(
    arrays: Path, run: Answer, shape: tuple[int, ...], dtype: str, attributes: dict[str, Any], index: str
) -> None:
    items = (np.arange(math.prod(shape)) % 97).reshape(shape).astype(dtype)
    blosc2.asarray(items, urlpath="x.b2nd").vlmeta.update(attributes)
    run("show", "x.b2nd", "-o", "x.png")
    assert run.err.startswith(f"x.b2nd[{index}]: ")
    in_colour = index.count(":") == 3
    assert ("colours" in run.err) is in_colour
    assert pixels_of("x.png").ndim == 2 + in_colour
    assert f">[{index}]: " in run("view", "--html", "x.b2nd", "-")


def test_colours_of_other_dtypes(arrays: Path, run: Answer) -> None:
    photo = np.random.default_rng(1).integers(0, 256, (6, 9, 3), np.uint8)
    for name, items in (("deep", photo.astype("u2") * 257), ("float", photo.astype("f4") / 255)):
        blosc2.asarray(items, urlpath=f"{name}.b2nd").vlmeta["photometric"] = "rgb"
        run("show", f"{name}.b2nd", "-o", f"{name}.png")
        np.testing.assert_array_equal(pixels_of(f"{name}.png"), photo)


def test_of_what_is_selected_the_longest_are_shown(arrays: Path, run: Answer) -> None:
    blosc2.asarray(np.zeros((40, 50, 9, 8)), urlpath="x.b2nd").vlmeta["axes"] = "YXZC"
    for selection, index in (
        ("..., 3", "0:40, 0:50, 4, 3"), ("7", "7, 0:50, 0:9, 4"), ("0:2, 0:3", "0:2, 0:3, 4, 4"),
    ):  # fmt: skip
        run("show", "x.b2nd", selection, "-o", "x.png", "--force")
        assert f"[{index}]" in run.err


def test_planes_can_be_compared(arrays: Path, run: Answer) -> None:
    """All have the greys, and the colours of labels, of the array."""
    rising = np.arange(6)[:, None, None] * 100 + np.arange(400).reshape(20, 20) % 100
    blosc2.asarray(rising, urlpath="rising.b2nd")
    found = []
    for plane in (0, 5):
        run("show", "rising.b2nd", str(plane), "-o", f"{plane}.png")
        assert "0 is black, 599 is white, in all 6 planes" in run.err
        found.append(pixels_of(f"{plane}.png").astype(int))
    assert found[0].max() < found[1].min()
    run("show", "rising.b2nd", "5", "--percentiles", "0", "100", "-o", "own.png")  # as the plane alone has it
    assert "500 is black, 599 is white:" not in run.err
    assert pixels_of("own.png").min() == 0
    labels = np.zeros((40, 20, 20), "u1")
    labels[:20, :10], labels[20:, :10] = 1, 12  # which alone would have the same colour
    blosc2.asarray(labels, urlpath="labels.b2nd")
    for plane in (0, 39):
        run("show", "labels.b2nd", str(plane), "-o", f"{plane}.png", "--force")
        assert "labels 0, 1, 12: a colour each, in 16 of 40 planes" in run.err
    assert (pixels_of("0.png")[0, 0] != pixels_of("39.png")[0, 0]).any()


def test_a_picture_with_a_palette(arrays: Path, run: Answer) -> None:
    """Its colours are those of the palette, as of a mask of VOC, and not those of labels."""
    classes = (np.arange(400) % 3).astype("u1").reshape(20, 20)
    colours = np.array([[0, 0, 0, 255], [128, 0, 0, 255], [0, 128, 0, 0]], "u1")
    mask = blosc2.asarray(classes, urlpath="mask.b2nd")
    for palette in (colours, colours[:, :3]):
        mask.attrs["palette"] = palette
        run("show", "mask.b2nd", "-o", "mask.png", "--force")
        assert run.err.rstrip().endswith("uint8, colours of its palette")
        np.testing.assert_array_equal(pixels_of("mask.png"), colours[classes][..., :3])
        assert "colours of its palette" in mask._repr_html_()
    del mask.attrs["palette"]
    mask.attrs["ColorMap"] = colours[:, :3].T.astype("u2") * 257  # as TIFF has it
    run("show", "mask.b2nd", "-o", "mask.png", "--force")
    np.testing.assert_array_equal(pixels_of("mask.png"), colours[classes][..., :3])
    run("show", "mask.b2nd", "--range", "0", "2", "-o", "greys.png")
    assert "0 is black, 2 is white" in run.err
    del mask.attrs["ColorMap"]
    for palette in (colours[:2], colours.astype("u2"), [1, 2], "red"):  # none for these numbers
        mask.attrs["palette"] = palette
        run("show", "mask.b2nd", "-o", "mask.png", "--force")
        assert "labels 0, 1, 2: a colour each" in run.err


def test_what_a_sample_lacks_is_taken_of_the_plane(arrays: Path, run: Answer) -> None:
    mask = np.zeros((400, 64, 64), "u1")
    mask[214:220, 20:30, 20:30], mask[215:217, 40:50, 40:50] = 1, 2
    few = np.full((400, 32, 32), np.nan, "f4")
    few[214:220] = np.linspace(200, 300, 1024).reshape(32, 32)
    grown = np.zeros((400, 32, 32), "u1")
    grown[:, :8], grown[:, 8:16], grown[216, 16:24] = 3, 12, 1
    rising = np.broadcast_to(np.linspace(0, 1, 1024).reshape(32, 32), (400, 32, 32)).copy()
    rising[216, 0, 0] = 9
    for name, items, plane, said in (
        ("mask", mask, 216, "labels 0, 1, 2: a colour each, in this plane"),
        ("few", few, 216, "200 is black, 300 is white, in this plane"),
        ("grown", grown, 0, "labels 0, 3, 12: a colour each, in 16 of 400 planes"),
        ("grown", grown, 216, "labels 0, 1, 3, 12: a colour each, in this plane and 16 of 400 planes"),
        ("rising", rising, 216, "0 is black, 9 is white, in this plane and 16 of 400 planes"),
    ):
        blosc2.asarray(items, urlpath=f"{name}.b2nd", mode="w")
        run("show", f"{name}.b2nd", str(plane), "-o", f"{name}{plane}.png")
        assert run.err.rstrip().endswith(said)
    before, after = pixels_of("grown0.png"), pixels_of("grown216.png")
    np.testing.assert_array_equal(before[:16], after[:16])
    assert len({bytes(after[row, 0]) for row in (0, 8, 16, 31)}) == 4
    assert np.unique(pixels_of("few216.png")).size > 200


def test_no_sample_depends_on_the_width_or_is_of_rows(arrays: Path, run: Answer) -> None:
    items = np.random.default_rng(1).integers(0, 60000, (5, 300, 300)).astype("u2")
    blosc2.asarray(items, urlpath="x.b2nd")
    said = set()
    for width in ("10", "50"):
        run("show", "x.b2nd", "2", "-w", width)
        said.add(run.err.rpartition("uint16, ")[2])
    assert len(said) == 1
    run("show", "x.b2nd", "2, 7")
    assert run.err.endswith(" is white\n")


def test_axes_of_a_picture_are_chosen(arrays: Path, run: Answer) -> None:
    items = np.arange(24, dtype="u1").reshape(2, 3, 4)
    blosc2.asarray(items, urlpath="axes.b2nd").vlmeta["axes"] = ["x", "y", "z"]
    for chosen, plane in (("y,x", items[..., 2].T), ("2, 0", items[:, 1].T), ("x,z", items[:, 1])):
        run("show", "axes.b2nd", "--axes", chosen, "--range", "0", "255", "-o", "a.png", "--force")
        np.testing.assert_array_equal(pixels_of("a.png"), plane)
    assert "[0:2, 1, 0:4]: 2 x 4 items" in run.err
    for wrong in ("y", "y,y", "t,x", "x,y,z", "0,9"):
        run("show", "axes.b2nd", "--axes", wrong, code=2)
        assert "--axes" in run.err
    run("show", "axes.b2nd", "..., 1", "--axes", "z,x", code=2)
    photo = np.random.default_rng(1).integers(0, 256, (5, 6, 9, 3), np.uint8)
    blosc2.asarray(photo, urlpath="photos.b2nd")
    run("show", "photos.b2nd", "--axes", "2,1", "-o", "a.png", "--force")
    np.testing.assert_array_equal(pixels_of("a.png"), photo[2].swapaxes(0, 1))


def test_records_of_colours(arrays: Path, run: Answer) -> None:
    """As NIfTI has them."""
    items = np.zeros((5, 6), [(name, "u1") for name in "RGB"])
    items["G"] = np.arange(30).reshape(5, 6)
    blosc2.asarray(items, urlpath="rgb.b2nd")
    run("show", "rgb.b2nd", "-o", "rgb.png")
    np.testing.assert_array_equal(pixels_of("rgb.png"), items.view("u1").reshape(5, 6, 3))
    run("show", "rgb.b2nd", "--axes", "1,0", "-o", "turned.png")
    assert pixels_of("turned.png").shape == (6, 5, 3)
    run("view", "--html", "rgb.b2nd", "rgb.html")
    assert "data:image/png" in Path("rgb.html").read_text()


def test_nan_booleans_and_constants(arrays: Path, run: Answer) -> None:
    items = RAW[0].copy()
    items[1, 2], items[0, 0] = np.nan, np.inf
    blosc2.asarray(items, urlpath="nan.b2nd")
    run("show", "nan.b2nd", "-o", "nan.png")
    found = pixels_of("nan.png")
    assert found[1, 2].tolist() == [0, 0, 0, 0]
    assert found[0, 0].tolist() == [255, 255, 255, 255]
    assert (found[..., 3] == 0).sum() == 1
    assert "1 is black, 19 is white" in run.err
    for name, values, expected in (
        ("bool", RAW[0] > 8, np.where(RAW[0] > 8, 255, 0)),
        ("true", np.ones((2, 3), bool), np.full((2, 3), 255)),
        ("same", np.full((2, 3), 7, "i2"), np.full((2, 3), 128)),
    ):
        blosc2.asarray(values, urlpath=f"{name}.b2nd")
        run("show", f"{name}.b2nd", "-o", f"{name}.png")
        np.testing.assert_array_equal(pixels_of(f"{name}.png"), expected)
    blosc2.asarray(np.full((2, 3), np.nan), urlpath="none.b2nd")
    assert run("show", "none.b2nd") == "   \n"


def test_one_axis(arrays: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    blosc2.asarray(np.arange(8) * 10, urlpath="line.b2nd")
    run("show", "line.b2nd", "-o", "line.png")
    np.testing.assert_array_equal(pixels_of("line.png"), np.tile(shades(np.arange(8), 0, 7), (16, 1)))
    assert run("show", "line.b2nd").strip() in ("▁▂▃▄▅▆▇█", " .:-=+*#%@")
    blosc2.asarray(np.arange(1000), urlpath="long.b2nd")
    assert len(run("show", "long.b2nd").rstrip("\n")) == 40


def test_text_fits_the_terminal(arrays: Path, run: Answer) -> None:
    big = np.add.outer(np.arange(500), np.arange(300))
    blosc2.asarray(big, urlpath="big.b2nd")
    step = 14  # 500 rows in twice 18 lines
    expected = text_picture(shades(big[::step, ::step], 0, big[::step, ::step].max()).astype(np.uint8))
    assert run("show", "big.b2nd", "--plain") == expected + "\n"
    lines = run("show", "big.b2nd", "-w", "10").splitlines()
    assert {len(line) for line in lines} == {10}
    blosc2.zeros((9, 10_000), urlpath="flat.b2nd")
    lines = run("show", "flat.b2nd").splitlines()
    assert len(lines) == 5
    assert {len(line) for line in lines} == {40}


def test_colours_in_terminals(arrays: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run("show", "raw.b2nd")
    assert run("show", "raw.b2nd", "0", "--colour").count("▀") == 10
    monkeypatch.setattr(printing.sys.stdout, "isatty", lambda: True, raising=False)
    for name in ("COLORTERM", "WT_SESSION", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value, takes in (
        ("TERM", "xterm-256color", False), ("TERM", "dumb", False), ("TERM", "xterm-kitty", True),
        ("COLORTERM", "truecolor", True), ("NO_COLOR", "1", False),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
        assert printing.takes_colours() is takes


def test_a_large_array_takes_little_memory(arrays: Path, run: Answer) -> None:
    blosc2.zeros((3, 1 << 17, 1 << 17), dtype="f8", urlpath="huge.b2nd")
    tracemalloc.start()
    try:
        run("show", "huge.b2nd", "-o", "huge.png")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert pixels_of("huge.png").shape == (1024, 1024)
    assert "huge.b2nd[1, 0:131072:128, 0:131072:128]" in run.err


def test_what_is_no_picture(arrays: Path, run: Answer) -> None:
    for name, items, message in (
        ("complex", np.zeros((3, 3), "c8"), "np.abs"),
        ("records", np.zeros(3, [("x", "i4")]), "one of their fields"),
        ("words", np.array(["a"]), "blosc2 cat"),
        ("times", np.zeros(3, "M8[s]"), "blosc2 cat"),
        ("empty", np.zeros((0, 3)), "no items"),
        ("item", np.array(1.5), "blosc2 cat"),
    ):
        blosc2.asarray(items, urlpath=f"{name}.b2nd")
        assert message in failing(run, "show", f"{name}.b2nd")
    assert "blosc2 cat" in failing(run, "show", "raw.b2nd", "0,0,0")
    assert "out of bounds" in failing(run, "show", "raw.b2nd", "9")
    assert "ObjectArray, not an array" in failing(run, "show", "o.b2frame")
    assert "name one of its arrays" in failing(run, "show", "s.b2z")
    assert "names 2 keys" in failing(run, "show", "s.b2z/mri/*/raw")
    assert run("show", "s.b2z/mri/007/raw")


def test_files_appear_whole_and_replace_nothing(arrays: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("x.png").write_bytes(b"mine")
    assert "exists; --force" in failing(run, "show", "raw.b2nd", "-o", "x.png")
    assert "ends in .png" in failing(run, "show", "raw.b2nd", "-o", "x.jpg")
    monkeypatch.setattr(printing._display, "png_bytes", lambda pixels: 1 / 0)
    before = sorted(arrays.iterdir())
    failing(run, "show", "raw.b2nd", "-o", "x.png", "--force")
    assert sorted(arrays.iterdir()) == before
    assert Path("x.png").read_bytes() == b"mine"


# ---------------------------------------------------------------------- view
def test_the_page_gets_a_name(folder: Path, run: Answer) -> None:
    assert run("view", "s.b2z", "--html") == ""
    assert run.err.startswith("s.html: ")
    assert "<h1>s.b2z</h1>" in Path("s.html").read_text("utf-8")
    run("view", "--html", "s.b2z/mri/007/raw")
    assert "<h1>s.b2z/mri/007/raw</h1>" in Path("s-mri-007-raw.html").read_text("utf-8")
    run("view", "s.b2z/mri", "--html", "out.html")
    assert "<h1>s.b2z/mri</h1>" in Path("out.html").read_text("utf-8")
    for path in ("a.b2nd", "o.b2frame", "e.b2e", "d.b2d"):
        assert f"<h1>{path}</h1>" in run("view", path, "--html", "-")


def test_a_page_is_replaced_only_when_asked(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.html").write_text("mine")
    assert failing(run, "view", "a.b2nd", "out.html", "--html") == "out.html exists; --force replaces a file"
    assert Path("out.html").read_text() == "mine"
    before = sorted(os.listdir())

    def fail(*_: Any) -> str:
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(printing, "web_page", fail)
        assert failing(run, "view", "a.b2nd", "out.html", "--html", "--force") == "no more"
    assert sorted(os.listdir()) == before
    assert Path("out.html").read_text() == "mine"
    run("view", "a.b2nd", "out.html", "--html", "--force")
    assert "<h1>a.b2nd</h1>" in Path("out.html").read_text("utf-8")


def test_without_a_terminal(folder: Path, run: Answer) -> None:
    assert failing(run, "view", "a.b2nd") == "the viewer needs a terminal; 'blosc2 view --html' writes a page instead"


def test_without_textual(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setitem(sys.modules, "textual", None)
    for name in list(sys.modules):
        if name.startswith(("textual.", "blosc2._tools.viewer.app")):
            monkeypatch.delitem(sys.modules, name)
    assert "pip install 'python-blosc2[view]'" in failing(run, "view", "a.b2nd")
    run("view", "a.b2nd", "--html")
    assert Path("a.html").exists()


def test_the_viewer_is_given_what_is_open(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    app: Any = pytest.importorskip("blosc2._tools.viewer.app")
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    seen = []

    class Seen:
        def __init__(self, *given: Any) -> None:
            found, *rest = given
            seen.append((found.mode, found.mmap_mode, *rest))

        def run(self) -> None:
            pass

    monkeypatch.setattr(app, "Viewer", Seen)
    run("view", "s.b2z/mri/*/raw", code=2)
    assert "one is needed" in run.err
    run("view", "s.b2z/mri/007")
    run("view", "a.b2nd")
    assert seen == [("r", "r", "s.b2z", "/mri/007"), ("r", "r", "a.b2nd", "")]


def test_what_cannot_be_viewed(folder: Path, run: Answer) -> None:
    assert "is it '/mri'" in failing(run, "view", "--html", "s.b2z/mr")
    assert "none.b2z" in failing(run, "view", "--html", "none.b2z")
    run("view", "a.b2nd", "out.html", code=2)
    assert "--html" in run.err


@pytest.mark.parametrize(("attributes", "said"), [
    ({"scl_slope": 0.5, "scl_inter": 10.0}, "10 is black, 15.5 is white; scaled by 0.5, offset 10"),
    ({"scale_factor": np.float32(2)}, "0 is black, 22 is white"),
    ({"add_offset": -1.0}, "-1 is black, 10 is white"),
    ({"scl_slope": float("nan"), "scale_factor": "text"}, "0 is black, 11 is white"),
    ({"photometric": "miniswhite"}, "11 is black, 0 is white"),
])  # fmt: skip
def test_numbers_are_shown_as_they_are_meant(attributes: dict[str, Any], said: str, arrays: Path, run: Answer) -> None:
    """By the scales of NIfTI and CF, and by what TIFF says of white."""
    for name, kept in (("with", attributes), ("without", {})):
        blosc2.asarray(np.arange(12, dtype="i2").reshape(3, 4), urlpath=f"{name}.b2nd").vlmeta.update(kept)
        run("show", f"{name}.b2nd", "-o", f"{name}.png")
        assert (said if kept else "0 is black, 11 is white") in run.err
    plain = pixels_of("without.png")
    np.testing.assert_array_equal(pixels_of("with.png"), 255 - plain if "photometric" in attributes else plain)


@pytest.mark.parametrize("dtype", ["i2", "f4"])
def test_missing_values_are_no_part_of_a_picture(dtype: str, folder: Path, run: Answer) -> None:
    """As CF names them, whose number may be far from all others; so in pictures of pages, and their statistics."""
    packed = np.arange(12, dtype=dtype).reshape(3, 4)
    packed[0, 0], packed[2, 3] = -32768, 9999
    array = blosc2.asarray(packed, urlpath="packed.b2nd")
    fills = {"_FillValue": np.array([-32768], dtype), "missing_value": 9999}
    array.vlmeta.update({"scale_factor": 0.5, "add_offset": 280.0, **fills})
    run("show", "packed.b2nd", "-o", "packed.png")
    assert "280.5 is black, 285 is white; scaled by 0.5, offset 280, 2 items missing" in run.err
    run("view", "--html", "packed.b2nd", "page.html")
    page = (folder / "page.html").read_text()
    assert "280.5 is black, 285 is white; scaled by 0.5, offset 280, 2 items missing" in page
    assert ">282.75<" in page  # the mean
    for strange in ("text", [1, [2]], {"a": 1}, np.zeros(100), None):
        array.vlmeta["_FillValue"] = strange
        run("show", "packed.b2nd", "-o", "packed.png", "--force")
        assert "1 item missing" in run.err


def test_axes_of_a_group_hold_for_its_arrays(folder: Path, run: Answer) -> None:
    with blosc2.TreeStore("axes.b2z", mode="w") as store:
        store["/study/scans/ct"] = np.arange(5 * 6 * 7).reshape(5, 6, 7)
        store["/study/scans"].attrs["axes"] = ["x", "y", "z"]
        store["/study"].attrs["axes"] = "ABC"
        store["/ct"] = np.arange(5 * 6 * 7).reshape(5, 6, 7)
    run("show", "axes.b2z/study/scans/ct", "-o", "a.png")
    assert "[0:5, 0:6, 3]" in run.err
    run("show", "axes.b2z/ct", "-o", "b.png")
    assert "[2, 0:6, 0:7]" in run.err
    with blosc2.open("axes.b2z", mode="a") as store:
        store["/study/scans/ct"].attrs["axes"] = ["z", "y", "x"]  # its own come first
    run("show", "axes.b2z/study/scans/ct", "-o", "c.png")
    assert "[2, 0:6, 0:7]" in run.err
