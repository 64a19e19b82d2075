"""The items of a window as text: what is read, and how each item looks."""

from __future__ import annotations

import reprlib
from typing import Any, NamedTuple

import numpy as np

from blosc2._display import printable
from blosc2._tools.selections import index_of
from blosc2._tools.viewer.pages import Page
from blosc2._tools.viewer.sources import BYTES_IN_ROW, Bytes, Source, Values

#: No cell is wider than this; those of lists take what there is.
WIDEST = 24
_LONGEST_VALUE = 500
# The bytes of a window, however large one item is.
_MOST_BYTES = 16 << 20
# How wide a cell is at least, by the kind of its items: as many columns as may fit are read.
_NARROWEST = {"b": 5, "u": 3, "i": 3, "f": 6, "c": 8, "M": 10, "m": 6, "U": 4, "S": 4, "V": 6}


class Cells(NamedTuple):
    """A table of texts.

    Attributes
    ----------
    rows, columns : list of str
        What stands at the side and above.
    texts : list of list of str
    """

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


def columns_that_may_fit(source: Source, width: int) -> int:
    """How many columns are read for so many characters: as many as fit if all items are short."""
    return max(1, width // (_NARROWEST.get(source.dtype.kind, 6) + 2))


def row_length(source: Source) -> int:
    """How many items of an array of one axis stand in a row: one for records and lists, else ten."""
    if isinstance(source, Bytes):
        return BYTES_IN_ROW
    return 1 if isinstance(source, Values) or source.dtype.names else 10


def rows_and_columns(source: Source, page: Page) -> tuple[int, int]:
    """The size of the whole table that a window is a part of."""
    if page.rows is None:
        return 1, len(source.dtype.names or (0,))
    if page.columns is None:
        folded = row_length(source)
        columns = len(source.dtype.names) if source.dtype.names else min(folded, max(1, page.shape[0]))
        return -(-page.shape[0] // folded), columns
    return page.shape[page.rows], page.shape[page.columns]


def read_cells(source: Source, page: Page, top: int, left: int, height: int, width: int) -> Cells:
    """Read what a window shows: so many rows and columns from one on.

    For an array with two axes or more, `top` and `left` are where the page is.
    """
    if page.is_empty:
        return Cells([], [], [])
    room = max(1, _MOST_BYTES // max(1, source.dtype.itemsize))
    if page.columns is not None:
        width = max(1, min(width, room))
        return _plane_cells(source, page, max(1, min(height, room // width)), width)
    if page.rows is None:
        items = np.asarray(source[()]).reshape(1)
        return _record_cells(items, [""], left, width) if source.dtype.names else Cells([""], [""], [_texts(items)])
    folded = row_length(source)
    height = max(1, min(height, room // folded))
    first, last = top * folded, min(page.shape[0], (top + height) * folded)
    found = source[(slice(first, last),)]
    labels = [f"{start:,}" for start in range(first, last, folded)]
    if source.dtype.names:
        return _record_cells(np.asarray(found), labels, left, width)
    rows = [found[at : at + folded] for at in range(0, len(found), folded)]
    if isinstance(source, Bytes):
        lines = [[bytes(row).hex(" "), _ascii(bytes(row))] for row in rows]
        return Cells([f"{start:x}" for start in range(first, last, folded)], ["bytes", ""], lines)
    columns = [f"+{n}" for n in range(min(folded, page.shape[0]))] if folded > 1 else [""]
    texts = [_texts(row) + [""] * (len(columns) - len(row)) for row in rows]  # the last row may be short
    return Cells(labels, columns[left : left + width], [row[left : left + width] for row in texts])


def _plane_cells(source: Source, page: Page, height: int, width: int) -> Cells:
    assert page.rows is not None
    assert page.columns is not None
    axes = page.window(height, width)
    items = np.asarray(source[index_of(axes)])
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


def _ascii(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
