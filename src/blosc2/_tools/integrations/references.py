"""References by which zarr reads arrays and stores where they are, and the codec of their chunks; without zarr.

`zarr_codec` and `numcodecs_codec` have the classes for these two, which find them by entry points; nothing else imports
them.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._arrays import DIMENSIONS
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import stored_lengths
from blosc2._core.frame.frame_writer import special_chunk
from blosc2._core.io.source import Source
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import read_basic_into
from blosc2._files import NewFile
from blosc2._frames import array_of, chunk_encoding, is_directory_frame
from blosc2._functions import asarray
from blosc2._options import FIELDS, Encoding, absolute_path, fields_of, get_nthreads, is_remote
from blosc2._stores import Store, children_of
from blosc2._tools.converting.conversion import MISSING, UNLIMITED, as_json, encode_missing, taken_item, taken_names
from blosc2._tools.converting.report import WHOLE, Changed, LeftOut
from blosc2._tools.stores import attributes_of, opened
from blosc2.exceptions import ConversionError, FormatError, legible
from blosc2.ndarray import NDArray
from blosc2.storage import EXTENDED_HEADER_LENGTH, Codec

# ------------------------------------------------------------------ the codec of chunks
# A chunk is stored block by block, and filled up to whole blocks, so its bytes do not say which item is where.
# `ChunkCodec` holds the shapes that do. Others wrote bytes and shapes: both are checked as those of files are.

#: Under this name the codecs of zarr and numcodecs are registered.
NAME: Final = "blosc2_chunk"
#: Items that are larger are bytes to codecs and filters.
LARGEST_TYPESIZE: Final = 255


class ChunkCodec:
    """Decodes and encodes the chunks of arrays that have one chunk shape and one block shape.

    `codec` and `clevel`, 0 to 9, are for new chunks. `ValueError` where there are no such chunks, or no such codec.
    """

    def __init__(
        self, chunks: Sequence[int], blocks: Sequence[int], itemsize: Any, codec: Any = "ZSTD", clevel: Any = 5
    ) -> None:
        self.chunks, self.blocks = _shape(chunks, "chunks"), _shape(blocks, "blocks")
        if isinstance(itemsize, bool) or not isinstance(itemsize, int):
            raise ValueError(f"itemsize must be an integer, not {itemsize!r}")
        if isinstance(clevel, bool) or not isinstance(clevel, int) or not 0 <= clevel <= 9:
            raise ValueError(f"clevel must be an integer from 0 to 9, not {clevel!r}")
        if not isinstance(codec, str) or codec not in _CODECS:
            raise ValueError(f"codec must be one of {', '.join(_CODECS)}, not {codec!r}")
        self.itemsize, self.codec, self.clevel = itemsize, codec, clevel
        self._geometry = Geometry(self.chunks, self.chunks, self.blocks, itemsize)
        self._dtype = np.dtype(f"V{itemsize}")
        self._metalayer = self._geometry.metalayer(self._dtype.str)

    @property
    def nbytes(self) -> int:
        return self._geometry.size * self.itemsize

    def configuration(self) -> dict[str, Any]:
        return {
            "chunks": list(self.chunks), "blocks": list(self.blocks), "itemsize": self.itemsize, "codec": self.codec,
            "clevel": self.clevel,
        }  # fmt: skip

    def decode(self, stored: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of all items of a chunk, in C order; `FormatError` if it is damaged, or no chunk of this shape."""
        chunk = memoryview(stored).cast("B")
        if len(chunk) < EXTENDED_HEADER_LENGTH:
            raise FormatError(f"a chunk of an array has at least {EXTENDED_HEADER_LENGTH} bytes, not {len(chunk)}")
        geometry = self._geometry
        size = int(geometry.chunk_nbytes)
        typesize = self.itemsize if self.itemsize <= LARGEST_TYPESIZE else 1
        fields = dict(zip(FIELDS, fields_of(chunk_encoding(chunk)), strict=True))
        encoding = Encoding(**{**fields, "typesize": typesize, "blocksize": int(geometry.block_nbytes)})
        metalayers = {"b2nd": self._metalayer}
        frame = Frame.assemble(Source.of_buffer(chunk), _AT_START, 1, size, size, encoding, metalayers, {})
        out = np.empty(self.chunks, self._dtype)
        read_basic_into(array_of(frame), ..., get_nthreads(), out)
        return out.reshape(-1).view(np.uint8)

    def encode(self, items: Any) -> bytes:
        """The stored form of all items of a chunk, given as bytes in C order."""
        given = memoryview(items)
        if given.nbytes != self.nbytes:
            raise ValueError(f"a chunk of {self.chunks} items has {self.nbytes} bytes, not {given.nbytes}")
        values = np.frombuffer(given, np.uint8).view(self._dtype).reshape(self.chunks)
        how = {"codec": Codec[self.codec], "clevel": self.clevel}
        array = asarray(values, chunks=self.chunks, blocks=self.blocks, cparams=how)
        found: bytes = array.schunk.get_chunk(0)
        return found


def _shape(lengths: Any, name: str) -> tuple[int, ...]:
    if not isinstance(lengths, (list, tuple)):
        raise ValueError(f"{name} must be a list of integers, not {lengths!r}")
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in lengths):
        raise ValueError(f"{name} must be integers of 1 or more, not {lengths!r}")
    return tuple(lengths)


_AT_START: Final = np.zeros(1, np.int64)
_CODECS: Final = ("BLOSCLZ", "LZ4", "LZ4HC", "ZLIB", "ZSTD")


# ------------------------------------------------------------------ zarr's metadata
_NUMBERS: Final = "biufc"


class DataType(NamedTuple):
    """How zarr 3 calls a dtype and its zero; and the order of its bytes, None if it has none."""

    name: Any
    fill_value: Any
    endian: str | None


def data_type(dtype: np.dtype[Any]) -> DataType:
    """The name of a dtype in zarr 3. `ValueError` if zarr 3 has no such items."""
    kind, endian = dtype.kind, None
    if dtype.itemsize > 1 and kind not in "SV":
        endian = "big" if dtype.newbyteorder("=") != dtype else "little"
    if kind in _NUMBERS and dtype.itemsize <= 16 and dtype.name not in ("float128", "longdouble"):
        fill: Any = {"b": False, "f": 0.0, "c": [0.0, 0.0]}.get(kind, 0)
        return DataType(dtype.name, fill, endian)
    if kind in "mM":
        unit, step = np.datetime_data(dtype)
        name = "numpy.datetime64" if kind == "M" else "numpy.timedelta64"
        return DataType({"name": name, "configuration": {"unit": unit, "scale_factor": step}}, 0, endian)
    configuration: dict[str, Any] = {"length_bytes": dtype.itemsize}
    if kind == "U":
        return DataType({"name": "fixed_length_utf32", "configuration": configuration}, "", endian)
    if kind == "S":
        return DataType({"name": "null_terminated_bytes", "configuration": configuration}, "", None)
    zeros = base64.b64encode(bytes(dtype.itemsize)).decode()
    if dtype.names is None and dtype.kind == "V":
        return DataType({"name": "raw_bytes", "configuration": configuration}, zeros, None)
    fields = [[name, _field(dtype, name)] for name in dtype.names or ()]
    if not fields or np.dtype([(name, dtype[name]) for name in dtype.names or ()]) != dtype:
        raise ValueError(f"zarr has no items of the dtype {dtype}, with gaps between fields")
    return DataType({"name": "structured", "configuration": {"fields": fields}}, zeros, None)


def _field(dtype: np.dtype[Any], name: str) -> Any:
    field = dtype[name]
    if field.subdtype is not None:
        raise ValueError(f"zarr has no items with fields of several values, as {name!r} of {dtype}")
    found = data_type(field)
    if found.endian == "big":
        raise ValueError(f"zarr 3 has no fields of big-endian numbers, as {name!r} of {dtype}: zarr_format=2 has")
    return found.name


def old_dtype(dtype: np.dtype[Any]) -> Any:
    """A dtype as zarr 2 writes it. `ValueError` if zarr has no such items."""
    if dtype.names is None:
        return dtype.str
    if any(dtype[name].subdtype is not None or dtype[name].names is not None for name in dtype.names):
        raise ValueError(
            f"zarr 2 has no items with fields of several values or fields of their own, as some of {dtype}"
        )
    if np.dtype([(name, dtype[name]) for name in dtype.names]) != dtype:
        raise ValueError(f"zarr has no items of the dtype {dtype}, with gaps between fields")
    return [[name, old_dtype(dtype[name])] for name in dtype.names]


def array_documents(array: NDArray, attributes: dict[str, Any], zarr_format: int) -> Iterator[tuple[str, str]]:
    """Name and text of each metadata document of an array. `ValueError` if zarr cannot describe it."""
    # Zarr has no chunks of no items; an array without items has nothing to decode.
    chunks = [max(1, n) for n in array.chunks]
    codec: dict[str, Any] = {
        "chunks": chunks, "blocks": [max(1, n) for n in array.blocks], "itemsize": array.dtype.itemsize,
    }  # fmt: skip
    if zarr_format == 2:
        # With a value for missing chunks, xarray takes all items that are equal to it as missing.
        rest = dict(attributes) if array.ndim else {DIMENSIONS: [], **attributes}  # without which it opens no scalar
        fill = taken_item(rest, MISSING, array.dtype) if array.dtype.kind in "iuf" else None
        described: dict[str, Any] = {
            "zarr_format": 2, "shape": list(array.shape), "chunks": chunks, "dtype": old_dtype(array.dtype),
            # As a filter, which VirtualiZarr takes, too.
            "compressor": None, "fill_value": None if fill is None else _number(fill.item()), "order": "C",
            "filters": [{"id": NAME, **codec}],
            "dimension_separator": ".",
        }  # fmt: skip
        yield ".zarray", text_of(described)
        yield ".zattrs", text_of(rest)
        return
    found = data_type(array.dtype)
    endian = {} if found.endian is None else {"configuration": {"endian": found.endian}}
    described = {
        "zarr_format": 3, "node_type": "array", "shape": list(array.shape), "data_type": found.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": found.fill_value,
        "codecs": [{"name": "bytes", **endian}, {"name": NAME, "configuration": codec}],
    }  # fmt: skip
    names = attributes.get(DIMENSIONS)
    if isinstance(names, list) and len(names) == array.ndim and all(isinstance(name, str) for name in names):
        described["dimension_names"] = names
        attributes = {name: value for name, value in attributes.items() if name != DIMENSIONS}
    yield "zarr.json", text_of({**described, "attributes": attributes})


def _number(value: float) -> float | str:
    """A number as zarr 2 writes it: JSON has no NaN, and nothing infinite."""
    return value if np.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


def group_documents(attributes: Mapping[str, Any], zarr_format: int) -> Iterator[tuple[str, str]]:
    if zarr_format == 2:
        yield ".zgroup", text_of({"zarr_format": 2})
        yield ".zattrs", text_of(attributes)
    else:
        yield "zarr.json", text_of({"zarr_format": 3, "node_type": "group", "attributes": attributes})


def text_of(value: Any) -> str:
    """JSON without two braces in a row, by which readers of references know what they have to fill in."""
    # They are in strings only: between two braces of JSON itself lies a name.
    return json.dumps(value).replace("{{", "{\\u007b")


def chunk_name(index: tuple[int, ...], zarr_format: int) -> str:
    if zarr_format == 2:
        return ".".join(map(str, index)) or "0"
    return "/".join(("c", *map(str, index)))


# ------------------------------------------------------------------ references
# Bytes of chunks that are copied into the references, because they are no one byte range of a file.
_MOST_COPIED: Final = 64 << 20
# Chunks that are stored nowhere, and need an entry all the same.
_MOST_SPECIAL: Final = 1 << 20
_ZEROS, _NAN = 1, 2
_NAN_ENTRY: Final = -(1 << 63) + (2 << 56)
# Names that mean something else to zarr.
_RESERVED: Final = frozenset(("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"))


def zarr_references(
    source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None, *, url: str | None = None,
    zarr_format: int = 3, overwrite: bool = False, left_out: list[LeftOut] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Describe a store or an array as a zarr group or array, whose chunks stay where they are.

    The result has zarr's metadata, and for each chunk the file, offset and length of its bytes: references in
    kerchunk's format, version 1, which fsspec shows as a file system. Chunks are decoded by the codec "blosc2_chunk",
    which zarr 3 and numcodecs find where this package is installed.

    Parameters
    ----------
    source : path or URL
        A store (``.b2z``, ``.b2e``, ``.b2d``) or an array (``.b2nd``).
    target : path, optional
        A JSON file to be written.
    url : str, optional
        Where readers find `source`, such as "s3://bucket/scans.b2z". By default `source`, with its whole path.
    zarr_format : {3, 2}
        3 is for zarr 3; 2 for older readers, and for dtypes that zarr 3 does not know.
    overwrite : bool
        Replace a target that exists.
    left_out : list, optional
        Is given a `LeftOut` for each thing that zarr cannot hold: lists of objects, super-chunks, attributes that JSON
        does not have. Without a list they raise a `ConversionError`. It is given a `Changed`, which never is an error,
        for each attribute that becomes of another type, such as numbers of NumPy.

    Returns
    -------
    dict
        What the file contains.

    Raises
    ------
    ConversionError
        Something cannot be described, and there is no list for it; or too much would have to be copied.
    FileExistsError
        The target exists.

    Notes
    -----
    References show the version of the file that they were made of. Later changes are appended to a file, so they stay
    valid until it is compacted, rewritten or replaced. Checksums of the file are not checked by readers of zarr.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "scans.b2z")
    >>> with blosc2.TreeStore(path, mode="w") as store:
    ...     store["/mri"] = np.arange(6.0).reshape(2, 3)
    >>> references = blosc2.zarr_references(path, url="s3://bucket/scans.b2z")
    >>> sorted(references["refs"])
    ['mri/c/0/0', 'mri/zarr.json', 'zarr.json']
    >>> references["refs"]["mri/c/0/0"][0]
    's3://bucket/scans.b2z'
    """
    if zarr_format not in (2, 3):
        raise ValueError(f"zarr_format must be 2 or 3, not {zarr_format!r}")
    source = os.fspath(source)
    if target is not None and os.path.lexists(target) and not overwrite:
        raise FileExistsError(f"{legible(os.fspath(target))} exists; overwrite=True replaces it")
    made = _References(source, url, zarr_format, left_out)
    with opened(source, mapped=not is_directory_frame(source)) as found:
        if isinstance(found, Store):
            made.add_group(found, "")
        elif isinstance(found, NDArray):
            made.add_array("", found)
        else:
            raise ConversionError(f"{source}: a {type(found).__name__} is no array with a shape and a dtype")
    if not made.refs:
        raise ConversionError(f"{source}: {made.last}")
    document = {"version": 1, "refs": made.refs}
    if target is not None:
        with NewFile(os.fspath(target), replace=overwrite) as file:
            file.write(json.dumps(document).encode())
    return document


class _References:
    def __init__(self, source: str, url: str | None, zarr_format: int, left_out: list[LeftOut] | None) -> None:
        self.refs: dict[str, Any] = {}
        self._source = source
        self._is_remote = is_remote(source)
        self._root = source if self._is_remote else absolute_path(source)
        own = source if self._is_remote else f"file://{self._root}"
        self._url = own if url is None else url.rstrip("/")
        if "{{" in self._url:
            raise ValueError(f"two braces in a row mean something else to readers of references: {self._url!r}")
        self._format = zarr_format
        self._left_out = left_out
        self._copied = self._special = 0
        self.last: LeftOut | None = None  # of what was left out

    # ------------------------------------------------------------------ groups
    def add_group(self, store: Any, group: str) -> None:
        given = dict(attributes_of(store, group))
        if taken_names(given, UNLIMITED) and self._left_out is not None:
            why = "all dimensions of zarr can grow"
            self._left_out.append(Changed(group or "/", f"attribute {UNLIMITED!r}", why))
        attributes = self._plain(group or "/", given)
        self._add_documents(group, group_documents(attributes, self._format))
        groups, leaves = children_of(store, group)
        for name in sorted({*groups, *leaves}):
            key = f"{group}/{name}"
            if name in _RESERVED:
                self._leave_out(key, WHOLE, "zarr has its metadata under this name")
                continue
            if name in leaves:
                try:
                    leaf = store[key]
                except NotImplementedError as error:
                    self._leave_out(key, WHOLE, str(error))
                else:
                    self.add_array(key, leaf)
            if name not in groups:
                continue
            if name in leaves:
                self._leave_out(key, "all below it", "zarr has nothing below an array")
            else:
                self.add_group(store, key)

    def _add_documents(self, key: str, documents: Iterator[tuple[str, str]]) -> None:
        for name, text in documents:
            self.refs[f"{key}/{name}".lstrip("/")] = text

    def _plain(self, key: str, attributes: dict[str, Any], dtype: Any = None) -> dict[str, Any]:
        """Attributes in JSON: of an array, by its dtype, with what is missing as xarray has it."""
        encoded = [] if dtype is None or self._format == 2 else [*encode_missing(key, attributes, dtype)]
        kept, left_out = as_json(key, attributes)
        for each in encoded + left_out:
            if not isinstance(each, Changed):
                self._leave_out(*each)
            elif self._left_out is not None:  # nothing is lost
                self._left_out.append(each)
        return kept

    def _leave_out(self, key: str, what: str, why: str) -> None:
        self.last = each = LeftOut(key, what, why)
        if self._left_out is None:
            raise ConversionError(f"{self._source}: {each}; with left_out=[] it is left out, and listed there")
        self._left_out.append(each)

    # ------------------------------------------------------------------ arrays
    def add_array(self, key: str, leaf: Any) -> None:
        """A leaf, if it is an array that zarr can describe."""
        if type(leaf) is not NDArray:
            self._leave_out(key, WHOLE, f"a {type(leaf).__name__} is no array with a shape and a dtype")
            return
        try:
            attributes = self._plain(key or "/", leaf.vlmeta[:], leaf.dtype)
            documents = list(array_documents(leaf, attributes, self._format))
        except ConversionError:  # of an attribute
            raise
        except ValueError as error:
            self._leave_out(key or "/", WHOLE, str(error))
            return
        self._add_documents(key, iter(documents))
        version: Any = leaf._handle.array
        geometry, _, frame = version
        if geometry.size:
            self._add_chunks(key, frame, geometry.grid)

    def _add_chunks(self, key: str, frame: Frame, grid: tuple[int, ...]) -> None:
        count = int(np.prod(grid, dtype=object))
        known = frame.offsets_bytes()
        offsets = np.frombuffer(known, np.int64)[:count] if known else None
        if offsets is None:
            # One value stands for all chunks, so there may be any number of them.
            value = frame.repeated_offset if frame.nchunks else None
            if value is not None and (value == _NAN_ENTRY or self._format == 2):
                self._add_special(key, frame, grid, range(count), _NAN if value == _NAN_ENTRY else _ZEROS)
            return
        stored = np.flatnonzero(offsets >= 0)
        lengths = np.frombuffer(stored_lengths(frame, offsets[stored]), np.int64)
        start = frame.chunks_range[0]
        for number, offset, length in zip(stored.tolist(), offsets[stored].tolist(), lengths.tolist(), strict=True):
            self.refs[self._name(key, grid, number)] = self._place(key, frame, start + offset, length)
        for kind in (_ZEROS, _NAN) if self._format == 2 else (_NAN,):
            is_nan = offsets == _NAN_ENTRY
            numbers = np.flatnonzero((offsets < 0) & (is_nan if kind == _NAN else ~is_nan))
            self._add_special(key, frame, grid, numbers.tolist(), kind)
        if self._format == 2:  # behind the offsets: a growth that was not finished
            self._add_special(key, frame, grid, range(offsets.size, count), _ZEROS)

    def _name(self, key: str, grid: tuple[int, ...], number: int) -> str:
        index = tuple(int(i) for i in np.unravel_index(number, grid)) if grid else ()
        return f"{key}/{chunk_name(index, self._format)}".lstrip("/")

    def _place(self, key: str, frame: Frame, offset: int, length: int) -> Any:
        """The byte range of a stored chunk in its file, or the chunk itself."""
        ranges = frame.source.byte_ranges(offset, length)
        if len(ranges) == 1:
            source, start, _ = ranges[0]
            # A small file is read at once; but what was decoded into memory has the path of its file, too.
            if source.path is not None and (
                not source.in_memory or _has(source.path, start, source.read(start, length))
            ):
                return [self._url_of(source.path), start, length]
        self._copied += length
        if self._copied > _MOST_COPIED:
            raise ConversionError(
                f"{self._source}: {key}: chunks of more than {_MOST_COPIED >> 20} MiB lie in pieces, or are compressed "
                "twice, and would have to be copied into the references: convert it to a .b2z first"
            )
        return _inline(frame.source.read(offset, length))

    def _url_of(self, path: str) -> str:
        if self._is_remote:  # one file
            return self._url
        path = absolute_path(path)
        if path in (self._root, os.path.realpath(self._root)):
            return self._url
        for root in (self._root, os.path.realpath(self._root)):
            if path.startswith(root + os.sep):
                return f"{self._url}/{os.path.relpath(path, root).replace(os.sep, '/')}"
        raise FormatError(f"a leaf lies in {path}, outside of the store", path=self._source)

    def _add_special(self, key: str, frame: Frame, grid: tuple[int, ...], numbers: Sequence[int], kind: int) -> None:
        self._special += len(numbers)
        if self._special > _MOST_SPECIAL:
            raise ConversionError(
                f"{self._source}: more than {_MOST_SPECIAL} chunks are stored nowhere, and need an entry each"
                + ("; zarr_format=3 needs none for zeros" if self._format == 2 else "")
            )
        chunk = _inline(special_chunk(kind, frame.chunksize, frame.typesize, frame.blocksize))
        for number in numbers:
            self.refs[self._name(key, grid, number)] = chunk


def _has(path: str, offset: int, data: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(len(data)) == data
    except OSError:
        return False


def _inline(stored: bytes) -> str:
    return "base64:" + base64.b64encode(stored).decode()
