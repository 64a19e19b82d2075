"""How arrays show themselves: one line, and HTML with a drawing of the chunks."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import blosc2


def test_one_line(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2nd")
    array = blosc2.asarray(
        np.tile(np.arange(100, dtype="i4"), (50, 1)), chunks=(25, 100), blocks=(5, 100), urlpath=path,
        cparams={"codec": blosc2.Codec.LZ4},
    )  # fmt: skip
    ratio = f"{array.nbytes / array.cbytes:.1f}x"
    assert repr(array) == f"<NDArray (50, 100) int32 in {path}, chunks (25, 100), blocks (5, 100), LZ4 {ratio}>"
    assert repr(blosc2.zeros(3)) == "<NDArray (3,) float64, chunks (3,), blocks (3,), ZSTD>"


def test_one_line_of_a_leaf(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a/b"] = np.arange(10)
        assert f"in '/a/b' of {path}," in repr(store["/a/b"])


@pytest.mark.parametrize("shape", [(), (0,), (5,), (10, 20), (4, 5, 6), (2, 3, 4, 5), (3, 0)])
def test_html(shape: tuple[int, ...]) -> None:
    array = blosc2.ones(shape)
    array.vlmeta["<unit>"] = "mm"
    html = array._repr_html_()
    assert str(shape).replace("'", "") in html
    assert "float64" in html
    assert "&lt;unit&gt;" in html
    assert "<unit>" not in html
    assert ("<svg" in html) == (0 not in shape and shape != ())
    if "<svg" in html:
        ET.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])


def test_html_of_views_and_structured_arrays() -> None:
    array = blosc2.zeros(10, dtype=[("a<b>", "i4"), ("c", "f8")])
    assert "<b>" not in array._repr_html_()
    assert "(1, 10)" in blosc2.expand_dims(array, 0)._repr_html_()


def test_html_of_a_mapped_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(np.arange(1000), urlpath=path)
    html = blosc2.open(path, mmap_mode="r")._repr_html_()
    assert "mapped" in html
    assert path in html


def test_a_file_that_was_cut_is_shown(tmp_path: Path) -> None:
    """Whoever reads it learns what is wrong with it; a notebook that shows it does not stop."""
    path = tmp_path / "a.b2nd"
    items = np.random.default_rng(0).integers(0, 1 << 60, (200, 200))
    blosc2.asarray(items, urlpath=path, chunks=(50, 50), blocks=(10, 10))
    array = blosc2.open(path)
    with path.open("r+b") as file:
        file.truncate(1000)
    html = array._repr_html_()
    assert "(200, 200)" in html
    assert "<img" not in html
    with pytest.raises(blosc2.exceptions.FormatError):
        array[199]
