"""Where the voxels of each class are, as a small array that is stored beside a volume."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from blosc2._tools.loading.order import Permutation, mixed_all
from blosc2.ndarray import NDArray

Places = np.ndarray[Any, np.dtype[np.int32]]


def foreground_index(mask: Any, count: int = 10_000, *, background: int = 0, seed: int = 0) -> Places:
    """Where voxels of each class are: what `PatchSampler` draws foreground patches by. Store it beside the volume.

    Parameters
    ----------
    mask : NDArray or array_like of int
        The class of each voxel. Negative classes are left out, like the background.
    count : int
        At most so many voxels of each class, drawn at random; of a class with fewer, all.
    background : int
        A class that is no foreground.
    seed : int

    Returns
    -------
    ndarray of int32, shape (rows, 1 + mask.ndim)
        In each row a class and the coordinates of a voxel, sorted by class, without rows where there is no foreground.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> mask = np.zeros((4, 5), "u1")
    >>> mask[1, 2], mask[3, 4] = 7, 2
    >>> blosc2.foreground_index(mask)
    array([[2, 3, 4],
           [7, 1, 2]], dtype=int32)
    """
    items = mask[...] if isinstance(mask, NDArray) else np.asarray(mask)
    if items.dtype.kind not in "iub":
        raise TypeError(f"a mask of integer classes is needed, not of {items.dtype}")
    if max(items.shape, default=0) >= 1 << 31:
        raise ValueError(f"a mask of shape {items.shape} has coordinates above 2**31 - 1")
    count = operator.index(count)
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    flat = items.reshape(-1)
    found = []
    for label in np.unique(flat).tolist():
        if label == background or label < 0:
            continue
        if label >= 1 << 31:
            raise ValueError(f"class {label} is above 2**31 - 1")
        voxels = np.flatnonzero(flat == label)
        if len(voxels) > count:
            voxels = voxels[np.sort(Permutation(len(voxels), mixed_all(seed, label))[:count])]
        rows = np.empty((len(voxels), 1 + items.ndim), np.int32)
        rows[:, 0] = label
        rows[:, 1:] = np.stack(np.unravel_index(voxels, items.shape), axis=1)
        found.append(rows)
    return np.concatenate(found) if found else np.empty((0, 1 + items.ndim), np.int32)


def class_starts(index: Any) -> Any:
    """Where the rows of each class begin in an index, and where the last ends, found by its first column.

    Raises
    ------
    ValueError
        It is no such index.
    """
    if index.ndim != 2 or index.dtype.kind not in "iu" or index.shape[1] < 2:
        raise ValueError(f"no index of foreground_index: shape {index.shape}, dtype {index.dtype}")
    column = np.asarray(index[:, 0]).astype(np.int64)
    if np.any(column[1:] < column[:-1]):
        raise ValueError("no index of foreground_index: its classes are not sorted")
    if not len(column):
        return np.zeros(1, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(column)) + 1, [len(column)]])
