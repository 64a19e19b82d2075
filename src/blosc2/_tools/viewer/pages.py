"""What part of an array is on the screen: pure arithmetic, which reads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blosc2._tools.selections import Axis, has_colours


@dataclass(frozen=True)
class Page:
    """A place in an array: which axes are the rows and columns, and where it is on each axis.

    Examples
    --------
    >>> page = Page.of((50, 200, 300), np.dtype("f8"))
    >>> page.window(20, 6)
    [25, range(0, 20), range(0, 6)]
    >>> page.stepped(1).scrolled(1000, 5, 20, 6).window(20, 6)
    [26, range(180, 200), range(5, 11)]

    Attributes
    ----------
    shape : tuple of int
    rows, columns : int or None
        The axes that go down and to the right; None if the array has fewer axes.
    at : tuple of int
        Of the rows and columns the first that is shown, of the other axes the item.
    other : int or None
        The axis that `stepped` moves along.
    """

    shape: tuple[int, ...]
    rows: int | None
    columns: int | None
    at: tuple[int, ...]
    other: int | None

    @classmethod
    def of(cls, shape: Sequence[int], dtype: np.dtype[Any]) -> Page:
        """The middle of all axes but the last two; a last axis of colours is one of the others."""
        ndim = len(shape)
        last = ndim - 1 if ndim > 2 and has_colours(dtype, shape[-1]) else ndim
        rows = None if not ndim else max(last - 2, 0)
        columns = last - 1 if ndim > 1 else None
        at = [length // 2 for length in shape]
        for side in (rows, columns):
            if side is not None:
                at[side] = 0
        if last < ndim:
            at[-1] = 0
        others = [axis for axis in range(ndim) if axis not in (rows, columns)]
        return cls(tuple(shape), rows, columns, tuple(at), others[0] if others else None)

    @property
    def sides(self) -> list[int]:
        """The axes of the plane."""
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

    def pictured(self, dtype: np.dtype[Any]) -> list[Axis]:
        """The plane, with the colours of its items if they have any."""
        axes = self.plane()
        if len(self.sides) == 2 and len(axes) - 1 not in self.sides and has_colours(dtype, self.shape[-1]):
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
        """The next axis goes down."""
        return self if self.columns is None else self._with_sides(self._free(self.rows, self.columns), self.columns)

    def next_columns(self) -> Page:
        """The next axis goes to the right."""
        return self if self.columns is None else self._with_sides(self.rows, self._free(self.columns, self.rows))

    def transposed(self) -> Page:
        """Rows become columns."""
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
