"""Arrays whose items come block by block: what is stored, what is refused, and how much memory it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.cases import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2._arrays import slabs as piecewise


@settings(max_examples=150, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["u1", "<i4", ">f8", "S3"]), piece=st.sampled_from([1, 300, 8 << 20]))
def test_blocks_along_the_first_axis(data: Any, dtype: str, piece: int) -> None:
    draw = data.draw
    shape = tuple(draw(st.lists(st.integers(0, 11), min_size=1, max_size=3)))
    items = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    if draw(st.booleans()):
        items = np.asfortranarray(items)
    cuts = [0, *sorted(draw(st.lists(st.integers(0, shape[0]), max_size=5))), shape[0]]
    keywords = {"chunks": tuple(draw(st.integers(1, n + 2)) for n in shape)} if draw(st.booleans()) else {}
    kinds: list[Any] = [np.asarray, blosc2.asarray, lambda part: part.tolist() if part.size else part, memoryview]
    if dtype != "<i4":
        kinds.pop()  # memoryviews know few dtypes
    if dtype != "u1":
        kinds.pop(2)  # lists know none
    blocks = (draw(st.sampled_from(kinds))(items[a:b]) for a, b in pairwise(cuts))
    old, piecewise._PIECE_NBYTES = piecewise._PIECE_NBYTES, piece  # type: ignore[misc]
    try:
        array = blosc2.asarray(blocks, dtype=dtype, shape=shape, **keywords)
        again = blosc2.fromiter(iter(items.ravel().tolist()), shape, dtype, **keywords)
    finally:
        piecewise._PIECE_NBYTES = old  # type: ignore[misc]
    assert_same(array[...], np.ascontiguousarray(items))
    assert_same(again[...], np.ascontiguousarray(items))


def test_the_dtype_is_that_of_the_first_block() -> None:
    array = blosc2.asarray(iter([np.ones(2, "f4"), [2, 3]]), shape=4)
    assert_same(array[:], np.array([1, 1, 2, 3], "f4"))
    assert_same(blosc2.asarray(iter([[1], [2]]), shape=2, dtype="i2", chunks=(1,))[:], np.array([1, 2], "i2"))
    assert blosc2.asarray(iter([]), shape=(0, 3), dtype="f4").shape == (0, 3)


def _failing() -> Iterator[Any]:
    yield np.ones((3, 2))
    raise KeyboardInterrupt("enough")


BAD: list[tuple[str, Any, Any, type[BaseException], str]] = [
    ("too few rows", [np.ones((3, 2))], (5, 2), ValueError, "have 3 rows, not 5"),
    ("too many rows", [np.ones((3, 2)), np.ones((3, 2))], (5, 2), ValueError, "with block 1 there are 6 rows"),
    ("too many, in an array of none", [np.ones((1, 2))], (0, 2), ValueError, "1 rows, not 0"),
    ("other axes", [np.ones((3, 2)), np.ones((2, 3))], (5, 2), ValueError, r"block 1 has the shape \(2, 3\)"),
    ("no axis", [1, 2], (2,), ValueError, "block 0 has the shape"),
    ("no block, no dtype", [], (5, 2), ValueError, "dtype="),
    ("0-d", [1], (), ValueError, "no axes"),
    ("a mask", [np.ma.masked_array([1], [True])], (1,), TypeError, "mask"),
    ("an iterable that fails", _failing(), (5, 2), KeyboardInterrupt, "enough"),
]


@pytest.mark.parametrize(("blocks", "shape", "kind", "text"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_nothing_is_left_of_what_does_not_fit(
    blocks: Any, shape: Any, kind: type[BaseException], text: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=text):
        blosc2.asarray(iter(blocks), shape=shape, urlpath=tmp_path / "new.b2nd", chunks=(1,) * len(shape) or None)
    assert os.listdir(tmp_path) == []


def test_shapes_of_what_is_an_array_are_checked() -> None:
    for whole in (np.ones((2, 3)), blosc2.ones((2, 3)), memoryview(b"abcdef").cast("B", (2, 3))):
        assert blosc2.asarray(whole, shape=(2, 3)).shape == (2, 3)
        with pytest.raises(ValueError, match=r"shape \(2, 3\), not"):
            blosc2.asarray(whole, shape=(3, 2))
    with pytest.raises(TypeError, match="pass shape="):
        blosc2.asarray(x for x in [[1]])
    with pytest.raises(ValueError, match="copy=False"):
        blosc2.asarray(iter([[1]]), copy=False, shape=1)


MEMORY = """
import resource, sys
import numpy as np
import blosc2

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> (20 if sys.platform == "darwin" else 10)

blosc2.asarray(np.ones((100, 100)))
before = most()
slices = (np.full((5, 512, 512), n, "f4") + np.arange(512, dtype="f4") for n in range(40))
array = blosc2.asarray(slices, shape=(200, 512, 512), chunks=(16, 128, 128), urlpath=sys.argv[1], cparams={"clevel": 1})
long = blosc2.arange(25_000_000, urlpath=sys.argv[2])
print(most() - before, array.nbytes >> 20, long.nbytes >> 20, array[123, 4, 5], long[-1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the memory of a process is asked for in another way there")
def test_memory_is_bounded(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "a.b2nd"), str(tmp_path / "b.b2nd")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    more, nbytes, long_nbytes, item, last = done.stdout.split()
    assert (nbytes, long_nbytes, item, last) == ("200", "190", "29.0", "24999999")  # 24 + 5
    assert int(more) < 100  # a slab of 16 slices has 16 MiB, a block 5, a batch of chunks some; the arrays have 200
