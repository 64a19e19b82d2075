"""Views: the data of an array with another shape, which differs only in axes of length 1.

Such axes do not change where items lie in a chunk or block, as long as chunks have length 1 on them. So a view reads
and writes the frame of the original array, with a geometry of more or fewer axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from blosc2._arrays.slabs import Snapshot, converted, plan_like
from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry
from blosc2._files import ByteRange
from blosc2._frames import CHOICE, PADDING, AnyChunk, Copies, FrameHandle
from blosc2.exceptions import ParameterError

if TYPE_CHECKING:
    from blosc2.ndarray import NDArray

#: As many as an array can have.
MAX_AXES: Final = 16

#: For each axis of a view, the axis of the array below it, or None for one of length 1 that was put in.
Axes = tuple[int | None, ...]


def seen_through(geometry: Geometry, axes: Axes) -> Geometry:
    """The geometry of a view.

    `ValueError` for an axis that is left out with other items than one, or with chunks that have room for more.
    """
    for axis in set(range(geometry.ndim)).difference(n for n in axes if n is not None):
        if geometry.shape[axis] != 1:
            raise ParameterError(
                f"cannot select an axis to squeeze out which has size not equal to one: axis {axis} of {geometry.shape}"
            )
        if geometry.chunks[axis] > 1:
            raise ValueError(
                f"axis {axis} cannot be squeezed out without moving data: its chunks have room for "
                f"{geometry.chunks[axis]} items; use reshape, which copies"
            )
    shape, chunks, blocks = (
        tuple(1 if n is None else lengths[n] for n in axes)
        for lengths in (geometry.shape, geometry.chunks, geometry.blocks)
    )
    return Geometry(shape, chunks, blocks, geometry.itemsize)


def squeezed_axes(shape: tuple[int, ...], axis: Any) -> Axes:
    """The axes of a view without the named ones or, if none is named, without all of length 1."""
    if axis is None:
        return tuple(n for n, length in enumerate(shape) if length != 1)
    gone = normalize_axis_tuple(axis, len(shape))
    return tuple(n for n in range(len(shape)) if n not in gone)


def expanded_axes(ndim: int, axis: Any) -> Axes:
    """The axes of a view with new axes at the positions that are named."""
    many = len(axis) if isinstance(axis, (tuple, list)) else 1
    if ndim + many > MAX_AXES:
        raise ValueError(f"{ndim + many} axes are too many: at most {MAX_AXES} are possible")
    new = normalize_axis_tuple(axis, ndim + many)
    old = iter(range(ndim))
    return tuple(None if n in new else next(old) for n in range(ndim + many))


def _below(name: str) -> Any:
    """What the handle of the array below a view has of this name."""
    return property(attrgetter(f"base._handle.{name}"))


class ViewHandle(FrameHandle):
    """The handle of another array, with axes of length 1 added or removed; see `Axes`.

    What is not defined here, and was not assigned here, is that of `base`, the array below, which is no view itself.
    """

    __slots__ = ("_seen", "axes", "base")
    axes: Axes
    base: NDArray

    def __init__(self, array: NDArray, axes: Axes) -> None:
        below = array._handle
        if isinstance(below, ViewHandle):
            array = below.base
            axes = tuple(None if n is None else below.axes[n] for n in axes)
        found = array._handle.array
        assert found is not None
        self.base = array
        self.axes = axes
        # The last version seen, and the one that it was made from. One tuple, because any thread may replace it.
        self._seen = (found, (seen_through(found[0], axes), *found[1:]))

    def __getattr__(self, name: str) -> Any:
        # Called for attributes without a value here, such as `frame`, `urlpath` and `version`.
        return getattr(self.base._handle, name)

    @property
    def array(self) -> tuple[Geometry, np.dtype[Any], Frame]:  # type: ignore[override]  # is never assigned here
        """Geometry of the view, dtype and frame."""
        below = self.base._handle.array
        made_of, seen = self._seen
        if below is not made_of:
            assert below is not None
            geometry = seen[0] if below[0] is made_of[0] else self._geometry_now(below[0])
            seen = (geometry, *below[1:])
            self._seen = (below, seen)
        return seen

    @property
    def cbytes(self) -> int:
        return self.base.cbytes

    def _geometry_now(self, geometry: Geometry) -> Geometry:
        try:
            return seen_through(geometry, self.axes)
        except ValueError:
            raise ValueError(
                f"the array below this view was given the shape {geometry.shape}, which the view cannot show any more"
            ) from None

    # ------------------------------------------------------------ changes
    writable, locking = _below("writable"), _below("locking")
    editing, holding, transaction = _below("editing"), _below("holding"), _below("transaction")
    require_writable, publish, spool = _below("require_writable"), _below("publish"), _below("spool")
    refresh, flush = _below("refresh"), _below("flush")

    # ------------------------------------------------------------ copies
    def byte_range(self) -> ByteRange:
        return self.copied(self.array[1], {}).byte_range()

    def to_cframe(self) -> bytes:
        """A frame with the shape of the view."""
        return self.copied(self.array[1], {}).to_cframe()

    def copied(self, dtype: np.dtype[Any], keywords: Mapping[str, Any]) -> FrameHandle:
        """A new array with the metadata of the one below. See `NDArray.copy` for the keywords."""
        source = Snapshot.of(self)
        geometry, dtype_now, frame = source.version
        keywords = dict(keywords)
        as_stored = keywords.get("cparams") is None and not frame.needs_geometry
        declared = self.cparams
        # Where this package can compress with them: others are bare numbers.
        if as_stored and all(hasattr(item, "name") for item in (declared.codec, *declared.filters)):
            keywords["cparams"] = self.usable_cparams
        fitting = {"chunks": geometry.chunks, "blocks": geometry.blocks} if dtype.itemsize == geometry.itemsize else {}
        plan = plan_like(self.base, geometry.shape, dtype, keywords, **fitting)
        kept = {name: packed for name, packed in frame.metalayers().items() if name not in ("b2nd", PADDING, CHOICE)}
        plan.metalayers = {"b2nd": plan.metalayers["b2nd"], **kept, **plan.metalayers}
        chunks: Iterable[AnyChunk]
        same = (plan.geometry.chunks, plan.geometry.blocks) == (geometry.chunks, geometry.blocks)
        if as_stored and dtype == dtype_now and same:
            chunks = Copies([(frame, 0, geometry.nchunks)])
        else:
            chunks = converted(source, plan)
        return plan.write(chunks, vlmeta=frame.vlmeta_chunks())
