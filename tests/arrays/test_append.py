"""`NDArray.append`: rows at the end of the first axis, in one change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    rest=st.lists(st.integers(0, 7), max_size=3),
    first=st.integers(0, 9),
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=6),
)
def test_like_concatenate(data: st.DataObject, rest: list[int], first: int, counts: list[int]) -> None:
    shape = (first, *rest)
    chunks = tuple(data.draw(st.integers(1, 6)) for _ in shape)
    blocks = tuple(data.draw(st.integers(1, chunk)) for chunk in chunks)
    rng = np.random.default_rng(1)
    model = rng.integers(1, 1 << 30, shape)
    array = blosc2.zeros(shape, "i8", chunks=chunks, blocks=blocks)
    array[...] = model
    for count in counts:
        rows = rng.integers(1, 1 << 30, (count, *rest))
        version = array.schunk.change_tick
        assert array.append(rows) == len(model) + count
        assert array.schunk.change_tick == version + bool(count)
        model = np.concatenate([model, rows])
        assert array.shape == model.shape
        np.testing.assert_array_equal(array[...], model)


def test_new_items_after_a_shrunk_array(tmp_path: Path) -> None:
    """What lay behind the end before is not shown again."""
    array = blosc2.asarray(np.full((9, 5), 7), chunks=(4, 3), urlpath=tmp_path / "x.b2nd")
    array.resize((5, 5))
    array.append(np.full((1, 5), 8))
    array.resize((8, 5))
    want = np.zeros((8, 5), "i8")
    want[:5], want[5] = 7, 8
    np.testing.assert_array_equal(array[:], want)
    np.testing.assert_array_equal(blosc2.open(tmp_path / "x.b2nd")[:], want)


def test_one_row_and_other_dtypes() -> None:
    array = blosc2.zeros((0, 2, 3), "f4", chunks=(4, 2, 3))
    assert array.append(np.ones((2, 3), "i2")) == 1
    assert array.append([[[1, 2, 3], [4, 5, 6]]]) == 2
    assert array[1].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert array.dtype == "f4"


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((3, 2), (2, 3)), ((3, 2), (3,)), ((3, 2), ()), ((3, 2), (1, 1, 2)), ((3, 2), (2, 1)), ((), ()), ((), (1,))],
)
def test_rows_that_do_not_fit(shape: tuple[int, ...], rows: tuple[int, ...]) -> None:
    array = blosc2.ones(shape)
    with pytest.raises(ValueError, match="append"):
        array.append(np.zeros(rows))
    assert array.shape == shape
    assert (array[...] == 1).all()


def test_fields(tmp_path: Path) -> None:
    dtype: Any = [("id", "i4"), ("place", "f4", (2,))]
    table = blosc2.zeros((0,), dtype, chunks=(10,), urlpath=tmp_path / "x.b2nd")
    rows = np.zeros(25, dtype)
    rows["id"] = np.arange(25)
    assert table.append(rows) == 25
    np.testing.assert_array_equal(blosc2.open(tmp_path / "x.b2nd")["id"][:], np.arange(25))


class Table:
    """Gives its rows as a table of pandas does."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self.rows = rows

    def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
        return np.array(self.rows, object if isinstance(self.rows[0][0], str) else None)


@pytest.mark.parametrize("more", [
    Table((30, 81.0), (40, 90.0)), Table(("Ada", 81.0), ("Bo", 90.0)), np.ones((2, 2)), np.ones((2, 2), object),
    [[30, 81.0], [40, 90.0]], [30, 81.0], np.zeros(2), 5, blosc2.zeros(2), blosc2.zeros((3, 2)),
], ids=lambda more: f"{type(more).__name__}{np.shape(more)}")  # fmt: skip
@pytest.mark.parametrize("shape", [(2,), (1, 2)])
def test_numbers_are_no_records(shape: tuple[int, ...], more: Any, tmp_path: Path) -> None:
    """NumPy would fill all fields of a record with each."""
    rows = np.array([(61, 70.5), (7, 22)], "i8,f8").reshape(shape)
    array = blosc2.asarray(rows, urlpath=tmp_path / "x.b2nd")
    with pytest.raises(TypeError, match=r"to_records\(index=False\)"):
        array.append(more)
    np.testing.assert_array_equal(array[:], rows)


@pytest.mark.parametrize("more", [
    [(30, 81.0), (40, 90.0)], [[(30, 81.0), (40, 90.0)]], np.array([(30, 81.0), (40, 90.0), None], object)[:2],
    np.array([(30, 81), (40, 90)], "i2,i2"), blosc2.asarray(np.array([(30, 81), (40, 90)], "i8,f8")),
], ids=lambda more: f"{type(more).__name__}{np.shape(more)}")  # fmt: skip
def test_records(more: Any) -> None:
    array = blosc2.asarray(np.array([(61, 70.5)], "i8,f8"))
    for none in ([], np.zeros(0)):
        assert array.append(none) == 1
    assert array.append((7, 22)) == 2
    assert array.append(more) == 4
    assert array[:].tolist() == [(61, 70.5), (7, 22.0), (30, 81.0), (40, 90.0)]


def test_more_axes_are_flattened() -> None:
    array = blosc2.arange(2)
    assert array.append([[2, 3], [4, 5]]) == 6
    assert array[:].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("place", ["memory", "file", "leaf"])
@pytest.mark.parametrize("axis", [1, 2, -1, -3, 0])
def test_along_another_axis(place: str, axis: int, tmp_path: Path) -> None:
    model = np.arange(60).reshape(3, 4, 5)
    if place == "leaf":
        store = blosc2.TreeStore(tmp_path / "s.b2z", mode="w")
        store["/a"] = blosc2.asarray(model, chunks=(2, 3, 2))
        array = store["/a"]
    else:
        array = blosc2.asarray(model, chunks=(2, 3, 2), urlpath=None if place == "memory" else str(tmp_path / "a.b2nd"))
    for count in (1, 4, 0):
        more = -np.ones([count if n == axis % 3 else length for n, length in enumerate(model.shape)], "i8")
        model = np.concatenate([model, more], axis)
        assert array.append(more, axis=axis) == model.shape[axis]
        np.testing.assert_array_equal(array[:], model)
    with pytest.raises(ValueError, match=r"need the shape .*'n'.*not \(1, 1, 1\)"):
        array.append(np.ones((1, 1, 1)), axis=axis)
    with pytest.raises(IndexError):
        array.append(model, axis=3)
    np.testing.assert_array_equal(array[:], model)
    if place == "leaf":
        store.close()


@pytest.mark.parametrize("place", ["memory", "file"])
def test_along_another_axis_within_a_transaction(place: str, tmp_path: Path) -> None:
    array = blosc2.zeros((2, 3), "i4", urlpath=None if place == "memory" else str(tmp_path / "a.b2nd"))
    with array.transaction():
        assert array.append(np.ones((2, 2)), axis=1) == 5
    assert array[:].tolist() == [[0, 0, 0, 1, 1]] * 2
