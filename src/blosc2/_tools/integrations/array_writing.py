"""Making arrays of what other libraries hold, box by box, and writing boxes of existing ones."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import numpy as np

from blosc2._arrays import ArrayPlan, made, slabs_in
from blosc2._core.ndim.gaps import as_dtype
from blosc2._core.ndim.geometry import Geometry
from blosc2._files import Owner
from blosc2._options import absolute_path
from blosc2.ndarray import NDArray

# Arrays of more uncompressed bytes wait in a file.
_LARGE: Final = 64 << 20

#: Takes a box, a slice with start and stop for each axis, and gives its items.
Reader = Callable[[tuple[slice, ...]], Any]


class ScratchFolder:
    """A folder beside a store, in which arrays wait until they are published. It is made when first needed.

    Parameters
    ----------
    beside : str
        The store.
    """

    def __init__(self, beside: str) -> None:
        self._beside = absolute_path(beside)
        self._made: str | None = None
        self._count = 0

    def new_path(self) -> str:
        """The path of another file."""
        if self._made is None:
            name = f".{os.path.basename(self._beside)}."
            self._made = tempfile.mkdtemp(".tmp", name, os.path.dirname(self._beside))
        self._count += 1
        return os.path.join(self._made, f"{self._count}.b2nd")

    def new_folder(self) -> str:
        """The path of another folder, which exists."""
        path = f"{self.new_path()}.parts"
        Owner().mkdir(path)
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._made is not None:
            remove_folder(self._made)


def remove_folder(folder: str) -> None:
    """Remove a folder, although a task that is not wanted any more may be writing to it just now."""
    for pause in (0, 0.01, 0.1, 0.5, 1):
        time.sleep(pause)
        Owner().remove_tree(folder, strict=False)
        if not os.path.lexists(folder):
            return


def new_array(
    shape: tuple[int, ...], dtype: Any, read: Reader, keywords: Mapping[str, Any], scratch: ScratchFolder,
    attributes: Mapping[str, Any],
) -> NDArray:  # fmt: skip
    """A compressed array of items that are read box by box, in memory or, if it is large, in a file."""
    plan = ArrayPlan(shape, dtype, {**keywords, **where_to(shape, dtype, scratch)})
    array = NDArray._of(plan.write(made(plan, lambda box: as_dtype(read(box), plan.dtype))))
    if attributes:
        array.vlmeta.update(attributes)
    return array


def where_to(shape: tuple[int, ...], dtype: Any, scratch: ScratchFolder) -> dict[str, Any]:
    """Keywords that say where a new array waits: in memory, or in a file, which is synced where it is published."""
    nbytes = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    return {} if nbytes <= _LARGE else {"urlpath": scratch.new_path(), "mode": "w", "durable": False}


def write_box(array: NDArray, starts: tuple[int, ...], shape: tuple[int, ...], read: Reader) -> None:
    """Write items to a box of an existing array, slab by slab.

    Parameters
    ----------
    array : NDArray
    starts, shape : tuple of int
        The box in the array.
    read : callable
        Takes a box relative to the first item of this one.
    """
    if not shape:
        array[()] = np.asarray(read(()))
        return
    if 0 in shape:
        return
    # Slabs of the whole array, cut to the box: each chunk is compressed once, and those beside the box not at all.
    stops = tuple(start + n for start, n in zip(starts, shape, strict=True))
    first = tuple(start // c * c for start, c in zip(starts, array.chunks, strict=True))
    geometry = Geometry(
        tuple(stop - low for stop, low in zip(stops, first, strict=True)),
        array.chunks,
        array.blocks,
        array.dtype.itemsize,
    )
    for slab in slabs_in(geometry):
        low = [max(f + s, start) for f, s, start in zip(first, slab.starts, starts, strict=True)]
        high = [f + s + n for f, s, n in zip(first, slab.starts, slab.counts, strict=True)]
        if all(a < b for a, b in zip(low, high, strict=True)):
            items = read(tuple(slice(a - s, b - s) for a, b, s in zip(low, high, starts, strict=True)))
            array[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = np.asarray(items)
