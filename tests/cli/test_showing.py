"""show: which items become which pixels, and where they go."""

from __future__ import annotations

import struct
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
    run("show", "raw.b2nd", *selection, "-o", "x.png")
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
    monkeypatch.setattr(printing, "png_bytes", lambda pixels: 1 / 0)
    before = sorted(arrays.iterdir())
    failing(run, "show", "raw.b2nd", "-o", "x.png", "--force")
    assert sorted(arrays.iterdir()) == before
    assert Path("x.png").read_bytes() == b"mine"
