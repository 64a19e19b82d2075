"""What is on the screen: the part of an array, and how what is read of it, or of a store, looks as text."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._arrays import Axis, as_meant, has_meaning, index_of, picture_axes
from blosc2._display import Node, human_size, labels_of, line_of_blocks, one_line, printable, ratio_text
from blosc2._stores import ForeignObject, Store, outline
from blosc2.exceptions import FormatError
from blosc2.info import dtype_text
from blosc2.ndarray import NDArray


@dataclass(frozen=True)
class Page:
    """A place in an array: which axes are the rows and columns, and where it is on each axis.

    `rows` and `columns` are the axes that go down and to the right, None if the array has fewer. `at` has the first row
    and column that is shown, and the item on the other axes; `stepped` moves along `other`. The last axis has colours
    if it is `in_colour`, and is not one of the two.
    """

    shape: tuple[int, ...]
    rows: int | None
    columns: int | None
    at: tuple[int, ...]
    other: int | None
    in_colour: bool = False

    @classmethod
    def of(
        cls, shape: Sequence[int], dtype: np.dtype[Any], attributes: Mapping[str, Any] = MappingProxyType({})
    ) -> Page:
        """The plane that makes a picture, in the middle of the other axes; colours begin with the first."""
        sides, in_colour = picture_axes([range(length) for length in shape], dtype, attributes)
        rows, columns = (*sides, None, None)[:2]
        at = [0 if axis in sides else length // 2 for axis, length in enumerate(shape)]
        if in_colour:
            at[-1] = 0
        others = [axis for axis in range(len(shape)) if axis not in sides]
        return cls(tuple(shape), rows, columns, tuple(at), others[0] if others else None, in_colour)

    @property
    def sides(self) -> list[int]:
        return [side for side in (self.rows, self.columns) if side is not None]

    @property
    def others(self) -> list[int]:
        """The axes of which one item is shown."""
        return [axis for axis in range(len(self.shape)) if axis not in self.sides]

    @property
    def is_empty(self) -> bool:
        return 0 in self.shape

    # ------------------------------------------------------------------ what is read
    def window(self, height: int, width: int) -> list[Axis]:
        """What is selected of each axis, for so many rows and columns."""
        axes: list[Axis] = list(self.at)
        for side, count in ((self.rows, height), (self.columns, width)):
            if side is not None:
                axes[side] = range(self.at[side], min(self.at[side] + count, self.shape[side]))
        return axes

    def plane(self) -> list[Axis]:
        """The whole plane that the window is a part of."""
        return [range(length) if axis in self.sides else self.at[axis] for axis, length in enumerate(self.shape)]

    def pictured(self) -> list[Axis]:
        """The plane, with the colours of its items if they have any."""
        axes = self.plane()
        if self.in_colour and len(axes) - 1 not in self.sides:
            axes[-1] = range(self.shape[-1])
        return axes

    def text(self) -> str:
        """The plane in words of an index: "[25, rows, columns]"."""
        names = {self.rows: "rows", self.columns: "columns"}
        parts = [names.get(axis) or f"{self.at[axis]:,} of {n:,}" for axis, n in enumerate(self.shape)]
        if self.other is not None:
            parts[self.other] = f"<{parts[self.other]}>"
        return f"[{', '.join(parts)}]"

    # ------------------------------------------------------------------ moving
    def scrolled(self, down: int, right: int, height: int, width: int) -> Page:
        """The window elsewhere in the plane, and never beyond its ends."""
        at = list(self.at)
        for side, by, count in ((self.rows, down, height), (self.columns, right, width)):
            if side is not None and by:
                at[side] = max(0, min(at[side] + by, self.shape[side] - count))
        return replace(self, at=tuple(at))

    def stepped(self, by: int) -> Page:
        """Another plane, along the axis that is chosen."""
        if self.other is None or self.is_empty:
            return self
        at = list(self.at)
        at[self.other] = max(0, min(at[self.other] + by, self.shape[self.other] - 1))
        return replace(self, at=tuple(at))

    def went(self, place: Sequence[int]) -> Page:
        """The place that an index of all axes names; `IndexError` where the array has no such item."""
        if len(place) != len(self.shape):
            raise IndexError(f"the array has {len(self.shape)} axes, the place has {len(place)}")
        at = []
        for axis, (index, length) in enumerate(zip(place, self.shape, strict=True)):
            if not -length <= index < length:
                raise IndexError(f"axis {axis} has {length:,} items, so {index:,} is not one of them")
            at.append(index % length)
        return replace(self, at=tuple(at))

    def next_other(self) -> Page:
        """`stepped` moves along the next of the other axes."""
        if self.other is None:
            return self
        others = self.others
        return replace(self, other=others[(others.index(self.other) + 1) % len(others)])

    def next_rows(self) -> Page:
        return self if self.columns is None else self._with_sides(self._free(self.rows, self.columns), self.columns)

    def next_columns(self) -> Page:
        return self if self.columns is None else self._with_sides(self.rows, self._free(self.columns, self.rows))

    def transposed(self) -> Page:
        return self if self.columns is None else replace(self, rows=self.columns, columns=self.rows)

    def _free(self, axis: int | None, taken: int | None) -> int:
        assert axis is not None
        axes = [other for other in range(len(self.shape)) if other != taken]
        return axes[(axes.index(axis) + 1) % len(axes)]

    def _with_sides(self, rows: int | None, columns: int | None) -> Page:
        at = list(self.at)
        for axis in range(len(at)):
            if axis in (rows, columns) and axis not in self.sides:
                at[axis] = 0
            elif axis in self.sides and axis not in (rows, columns):
                at[axis] = min(at[axis], max(0, self.shape[axis] - 1))
        others = [axis for axis in range(len(at)) if axis not in (rows, columns)]
        other = self.other if self.other in others else (others[0] if others else None)
        return replace(self, rows=rows, columns=columns, at=tuple(at), other=other)


# ------------------------------------------------------------------ cells
#: No cell is wider than this.
WIDEST = 24
_LONGEST_VALUE = 500
# The bytes of a window, however large one item is.
_MOST_BYTES = 16 << 20
# How wide a cell is at least, by the kind of its items: as many columns as may fit are read.
_NARROWEST = {"b": 5, "u": 3, "i": 3, "f": 6, "c": 8, "M": 10, "m": 6, "U": 4, "S": 4, "V": 6}


class Cells(NamedTuple):
    """A table of texts, with what stands at the side and above."""

    rows: list[str]
    columns: list[str]
    texts: list[list[str]]


def item_text(item: Any, longest: int = WIDEST * 4) -> str:
    """An item in one line; nothing of it is markup or moves a terminal's cursor."""
    if isinstance(item, (bool, np.bool_)):
        return str(bool(item))
    if isinstance(item, (np.floating, float)):
        return f"{float(item):.6g}"
    if isinstance(item, (np.complexfloating, complex)):
        return f"{complex(item):.4g}"
    if isinstance(item, (np.datetime64, np.timedelta64)):  # before integers, which timedelta64 counts as
        return str(item)
    if isinstance(item, (np.integer, int)):
        return str(int(item))
    if isinstance(item, str):
        return printable(repr(str(item)[:longest]))
    if isinstance(item, bytes):
        return repr(bytes(item)[:longest])
    if isinstance(item, np.void) and item.dtype.names is None:
        return item.tobytes().hex()[: WIDEST * 2]
    if isinstance(item, (np.void, np.ndarray)):
        return printable(" ".join(np.array2string(np.asarray(item), threshold=8, edgeitems=2).split()))[: WIDEST * 4]
    if type(item).__module__.startswith("blosc2."):
        return printable(repr(item))[:_LONGEST_VALUE]
    return printable(_SHORT.repr(item))[:_LONGEST_VALUE]


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 200
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 20


def columns_that_may_fit(array: NDArray, width: int) -> int:
    """How many columns are read for so many characters: as many as fit if all items are short."""
    return max(1, width // (_NARROWEST.get(array.dtype.kind, 6) + 2))


def _row_length(array: NDArray) -> int:
    """How many items of an array of one axis stand in a row: one record, or ten others."""
    return 1 if array.dtype.names else 10


def rows_and_columns(array: NDArray, page: Page) -> tuple[int, int]:
    """The size of the whole table that a window is a part of."""
    if page.rows is None:
        return 1, len(array.dtype.names or (0,))
    if page.columns is None:
        folded = _row_length(array)
        columns = len(array.dtype.names) if array.dtype.names else min(folded, max(1, page.shape[0]))
        return -(-page.shape[0] // folded), columns
    return page.shape[page.rows], page.shape[page.columns]


def read_cells(array: NDArray, page: Page, top: int, left: int, height: int, width: int) -> Cells:
    """Read what a window shows: with two axes or more it is where the page is, else `top` and `left` say where."""
    if page.is_empty:
        return Cells([], [], [])
    room = max(1, _MOST_BYTES // max(1, array.dtype.itemsize))
    if page.columns is not None:
        width = max(1, min(width, room))
        return _plane_cells(array, page, max(1, min(height, room // width)), width)
    if page.rows is None:
        items = np.asarray(array[()]).reshape(1)
        return _record_cells(items, [""], left, width) if array.dtype.names else Cells([""], [""], [_texts(items)])
    folded = _row_length(array)
    height = max(1, min(height, room // folded))
    first, last = top * folded, min(page.shape[0], (top + height) * folded)
    found = np.asarray(array[first:last])
    labels = [f"{start:,}" for start in range(first, last, folded)]
    if array.dtype.names:
        return _record_cells(found, labels, left, width)
    columns = [f"+{n}" for n in range(min(folded, page.shape[0]))]
    rows = [_texts(found[at : at + folded]) for at in range(0, len(found), folded)]
    rows[-1] += [""] * (len(columns) - len(rows[-1]))  # the last row may be short
    return Cells(labels, columns[left : left + width], [row[left : left + width] for row in rows])


def _plane_cells(array: NDArray, page: Page, height: int, width: int) -> Cells:
    assert page.rows is not None
    assert page.columns is not None
    axes = page.window(height, width)
    items = np.asarray(array[index_of(axes)])
    if page.rows > page.columns:
        items = items.swapaxes(0, 1)
    rows, columns = axes[page.rows], axes[page.columns]
    assert isinstance(rows, range)
    assert isinstance(columns, range)
    return Cells([f"{n:,}" for n in rows], [f"{n:,}" for n in columns], [_texts(row) for row in items])


def _record_cells(items: np.ndarray[Any, Any], labels: list[str], left: int, width: int) -> Cells:
    """Records as rows, and their fields as columns."""
    names = (items.dtype.names or ())[left : left + width]
    columns = [[item_text(item) for item in items[name]] for name in names]
    return Cells(labels, [printable(name) for name in names], [list(row) for row in zip(*columns, strict=True)])


def _texts(items: Any) -> list[str]:
    return [item_text(item) for item in items]


# ------------------------------------------------------------------ statistics
# So many fields of records are counted.
_MOST_FIELDS = 40

#: Names and values, as they are shown.
Rows = list[tuple[str, str]]

# Of more items than this, some at even distances are a sample of how they are spread.
_SAMPLE: Final = 1 << 18
_PERCENTILES: Final = {
    1: "1 % are below", 25: "25 % are below", 50: "median",
    75: "75 % are below", 99: "99 % are below",
}  # fmt: skip
_BARS: Final = 32


def statistics(array: Any, axes: Sequence[Axis]) -> Rows:
    """Statistics of a part of an array, by the numbers that attributes make of the stored ones, as in pictures."""
    items = np.asarray(array[index_of(axes)]) if 0 not in array.shape else np.empty(0, array.dtype)
    if not has_meaning(array):
        return statistics_of_items(items)
    meant = as_meant(items, array.vlmeta)[0].astype(float)
    return [("numbers", "as attributes scale them, without missing ones"), *statistics_of_items(meant)]


def statistics_of_items(items: np.ndarray[Any, Any]) -> Rows:
    """The smallest and largest item, mean and deviation, how many are missing, and how the items are spread.

    NaN and NaT count as missing, and only there.
    """
    names = items.dtype.names
    if names is None:
        return _statistics(items) + _spread(items)
    shown = names[:_MOST_FIELDS]
    found = [(f"{name}: {what}", text) for name in shown for what, text in _statistics(items[name])]
    left = len(names) - len(shown)
    return [*found, ("more fields", f"{left:,}")] if left > 0 else found


def _statistics(items: np.ndarray[Any, Any]) -> Rows:
    kind, found = items.dtype.kind, [("items", f"{items.size:,}")]
    if kind in "US":
        lengths = np.strings.str_len(items)
        empty = np.count_nonzero(lengths == 0)
        return [*found, ("empty texts", f"{empty:,}"), ("longest", f"{lengths.max(initial=0):,}")]
    if kind not in "biufcmM":
        return found
    there = _there(items)
    if there.size:
        sizes, what = (np.abs(there), " magnitude") if kind == "c" else (there, "")
        found += [(f"min{what}", item_text(sizes.min())), (f"max{what}", item_text(sizes.max()))]
    infinite = np.count_nonzero(np.isinf(there)) if kind == "f" else 0
    if there.size and kind in "biufc":
        with np.errstate(invalid="ignore", over="ignore"):
            mean = there.mean(dtype=np.clongdouble if kind == "c" else np.longdouble)
            found.append(("mean", item_text(complex(mean) if kind == "c" else float(mean))))
            if kind in "iuf" and not infinite:
                found.append(("standard deviation", item_text(there.std(dtype=np.float64))))
    if kind in "fcmM":
        found.append(("NaT" if kind in "mM" else "NaN", f"{items.size - there.size:,}"))
    return [*found, ("infinite", f"{infinite:,}")] if infinite else found


def _there(items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Items without those that are missing."""
    if items.dtype.kind in "mM":
        return items[~np.isnat(items)]
    return items[~np.isnan(items)] if items.dtype.kind in "fc" else items


def _spread(items: np.ndarray[Any, Any]) -> Rows:
    """Percentiles and a histogram; or how often each value comes, if there are few."""
    if items.dtype.kind not in "iuf":
        return []
    # An odd distance does not fall on the same place of each row of usual lengths.
    kept = items.ravel()[:: -(-items.size // _SAMPLE) | 1]
    with np.errstate(over="ignore"):  # of long doubles
        numbers = kept.astype(np.float64)
    finite = np.isfinite(numbers)
    chosen, numbers = kept[finite], numbers[finite]
    if not chosen.size:
        return []
    note = [("from a sample", f"{kept.size:,} of {items.size:,} items")] if kept.size < items.size else []
    labels = labels_of(chosen)
    if labels:
        often = [f"{label}: {100 * np.count_nonzero(chosen == label) / chosen.size:.3g} %" for label in labels]
        return [*note, ("values", ", ".join(often))]
    low, high = float(numbers.min()), float(numbers.max())
    if not low < high or not math.isfinite(high - low):
        return note
    shares = np.percentile(numbers, list(_PERCENTILES))
    found = [(name, item_text(float(value))) for name, value in zip(_PERCENTILES.values(), shares, strict=True)]
    # Bars as wide as each other: of a few integers, each has one.
    bars, ends = _BARS, (low, high)
    if items.dtype.kind in "iu" and high - low < _BARS:
        bars, ends = int(high - low) + 1, (low - 0.5, high + 0.5)
    counts = np.histogram(numbers, bars, ends)[0]
    heights = np.where(counts, 1 + counts * 6 // counts.max(), 0) * 32
    return [*note, *found, ("histogram", f"{line_of_blocks(heights)} from {item_text(low)} to {item_text(high)}")]


# ------------------------------------------------------------------ properties and attributes
#: How many attributes are shown, and how much of each.
MOST_ATTRIBUTES = 200
_LONGEST_ATTRIBUTE = 500


def properties(thing: Any) -> Rows:
    if isinstance(thing, ForeignObject):
        return [("kind", f"{thing.kind}, an object of another package"), *_text_rows(thing.description.items())]
    if isinstance(thing, Store):
        return [("contents", printable(repr(thing)))]
    return _text_rows(_properties(thing))


def _properties(thing: Any) -> Iterator[tuple[str, Any]]:
    yield "kind", type(thing).__name__
    items = dict(thing.info_items)
    for name in ("shape", "dtype", "chunks", "blocks"):
        if name in items:
            yield name, items.pop(name)
    sizes = int(thing.nbytes), int(thing.cbytes)
    yield "bytes", human_size(sizes[0])
    yield "compressed", human_size(sizes[1])
    yield "ratio", ratio_text(*sizes) or "-"
    cparams = thing.cparams
    filters = [getattr(filter, "name", str(filter)).lower() for filter in cparams.filters]
    yield "codec", f"{getattr(cparams.codec, 'name', cparams.codec)}, level {cparams.clevel}"
    yield "filters", ", ".join(name for name in filters if name != "nofilter") or "none"
    left_out = {"type", "nbytes", "cbytes", "cratio", "cparams", "dparams", "urlpath"}
    yield from ((name.replace("_", " "), value) for name, value in items.items() if name not in left_out)


def attributes(thing: Any) -> Rows:
    """Names and values of attributes; one that cannot be read says why."""
    found: Any = getattr(thing, "vlmeta", None)
    if not isinstance(found, Mapping):
        return []
    names = list(found)
    rows = []
    for name in names[:MOST_ATTRIBUTES]:
        try:
            text = shortened(item_text(found[name], _LONGEST_ATTRIBUTE))
        except (OSError, ValueError, FormatError, KeyError) as error:
            text = f"cannot be read: {one_line(error)}"
        rows.append((shortened(printable(str(name))), text))
    left = len(names) - len(rows)
    return [*rows, ("...", f"{left:,} more")] if left > 0 else rows


def _text_rows(items: Any) -> Rows:
    return [
        (printable(str(name)), shortened(printable(_text(value)))) for name, value in islice(items, MOST_ATTRIBUTES)
    ]


def _text(value: Any) -> str:
    return dtype_text(value) if isinstance(value, np.dtype) else str(value)


def shortened(text: str) -> str:
    """A text of a file, cut if it is long."""
    return text if len(text) <= _LONGEST_ATTRIBUTE else text[:_LONGEST_ATTRIBUTE] + " ..."


# ------------------------------------------------------------------ the tree
#: So many groups and leaves of a group are listed at a time.
AT_ONCE = 500


def children(store: Store, group: str, shown: int) -> tuple[list[Node], str]:
    """The next nodes of a group, of which so many are shown, and what is left in words."""
    node = outline(store, group, 1, shown + AT_ONCE)
    return list(node.children), node.more.replace("...", "…")
