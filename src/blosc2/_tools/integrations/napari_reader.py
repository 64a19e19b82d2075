"""napari's way to the images of a store: leaves of two axes or more, and pyramids. Only what is shown is decoded."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from blosc2._arrays import axis_names
from blosc2._frames import is_directory_frame
from blosc2._opening import open as open_path
from blosc2._stores import Store, children_of
from blosc2.exceptions import FormatError
from blosc2.ndarray import NDArray
from blosc2.tree_store import TreeStore

#: Data, keywords of the layer, and its kind, as napari takes it.
Layer = tuple[Any, dict[str, Any], str]

_SUFFIXES: Final = (".b2nd", ".b2z", ".b2e", ".b2d")
# So many layers can still be told apart; a store may have millions of leaves.
_MOST_LAYERS: Final = 32
_LEVEL: Final = re.compile(r"(?:level|scale|resolution|s)?[_-]?(\d{1,3})", re.IGNORECASE)
_LABELS: Final = re.compile(r"(?:.*[_-])?(?:masks?|labels?|seg|segmentation)", re.IGNORECASE)
_COLOURS: Final = frozenset(("colour", "color", "colours", "colors", "rgb", "rgba", "s"))  # TIFF: samples
# More bytes than these are not read to find out how bright an image is.
_LARGE: Final = 16 << 20
# From the slowest to the fastest axis of what is shown.
_SPACE: Final = {"z": 1, "plane": 1, "y": 2, "row": 2, "x": 3, "column": 3}


def get_reader(path: str | list[str]) -> Callable[[Any], list[Layer]] | None:
    """A function that reads a path, or None if it is none of this package."""
    if isinstance(path, list):
        if len(path) != 1:
            return None
        path = path[0]
    name = os.fspath(path).rstrip("/\\")
    return read if name.endswith(_SUFFIXES) and os.path.exists(name) else None


def read(path: Any) -> list[Layer]:
    """The images of a file, as layers. There may be none."""
    name = os.fspath(path[0] if isinstance(path, list) else path).rstrip("/\\")
    found: Any = open_path(name, mode="r", mmap_mode=None if is_directory_frame(name) else "r")
    if isinstance(found, NDArray):
        label = os.path.splitext(os.path.basename(name))[0]
        return [_layer(label, [found], found.vlmeta[:])] if _is_image(found) else []
    if not isinstance(found, Store):
        return []
    layers: list[Layer] = []
    with found:  # its arrays stay valid
        for layer in _images(found, "", {}):
            if len(layers) == _MOST_LAYERS:
                warnings.warn(
                    f"{name} has more than {_MOST_LAYERS} images; these are the first. "
                    "viewer.add_image(blosc2.open(path)[key]) shows another",
                    stacklevel=2,
                )
                break
            layers.append(layer)
    layers.sort(key=lambda layer: layer[2] == "labels")  # napari draws them on those before
    for _, keywords, _ in layers[1:]:
        keywords["visible"] = False
    return layers


def _is_image(leaf: Any) -> bool:
    return type(leaf) is NDArray and leaf.dtype.kind in "biuf" and leaf.ndim >= 2 and 0 not in leaf.shape


def _images(store: Any, group: str, above: Mapping[str, Any]) -> Iterator[Layer]:
    """The images below a group, whose attributes hold for them, too."""
    groups, names = children_of(store, group)
    own = store.get_subtree(group).attrs[:] if group and isinstance(store, TreeStore) else {}
    attributes = {**above, **own}
    leaves: dict[str, NDArray] = {}
    for name in names if len(names) <= 4 * _MOST_LAYERS else sorted(names)[: 4 * _MOST_LAYERS]:
        try:
            leaf = store[f"{group}/{name}"]
        except (FormatError, NotImplementedError) as error:
            warnings.warn(f"{group}/{name} cannot be shown: {error}", stacklevel=2)
            continue
        if _is_image(leaf):
            leaves[name] = leaf
    levels = _levels(leaves)
    if levels:
        yield _layer(group.strip("/") or "image", levels, {**attributes, **levels[0].vlmeta[:]})
    else:
        for name in sorted(leaves):
            yield _layer(f"{group}/{name}".strip("/"), [leaves[name]], {**attributes, **leaves[name].vlmeta[:]})
    for name in sorted(groups):
        yield from _images(store, f"{group}/{name}", attributes)


def _levels(leaves: Mapping[str, NDArray]) -> list[NDArray]:
    """The levels of a pyramid, if the leaves of a group are one: numbered, and each smaller than the one before."""
    numbers = {name: match[1] for name in leaves if (match := _LEVEL.fullmatch(name))}
    if len(numbers) < 2 or len(numbers) < len(leaves):
        return []
    levels = [leaves[name] for name in sorted(leaves, key=lambda name: int(numbers[name]))]
    for before, after in pairwise(levels):
        if before.ndim != after.ndim or before.dtype != after.dtype or not after.size < before.size:
            return []
        if any(n > m for n, m in zip(after.shape, before.shape, strict=True)):
            return []
    return levels


def _layer(name: str, levels: list[NDArray], attributes: Mapping[str, Any]) -> Layer:
    first = levels[0]
    keywords: dict[str, Any] = {"name": name}
    axes = axis_names(attributes, first.ndim)
    order = list(range(first.ndim))
    is_rgb = first.ndim > 2 and first.shape[-1] in (3, 4) and bool(axes) and axes[-1] in _COLOURS
    if axes:
        order = sorted(order, key=lambda axis: (axes[axis] in _COLOURS, _SPACE.get(axes[axis], 0)))
        shown = [axis for axis in order if not (is_rgb and axis == first.ndim - 1)]
        keywords["axis_labels"] = tuple(axes[axis] for axis in shown)
        scale = _scale(attributes, axes)
        if scale is not None:
            keywords["scale"] = [scale[axis] for axis in shown]
    is_labels = first.dtype.kind in "biu" and not is_rgb and _LABELS.fullmatch(name.rpartition("/")[2]) is not None
    data: list[Any] = list(levels)
    if order != sorted(order) or (is_labels and first.dtype.kind == "b"):  # labels are numbers
        dtype = np.dtype("u1") if is_labels and first.dtype.kind == "b" else first.dtype
        data = [_reordered(level, order, dtype) for level in levels]
    keywords["multiscale"] = len(data) > 1
    if is_rgb:
        keywords["rgb"] = True
    elif not is_labels and (limits := _limits(levels[-1])) is not None:
        keywords["contrast_limits"] = limits
    return (data if len(data) > 1 else data[0]), keywords, "labels" if is_labels else "image"


def _scale(attributes: Mapping[str, Any], axes: list[str]) -> list[float] | None:
    sizes = attributes.get("voxel_sizes")
    space = [axis for axis, name in enumerate(axes) if name in _SPACE]
    if not isinstance(sizes, (list, tuple)) or len(sizes) != len(space):
        return None
    scale = [1.0] * len(axes)
    for axis, size in zip(space, sizes, strict=True):
        if isinstance(size, bool) or not isinstance(size, (int, float)) or not 0 < size < float("inf"):
            return None
        scale[axis] = float(size)
    return scale


def _limits(level: NDArray) -> tuple[float, float] | None:
    """The least and the greatest item of the smallest level, or of its middle if that is large."""
    if level.dtype.kind not in "iuf" or level.dtype == np.uint8:  # which napari knows without looking
        return None
    part = [slice(None)] * level.ndim
    size = level.size
    for axis, length in enumerate(level.shape):
        if size * level.dtype.itemsize <= _LARGE:
            break
        part[axis] = slice(length // 2, length // 2 + 1)
        size //= length
    items = level[tuple(part)]
    items = items[np.isfinite(items)] if items.dtype.kind == "f" else items
    if not items.size or items.min() == items.max():
        return None
    return float(items.min()), float(items.max())


def _reordered(array: NDArray, order: list[int], dtype: np.dtype[Any]) -> Any:
    """An array with its axes in another order, of which items are read when they are asked for."""
    import dask.array  # napari needs it

    return dask.array.from_array(array, array.chunks).transpose(order).astype(dtype)
