"""A selection, applied to an array, is what NumPy gives for the key; what NumPy refuses is refused likewise."""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from fixture_kit.names import shown
from hypothesis import given

import blosc2


def array_of(items: np.ndarray[Any, Any]) -> blosc2.NDArray:
    return blosc2.asarray(items, chunks=tuple(-(-n // 2) for n in items.shape), cparams={"nthreads": 1})


def check(key: Any, items: np.ndarray[Any, Any]) -> None:
    got, expected = array_of(items)[key], np.asarray(items[key])
    assert got.shape == expected.shape
    assert np.array_equal(got, expected)


def check_assignment(key: Any, shape: tuple[int, ...]) -> None:
    expected = np.zeros(shape, dtype=int)
    value = np.arange(1, 1 + int(np.prod(expected[key].shape))).reshape(expected[key].shape)
    array = array_of(expected)
    expected[key] = value
    array[key] = value
    assert np.array_equal(array[...], expected)


SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7)
NUMBERS = st.one_of(st.none(), st.integers(-20, 20), st.sampled_from([2**40, -(2**40), 2**70, -(2**70)]))
SLICES = st.builds(slice, NUMBERS, NUMBERS, NUMBERS.filter(lambda n: n != 0))


@st.composite
def array_and_key(draw: Any) -> tuple[np.ndarray[Any, Any], Any]:
    shape = draw(SHAPES)
    items: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        if size and draw(st.booleans()):
            number = draw(st.integers(-size, size - 1))
            items.append(draw(st.sampled_from([number, np.int64(number), np.int8(number), np.array(number)])))
        else:
            items.append(draw(SLICES))
    if draw(st.booleans()):
        position = draw(st.integers(0, len(items)))
        items.insert(position, Ellipsis)
        # behind an Ellipsis, items count from the last axis
        behind = len(items) - position - 1
        for index in range(behind):
            axis = len(shape) - behind + index
            item = items[position + 1 + index]
            if not isinstance(item, slice):
                items[position + 1 + index] = slice(None) if not shape[axis] else int(item) % shape[axis]
    for _ in range(draw(st.integers(0, 3))):
        items.insert(draw(st.integers(0, len(items))), None)
    key: Any = tuple(items)
    if len(items) == 1 and draw(st.booleans()):
        key = items[0]
    return np.arange(int(np.prod(shape))).reshape(shape), key


@given(array_and_key())
def test_same_items_as_numpy(case):
    array, key = case
    check(key, array)


@given(array_and_key())
def test_same_assignment_as_numpy(case):
    array, key = case
    check_assignment(key, array.shape)


@given(SHAPES, hnp.basic_indices((3, 4, 5), allow_newaxis=True))
def test_keys_for_another_shape(shape, key):
    array = np.zeros(shape)
    try:
        array[key]
        text = None
    except IndexError as error:
        text = str(error)
    if text is None:
        check(key, np.arange(int(np.prod(shape))).reshape(shape))
    else:
        stored = blosc2.zeros(shape)
        with pytest.raises(IndexError, match="^" + text.split()[0]):
            stored[key]
        with pytest.raises(IndexError, match="^a step of|^" + text.split()[0]):
            blosc2.get_slice_nchunks(stored, key)


def test_fixed_cases():
    array = np.arange(120).reshape(2, 3, 4, 5)
    for key in (
        np.s_[:],
        np.s_[()],
        np.s_[...],
        np.s_[1],
        np.s_[-1, ..., -1],
        np.s_[None],
        np.s_[..., None],
        np.s_[0, 1, 2, 3],
    ):
        check(key, array)
    for key in ((), Ellipsis, None, (None, Ellipsis), (Ellipsis, None, None)):
        check(key, np.array(7))

    class Index:
        def __index__(self) -> int:
            return 1

    check(Index(), array)
    check(np.s_[Index() : np.int8(2)], array)


def test_named_tuple_is_a_tuple():
    class Pair(NamedTuple):
        row: slice
        column: int

    check(Pair(slice(1, 2), 0), np.arange(12).reshape(3, 4))


@pytest.mark.parametrize(
    ("key", "shape", "text"),
    [
        (3, (3,), "out of bounds"),
        (-4, (3,), "out of bounds"),
        (2**70, (3,), "out of bounds"),
        (0, (0,), "out of bounds"),
        ((0, 5), (3, 4), "axis 1 with size 4"),
        (0, (), "too many indices"),
        ((0, 0), (3,), "array is 1-dimensional, but 2 were indexed"),
        ((slice(None), slice(None)), (3,), "too many indices"),
        ((..., 0, 0), (3,), "too many indices"),
        ((0, 0, ...), (3,), "too many indices"),
        ((..., ...), (3,), "single ellipsis"),
        ((..., None, ...), (3, 4), "single ellipsis"),
        (1.0, (3,), "only integers, slices"),
        (np.float64(1), (3,), "integer"),
        ((0, "x"), (3, 3), "only integers, slices"),
        ({1}, (3,), "only integers, slices"),
        ({1: 2}, (3,), "only integers, slices"),
        (object(), (3,), "only integers, slices"),
        (b"x", (3,), "integers"),
        ([1.0], (3,), "must be of integer"),
        (np.array([1.0]), (3,), "must be of integer"),
        (np.array([], dtype=float), (3,), "must be of integer"),
        ([slice(1)], (3,), "must be of integer"),
        ((0, [1.5]), (3, 3), "must be of integer"),
        ((0, ["x"]), (3, 3), "must be of integer"),
    ],
    ids=shown,
)
def test_illegal_keys(key, shape, text):
    if not isinstance(key, bytes):
        with pytest.raises(IndexError):
            np.zeros(shape)[key]
    array = blosc2.zeros(shape)
    with pytest.raises(IndexError, match=text):
        array[key]
    with pytest.raises(IndexError, match=text):  # which knows no keys with arrays, and would say so
        blosc2.get_slice_nchunks(array, key)


@pytest.mark.parametrize("shape", [(3,), (3, 4)])
def test_illegal_slices(shape):
    for part in (slice("a", None), slice(1.0, None), slice(None, None, 1.5)):
        with pytest.raises(TypeError, match="slice indices must be integers"):
            blosc2.zeros(shape)[part]
    for key in (slice(None, None, 0), (Ellipsis, slice(None, None, 0))):
        with pytest.raises(ValueError, match="slice step cannot be zero"):
            blosc2.zeros(shape)[key]


def test_tensor_of_one_item_keeps_its_axis():
    class Tensor:  # as PyTorch's: of one item, it offers itself as an index too
        ndim = 1
        dtype = "int64"

        def __index__(self) -> int:
            return 1

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            return np.array([1])

    assert blosc2.arange(3)[Tensor()].tolist() == [1]


def test_rows_of_any_length_are_copied() -> None:
    """Short rows are copied by their length, each in a way of its own."""
    items = np.random.default_rng(3).integers(0, 256, (6, 5, 300), np.uint8)
    for length in range(1, 150):
        # Blocks of `length` bytes a row, which are read whole, and of which a part is read and written.
        array = blosc2.asarray(items, chunks=(6, 5, 300), blocks=(3, 5, length), cparams={"clevel": 1, "filters": []})
        np.testing.assert_array_equal(array[...], items)
        np.testing.assert_array_equal(array[1:5, 1:4, 1:299], items[1:5, 1:4, 1:299])
        array[1:5, 2:4, 3:298] = items[1:5, 2:4, 3:298] ^ 255
        changed = items.copy()
        changed[1:5, 2:4, 3:298] ^= 255
        np.testing.assert_array_equal(array[...], changed)
