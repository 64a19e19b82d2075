"""Which part of an array a page is: arithmetic, compared with NumPy's slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blosc2._tools.selections import index_of
from blosc2._tools.viewer.pages import Page

FLOAT = np.dtype(float)


@pytest.mark.parametrize(
    ("shape", "dtype", "axes"),
    [
        ((), "f8", []),
        ((7,), "f8", [range(5)]),
        ((7, 9), "f8", [range(5), range(3)]),
        ((6, 7, 9), "f8", [3, range(5), range(3)]),
        ((4, 6, 7, 9), "f8", [2, 3, range(5), range(3)]),
        ((6, 7, 3), "u1", [range(5), range(3), 0]),
        ((2, 2, 3), "f8", [1, range(2), range(3)]),
        ((0, 3), "f8", [range(0), range(3)]),
    ],
)  # fmt: skip
def test_the_first_window(shape: tuple[int, ...], dtype: str, axes: list[Any]) -> None:
    assert Page.of(shape, np.dtype(dtype)).window(5, 3) == axes


def test_moving() -> None:
    page = Page.of((50, 200, 300), FLOAT)
    assert page.scrolled(1, 2, 20, 6).window(20, 6) == [25, range(1, 21), range(2, 8)]
    assert page.scrolled(-5, -5, 20, 6) == page
    assert page.scrolled(1 << 62, 1 << 62, 20, 6).window(20, 6) == [25, range(180, 200), range(294, 300)]
    assert page.scrolled(5, 5, 500, 500) == page
    assert page.stepped(3).at[0] == 28
    assert page.stepped(-100).at[0] == 0
    assert page.stepped(100).at[0] == 49


def test_any_two_axes_are_the_plane() -> None:
    page = Page.of((4, 5, 6, 7), FLOAT)
    planes, here = set(), page
    for _ in range(3):
        for _ in range(3):
            planes.add((here.rows, here.columns))
            here = here.next_columns()
        here = here.next_rows()
    planes |= {(columns, rows) for rows, columns in planes}
    assert {frozenset(plane) for plane in planes} == {
        frozenset((one, other)) for one in range(4) for other in range(4) if one != other
    }
    assert page.transposed().sides == [3, 2]
    assert page.next_other().other == 1
    assert page.next_other().next_other().other == 0


def test_a_place_is_gone_to() -> None:
    page = Page.of((4, 50, 60), FLOAT)
    assert page.went((-1, 7, 9)).window(5, 5) == [3, range(7, 12), range(9, 14)]
    for wrong in ((1, 2), (4, 0, 0), (0, 0, -61)):
        with pytest.raises(IndexError):
            page.went(wrong)


def test_colours_lie_behind_the_plane() -> None:
    page = Page.of((5, 8, 9, 3), np.dtype("u1"))
    assert page.pictured(np.dtype("u1")) == [2, range(8), range(9), range(3)]
    assert page.next_columns().pictured(np.dtype("u1"))[3] == range(3)
    assert page.pictured(FLOAT)[3] == 0


MOVES = st.lists(
    st.sampled_from(["next_rows", "next_columns", "next_other", "transposed", "step", "scroll"]), max_size=12
)


@given(st.lists(st.integers(0, 9), max_size=5), MOVES, st.integers(-20, 20), st.integers(1, 6), st.integers(1, 6))
def test_every_window_is_inside(shape: list[int], moves: list[str], by: int, height: int, width: int) -> None:
    items, page = np.zeros(shape), Page.of(shape, FLOAT)
    for move in moves:
        if move == "step":
            page = page.stepped(by)
        elif move == "scroll":
            page = page.scrolled(by, -by, height, width)
        else:
            page = getattr(page, move)()
    assert sorted(page.sides + page.others) == list(range(len(shape)))
    assert len(page.text().split(",")) == max(1, len(shape))
    if not page.is_empty:
        part = items[index_of(page.window(height, width))]
        assert part.ndim == min(2, len(shape))
        assert part.size > 0
        assert items[index_of(page.plane())].ndim == part.ndim
