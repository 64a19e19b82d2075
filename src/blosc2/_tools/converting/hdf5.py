"""Chunks of HDF5 files that the Blosc2 filter has compressed, taken over without decoding, and given back so.

The filter has the number 32026 (registered with The HDF Group). Each chunk of the file is a frame of one chunk: with a
metalayer "b2nd" if it is divided along several axes, without it else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from blosc2._arrays import ArrayPlan, compressed_box
from blosc2._frames import AnyChunk
from blosc2._opening import schunk_from_cframe
from blosc2._tools.converting.conversion import (
    DEEPEST,
    DIMENSIONS,
    WHOLE,
    ArrayItem,
    Box,
    GroupItem,
    Item,
    Items,
    LeftOut,
    ObjectItem,
    Source,
    TakenChunks,
    Target,
    boxes_of,
)
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import Codec, Filter

_FILTER = 32026


def taken_chunks(found: Any, dtype: np.dtype[Any]) -> TakenChunks | None:
    """The compressed chunks of a dataset; None if they cannot be taken over."""
    if not found.chunks or not found.size or found.dtype.hasobject:
        return None
    pipeline = found.id.get_create_plist()
    if pipeline.get_nfilters() != 1 or pipeline.get_filter(0)[0] != _FILTER:
        return None
    if not found.id.get_num_chunks():
        return None
    first = _frame(found, found.id.get_chunk_info(0).chunk_offset)
    blocks = None if first is None else _blocks(first, found.chunks, dtype)
    if first is None or blocks is None:
        return None
    keywords = {"chunks": found.chunks, "blocks": blocks, "cparams": first.cparams}

    def chunks(plan: ArrayPlan) -> Iterator[AnyChunk]:
        """Each chunk as it is stored, or compressed anew where it is not like the first one."""
        expected = int(plan.geometry.chunk_nbytes)
        for index in np.ndindex(*plan.geometry.grid):
            start = tuple(i * c for i, c in zip(index, found.chunks, strict=True))
            frame = _frame(found, start)
            if frame is not None and frame.nbytes == expected and _blocks(frame, found.chunks, dtype) == blocks:
                yield frame.get_chunk(0)
                continue
            box = tuple(slice(s, min(s + c, n)) for s, c, n in zip(start, found.chunks, found.shape, strict=True))
            yield from compressed_box(plan, start, np.asarray(found[box]).view(dtype)).values()

    return TakenChunks(keywords, chunks)


def _frame(found: Any, start: tuple[int, ...]) -> SChunk | None:
    """The super-chunk that is stored for a chunk; None if there is none, or another filter made it."""
    try:
        mask, stored = found.id.read_direct_chunk(start)
        frame = schunk_from_cframe(stored) if mask == 0 else None
    except (ValueError, RuntimeError, OSError):  # a chunk that was never written, or is no frame
        return None
    return frame if frame is not None and frame.nchunks == 1 else None


def _blocks(frame: SChunk, chunks: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    """The block shape of an array with chunks like this one; None if it cannot have such."""
    if frame.typesize != dtype.itemsize:
        return None
    if "b2nd" in frame.meta:
        _, ndim, shape, chunk, block, *_ = frame.meta["b2nd"]
        fits = ndim == len(chunks) and tuple(shape) == tuple(chunk) == tuple(chunks)
        return tuple(block) if fits else None
    items = frame.blocksize // dtype.itemsize
    whole = len(chunks) == 1 and items and chunks[0] % items == 0 and frame.blocksize % dtype.itemsize == 0
    return (items,) if whole else None


# The codecs that the filter knows, and the filters before them.
_CODECS = {Codec.BLOSCLZ: "blosclz", Codec.LZ4: "lz4", Codec.LZ4HC: "lz4hc", Codec.ZLIB: "zlib", Codec.ZSTD: "zstd"}
_FILTERS = {Filter.NOFILTER, Filter.SHUFFLE, Filter.BITSHUFFLE, Filter.DELTA}


def codec_of(array: NDArray) -> tuple[str, int]:
    """The name of the codec for the filter of HDF5, and its level."""
    name = _CODECS.get(array.cparams.codec)
    return (name, array.cparams.clevel) if name else ("zstd", 5)


def can_give_chunks(array: NDArray) -> bool:
    parameters = array.cparams
    return (
        array.size > 0
        and array.ndim > 0
        and all(c <= n for c, n in zip(array.chunks, array.shape, strict=True))
        and parameters.codec in _CODECS
        and not parameters.use_dict
        and set(parameters.filters) <= _FILTERS
    )


def give_chunks(array: NDArray, found: Any) -> None:
    """Write the chunks of an array to a dataset as they are, each as a frame of one chunk."""
    keywords = {"chunks": array.chunks, "blocks": array.blocks, "cparams": array.cparams}
    plan = ArrayPlan(array.chunks, array.dtype, keywords)
    grid = (-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))
    for number, index in enumerate(np.ndindex(*grid)):
        frame = NDArray._of(plan.write([array.schunk.get_chunk(number)])).to_cframe()
        found.id.write_direct_chunk(tuple(i * c for i, c in zip(index, array.chunks, strict=True)), frame)


try:
    import hdf5plugin  # registers more filters with the HDF5 library
except ImportError:
    hdf5plugin = None

# The attributes of a leaf that say what HDF5 has and NumPy has not.
_SHAPE, _ENUM = "hdf5_shape", "hdf5_enum"
# Single values of these dtypes become those of Python; each comes back with its dtype.
_PLAIN = tuple(map(np.dtype, ("?", "i8", "f8")))


# ------------------------------------------------------------------ source
class Hdf5(Source):
    """An HDF5 file."""

    def __init__(self, path: str) -> None:
        # Chunks that several boxes need are kept: the cache holds some large ones.
        self._file = h5py.File(path, "r", rdcc_nbytes=64 << 20, rdcc_nslots=10_007)

    def close(self) -> None:
        self._file.close()

    def items(self) -> Iterator[Item]:
        yield from self._group("", self._file, {})

    def _group(self, path: str, group: Any, seen: dict[Any, str]) -> Iterator[Item]:
        if path.count("/") > DEEPEST:
            yield LeftOut(path, "the group and all below it", f"it lies more than {DEEPEST} levels deep")
            return
        seen[_identity(group)] = path or "/"
        kept: dict[str, Any] = {}
        yield from _attributes(path or "/", group, kept)
        yield GroupItem(path or "/", kept)
        for name in sorted(group, key=str):
            key = f"{path}/{name}"
            if not isinstance(name, str):
                yield LeftOut(key, WHOLE, "its name is no text in UTF-8")
                continue
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                yield LeftOut(key, "soft or external link", f"it names {link.path!r}; stores have no links")
                continue
            found = group[name]
            first = seen.get(_identity(found))
            if first is not None:
                yield LeftOut(key, "hard link", f"it is the same object as {first!r}")
            elif isinstance(found, h5py.Group):
                yield from self._group(key, found, seen)
            elif isinstance(found, h5py.Dataset):
                seen[_identity(found)] = key
                yield from _dataset(key, found)
            else:
                yield LeftOut(key, "named datatype", "stores have none")


def _identity(found: Any) -> Any:
    info = h5py.h5o.get_info(found.id)
    return info.fileno, info.addr


def _dataset(key: str, found: Any) -> Iterator[Item]:
    attributes: dict[str, Any] = {}
    yield from _attributes(key, found, attributes)
    names = _dimensions(key, found)
    if any(names):
        attributes[DIMENSIONS] = names
    dtype = found.dtype
    if found.shape is None:
        yield LeftOut(key, WHOLE, "it has no dataspace (h5py.Empty)")
        return
    text = h5py.check_string_dtype(dtype)
    if text is not None and text.length is None:
        try:
            values = np.asarray(found.asstr()[()], object)
        except UnicodeDecodeError as error:
            yield LeftOut(key, WHOLE, f"its texts are not in {text.encoding}: {error}")
            return
        if found.ndim != 1:
            attributes[_SHAPE] = list(found.shape)
        yield ObjectItem(key, [str(value) for value in values.reshape(-1)], attributes)
        return
    if dtype.hasobject:
        kind = "references" if h5py.check_ref_dtype(dtype) else "items of variable length"
        yield LeftOut(key, WHOLE, f"it has {kind}, which no array of numbers can hold")
        return
    names = h5py.check_enum_dtype(dtype)
    if names is not None and dtype.kind != "b":
        attributes[_ENUM] = {name: int(value) for name, value in names.items()}
    if text is not None and text.encoding == "utf-8":
        yield LeftOut(key, "the character set", "NumPy does not mark UTF-8 in texts of fixed length")
    if found.maxshape != found.shape:
        yield LeftOut(key, "maxshape", f"arrays can be resized to any shape, {found.maxshape} is not kept")
    if (
        dtype.names is None
        and found.fillvalue is not None
        and np.any(np.asarray(found.fillvalue != np.zeros((), dtype)))
    ):
        yield LeftOut(key, "fillvalue", f"new items are zeros, {found.fillvalue!r} is not kept")
    if dtype.subdtype is not None:
        yield from _of_arrays(key, found, attributes)
        return
    plain = _plain(dtype)

    def read(box: Box) -> Items:
        return np.asarray(found[box if found.shape else ()], found.dtype).view(plain)

    yield ArrayItem(key, found.shape, plain, read, found.chunks, attributes, taken_chunks(found, plain))


def _dimensions(key: str, found: Any) -> list[str | None]:
    """The names of axes that have a dimension scale, as netCDF 4 files have them."""
    if found.is_scale and found.ndim == 1:
        return [key.rpartition("/")[2]]
    if "DIMENSION_LIST" not in found.attrs:
        return []
    try:
        return [axis[0].name.rpartition("/")[2] if len(axis) else None for axis in found.dims]
    except (RuntimeError, ValueError, KeyError, AttributeError, TypeError):  # references that lead nowhere
        return []


def _of_arrays(key: str, found: Any, attributes: dict[str, Any]) -> Iterator[Item]:
    """A dataset whose items are arrays: their axes become the last ones."""
    base, inner = found.dtype.subdtype
    base, ndim = _plain(base), len(found.shape)

    def read(box: Box) -> Items:
        items: Any = np.asarray(found[box[:ndim]], base)
        return np.asarray(items[(*(slice(None),) * ndim, *box[ndim:])])

    yield LeftOut(key, "the type of an array for each item", f"its axes {inner} follow those of the dataset")
    yield ArrayItem(key, found.shape + inner, base, read, None, attributes)


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype without what only h5py knows."""
    if dtype.names is not None and dtype.fields is not None:
        fields = [(name, _plain(dtype[name])) for name in dtype.names]
        offsets = [dtype.fields[name][1] for name in dtype.names]
        return np.dtype({
            "names": [name for name, _ in fields], "formats": [inner for _, inner in fields], "offsets": offsets,
            "itemsize": dtype.itemsize,
        })  # fmt: skip
    if dtype.subdtype is not None:
        return np.dtype((_plain(dtype.subdtype[0]), dtype.subdtype[1]))
    return np.dtype(dtype.str) if dtype.metadata else dtype


def _attributes(key: str, found: Any, kept: dict[str, Any]) -> Iterator[LeftOut]:
    for name in sorted(found.attrs):
        try:
            value = found.attrs[name]
        except (OSError, TypeError) as error:
            yield LeftOut(key, f"attribute {name!r}", str(error))
            continue
        if isinstance(value, np.generic):  # of the byte order of the machine, always
            value = np.array(value, found.attrs.get_id(name).dtype)
        stored = _stored(value)
        if stored is None:
            yield LeftOut(key, f"attribute {name!r}", f"a value of {type(value).__name__} has no counterpart")
        else:
            kept[name] = stored


def _stored(value: Any) -> Any:
    """The value of an attribute, so that its dtype comes back; None if there is no counterpart."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        if not value.shape and value.dtype in _PLAIN:
            return value.item()
        if value.dtype.kind == "O":
            texts = value.tolist()
            return texts if all(isinstance(text, str) for text in value.reshape(-1)) else None
        return None if value.dtype.hasobject else value.view(_plain(value.dtype))
    return None


# ------------------------------------------------------------------ target
class NewHdf5(Target):
    """A new HDF5 file."""

    def __init__(self, path: str, **_: Any) -> None:
        super().__init__(path)
        self._file = h5py.File(self.partial, "w")

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        if isinstance(item, GroupItem):
            yield from _set_attributes(item.key, self._file.require_group(item.key), item.attributes)
            return
        attributes = dict(item.attributes)
        if item.key in self._file or not self._has_room(item.key):
            yield LeftOut(item.key, WHOLE, "HDF5 has no group and dataset of the same name")
            return
        if isinstance(item, ObjectItem):
            if not all(isinstance(value, str) and "\0" not in value for value in item.values):
                yield LeftOut(item.key, WHOLE, "only lists of texts without zero characters have a counterpart in HDF5")
                return
            shape = _shape_of(attributes, len(item.values))
            values = np.array([*item.values, None], object)[:-1].reshape(shape)
            found = self._file.create_dataset(item.key, data=values, dtype=h5py.string_dtype())
        else:
            found, why = self._new_dataset(item, attributes)
            if found is None:
                yield LeftOut(item.key, WHOLE, why)
                return
        yield from _set_attributes(item.key, found, attributes)

    def _has_room(self, key: str) -> bool:
        """Whether no dataset lies where the key needs a group."""
        parts = key.strip("/").split("/")[:-1]
        above = ("/".join(parts[: n + 1]) for n in range(len(parts)))
        return not any(isinstance(self._file.get(path), h5py.Dataset) for path in above)

    def _new_dataset(self, item: ArrayItem, attributes: dict[str, Any]) -> tuple[Any, str]:
        names = attributes.pop(_ENUM) if _is_enum(attributes.get(_ENUM)) else None
        dtype: Any = item.dtype if names is None else h5py.enum_dtype(names, basetype=item.dtype)
        how: dict[str, Any] = {}
        if item.chunks and item.shape and 0 not in item.shape:
            how = {
                "chunks": tuple(min(c, n) for c, n in zip(item.chunks, item.shape, strict=True)),
                **_filter_like(item),
            }
        try:
            found = self._file.create_dataset(item.key, item.shape, dtype, **how)
        except (TypeError, ValueError) as error:
            return None, f"{item.dtype} has no counterpart in HDF5: {error}"
        if not item.shape:
            found[()] = item.whole()
        elif hdf5plugin is not None and item.array is not None and can_give_chunks(item.array):
            give_chunks(item.array, found)
        elif 0 not in item.shape:
            for box in boxes_of(item, found.chunks):
                found[box] = item.read(box)
        return found, ""

    def finish(self) -> None:
        self._file.close()

    def abandon(self, *, keep: bool) -> None:
        self._file.close()
        super().abandon(keep=keep)


def _shape_of(attributes: dict[str, Any], count: int) -> tuple[int, ...]:
    """The shape that texts had in an HDF5 file, if an attribute says it."""
    shape = attributes.get(_SHAPE)
    if isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape) and math.prod(shape) == count:
        return tuple(attributes.pop(_SHAPE))
    return (count,)


def _is_enum(names: Any) -> bool:
    return isinstance(names, dict) and all(isinstance(n, str) and type(v) is int for n, v in names.items())


def _filter_like(item: ArrayItem) -> dict[str, Any]:
    """Keywords of the Blosc2 filter with the codec of an array; without hdf5plugin, of a filter that h5py has."""
    if hdf5plugin is None:
        return {"compression": "gzip", "shuffle": True}
    name, level = ("zstd", 5) if item.array is None else codec_of(item.array)
    return dict(hdf5plugin.Blosc2(cname=name, clevel=level, filters=hdf5plugin.Blosc2.SHUFFLE))


def _set_attributes(key: str, found: Any, attributes: Mapping[str, Any]) -> Iterator[LeftOut]:
    for name, value in attributes.items():
        numbers = (
            isinstance(value, list) and len({type(one) for one in value}) == 1 and type(value[0]) in (bool, int, float)
        )
        texts = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
        if not (numbers or texts or isinstance(value, (str, bool, int, float, np.ndarray))):
            yield LeftOut(
                key, f"attribute {name!r}", f"a {type(value).__name__} of such values has no counterpart in HDF5"
            )
            continue
        try:
            found.attrs[name] = value
        except (TypeError, ValueError, RuntimeError, OSError) as error:
            yield LeftOut(key, f"attribute {name!r}", str(error))
            continue
        if numbers:
            yield LeftOut(key, f"the type of attribute {name!r}", "the list became an array")
