"""What an index names of each axis of an array: reading it in pieces, and planes of it as pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._display import grey, have_colours, human_size, in_label_colours, labels_of, limits, number
from blosc2._indexing import basic_selection
from blosc2._options import RemotePath

#: The attribute of an array that lists the names of its axes, as zarr 2 has it.
DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
#: What is selected of an axis: one item, or several.
Axis = int | range


def axes_of(key: tuple[Any, ...], shape: Sequence[int]) -> list[Axis]:
    """What an index selects of each axis of an array."""
    assert basic_selection(key, tuple(shape)) is not None  # it raises what is wrong with the index
    at = key.index(...) if ... in key else len(key)
    rest = key[at + 1 :]
    full = [*key[:at], *[slice(None)] * (len(shape) - at - len(rest)), *rest]
    return [
        range(length)[part] if isinstance(part, slice) else part % length
        for part, length in zip(full, shape, strict=True)
    ]


def index_of(axes: Sequence[Axis]) -> tuple[int | slice, ...]:
    """The index that selects these items."""
    return tuple(_slice_of(axis) if isinstance(axis, range) else axis for axis in axes)


def _slice_of(axis: range) -> slice:
    if not axis:
        return slice(0, 0)
    return slice(axis.start, axis.stop if axis.stop >= 0 else None, axis.step)


def shape_of(axes: Sequence[Axis]) -> tuple[int, ...]:
    return tuple(len(axis) for axis in axes if isinstance(axis, range))


def pieces(array: Any, axes: Sequence[Axis], most: int) -> Iterator[np.ndarray[Any, Any]]:
    """The selected items of an array in their order, about `most` bytes at a time.

    Each piece is a part along the first axis. If one row is larger, the pieces are those of the first row, then those
    of the second, and so on, without the first axis.
    """
    first = next((number for number, axis in enumerate(axes) if isinstance(axis, range)), None)
    size = math.prod(shape_of(axes)) * array.dtype.itemsize
    if first is None or size <= most:
        yield np.asarray(array[index_of(axes)])
        return
    items = axes[first]
    assert isinstance(items, range)
    row = size // len(items)
    if row > most:
        for item in items:
            yield from pieces(array, [*axes[:first], item, *axes[first + 1 :]], most)
        return
    height = most // row
    for unit in (array.chunks[first], array.blocks[first]):  # what is decoded at once is decoded once
        if height >= unit:
            height -= height % unit
            break
    for start in range(0, len(items), height):
        yield np.asarray(array[index_of([*axes[:first], items[start : start + height], *axes[first + 1 :]])])


# ------------------------------------------------------------------ planes as pictures
#: The largest number of pixels of one side: it bounds what is in memory.
LONGEST = 2048
# So many items of a short side are shown, however long the other is.
_FEWEST = 8
# How many pixels high a picture of one axis is.
_STRIP = 16


class Picture(NamedTuple):
    """A plane that was read: its items, and these as grey values or colours of uint8, which lie on a last axis.

    `axes` is what was read of each axis of the array, `whole` the lengths of the sides of the plane, read or not; `low`
    and `high` became black and white. `labels` are the integers that have a colour each, if there are so few.
    """

    items: np.ndarray[Any, Any]
    pixels: np.ndarray[Any, Any]
    axes: list[Axis]
    whole: list[int]
    low: float
    high: float
    in_colour: bool
    labels: tuple[int, ...] = ()
    #: How the items were made of the stored ones; nothing where they are these.
    meaning: str = ""
    #: Of which planes the limits or labels are; nothing where they are those of this plane.
    of_planes: str = ""

    def size(self) -> str:
        shown = " x ".join(f"{length:,}" for length in self.items.shape[: len(self.whole)])
        total = " x ".join(f"{length:,}" for length in self.whole)
        return shown if shown == total else f"{shown} of {total}"

    def scale(self) -> str:
        if self.labels:
            return f"labels {', '.join(map(str, sorted(self.labels)))}: a colour each{self.of_planes}"
        if self.in_colour:
            return self.meaning or "colours"
        found = f"{self.low:.6g} is black, {self.high:.6g} is white{self.of_planes}"
        return found + (f"; {self.meaning}" if self.meaning else "")

    def opaque_where_known(self) -> np.ndarray[Any, Any]:
        """The pixels of a file: one axis as a strip, and NaN without opacity."""
        pixels, items = self.pixels, self.items
        if items.ndim == 1:
            pixels, items = np.repeat(pixels[None], _STRIP, axis=0), np.repeat(items[None], _STRIP, axis=0)
        missing = np.isnan(items)
        if self.in_colour or not missing.any():
            return pixels
        opacity = np.where(missing, 0, 255).astype(np.uint8)
        return np.stack([pixels, pixels, pixels, opacity], axis=-1)


def check_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise ValueError("complex numbers have no grey values; store their np.abs or np.angle, and show that")
    if dtype.names and not _are_colours(dtype):
        raise ValueError("records have no grey values; store one of their fields, and show that")
    if dtype.kind not in "biuf" and not dtype.names:
        raise ValueError(f"items of dtype {dtype} have no grey values; 'blosc2 cat' prints them")


def _are_colours(dtype: np.dtype[Any]) -> bool:
    """Whether records are colours, as NIfTI has them: bytes of red, green and blue, and maybe of opacity."""
    names = "".join(dtype.names or ()).lower()
    return names in ("rgb", "rgba") and dtype == np.dtype([(name, "u1") for name in dtype.names or ()])


# The names of axes that go down and to the right, and what TIFF files and Pillow call colours.
_DOWN = ("y", "lat", "latitude", "row", "rows", "height", "nlat", "rlat", "projection_y_coordinate")
_RIGHT = ("x", "lon", "longitude", "column", "columns", "width", "nlon", "rlon", "projection_x_coordinate")
_COLOURS = ("rgb", "rgba", "p")
# Last axes that are none, however few items they have.
_NO_COLOURS = ("z", "t", "time")


def axis_names(attributes: Mapping[str, Any], ndim: int) -> list[str]:
    """The names of all axes in small letters, as zarr, netCDF and TIFF files have them; [] if none are known."""
    for name in (DIMENSIONS, "axes"):
        found = _attribute(attributes, name)
        if isinstance(found, (str, list, tuple)) and len(found) == ndim == len(set(map(str, found))):
            return [str(axis).lower() for axis in found]
    return []


def picture_axes(axes: Sequence[Axis], dtype: np.dtype[Any], attributes: Mapping[str, Any]) -> tuple[list[int], bool]:
    """Of the axes of which several items are selected, those that make a picture, and whether the last has its colours.

    They are those that are named so, else the two longest. Three or four items on the last axis are colours if they are
    of uint8, or if the attributes say so.
    """
    free = [number for number, axis in enumerate(axes) if isinstance(axis, range)]
    if len(free) < 3:
        return free, False
    names = axis_names(attributes, len(axes))
    named = [side for side in free if names and names[side] in (*_DOWN, *_RIGHT)]
    if len(named) != 2 or (names[named[0]] in _DOWN) == (names[named[1]] in _DOWN):
        named = []
    last = len(axes) - 1
    may_be_colours = last in free and last not in named and not (names and names[last] in _NO_COLOURS)
    in_colour = may_be_colours and _has_colours(dtype, len(range_of(axes[last])), attributes)
    others = free[:-1] if in_colour else free
    return named or sorted(sorted(others, key=lambda side: (len(range_of(axes[side])), side))[-2:]), in_colour


def _has_colours(dtype: np.dtype[Any], length: int, attributes: Mapping[str, Any]) -> bool:
    if length not in (3, 4) or dtype.kind not in "uf":
        return False
    kind = _text(attributes, "photometric") or _text(attributes, "mode")
    return dtype == np.uint8 or kind in _COLOURS


def middle_plane(
    axes: list[Axis], dtype: np.dtype[Any], attributes: Mapping[str, Any], chosen: list[int] | None = None
) -> tuple[list[Axis], list[int]]:
    """The selection with the middle of all axes but those of a picture, and which these are; colours come behind.

    They are those that are `chosen`, else those of `picture_axes`.
    """
    free = [number for number, axis in enumerate(axes) if isinstance(axis, range)]
    if any(not range_of(axes[side]) for side in free):
        raise ValueError("the selection has no items; 'blosc2 info' tells the shape")
    if not free:
        raise ValueError("this is one item, and no picture; 'blosc2 cat' prints it")
    sides, in_colour = picture_axes(axes, dtype, attributes)
    if chosen is not None:
        sides = chosen
    for side in set(free).difference(sides, {len(axes) - 1} if in_colour else ()):
        axis = range_of(axes[side])
        axes[side] = axis[len(axis) // 2]
    return axes, sides


def range_of(axis: Axis) -> range:
    assert isinstance(axis, range)
    return axis


def with_steps(axes: Sequence[Axis], sides: Sequence[int], box: tuple[int, int]) -> list[Axis]:
    """The selection with a step, the same for both sides, so that it fits; a short side keeps some of its items."""
    found = list(axes)
    most = box[-len(sides) :]
    lengths = [len(range_of(axes[side])) for side in sides]
    step = max(-(-length // limit) for length, limit in zip(lengths, most, strict=True))
    for side, length, limit in zip(sides, lengths, most, strict=True):
        fewest = max(1, min(_FEWEST, limit // 2))
        found[side] = range_of(axes[side])[:: min(step, max(1, length // fewest))]
    return found


def decoded_bytes(array: Any, axes: Sequence[Axis]) -> int:
    """About how many bytes are decoded to read a selection: those of the blocks that it touches."""
    blocks = 1
    for axis, block in zip(axes, array.blocks, strict=True):
        if isinstance(axis, range):
            first, last = sorted((axis[0], axis[-1])) if axis else (0, 0)
            blocks *= min(len(axis), last // max(block, 1) - first // max(block, 1) + 1)
    return blocks * int(math.prod(array.blocks) * array.dtype.itemsize)


class Sample(NamedTuple):
    """What some planes of an array have in common, so that each of them is shown in the same greys or colours."""

    #: None where nothing was read, or nothing that tells black from white.
    limits: tuple[float, float] | None
    labels: tuple[int, ...]
    #: How many planes: "16 of 40 planes".
    planes: str


# So many planes are a sample, unless to read them takes so many bytes to be decoded; from a server all are fetched.
_PLANES, _DECODED, _DECODED_FROM_SERVERS = 16, 64 << 20, 256 << 10
# The most pixels of one, whatever is shown: a larger terminal shows the same greys.
_SAMPLED = 512, 512


def sample_of_planes(array: Any, axes: Sequence[Axis], sides: Sequence[int]) -> Sample | None:
    """What planes like one of an array have, at even distances along its other axes; None where there is one plane."""
    others = [number for number in range(len(axes)) if number not in sides]
    lengths = [array.shape[number] for number in others]
    is_plane = len(sides) == 2 and not any(isinstance(axes[number], range) for number in others)
    small, whole = with_steps(axes, sides, _SAMPLED), math.prod(lengths)
    if array.dtype.kind not in "iuf" or not is_plane or whole < 2:
        return None
    alone = Sample(None, (), "this plane")
    most = _DECODED_FROM_SERVERS if isinstance(array.urlpath, RemotePath) else _DECODED
    count = min(_PLANES, whole, most // max(1, decoded_bytes(array, small)))
    if count < 2:
        return alone
    found = []
    for which in range(count):
        at = which * (whole - 1) // (count - 1)
        plane = list(small)
        for axis, length in zip(reversed(others), reversed(lengths), strict=True):
            at, plane[axis] = divmod(at, length)
        found.append(np.asarray(array[index_of(plane)]))
    items, _ = as_meant(np.stack(found), getattr(array, "vlmeta", {}))
    found_limits = limits(items)
    if found_limits is None or found_limits[0] == found_limits[1]:
        return alone
    text = f"all {count} planes" if count == whole else f"{count} of {whole:,} planes"
    return Sample(found_limits, labels_of(items), text)


def read_picture(
    array: Any, axes: Sequence[Axis], sides: Sequence[int], box: tuple[int, int], *,
    span: tuple[float, float] | None = None, percentiles: tuple[float, float] | None = None, most: int | None = None,
    sample: Sample | None = None,
) -> Picture:  # fmt: skip
    """Read a plane with a step, so that it fits into a box of pixels; its first side goes down.

    With `most`, the step grows until no more than so many bytes are decoded; complex numbers show their magnitude.
    Integers of few values are labels, as the classes of a segmentation, and get colours. Greys and labels are those of
    the plane and of the `sample`. Numbers of the colours of a palette, which is an attribute, have those.
    """
    whole = [len(range_of(axes[side])) for side in sides]
    small = with_steps(axes, sides, box)
    while most is not None and (need := decoded_bytes(array, small)) > most:
        box = box[0] // 2, box[1] // 2
        if not all(box):
            raise ValueError(f"a picture needs {human_size(need)} to be decoded; see 'blosc2 show'")
        small = with_steps(axes, sides, box)
    items = _shown_items(array, small, sides)
    in_colour = items.ndim > len(sides)
    attributes = getattr(array, "vlmeta", {})
    palette = None if in_colour or span or percentiles else palette_of(attributes)
    are_numbers = items.dtype.kind == "u" and items.ndim == 2 and items.size > 0
    if palette is not None and are_numbers and items.max() < len(palette):
        return Picture(items, palette[items], small, whole, 0, 255, True, meaning="colours of its palette")
    items, meaning = (items, "") if in_colour else as_meant(items, attributes)
    if in_colour or span or percentiles:
        sample = None
    low, high = _contrast(items, span, percentiles, in_colour=in_colour)
    labels = _labels(items, sample) if len(sides) == 2 and not (in_colour or span or percentiles) else ()
    of_planes = f", in {sample.planes}" if sample else ""
    if sample and sample.limits:
        own = limits(items) or sample.limits
        low, high = min(own[0], sample.limits[0]), max(own[1], sample.limits[1])
        if (low, high) != sample.limits or len(labels) > len(sample.labels):
            of_planes = f", in this plane and {sample.planes}"
    if labels:
        pixels = in_label_colours(items, labels)
        return Picture(items, pixels, small, whole, low, high, in_colour, labels, of_planes=of_planes)
    pixels = grey(items, low, high)
    if _text(attributes, "photometric") == "miniswhite":
        pixels, low, high = 255 - pixels, high, low
    return Picture(items, pixels, small, whole, low, high, in_colour, (), meaning, of_planes)


def _shown_items(array: Any, axes: Sequence[Axis], sides: Sequence[int]) -> np.ndarray[Any, Any]:
    """The items of a plane, the first side down; magnitudes of complex numbers, and colours of records behind."""
    items = np.asarray(array[index_of(axes)])
    if items.dtype.kind == "c":
        items = np.abs(items)
    elif items.dtype.names:
        items = np.ascontiguousarray(items).view("u1").reshape(*items.shape, len(items.dtype.names))
    return items.swapaxes(0, 1) if len(sides) == 2 and sides[0] > sides[1] else items


def _labels(items: np.ndarray[Any, Any], sample: Sample | None) -> tuple[int, ...]:
    """The labels of a plane; with a sample those of it, and behind them what the plane has besides."""
    if sample is None or sample.limits is None:
        return labels_of(items)
    if not sample.labels or items.dtype.kind not in "iu":
        return ()
    besides = sorted(set(np.unique(items).tolist()).difference(sample.labels))
    found = (*sample.labels, *besides)
    return found if have_colours(found) else ()


# The attributes by which NIfTI and CF scale numbers, and shift them.
_SCALES = (("scl_slope", "scl_inter"), ("scale_factor", "add_offset"))
# Those by which CF says which items stand for missing values; so many of them.
_MISSING, _MOST_MISSING = ("_FillValue", "missing_value"), 8


def _attribute(attributes: Mapping[str, Any], name: str) -> Any:
    try:
        return attributes.get(name)
    except (OSError, ValueError):  # the items may be whole
        return None


def _text(attributes: Mapping[str, Any], name: str) -> str:
    """An attribute in small letters; nothing where it is no text."""
    found = _attribute(attributes, name)
    return found.lower() if isinstance(found, str) else ""


def palette_of(attributes: Mapping[str, Any]) -> np.ndarray[Any, Any] | None:
    """The red, green and blue of each number of a picture, as `convert` keeps them; None where there are none."""
    found = _attribute(attributes, "palette")
    table = _attribute(attributes, "ColorMap") if found is None else None
    if isinstance(table, np.ndarray) and table.dtype == np.uint16 and table.ndim == 2:  # of TIFF
        found = (table.T >> 8).astype(np.uint8)
    if not isinstance(found, np.ndarray) or found.dtype != np.uint8 or found.ndim != 2 or found.shape[1] not in (3, 4):
        return None
    return found[:, :3]


def as_meant(items: np.ndarray[Any, Any], attributes: Mapping[str, Any]) -> tuple[np.ndarray[Any, Any], str]:
    """Numbers as attributes scale them, with NaN for missing ones, and what was done to the stored ones."""
    found, texts = _scaled(items, attributes)
    gone = np.zeros(items.shape, bool)
    for name in _MISSING if items.dtype.kind in "iuf" else ():
        value = _attribute(attributes, name)
        is_list = isinstance(value, (list, tuple)) and all(isinstance(one, (int, float)) for one in value)
        values = np.asarray(value if is_list or isinstance(value, (int, float, np.generic, np.ndarray)) else ())
        if values.dtype.kind in "iuf" and values.size <= _MOST_MISSING:
            gone |= np.isin(items, values)
    if gone.any():
        found = np.where(gone, np.nan, found)
        texts.append(f"{number(int(gone.sum()), 'item')} missing")
    return found, ", ".join(texts)


def has_meaning(array: Any) -> bool:
    """Whether attributes scale the numbers of an array, or say which ones are missing."""
    attributes = getattr(array, "vlmeta", {})
    if array.dtype.kind not in "iuf":
        return False
    is_scaled = _scaled(np.zeros(1), attributes)[1] != []
    return is_scaled or not all(_attribute(attributes, name) is None for name in _MISSING)


def _scaled(items: np.ndarray[Any, Any], attributes: Mapping[str, Any]) -> tuple[np.ndarray[Any, Any], list[str]]:
    for scale, shift in _SCALES:
        try:
            factor, offset = (float(_attribute(attributes, name) or zero) for name, zero in ((scale, 1), (shift, 0)))
        except (TypeError, ValueError):
            continue
        if (factor, offset) != (1.0, 0.0) and math.isfinite(factor) and math.isfinite(offset):
            return items * factor + offset, [f"scaled by {factor:.6g}, offset {offset:.6g}"]
    return items, []


def _contrast(
    items: np.ndarray[Any, Any], span: tuple[float, float] | None, percentiles: tuple[float, float] | None, *,
    in_colour: bool,
) -> tuple[float, float]:  # fmt: skip
    if span:
        return span
    if percentiles:
        return limits(items, percentiles) or (0.0, 1.0)
    if in_colour:
        return 0.0, float(np.iinfo(items.dtype).max) if items.dtype.kind == "u" else 1.0
    if items.dtype.kind == "b":
        return 0.0, 1.0
    return limits(items) or (0.0, 1.0)


def index_text(axes: Sequence[Axis]) -> str:
    """An index as it is written for `cat`."""
    texts = []
    for part in index_of(axes):
        if isinstance(part, slice):
            stop = "" if part.stop is None else part.stop
            texts.append(f"{part.start}:{stop}" + (f":{part.step}" if part.step != 1 else ""))
        else:
            texts.append(str(part))
    return ", ".join(texts)
