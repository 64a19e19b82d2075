"""What the viewer reads, and how it looks as text: pages, cells, statistics, properties, the tree."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blosc2
from blosc2._arrays import index_of
from blosc2._tools.viewer import values
from blosc2._tools.viewer.values import (
    MOST_ATTRIBUTES,
    Cells,
    Page,
    attributes,
    item_text,
    properties,
    read_cells,
    statistics,
    statistics_of_items,
)

FLOAT = np.dtype(float)


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
    assert page.pictured() == [2, range(8), range(9), range(3)]
    assert page.next_columns().pictured()[3] == range(3)
    assert page.transposed().next_columns().next_columns().pictured()[3] == range(3)
    assert Page.of((5, 8, 9, 3), FLOAT).pictured() == [2, range(8), range(9), 1]


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


def cells(thing: Any, top: int = 0, left: int = 0, height: int = 3, width: int = 4) -> Cells:
    return read_cells(thing, Page.of(thing.shape, thing.dtype), top, left, height, width)


class Watched:
    """An array that notes how many items are taken of it."""

    def __init__(self, array: Any) -> None:
        self._array, self.items = array, 0
        self.shape, self.dtype, self.chunks, self.blocks = array.shape, array.dtype, array.chunks, array.blocks

    def __getitem__(self, index: Any) -> Any:
        found = self._array[index]
        self.items += found.size
        return found


def test_a_plane() -> None:
    array = np.arange(60).reshape(3, 4, 5)
    found = cells(blosc2.asarray(array))
    assert found.texts == [[str(item) for item in row[:4]] for row in array[1, :3]]
    assert (found.rows, found.columns) == (["0", "1", "2"], ["0", "1", "2", "3"])
    source: Any = blosc2.asarray(array)
    turned = read_cells(source, Page.of(array.shape, array.dtype).transposed(), 0, 0, 3, 4)
    assert turned.texts == [[str(item) for item in row] for row in array[1, :4, :3].T]


def test_only_the_window_is_read() -> None:
    array = Watched(blosc2.zeros((1000, 1000, 1000), dtype="f4"))
    source: Any = array
    read_cells(source, Page.of(array.shape, array.dtype), 0, 0, 30, 12)
    assert array.items == 30 * 12
    line: Any = Watched(blosc2.zeros((10**9,), dtype="f4"))
    read_cells(line, Page.of(line.shape, line.dtype), 5000, 0, 30, 12)
    assert line.items == 300


def test_one_item_and_none() -> None:
    assert cells(blosc2.asarray(np.float64(5))).texts == [["5"]]
    assert cells(blosc2.asarray(np.zeros((0, 3)))).texts == []


def test_one_axis_is_folded() -> None:
    found = cells(blosc2.asarray(np.arange(25)), top=1, width=10)
    assert found.rows == ["10", "20"]
    assert found.texts[0] == [str(n) for n in range(10, 20)]
    assert found.texts[1] == [*map(str, range(20, 25)), *[""] * 5]


def test_records_have_columns() -> None:
    items = np.array([(1, 2.5, "a\n"), (3, np.nan, "b")], [("n", "i4"), ("x", "f8"), ("t\x1b", "U3")])
    found = cells(blosc2.asarray(items))
    assert found.columns == ["n", "x", r"t\x1b"]
    assert found.texts == [["1", "2.5", r"'a\n'"], ["3", "nan", "'b'"]]
    assert cells(blosc2.asarray(items), left=1).columns == ["x", r"t\x1b"]
    assert cells(blosc2.asarray(items[0])).texts == [["1", "2.5", r"'a\n'"]]


@pytest.mark.parametrize(("item", "text"), [
    (np.float32(0.1), "0.1"), (np.int8(-3), "-3"), (np.bool_(1), "True"), (np.complex64(1 - 2j), "1-2j"),
    (np.str_("[red]\n"), r"'[red]\n'"), (np.bytes_(b"a\x1b"), r"b'a\x1b'"),
    (np.datetime64("2020-01-02"), "2020-01-02"), (np.timedelta64("NaT", "s"), "NaT"), (np.void(b"\1\xff"), "01ff"),
    ("\u202e", r"'\u202e'"), (None, "None"),
])  # fmt: skip
def test_items_take_one_line(item: Any, text: str) -> None:
    assert item_text(item) == text


# ------------------------------------------------------------------ statistics
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i8", "u8", "f2", "f4", "f8", ">f4", "g"])
def test_statistics_of_numbers(dtype: str) -> None:
    items = np.random.default_rng(3).normal(50, 20, (7, 11, 13)).astype(dtype)
    if items.dtype.kind == "f":
        items[2, 3, 4:9] = np.nan
    array: Any = Watched(blosc2.asarray(items, chunks=(3, 4, 5), blocks=(2, 2, 2)))
    found = dict(statistics(array, [range(7), 5, range(0, 13, 2)]))
    part = items[:, 5, ::2]
    assert found["items"] == f"{part.size:,}"
    assert float(found["min"] == "True" if dtype == "?" else found["min"]) == pytest.approx(float(part.min()), rel=1e-5)
    whole = dict(statistics(array, [range(length) for length in items.shape]))
    assert float(whole["mean"]) == pytest.approx(float(np.nanmean(items.astype("f8"))), rel=1e-5)
    assert whole.get("NaN") == ("5" if items.dtype.kind == "f" else None)
    if dtype == "?":
        assert "median" not in whole
        return
    numbers = items.astype("f8")[~np.isnan(items.astype("f8"))]
    assert float(whole["standard deviation"]) == pytest.approx(numbers.std(), rel=1e-5)
    for name, share in (("1 % are below", 1), ("25 % are below", 25), ("median", 50), ("99 % are below", 99)):
        assert float(whole[name]) == pytest.approx(np.percentile(numbers, share), rel=1e-5)
    bars, _, ends = whole["histogram"].partition(" from ")
    counts = np.histogram(numbers, 32)[0]
    assert bars[counts.argmax()] == "█"
    assert [bar == "▁" for bar in bars] == (counts == 0).tolist()
    assert ends == f"{item_text(numbers.min())} to {item_text(numbers.max())}"


def test_how_many_items_are_spread_is_told_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "_SAMPLE", 1000)
    items = np.random.default_rng(0).permutation(20_000).reshape(100, 200).astype("f4")
    found = dict(statistics(blosc2.asarray(items), [range(100), range(200)]))
    assert found["items"] == "20,000"
    assert found["from a sample"] == "953 of 20,000 items"
    assert float(found["standard deviation"]) == pytest.approx(items.std(dtype="f8"), rel=1e-5)
    assert float(found["median"]) == pytest.approx(10_000, rel=0.15)
    names = list(found)
    assert names.index("standard deviation") < names.index("from a sample") < names.index("median")


def test_how_often_labels_come() -> None:
    mask = np.zeros((40, 50), "u1")
    mask[:10], mask[39] = 3, 9
    found = dict(statistics(blosc2.asarray(mask), [range(40), range(50)]))
    assert found["values"] == "0: 72.5 %, 3: 25 %, 9: 2.5 %"
    assert "median" not in found
    few = dict(statistics_of_items(np.arange(4)))
    assert few["histogram"] == "████ from 0 to 3"


@pytest.mark.parametrize(
    "items", [np.array([1e308, -1e308]), np.full(5, 2.5), np.array([np.inf, np.nan, 1.0]), np.array([], "f4"),
              np.array([2**64 - 1, 0], "u8"), np.array([-128, 127], "i1")],
    ids=["wide", "one", "infinite", "empty", "unsigned", "signed"],
)  # fmt: skip
def test_how_unusual_items_are_spread(items: Any) -> None:
    found = dict(statistics_of_items(items))
    assert ("histogram" in found) == (items.dtype.kind in "iu")
    assert ("standard deviation" in found) == (items.size > 0 and "infinite" not in found)


def test_statistics_of_other_items() -> None:
    values = np.array([3 + 4j, np.nan, 1])
    assert dict(statistics_of_items(values)) == {
        "items": "3", "min magnitude": "1", "max magnitude": "5", "mean": "2+2j", "NaN": "1",
    }  # fmt: skip
    days = np.array(["2020-01-05", "NaT", "2020-01-02"], "M8[D]")
    assert dict(statistics_of_items(days)) == {"items": "3", "min": "2020-01-02", "max": "2020-01-05", "NaT": "1"}
    assert dict(statistics_of_items(np.array(["", "abc"]))) == {"items": "2", "empty texts": "1", "longest": "3"}
    records = np.zeros(3, [("a", "i4"), ("b", "S2")])
    assert dict(statistics_of_items(records)) == {
        "a: items": "3", "a: min": "0", "a: max": "0", "a: mean": "0", "a: standard deviation": "0", "b: items": "3",
        "b: empty texts": "3",
        "b: longest": "0",
    }  # fmt: skip
    infinite = dict(statistics_of_items(np.array([np.inf, -np.inf, 1])))
    assert (infinite["infinite"], infinite["max"], infinite["mean"]) == ("2", "inf", "nan")
    assert dict(statistics_of_items(np.full(3, np.nan))) == {"items": "3", "NaN": "3"}


# ------------------------------------------------------------------ information and the tree
def test_attributes_are_bounded_and_escaped() -> None:
    array = blosc2.zeros((5, 6), dtype="f4", chunks=(5, 3), blocks=(1, 3))
    array.attrs["note"] = "a\x1b[31m\nb"
    array.attrs["long"] = "x" * 100_000
    for n in range(MOST_ATTRIBUTES):
        array.attrs[f"n{n}"] = n
    rows = attributes(array)
    assert ("note", r"'a\x1b[31m\nb'") in rows
    assert max(len(text) for _, text in rows) < 600
    assert rows[-1] == ("...", "2 more")
    found = dict(properties(array))
    assert (found["shape"], found["chunks"], found["blocks"]) == ("(5, 6)", "(5, 3)", "(1, 3)")
    assert found["codec"].startswith("ZSTD")


def test_large_groups_come_in_parts(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store.write_many((f"/g/l{n:04}", np.zeros(1, "u1")) for n in range(1200))
        store["/g/sub/x"] = np.zeros(1)
    with blosc2.open(path, mode="r", mmap_mode="r") as store:
        names: list[str] = []
        for expected in ("… 701 more leaves", "… 201 more leaves", ""):
            nodes, more = values.children(store, "/g", len(names))
            assert more == expected
            names = [node.name for node in nodes]
        assert names == [f"l{n:04}" for n in range(1200)] + ["sub"]


def test_the_mean_of_large_integers() -> None:
    items = np.full(1000, np.iinfo("u8").max - 3, "u8")
    assert math.isclose(float(dict(statistics_of_items(items))["mean"]), 2.0**64, rel_tol=1e-5)


def test_statistics_of_packed_numbers() -> None:
    packed = blosc2.asarray(np.array([[0, 1, 2, -32768]] * 3, dtype="i2"))
    packed.vlmeta["scale_factor"], packed.vlmeta["add_offset"], packed.vlmeta["_FillValue"] = 0.5, 10.0, -32768
    found = dict(statistics(packed, [range(3), range(4)]))
    assert (found["min"], found["max"], found["mean"], found["NaN"]) == ("10", "11", "10.5", "3")
    assert "scale" in found["numbers"]
    assert "numbers" not in dict(statistics(blosc2.asarray(np.arange(4)), [range(4)]))
