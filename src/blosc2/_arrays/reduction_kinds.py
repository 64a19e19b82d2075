"""What each reduction does with a piece of the items, and how two pieces are joined.

A state has one value for each item of the result, with axes of length 1 where the items were reduced. Sums are joined
in a wider type than NumPy uses, so that many pieces lose no more than NumPy does.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._core.io.sharing import item_of

Items = np.ndarray[Any, Any]
State = tuple[Any, ...]

#: In which types sums of floating point numbers are joined.
_WIDER: Final = {"e": np.float64, "f": np.float64, "F": np.complex128}


class Asked(NamedTuple):
    """A reduction: of which items, along which axes, and the type of its result."""

    name: str
    shape: tuple[int, ...]
    items: np.dtype[Any]
    axes: tuple[int, ...]
    result: np.dtype[Any]
    dtype: np.dtype[Any] | None
    ddof: float
    initial: Any
    flat: bool  # whether no axis was named


class Fold:
    """`sum`, `prod`, `min`, `max`, `any` and `all`: one function of two items."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.function = _FUNCTIONS[asked.name]
        self.work: Any = None
        self.wide: Any = None
        if asked.name in ("sum", "prod", "mean"):
            self.work, self.wide = _types_of_sums(asked)

    def partial(self, items: Items, mask: Items | None, starts: tuple[int, ...]) -> State:  # noqa: ARG002
        """The state of some items; a mask says which of them count. `starts` is the index of the first one."""
        return (self._folded(items, mask),)

    def _folded(self, items: Items, mask: Items | None) -> Items:
        options: dict[str, Any] = {} if self.work is None else {"dtype": self.work}
        if mask is not None:
            options["where"] = mask
            if self.function in (np.minimum, np.maximum):
                options["initial"] = self.asked.initial
        found: Items = self.function.reduce(items, axis=self.asked.axes, keepdims=True, **options)
        return found if self.wide is None else found.astype(self.wide, copy=False)

    def constant(self, value: Any, counts: tuple[int, ...], starts: tuple[int, ...]) -> State:  # noqa: ARG002
        """The state of a box full of one value."""
        return (np.full(self._kept(counts), self._repeated(value, self._reduced(counts))),)

    def _kept(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(1 if axis in self.asked.axes else n for axis, n in enumerate(counts))

    def _reduced(self, counts: tuple[int, ...]) -> int:
        return math.prod(counts[axis] for axis in self.asked.axes)

    def _repeated(self, value: Any, count: int) -> Any:
        """A value folded with itself, by doubling what there is."""
        one = self._folded(np.asarray(value).reshape((1,) * len(self.asked.shape)), None).reshape(())
        if self.function not in (np.add, np.multiply):
            return one
        found = None
        while True:
            if count & 1:
                found = one if found is None else self.function(found, one)
            count >>= 1
            if not count:
                return found
            one = self.function(one, one)

    def joined(self, first: State, second: State) -> State:
        """The state of the items of both, of which those of the first come first."""
        return (self.function(first[0], second[0]),)

    def is_settled(self, state: State) -> bool:
        """Whether other items change nothing."""
        if self.asked.name == "any":
            return bool(np.all(state[0]))
        return self.asked.name == "all" and not np.any(state[0])

    def finished(self, state: State) -> Items:
        """The items of the result."""
        found: Items = state[0]
        if self.asked.initial is not None:
            found = self.function(found, np.asarray(self.asked.initial).astype(self.asked.result))
        return found.astype(self.asked.result, copy=False)


class Mean(Fold):
    """`mean`: a sum, and how many items it has."""

    def partial(self, items: Items, mask: Items | None, starts: tuple[int, ...]) -> State:  # noqa: ARG002
        return self._folded(items, mask), counted(mask, self._reduced(items.shape), self.asked.axes)

    def constant(self, value: Any, counts: tuple[int, ...], starts: tuple[int, ...]) -> State:
        return *super().constant(value, counts, starts), self._reduced(counts)

    def joined(self, first: State, second: State) -> State:
        return np.add(first[0], second[0]), first[1] + second[1]

    def finished(self, state: State) -> Items:
        total, count = state
        if np.any(np.equal(count, 0)):
            warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
        return np.asarray(np.true_divide(total, count)).astype(self.asked.result, copy=False)


class Variance(Fold):
    """`var` and `std`: how many items, their mean, and the sum of the squares of what they differ from it.

    The mean is a number near it and what is to be added, so that means of numbers far from 0 lose nothing. Two states
    are joined as Chan, Golub and LeVeque do ("Algorithms for computing the sample variance", 1983).
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        given = asked.items if asked.dtype is None else asked.dtype
        if given.kind not in "fc":
            given = np.dtype(np.float64)
        self.work = np.dtype(np.float32) if given.char == "e" else given.newbyteorder("=")
        self.wide = np.dtype(item_of(_WIDER, self.work.char, self.work))
        self.function = np.add

    def partial(self, items: Items, mask: Items | None, starts: tuple[int, ...]) -> State:  # noqa: ARG002
        axes = self.asked.axes
        count = counted(mask, self._reduced(items.shape), axes)
        some = np.maximum(count, 1)
        near = (self._folded(items, mask) / some).astype(self.work, copy=False)
        apart = np.subtract(items, near, dtype=self.work)
        where: dict[str, Any] = {} if mask is None else {"where": mask}
        rest = np.add.reduce(apart, axis=axes, keepdims=True, **where).astype(self.wide, copy=False)
        squares = np.add.reduce(squared(apart, out=True), axis=axes, keepdims=True, **where)
        rest /= some
        squares, lost = squares.astype(self.wide.char.lower(), copy=False), some * squared(rest)
        spread = squares - np.where(np.isfinite(squares), lost, 0)
        return count, near.astype(self.wide, copy=False), rest, np.maximum(spread, 0)

    def constant(self, value: Any, counts: tuple[int, ...], starts: tuple[int, ...]) -> State:  # noqa: ARG002
        near = np.full(self._kept(counts), np.asarray(value).astype(self.wide))
        rest = near - near  # 0, or NaN
        return self._reduced(counts), near, rest, squared(rest)

    def joined(self, first: State, second: State) -> State:
        (before, near, rest, spread), (after, other, more, spread_of_other) = first, second
        if np.any(before == 0):
            near, rest = np.where(before == 0, other, near), np.where(before == 0, more, rest)
        count = before + after
        apart = (other - near) + (more - rest)
        part = after / np.maximum(count, 1)
        between = before * part
        return (
            count, near, rest + apart * part,
            spread + spread_of_other + np.where(between, squared(apart) * between, 0),
        )  # fmt: skip

    def finished(self, state: State) -> Items:
        count, _, _, spread = state
        freedom = np.maximum(count - self.asked.ddof, 0)
        if np.any(freedom <= 0):
            warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        found = np.true_divide(spread, freedom)
        if self.asked.name == "std":
            found = np.sqrt(found)
        return np.asarray(found).astype(self.asked.result, copy=False)


class Position(Fold):
    """`argmin` and `argmax`: values, and their numbers along the axis or, if none was named, in C order."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.find: Any = getattr(np, asked.name)

    def partial(self, items: Items, mask: Items | None, starts: tuple[int, ...]) -> State:  # noqa: ARG002
        if not self.asked.flat:
            (axis,) = self.asked.axes
            number = self.find(items, axis=axis, keepdims=True)
            return np.take_along_axis(items, number, axis), number + starts[axis]
        place = np.unravel_index(int(self.find(items)), items.shape)
        return self._at(items[tuple(slice(n, n + 1) for n in place)].copy(), np.add(place, starts))

    def _at(self, value: Items, place: Any) -> State:
        number = np.ravel_multi_index([int(n) for n in place], self.asked.shape)
        return value, np.full(value.shape, number, np.int64)

    def constant(self, value: Any, counts: tuple[int, ...], starts: tuple[int, ...]) -> State:
        values = np.full(self._kept(counts), value, self.asked.items)
        if self.asked.flat:
            return self._at(values, starts)
        return values, np.full(values.shape, starts[self.asked.axes[0]], np.int64)

    def joined(self, first: State, second: State) -> State:
        # The one with the lower number first, which then counts where both have the same value.
        swapped = second[1] < first[1]
        values = np.stack([np.where(swapped, second[0], first[0]), np.where(swapped, first[0], second[0])])
        numbers = np.stack([np.minimum(first[1], second[1]), np.maximum(first[1], second[1])])
        chosen = self.find(values, axis=0, keepdims=True)
        return np.take_along_axis(values, chosen, 0)[0], np.take_along_axis(numbers, chosen, 0)[0]

    def finished(self, state: State) -> Items:
        found: Items = state[1]
        return found.astype(self.asked.result, copy=False)


_FUNCTIONS: Final[dict[str, Any]] = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip
_KINDS: Final[dict[str, type[Fold]]] = {
    "mean": Mean, "var": Variance, "std": Variance, "argmin": Position, "argmax": Position,
}  # fmt: skip


def kind_of(asked: Asked) -> Fold:
    """What does a reduction."""
    return item_of(_KINDS, asked.name, Fold)(asked)


def squared(numbers: Any, out: bool = False) -> Any:
    """The squares of the absolute values, in the place of the numbers if these are not needed any more."""
    if np.iscomplexobj(numbers):
        return np.square(numbers.real) + np.square(numbers.imag)
    return np.square(numbers, out=numbers if out else None)


def counted(mask: Items | None, count: int, axes: tuple[int, ...]) -> Any:
    """How many items count, for each item of the result."""
    return count if mask is None else np.add.reduce(mask, axis=axes, keepdims=True, dtype=np.int64)


def _types_of_sums(asked: Asked) -> tuple[Any, Any]:
    """The type in which the items of a piece are summed or multiplied, and that in which pieces are joined."""
    given, result = asked.dtype, asked.result
    if asked.name == "mean" and given is None and asked.items.kind in "iub":
        # Sums of a piece are exact in int64, unless its items may be as large.
        return (np.int64 if asked.items.itemsize < 8 else np.float64), np.float64
    if result.kind == "m":  # whose unit NumPy takes from the items
        return None, None
    work = result if given is None else given.newbyteorder("=")
    if work.char == "e":
        work = np.dtype(np.float32)
    return work, item_of(_WIDER, work.char, work)
