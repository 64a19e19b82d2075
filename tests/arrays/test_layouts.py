"""Chunks and blocks for one way to read, and what a read costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blosc2
from blosc2._arrays.chunk_shapes import CHUNK_NBYTES, decoded_nbytes

LAYOUTS = ["samples", "planes", "columns", "patches"]


@given(
    st.lists(st.integers(0, 3000), max_size=5).map(tuple), st.sampled_from([*LAYOUTS, "given"]),
    st.sampled_from([1, 2, 8, 300_000]), st.data(),
)  # fmt: skip
def test_any_layout_fits(shape: tuple[int, ...], layout: Any, itemsize: int, data: st.DataObject) -> None:
    if layout == "given":
        layout = ("patches", tuple(data.draw(st.integers(1, 200)) for _ in shape))
    chunks, blocks = blosc2.compute_chunks_blocks(shape, dtype=f"V{itemsize}", layout=layout)
    if 0 in shape:
        assert chunks == shape
        return
    assert all(1 <= b <= c <= n for b, c, n in zip(blocks, chunks, shape, strict=True))
    assert np.prod(blocks) == 1 or np.prod(blocks) * itemsize <= 256 << 10
    most = max(CHUNK_NBYTES, math.prod(shape) * itemsize >> 19)
    assert np.prod(chunks) == 1 or np.prod(chunks) * itemsize <= most


@pytest.mark.parametrize(
    ("layout", "shape", "dtype", "blocks"),
    [
        ("samples", (5000, 64, 64), "u1", (1, 64, 64)),
        ("samples", (5000, 32, 32), "u1", (4, 32, 32)),  # 1 KiB each
        ("samples", (50, 1000, 1000), "u1", (1, 500, 500)),  # 1 MB: halved twice
        ("samples", (500, 8), "f8", (64, 8)),  # rows of 64 bytes: 4 KiB
        ("planes", (10, 30, 256, 256), "i2", (1, 1, 256, 256)),  # 128 KiB
        ("planes", (300, 200), "u1", (300, 200)),
        ("columns", (500_000, 8), "f8", (32_768, 1)),  # 256 KiB
        ("columns", (100, 8), "f8", (100, 1)),
        ("patches", (5000, 64, 64), "u1", (40, 32, 32)),  # halved 7 times
        (("patches", (64, 96, 96)), (300, 1000, 1000), "f4", (16, 24, 24)),
        (
            ("patches", (8, 8, 8)),
            (300, 1000, 1000),
            "u1",
            (32, 32, 16),
        ),  # of 2 each, doubled to 8 KiB; then no further?
    ],
)
def test_known_choices(layout: Any, shape: tuple[int, ...], dtype: str, blocks: tuple[int, ...]) -> None:
    assert blosc2.compute_chunks_blocks(shape, dtype=dtype, layout=layout)[1] == blocks


@pytest.mark.parametrize("layout", [*LAYOUTS, ("patches", [9, 8, 7]), ["samples"]])
def test_arrays_have_it(layout: Any) -> None:
    data = np.arange(40 * 30 * 20).reshape(40, 30, 20)
    x = blosc2.asarray(data, layout=layout)
    assert (x.chunks, x.blocks) == blosc2.compute_chunks_blocks(data.shape, dtype=data.dtype, layout=layout)
    np.testing.assert_array_equal(x[:], data)
    for made in (blosc2.zeros(data.shape, data.dtype, layout=layout), blosc2.asarray(x, layout=layout)):
        assert made.blocks == x.blocks


@pytest.mark.parametrize(
    "wrong",
    [
        "rows",
        3,
        (),
        ("samples", 3),
        ("patches", (1, 2)),
        ("patches", (1, 0, 2)),
        ("patches", (1, 2, 3), 4),
        [["patches"]],
    ],
)
def test_wrong_layouts(wrong: Any, tmp_path: Any) -> None:
    for shape in ((4, 5, 6), (4, 0, 6)):
        with pytest.raises(ValueError, match=r"layout|patch"):
            blosc2.zeros(shape, layout=wrong, urlpath=str(tmp_path / "x.b2nd"))
    assert not list(tmp_path.iterdir())


def test_what_a_read_decodes() -> None:
    """Counted block by block."""
    shape, chunks, blocks = (23, 17, 9), (10, 8, 9), (4, 8, 3)
    x = blosc2.zeros(shape, dtype="i2", chunks=chunks, blocks=blocks)
    nbytes = 4 * 8 * 3 * 2
    blocks_of = np.empty(shape, object)
    for index in np.ndindex(shape):
        blocks_of[index] = tuple((i // c, i % c // b) for i, c, b in zip(index, chunks, blocks, strict=True))
    sizes = (shape, chunks, blocks, 2)
    assert decoded_nbytes(*sizes) == nbytes
    for axis in range(3):
        at = tuple(2 if d == axis else slice(None) for d in range(3))
        assert decoded_nbytes(*sizes, axis=axis) == len(set(blocks_of[at].ravel())) * nbytes
    text = dict(x.info_items)["decoded"]
    assert text.startswith(f"{nbytes} ({nbytes} B) for an item, ")
    assert "[i]" in text
    assert "[..., i]" in text
    assert "[i]" not in dict(blosc2.zeros(5).info_items)["decoded"]
    assert "decoded" not in dict(blosc2.zeros(0).info_items)
