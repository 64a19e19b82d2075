"""Random patches of volumes, and where the voxels of each class are."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from blosc2 import _stores
from blosc2._indexing import Items
from blosc2._tools.loading.samples import (
    Dataset,
    FieldNames,
    Like,
    Number,
    Permutation,
    StoreLeaves,
    field_label,
    mixed_all,
    unlike,
)
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
    """Where the rows of each class begin in an index, and where the last ends; `ValueError` if it is no such index."""
    if index.ndim != 2 or index.dtype.kind not in "iu" or index.shape[1] < 2:
        raise ValueError(f"no index of foreground_index: shape {index.shape}, dtype {index.dtype}")
    column = np.asarray(index[:, 0]).astype(np.int64)
    if np.any(column[1:] < column[:-1]):
        raise ValueError("no index of foreground_index: its classes are not sorted")
    if not len(column):
        return np.zeros(1, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(column)) + 1, [len(column)]])


def cut_box(
    shape: Sequence[int], corner: Sequence[int], size: Sequence[int]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """What a box at `corner` takes of a volume, and where that lies in the box; both empty where they do not meet."""
    read, put = [], []
    for length, at, extent in zip(shape, corner, size, strict=True):
        start = min(max(at, 0), length)
        stop = max(min(at + extent, length), start)
        read.append(slice(start, stop))
        put.append(slice(start - at, stop - at) if stop > start else slice(0, 0))
    return tuple(read), tuple(put)


def padding_value(dtype: np.dtype[Any], value: object, where: str) -> object:
    """A value for the items around a volume, which must be one that the dtype has."""
    try:
        with np.errstate(all="ignore"):
            item = np.asarray(value).astype(dtype)
            # Floats are rounded, but not to infinity.
            rounded = dtype.kind in "fc" and bool(np.isfinite(item) or not np.isfinite(np.asarray(value)))
            same = item.shape == () and (rounded or bool(item == np.asarray(value)))
    except (TypeError, ValueError, OverflowError):
        same = False
    if not same:
        raise ValueError(f"{where}dtype {dtype} has no value {value!r} to pad with")
    return item[()]


class Part(NamedTuple):
    """A field of a volume: its label, the version of its array, the leading key, and axes before those of a patch."""

    label: str
    version: Any
    rows: tuple[Any, ...]
    lead: tuple[int, ...]


#: By field.
Parts: TypeAlias = dict[str | None, Part]

_OVERSAMPLE: Final = 1 / 3  # as nnU-Net


@lru_cache(maxsize=64)
def _order_of_pass(length: int, seed: int, epoch: int, number: int) -> Permutation:
    return Permutation(length, seed, epoch, number, 2)


class Place(NamedTuple):
    """Where a patch is: the number of its volume, its corner there, and the class it was drawn for, if any."""

    volume: int
    corner: tuple[int, ...]
    label: int | None


class PatchSampler(Dataset):
    """Random patches of volumes: a map-style dataset, which needs no other library.

    Where a patch lies depends on the seed, the epoch and its number alone. Each pass takes all volumes, in another
    order. A batch reads the patches of all fields in one call, and what lies beyond a volume is filled.

    Parameters
    ----------
    source, fields, keys : see `Samples`
        A volume is a sample there. All fields of a volume have the same last axes; but values beside the store, and
        leaves of one number or row, such as labels, belong to the whole volume, and are given with each patch of it.
    shape : sequence of int
        Of a patch, for the last axes of the volumes; axes before these are read whole.
    count : int, optional
        Patches in an epoch; by default one for each volume.
    foreground : str, optional
        Of a store: the name of the leaf, or a pattern as in `fields`, with the index that `foreground_index` makes.
    oversample : float
        The share of patches around a voxel of the index, spread evenly over the numbers of an epoch. It needs
        `foreground`. A class is drawn first, then one of its voxels, which is the centre of the patch where that
        does not begin too early.
    pad_value : number or dict, optional
        What lies around a volume; or a value for each field. Patches may then be larger than a volume. Without it, such
        a volume is an error that names its key. Where a volume is larger than the patch, only patches around a
        voxel reach beyond its end, as nnU-Net's do; without `pad_value` they are moved inside.
    seed : int
    transform, rng : see `Samples`

    Raises
    ------
    ValueError
        When a patch is read: a volume is smaller than the patch and there is no `pad_value`, or its fields differ in
        shape. The error names the keys.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "cohort.b2z")
    >>> with blosc2.TreeStore(path, mode="w") as store:
    ...     for patient in range(3):
    ...         mask = np.zeros((20, 24), "u1")
    ...         mask[5, 7 + patient] = 1
    ...         store[f"/{patient}/scan"] = np.random.default_rng(patient).normal(size=(20, 24)).astype("f4")
    ...         store[f"/{patient}/mask"] = mask
    ...         store[f"/{patient}/places"] = blosc2.foreground_index(mask)
    >>> patches = blosc2.PatchSampler(path, (8, 8), fields=("scan", "mask"), foreground="places", oversample=1, count=6)
    >>> batch = patches.read_batch(range(6))
    >>> batch["scan"].shape, batch["mask"].reshape(6, -1).any(axis=1).all()
    ((6, 8, 8), np.True_)
    """

    def __init__(
        self, source: Any, shape: Sequence[int], *, fields: FieldNames = None, keys: Iterable[str] | None = None,
        count: int | None = None, foreground: str | None = None, oversample: float = _OVERSAMPLE,
        pad_value: Any = None, seed: int = 0, transform: Callable[..., Any] | None = None, rng: bool = False,
    ) -> None:  # fmt: skip
        self._prepare(source, fields, keys, transform, rng, seed)
        try:
            self.shape = tuple(map(operator.index, shape))
        except TypeError:
            raise TypeError(
                f"shape must be a sequence of integers, one for each axis of a patch, not {shape!r}"
            ) from None
        if not self.shape or min(self.shape) < 1:
            raise ValueError(f"shape must have axes of at least 1, not {self.shape}")
        self.count = self._source.length if count is None else operator.index(count)
        if self.count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        if not 0 <= oversample <= 1:
            raise ValueError(f"oversample must be between 0 and 1, not {oversample}")
        if foreground is None and oversample not in (0, _OVERSAMPLE):
            raise ValueError(f"oversample={oversample} needs foreground, which says where voxels of classes are")
        self.oversample = float(oversample) if foreground is not None else 0.0
        self._index: StoreLeaves | None = None
        if foreground is not None:
            if not isinstance(self._source, StoreLeaves):
                raise ValueError("foreground is for stores: it names a leaf beside each volume")
            self._index = StoreLeaves(self._source.store, [foreground], self._source.keys)
        self._starts: dict[int, Any] = {}
        like = {name: self._source.like(name) for name in self._source.names}
        # Fields of which patches are cut.
        self._cut: list[str | None] = []
        self._pad_value = pad_value
        self._pads: dict[tuple[str | None, np.dtype[Any]], Any] = {}
        #: Fields that belong to a whole volume, and their shape.
        self._of_volumes: dict[str | None, Like] = {}
        for name, (whole, dtype) in like.items():
            if len(whole) < len(self.shape) and (len(whole) <= 1 or self._source.is_beside(name)):
                self._of_volumes[name] = whole, dtype
                continue
            if len(whole) < len(self.shape):
                raise self._flat(self._source.label(0, name), whole)
            self._cut.append(name)
            if pad_value is not None:
                self._pad(name, dtype)
        if not self._cut:
            name, (shape, _) = next(iter(self._of_volumes.items()))
            raise self._flat(self._source.label(0, name), shape)
        self._pads_any = pad_value is not None

    def _flat(self, label: str, shape: tuple[int, ...]) -> ValueError:
        return ValueError(f"{label} has shape {shape}: a patch has {len(self.shape)} axes")

    def _pad(self, name: str | None, dtype: np.dtype[Any]) -> Any:
        """What lies outside volumes with items of a dtype, which must have such a value."""
        if (name, dtype) not in self._pads:
            value = self._pad_value.get(name) if isinstance(self._pad_value, Mapping) else self._pad_value
            if value is None:
                raise ValueError(f"{field_label(name)}pad_value has no value for it")
            self._pads[name, dtype] = padding_value(dtype, value, field_label(name))
        return self._pads[name, dtype]

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count} patches of {self.shape}{self._fields_shown()})"

    # ------------------------------------------------------------------ where patches lie
    def place(self, number: Number) -> Place:
        """Where a patch is.

        Parameters
        ----------
        number : int, or tuple of int
            The number of a patch, or an epoch and a number.
        """
        (epoch,), (patch,) = self._split([number])
        volume = self._volume(epoch, patch)
        return self._drawn((epoch, patch), volume, self._open(volume)[0])

    def _volume(self, epoch: int, number: int) -> int:
        """The number of the volume: one after the other, in another order each time."""
        passes, position = divmod(number, self._source.length)
        return _order_of_pass(self._source.length, self.seed, epoch, passes)[position]

    def _label(self, epoch: int, number: int) -> str:
        return self._source.label(self._volume(epoch, number))

    def _open(self, volume: int) -> tuple[tuple[int, ...], Parts]:
        """The last axes of a volume, which all of its fields have; and what these are read from."""
        found: dict[tuple[int, ...], tuple[str, str | None]] = {}
        parts: Parts = {}
        for name in self._cut:
            label = self._source.label(volume, name)
            where, version, rows = self._source.part(volume, name)
            shape = tuple(version[0].shape)[len(rows) :]
            if len(shape) < len(self.shape):
                raise self._flat(label, shape)
            parts[name] = Part(where, version, rows, shape[: len(shape) - len(self.shape)])
            found.setdefault(shape[len(shape) - len(self.shape) :], (label, name))
        if len(found) > 1:
            (one, (first, a)), (other, (second, b)) = list(found.items())[:2]
            raise ValueError(
                f"{first} has {one} as its last axes, and {second} has {other}: fields {a!r} and {b!r} differ; axes of "
                "channels go before those of which patches are cut"
            )
        return next(iter(found)), parts

    def _drawn(self, patch: tuple[int, int], volume: int, shape: tuple[int, ...]) -> Place:
        low, high = [], []
        for length, extent in zip(shape, self.shape, strict=True):
            missing = max(extent - length, 0)
            if missing and not self._pads_any:
                label = self._source.label(volume, self._source.names[0])
                raise ValueError(
                    f"{label} has {shape} as its last axes, and a patch has {self.shape}: give a pad_value for what "
                    "lies outside, leave the volume out, or take smaller patches"
                )
            low.append(-missing // 2)
            high.append(length + missing // 2 + missing % 2 - extent)
        draw = _Draws(mixed_all(self.seed, *patch))
        voxel = self._voxel(patch, volume, draw)
        if voxel is None:
            return Place(volume, tuple(draw(b - a + 1) + a for a, b in zip(low, high, strict=True)), None)
        chosen, at = voxel
        if any(not 0 <= i < length for i, length in zip(at, shape, strict=True)):
            assert self._index is not None
            raise ValueError(
                f"{self._index.label(volume, self._index.names[0])} names voxel {at} of a volume of {shape}"
            )
        corner = [max(a, i - extent // 2) for a, i, extent in zip(low, at, self.shape, strict=True)]
        if not self._pads_any:
            corner = [min(a, b) for a, b in zip(corner, high, strict=True)]
        return Place(volume, tuple(corner), chosen)

    def _voxel(self, patch: tuple[int, int], volume: int, draw: _Draws) -> tuple[int, tuple[int, ...]] | None:
        """Class and coordinates of the voxel that a patch is drawn around; None if it may lie anywhere."""
        number, share = patch[1], self.oversample
        if self._index is None or int((number + 1) * share + 1e-9) == int(number * share + 1e-9):
            return None
        name = self._index.names[0]
        index = self._index.leaf(volume, name)
        starts = self._starts.get(volume)
        try:
            if starts is None:
                # A few numbers for each volume; reading its index anew would take longer than reading a patch.
                starts = self._starts[volume] = class_starts(index)
            if len(starts) == 1:
                return None
            chosen = draw(len(starts) - 1)
            first = int(starts[chosen])
            row = index[first + draw(int(starts[chosen + 1]) - first)].tolist()
        except ValueError as error:
            error.add_note(self._index.label(volume, name))
            raise
        if len(row) < 1 + len(self.shape):
            raise ValueError(
                f"{self._index.label(volume, name)} has {len(row) - 1} coordinates: patches have {self.shape}"
            )
        # A mask may have leading axes, too, as the classes of nnU-Net's files do.
        return row[0], tuple(row[len(row) - len(self.shape) :])

    # ------------------------------------------------------------------ reading
    def _read(self, epochs: list[int], numbers: list[int], nthreads: int) -> dict[str | None, Any]:
        source = self._source
        if isinstance(source, StoreLeaves):
            source.check()
        volumes = [self._volume(epoch, patch) for epoch, patch in zip(epochs, numbers, strict=True)]
        opened = {volume: self._open(volume) for volume in dict.fromkeys(volumes)}
        like = {name: ((len(numbers), *shape), dtype) for name, (shape, dtype) in self._of_volumes.items()}
        # Where patches are put: in one array, or in a list of them where they differ.
        boxes: dict[str | None, Any] = {}
        for name in self._cut:
            kinds = {(parts[name].lead, parts[name].version[1]) for _, parts in opened.values()}
            if len(kinds) == 1:
                ((lead, dtype),) = kinds
                like[name] = (len(numbers), *lead, *self.shape), dtype
            else:
                each = [opened[volume][1][name] for volume in volumes]
                boxes[name] = [np.empty((*part.lead, *self.shape), part.version[1]) for part in each]
        new = self._new_fields({name: like[name] for name in source.names if name in like})
        boxes |= {name: items for name, (_, items) in new.items()}
        wanted: list[tuple[str, Any, Any]] = []
        rows: list[Items] = []
        for position, (epoch, patch, volume) in enumerate(zip(epochs, numbers, volumes, strict=True)):
            shape, parts = opened[volume]
            read, put = cut_box(shape, self._drawn((epoch, patch), volume, shape).corner, self.shape)
            for name in self._cut:
                part, row = parts[name], boxes[name][position]
                if self._pads_any:
                    value = self._pad(name, part.version[1])
                    if any(one.stop - one.start < extent for one, extent in zip(put, self.shape, strict=True)):
                        row[...] = value
                wanted.append((part.label, part.version, (*part.rows, ..., *read)))
                rows.append(row[(..., *put)])
        if isinstance(source, StoreLeaves):
            source.check()  # whether all of them were opened in one version
        _stores.read_parts(wanted, rows, nthreads)
        for name in self._of_volumes:
            source.read(volumes, name, boxes[name], nthreads)
        for _, items in new.values():
            self._filled(items)
        return {n: new[n][0] if n in new else list(map(self._as_sample, boxes[n])) for n in source.names}

    def _do_not_fit(self, epochs: list[int], numbers: list[int], name: str | None) -> ValueError:
        volumes = [self._volume(epoch, patch) for epoch, patch in zip(epochs, numbers, strict=True)]
        parts = [self._open(volume)[1][name] for volume in volumes]
        kinds = [((*part.lead, *self.shape), part.version[1]) for part in parts]
        names = [f"patch {n} of {self._source.label(v, name)}" for n, v in zip(numbers, volumes, strict=True)]
        return unlike(names, kinds)


class _Draws:
    """Random integers, each of the state before."""

    def __init__(self, state: int) -> None:
        self.state = state

    def __call__(self, count: int) -> int:
        """An integer below a count."""
        self.state = mixed_all(self.state, 3)
        # Of 64 bits: for counts below 2**32, no number is likelier than another by more than 1 in 2**32.
        return self.state * count >> 64
