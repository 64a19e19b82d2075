"""Statistics of arrays, read in pieces that can be stopped between."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blosc2._tools.selections import Axis, pieces, shape_of
from blosc2._tools.viewer.values import item_text

_PIECE = 16 << 20
# So many fields of records are counted.
_MOST_FIELDS = 40

#: Names and values, as they are shown.
Rows = list[tuple[str, str]]


class Stopped(Exception):  # noqa: N818 - it is no error
    """Nobody wants the statistics any more."""


class Tally:
    """The smallest and largest item, the mean, and how many are missing."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._kind = dtype.kind
        self.count = self.missing = self.infinite = 0
        self.least: Any = None
        self.largest: Any = None
        self._sum: Any = 0
        self._empty = self._longest = 0

    def add(self, items: np.ndarray[Any, Any]) -> None:
        """Count more items."""
        self.count += items.size
        if self._kind in "US":
            lengths = np.strings.str_len(items)
            self._empty += int((lengths == 0).sum())
            self._longest = max(self._longest, int(lengths.max(initial=0)))
            return
        if self._kind not in "biufcmM":
            return
        if self._kind in "fcmM":
            gone = np.isnat(items) if self._kind in "mM" else np.isnan(items)
            self.missing += int(gone.sum())
            items = items[~gone]
        if not items.size:
            return
        if self._kind == "c":
            self._sum += items.sum(dtype=np.clongdouble)
            items = np.abs(items)
        least, largest = items.min(), items.max()
        self.least = least if self.least is None else min(self.least, least)
        self.largest = largest if self.largest is None else max(self.largest, largest)
        if self._kind == "f":
            self.infinite += int(np.isinf(items).sum())
        if self._kind in "biuf":
            with np.errstate(invalid="ignore", over="ignore"):
                self._sum += items.sum(dtype=np.longdouble)

    def rows(self) -> Rows:
        """What is shown."""
        found = [("items", f"{self.count:,}")]
        if self._kind in "US":
            return [*found, ("empty texts", f"{self._empty:,}"), ("longest", f"{self._longest:,}")]
        if self.least is not None:
            what = " magnitude" if self._kind == "c" else ""
            found += [(f"min{what}", item_text(self.least)), (f"max{what}", item_text(self.largest))]
            if self._kind in "biufc":
                with np.errstate(invalid="ignore", over="ignore"):
                    mean = self._sum / (self.count - self.missing)
                found.append(("mean", item_text(complex(mean) if self._kind == "c" else float(mean))))
        if self._kind in "fc":
            found.append(("NaN", f"{self.missing:,}"))
        if self._kind in "mM":
            found.append(("NaT", f"{self.missing:,}"))
        if self.infinite:
            found.append(("infinite", f"{self.infinite:,}"))
        return found


def tallies(dtype: np.dtype[Any]) -> dict[str, Tally]:
    """An empty tally for each field of records, or one under ""."""
    if dtype.names is None:
        return {"": Tally(dtype)}
    return {name: Tally(dtype[name].base) for name in dtype.names[:_MOST_FIELDS]}


def statistics(
    array: Any, axes: Sequence[Axis], stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], object] = lambda *_: None,
) -> Rows:  # fmt: skip
    """Statistics of a part of an array. NaN and NaT count as missing, and only there.

    Raises
    ------
    Stopped
        `stopped` was true between two pieces.
    """
    counted = tallies(array.dtype)
    total, done = math.prod(shape_of(axes)), 0
    if total:
        for piece in pieces(array, axes, _PIECE):
            for name, tally in counted.items():
                tally.add(np.asarray(piece[name] if name else piece))
            done += int(np.asarray(piece).size)
            progress(done, total)
            if stopped():
                raise Stopped
    return rows_of(counted, array.dtype)


def rows_of(counted: dict[str, Tally], dtype: np.dtype[Any]) -> Rows:
    """The rows of all tallies."""
    if dtype.names is None:
        return counted[""].rows()
    found = [(f"{name}: {what}", text) for name, tally in counted.items() for what, text in tally.rows()]
    left = len(dtype.names) - len(counted)
    return [*found, ("more fields", f"{left:,}")] if left > 0 else found


def statistics_of_items(items: np.ndarray[Any, Any]) -> Rows:
    """The same of items that were read already."""
    counted = tallies(items.dtype)
    for name, tally in counted.items():
        tally.add(np.asarray(items[name] if name else items))
    return rows_of(counted, items.dtype)
