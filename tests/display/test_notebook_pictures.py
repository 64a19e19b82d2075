"""The picture that a notebook shows of an array: what it is of, what it costs, and where there is none."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import _display
from blosc2._arrays import shown

VOLUME = np.random.default_rng(0).integers(0, 1000, (9, 40, 60)).astype("i2")
OPAQUE = sorted((Path(__file__).parents[1] / "data/fixtures/hostile").glob("kind_*"))


def picture_of(array: Any) -> Any:
    """The pixels of the picture in the HTML of an array; None if there is none."""
    found = re.search(r'src="data:image/png;base64,([^"]+)"', array._repr_html_())
    if found is None:
        return None
    data = base64.b64decode(found[1])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height, depth, kind = struct.unpack_from(">IIBB", data, 16)
    assert depth == 8
    (length,) = struct.unpack_from(">I", data, 33)
    rows = np.frombuffer(zlib.decompress(data[41 : 41 + length]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()  # rows are not filtered
    return rows[:, 1:].reshape((height, width, {2: 3, 6: 4}[kind]) if kind else (height, width))


def test_the_middle_plane() -> None:
    pixels = picture_of(blosc2.asarray(VOLUME))
    assert np.array_equal(pixels, _display.grey(VOLUME[4], VOLUME[4].min(), VOLUME[4].max()))
    html = blosc2.asarray(VOLUME)._repr_html_()
    assert 'alt="the middle plane, [4, 0:40, 0:60]: 40 x 60 items, ' in html
    assert 'width="180" height="120"' in html  # whole pixels


def test_large_planes_are_read_with_a_step() -> None:
    items = np.arange(700 * 900, dtype="u4").reshape(700, 900)
    pixels = picture_of(blosc2.asarray(items, blocks=(100, 100)))
    assert pixels.shape == (88, 113)
    assert max(pixels.shape) <= shown._SIDE


def test_colours_and_missing_items() -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (20, 30, 3)).astype("u1")
    assert np.array_equal(picture_of(blosc2.asarray(rgb)), rgb)
    items = np.ones((10, 12))
    items[3] = np.nan
    assert (picture_of(blosc2.asarray(items))[..., 3] == 0).any(axis=1).nonzero()[0].tolist() == [3]


def test_labels_have_colours_and_a_legend() -> None:
    mask = np.zeros((3, 30, 40), "u1")
    mask[1, 5:9], mask[1, 20:], mask[1, :, :4] = 1, 2, 7
    array = blosc2.asarray(mask)
    pixels = picture_of(array)
    assert {tuple(pixel) for pixel in pixels.reshape(-1, 3)} == {
        (0, 0, 0), *map(tuple, _display.label_colours((1, 2, 7)).tolist())
    }  # fmt: skip
    html = array._repr_html_()
    assert "labels 0, 1, 2, 7: a colour each" in html
    assert html.count('aria-hidden="true">&#9632;</span>') == 3


@pytest.mark.parametrize(
    "items",
    [
        np.arange(4096).reshape(64, 64), np.zeros((64, 64), "u1"), np.eye(64), np.eye(64, dtype="?"),
        np.eye(5, dtype="i4"), np.where(np.eye(64) > 0, -(2**62), 2**62), np.zeros((0, 3), "u1"),
        np.where(np.eye(64) > 0, 2**64 - 1, 0).astype("u8"), np.arange(1, 13).repeat(64).reshape(24, 32),
    ],
    ids=["many", "one", "floats", "booleans", "few items", "far apart", "empty", "unsigned", "more than colours"],
)  # fmt: skip
def test_what_are_no_labels(items: Any) -> None:
    assert _display.labels_of(items) == ()


@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "u8", "i8"])
def test_labels_of_all_integers(dtype: str) -> None:
    last = np.iinfo(dtype).max
    low = np.iinfo(dtype).min if dtype == "i1" else last - 5
    items = np.where(np.eye(32) > 0, low, last).astype(dtype)
    items[3] = np.array(last - 1, dtype)
    labels = _display.labels_of(items)
    assert labels == tuple(sorted({low, last - 1, last}))
    pixels = _display.in_label_colours(items, labels)
    assert np.array_equal(pixels[0, 0], _display.label_colours(labels)[0])
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) == 3


def test_a_label_keeps_its_colour() -> None:
    assert _display.label_colours((0, 3))[1].tolist() == _display.label_colours((0, 1, 2, 3))[3].tolist()
    assert len({tuple(colour) for colour in _display.label_colours(tuple(range(0, 88, 11))).tolist()}) == 8
    assert _display.label_colours((3, 5)).all(axis=1).tolist() == [True, True]


@pytest.mark.parametrize(
    "array",
    [
        blosc2.arange(100), blosc2.zeros((4, 5)), blosc2.zeros((0, 50)), blosc2.zeros((20, 20), "c8"),
        blosc2.zeros((20, 20), "M8[s]"), blosc2.zeros((20, 20), [("x", "i4")]), blosc2.zeros((20, 20), "U3"),
        blosc2.zeros(()),
    ],
    ids=str,
)  # fmt: skip
def test_what_has_no_picture(array: Any) -> None:
    assert picture_of(array) is None


def test_what_would_take_long_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture decodes a bounded number of bytes, and asks nothing of a server."""
    items = np.random.default_rng(0).integers(0, 255, (3000, 4000)).astype("u1")
    assert picture_of(blosc2.asarray(items, chunks=(3000, 4000), blocks=(3000, 4000))) is None
    assert picture_of(blosc2.asarray(items, blocks=(100, 100))) is not None


def test_arrays_on_servers_have_none() -> None:
    fsspec = pytest.importorskip("fsspec")
    server = fsspec.filesystem("memory")
    server.pipe("/picture.b2nd", blosc2.asarray(VOLUME).to_cframe())
    try:
        array = blosc2.open("memory://picture.b2nd")
        assert picture_of(array) is None
        assert "(9, 40, 60)" in array._repr_html_()
    finally:
        server.rm("/picture.b2nd")


def test_objects_of_others_have_none() -> None:
    arrays = [found for path in OPAQUE if isinstance(found := blosc2.open(path), blosc2.NDArray)]
    assert arrays
    assert all(picture_of(array) is None for array in arrays)


def test_damaged_arrays_have_none(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    blosc2.asarray(VOLUME % 7, urlpath=str(path))
    content = bytearray(path.read_bytes())
    content[300:1200] = bytes(900)
    path.write_bytes(content)
    array = blosc2.open(str(path))
    with pytest.raises(blosc2.FormatError):
        array[:]
    assert picture_of(array) is None


def test_the_version_that_was_seen(tmp_path: Path) -> None:
    """Showing an array looks nothing up."""
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(VOLUME, urlpath=path)
    reader = blosc2.open(path, locking=True)
    before = picture_of(reader)
    blosc2.open(path, mode="a", locking=True)[:] = 0
    assert np.array_equal(picture_of(reader), before)


def test_pictures_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    array = blosc2.asarray(np.arange(400, dtype="u1").reshape(20, 20))
    assert "<img" in array._repr_html_()
    monkeypatch.setenv("BLOSC2_PICTURES", "0")
    assert "<img" not in array._repr_html_()
    monkeypatch.setenv("BLOSC2_PICTURES", "1")
    assert "<img" in array._repr_html_()
