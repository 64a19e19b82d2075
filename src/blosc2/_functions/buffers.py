"""Compressing buffers and objects in memory, as Blosc 1 and 2 do; what compresses them, and on what processor."""

from __future__ import annotations

import os
import pickle
import platform
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from blosc2 import _tuning
from blosc2._core.codec.codec import compressor_names, decode_bytes, library_info
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import item_of, remembered
from blosc2._core.io.source import Source
from blosc2._frames import (
    CHUNK_SIZES,
    bytes_of,
    check_for_bytes,
    chunk_encoding,
    cparams_keywords,
    dparams_keywords,
    encode,
    read_bytes,
    read_into,
)
from blosc2._options import PLUGIN_FORMAT, Encoding, Support, encoding_of, get_nthreads, plain_encoding, with_metas
from blosc2.exceptions import ChunkSizeError, FormatError, UnsupportedValueError
from blosc2.storage import (
    EXTENDED_HEADER_LENGTH,
    MAX_BLOCKSIZE,
    MAX_BUFFERSIZE,
    MAX_TYPESIZE,
    Codec,
    CParams,
    DParams,
    Filter,
    SplitMode,
    asked_for,
    cparams_from,
    takes,
)

# Uncompressed bytes from which it pays to decode by threads, or into a buffer of the caller without a copy.
_LARGE: Final = 1 << 16


def source_bytes(src: Any) -> memoryview:
    """The bytes of what a caller gives; addresses of objects are none."""
    if isinstance(src, np.ndarray) and src.dtype.hasobject:
        raise TypeError(f"items of the dtype {src.dtype} are pointers into memory and cannot be compressed")
    try:
        return bytes_of(src)
    except TypeError:
        # Something that says that it is too large need not prove it.
        if hasattr(src, "__len__") and len(src) > MAX_BUFFERSIZE:
            raise ValueError(f"src cannot be larger than {MAX_BUFFERSIZE} bytes") from None
        raise


def _destination(dst: Any) -> memoryview:
    """The writable bytes of what a caller gives."""
    try:
        view = memoryview(dst)
    except ValueError:  # dtypes that the buffer protocol does not know
        if not (isinstance(dst, np.ndarray) and dst.flags.c_contiguous and not dst.dtype.hasobject):
            raise
        items: Any = dst.reshape(-1).view(np.uint8)
        view = memoryview(items)
    if view.nbytes == 0:
        raise ValueError("The dst length must be greater than 0")
    objects = isinstance(view.obj, np.ndarray) and view.obj.dtype.hasobject
    if view.readonly or not view.c_contiguous or objects:
        raise ValueError("dst must be writable and C-contiguous, and must not hold objects")
    return view.cast("B")


def _chunk(src: Any) -> bytes | memoryview:
    """Exactly the bytes of the chunk at the start of a buffer, with the header of today; nothing else is checked."""
    data = src if type(src) is bytes else source_bytes(src)
    if len(data) < OLD_HEADER:
        raise FormatError(f"src cannot be less than {OLD_HEADER} bytes, it has {len(data)}")
    if has_old_header(data):
        return with_new_header(data)
    cbytes: int = CHUNK_SIZES.unpack_from(data)[2]
    return memoryview(data)[:cbytes] if EXTENDED_HEADER_LENGTH <= cbytes < len(data) else data


# ---------------------------------------------------------------- decoding


def decode(src: Any, nthreads: int, what: str) -> bytes:
    """The bytes in the chunk at the start of a buffer; `what` begins the message of an error."""
    if type(src) is bytes and len(src) < _LARGE:
        try:
            return decode_bytes(src)
        except FormatError:  # it may be an older chunk, or bytes may follow it
            pass
    try:
        chunk = _chunk(src)
        frame = _one_chunk_frame(chunk)
        if frame is None:
            return decode_bytes(chunk)
        return read_bytes(frame, 0, frame.nbytes, nthreads)
    except FormatError as error:
        raise FormatError(f"{what}: {error.reason}") from None


def decode_into(src: Any, dst: Any, nthreads: int, what: str) -> None:
    """Decode a chunk to the start of a destination."""
    view = _destination(dst)
    if type(src) is bytes and len(src) < _LARGE and len(view) < _LARGE:
        try:
            data = decode_bytes(src, len(view))
        except FormatError:  # see `decode`; or it does not fit
            pass
        else:
            view[: len(data)] = data
            return
    try:
        chunk = _chunk(src)
        nbytes = CHUNK_SIZES.unpack_from(chunk)[0]
        if nbytes > len(view):
            raise ChunkSizeError(f"{what}: dst has {len(view)} bytes and {nbytes} are needed")
        frame = _one_chunk_frame(chunk)
        # Memory that is read and written at once would be decoded from what was decoded.
        if frame is None or np.may_share_memory(np.frombuffer(chunk, np.uint8), np.frombuffer(view, np.uint8)):
            data = decode_bytes(chunk)
            view[: len(data)] = data
        else:
            read_into(frame, 0, nbytes, view[:nbytes], nthreads)
    except FormatError as error:
        raise FormatError(f"{what}: {error.reason}") from None


def _one_chunk_frame(chunk: bytes | memoryview) -> Frame | None:
    """A frame around a large chunk, which many threads can read; None where it is as well decoded at once."""
    if len(chunk) < EXTENDED_HEADER_LENGTH:
        return None
    nbytes: int = CHUNK_SIZES.unpack_from(chunk)[0]
    if not _LARGE <= nbytes <= MAX_BUFFERSIZE or chunk[30]:  # blocks of variable length
        return None
    encoding = chunk_encoding(chunk)
    return Frame.assemble(Source.of_buffer(chunk), np.zeros(1, np.int64), 1, nbytes, nbytes, encoding, {}, {})


_NEWEST_VERSION: Final = 6
_DECOMPRESS = "Cannot decompress"
_DECOMPRESS2 = "Error while decompressing"

_blocksize = 0
_releasegil = False


def compress(
    src: Any, typesize: int | None = 8, clevel: int = 1, filter: Filter = Filter.SHUFFLE, codec: Codec = Codec.ZSTD,
    _ignore_multiple_size: bool = False,
) -> bytes:  # fmt: skip
    """Compress a buffer, with the parameters of Blosc 1.

    Parameters
    ----------
    src : buffer
        Anything with the buffer protocol, and any NumPy array without object items, of at most 2,147,483,615 bytes. Its
        size must be a multiple of `typesize`.
    typesize : int or None
        Bytes of an item. Above 255, bytes are not grouped. None means the item size of `src`, or 1 if it has no items.
    clevel : int
        0 (store only) to 9.
    filter : Filter
        SHUFFLE (if items have more than one byte) and BITSHUFFLE are applied. The others have no effect here, because
        they need parameters; use `compress2`.
    codec : Codec
        One of BLOSCLZ, LZ4, LZ4HC, ZLIB and ZSTD.

    Returns
    -------
    bytes
        A chunk, for `decompress` and `decompress2`.

    Raises
    ------
    ValueError
        A parameter is out of its range, or the buffer is too large or not a multiple of `typesize`.
    TypeError
        `src` is not a buffer, or a parameter has a wrong type.

    Examples
    --------
    >>> import blosc2
    >>> chunk = blosc2.compress(b"0123456789" * 1000, typesize=1)
    >>> len(chunk) < 200, blosc2.decompress(chunk) == b"0123456789" * 1000
    (True, True)
    """
    if not isinstance(filter, Filter):
        raise UnsupportedValueError(f"filter must be a member of blosc2.Filter, not {filter!r}")
    if not isinstance(codec, Codec):
        raise UnsupportedValueError(f"codec must be a member of blosc2.Codec, not {codec!r}")
    if typesize is None:
        typesize = _itemsize(src)
    encoding = _simple_encoding(
        typesize, clevel, filter._value_, codec._value_, _blocksize, (type(typesize), type(clevel))
    )
    data = src if type(src) is bytes else source_bytes(src)
    if len(data) % typesize and not _ignore_multiple_size:
        raise ValueError(f"len(src) can only be a multiple of typesize ({typesize}), it is {len(data)}")
    return encode(encoding, data, get_nthreads())


@remembered(256)
def _simple_encoding(
    typesize: Any, clevel: Any, filter: int, codec: int, blocksize: int, _kinds: tuple[type, type]
) -> Encoding:
    """What `_kinds` tells apart is equal: 1 and True."""
    for name, value, low, high in (("clevel", clevel, 0, 9), ("typesize", typesize, 1, MAX_TYPESIZE)):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{name} must be an integer, not {value!r}")
        if not low <= value <= high:
            raise ValueError(f"{name} can only be in the {low}-{high} range, not {value}")
    if Codec(codec).facts.support is not Support.BLOCK:
        names = ", ".join(known.name for known in Codec if known.facts.support is Support.BLOCK)
        raise ValueError(f"{Codec(codec).name} compresses arrays, not buffers; use {names}")
    applied = filter == Filter.BITSHUFFLE.value or (filter == Filter.SHUFFLE.value and 1 < typesize <= 255)
    return plain_encoding(
        codec, int(clevel), int(typesize), filter if applied else 0, blocksize=blocksize,
        splitmode=SplitMode.FORWARD_COMPAT_SPLIT.value,
    )  # fmt: skip


def decompress(src: Any, dst: Any = None, as_bytearray: bool = False) -> bytes | bytearray | None:
    """Decompress a chunk.

    Parameters
    ----------
    src : buffer
        A chunk of `compress` or `compress2`, or a chunk of Blosc 1. Bytes behind it are ignored.
    dst : buffer, optional
        Writable, C-contiguous, and at least as large as the uncompressed data. After an error its content is undefined.
    as_bytearray : bool
        Return a bytearray.

    Returns
    -------
    bytes, bytearray or None
        None after writing into `dst`.

    Raises
    ------
    FormatError
        `src` is damaged or not a chunk. This is a ValueError and a RuntimeError.
    ChunkSizeError
        `dst` is too small. This is a ValueError and a RuntimeError.

    Examples
    --------
    >>> import blosc2
    >>> room = bytearray(5)
    >>> blosc2.decompress(blosc2.compress(b"hello", typesize=1), dst=room)
    >>> room
    bytearray(b'hello')
    """
    if dst is not None:
        decode_into(src, dst, get_nthreads(), _DECOMPRESS)
        return None
    data = decode(src, get_nthreads(), _DECOMPRESS)
    return bytearray(data) if as_bytearray else data


@takes(CParams)
def compress2(src: Any, **kwargs: Any) -> bytes:
    """Compress a buffer, with all parameters.

    ``cparams=`` takes a `CParams` or a dictionary instead of single fields. ``typesize=None`` means the item size of
    `src`, or 1 if it has no items. Here, items of ``filters_meta`` may be negative: for TRUNC_PREC and INT_TRUNC they
    give the number of bits to remove.

    Parameters
    ----------
    src : buffer
        Anything with the buffer protocol, and any NumPy array without object items, of at most 2,147,483,615 bytes. It
        need not be a multiple of the typesize.
    **kwargs
        The fields of `blosc2.CParams`.

    Returns
    -------
    bytes
        A chunk, for `decompress2` and `decompress`.

    Raises
    ------
    AttributeError
        Both ``cparams`` and fields of it are given.
    TypeError, ValueError
        The parameters or the data cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> ramp = np.arange(10_000, dtype="i4")
    >>> chunk = blosc2.compress2(ramp, typesize=4, codec=blosc2.Codec.LZ4)
    >>> len(chunk) < 2000, np.array_equal(np.frombuffer(blosc2.decompress2(chunk), "i4"), ramp)
    (True, True)
    """
    kwargs, signed = _signed_metas(kwargs)
    cparams = cparams_keywords(kwargs, _itemsize(src))
    asked = asked_for(cparams)
    if asked is not None:
        default = cparams_from(None, typesize=_itemsize(src), nthreads=cparams.nthreads)
        cparams = _tuning.chosen_for_bytes(asked, memoryview(source_bytes(src)).cast("B"), default)
    encoding = encoding_of(cparams, cparams.typesize, cparams.blocksize)
    if signed:
        metas = tuple(signed.get(slot, meta) & 0xFF for slot, meta in enumerate(encoding.filters_meta))
        encoding = with_metas(encoding, metas)
    check_for_bytes(encoding)
    data = src if type(src) is bytes else source_bytes(src)
    return encode(encoding, data, cparams.nthreads)


def _itemsize(src: Any) -> int:
    """The bytes of an item, of data that has some; 1 where the codec has no use for them."""
    itemsize = getattr(src, "itemsize", 1)
    return itemsize if isinstance(itemsize, int) and 1 <= itemsize <= MAX_TYPESIZE else 1


def _signed_metas(kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[int, int]]:
    """The keywords with zeros in the place of negative metas, and these.

    Frames cannot have them, so the parameters of all objects refuse them.
    """
    given: Any = kwargs.get("cparams", kwargs)
    metas = given.get("filters_meta") if isinstance(given, Mapping) else None
    if not isinstance(metas, (list, tuple)):
        return kwargs, {}
    signed = {slot: meta for slot, meta in enumerate(metas) if isinstance(meta, int) and -128 <= meta < 0}
    if not signed:
        return kwargs, signed
    given = {**given, "filters_meta": [0 if slot in signed else meta for slot, meta in enumerate(metas)]}
    return ({**kwargs, "cparams": given} if "cparams" in kwargs else given), signed


@takes(DParams)
def decompress2(src: Any, dst: Any = None, **kwargs: Any) -> bytes | None:
    """Decompress a chunk, with parameters.

    Parameters
    ----------
    src : buffer
        A chunk of `compress2` or `compress`, or a chunk of Blosc 1. Bytes behind it are ignored.
    dst : buffer, optional
        Writable, C-contiguous, and at least as large as the uncompressed data. After an error its content is undefined.
    **kwargs
        The fields of `blosc2.DParams`, or ``dparams`` with such an object or a dictionary of its fields.

    Returns
    -------
    bytes or None
        None after writing into `dst`.

    Raises
    ------
    FormatError
        `src` is damaged or not a chunk. This is a ValueError and a RuntimeError.
    ChunkSizeError
        `dst` is too small. This is a ValueError and a RuntimeError.
    AttributeError
        Both ``dparams`` and fields of it are given.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> room = np.empty(3, dtype="i4")
    >>> blosc2.decompress2(blosc2.compress2(np.array([3, 1, 2], dtype="i4"), typesize=4), dst=room, nthreads=1)
    >>> room
    array([3, 1, 2], dtype=int32)
    """
    nthreads = dparams_keywords(kwargs).nthreads if kwargs else get_nthreads()
    if dst is not None:
        decode_into(src, dst, nthreads, _DECOMPRESS2)
        return None
    return decode(src, nthreads, _DECOMPRESS2)


def get_cbuffer_sizes(src: Any) -> tuple[int, int, int]:
    """Return the sizes that the header of a chunk states.

    Parameters
    ----------
    src : buffer
        A chunk, or the first 16 bytes of one.

    Returns
    -------
    nbytes, cbytes, blocksize : int
        Uncompressed and compressed size of the chunk, and uncompressed size of a block (or the number of blocks, if
        their lengths vary).

    Raises
    ------
    FormatError
        There are fewer bytes, or they are not the header of a chunk.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_cbuffer_sizes(blosc2.compress2(bytes(1000), typesize=1))
    (1000, 32, 1000)
    """
    header = src if type(src) is bytes else source_bytes(src)
    if len(header) < OLD_HEADER:
        raise FormatError(f"src cannot be less than {OLD_HEADER} bytes, it has {len(header)}")
    nbytes, blocksize, cbytes = CHUNK_SIZES.unpack_from(header)
    least = OLD_HEADER if has_old_header(header) else EXTENDED_HEADER_LENGTH
    if not (1 <= header[0] <= _NEWEST_VERSION and nbytes >= 0 and blocksize >= 0 and cbytes >= least):
        raise FormatError("src does not start with the header of a chunk")
    return nbytes, cbytes, blocksize


def set_blocksize(blocksize: int = 0) -> None:
    """Set the uncompressed size of the blocks that `compress` makes; 0 leaves it to the library.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.set_blocksize(2**14)
    >>> blosc2.get_cbuffer_sizes(blosc2.compress(bytes(range(250)) * 1000))[2]
    16384
    >>> blosc2.set_blocksize(0)
    """
    global _blocksize
    if isinstance(blocksize, bool) or not hasattr(blocksize, "__index__"):
        raise TypeError(f"blocksize must be an integer, not {blocksize!r}")
    if not 0 <= blocksize <= MAX_BLOCKSIZE:
        raise ValueError(f"blocksize can only be in the 0-{MAX_BLOCKSIZE} range, not {blocksize}")
    _blocksize = int(blocksize)


def get_blocksize() -> int:
    """Return the size given to `set_blocksize`; 0 if the library chooses the block size.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_blocksize()
    0
    """
    return _blocksize


def set_releasegil(gilstate: bool) -> bool:
    """Set a switch of other Blosc packages, and return its previous value.

    It has no effect: the GIL is always released while data is compressed and decompressed.

    Examples
    --------
    >>> import blosc2
    >>> old = blosc2.set_releasegil(True)
    >>> blosc2.set_releasegil(old)
    True
    """
    global _releasegil
    old, _releasegil = _releasegil, bool(gilstate)
    return old


OLD_HEADER: Final = 16
_ADDED: Final = 16
_SHUFFLE, _RAW, _BITSHUFFLE, _DELTA = 1, 2, 4, 8  # bits of the flags
_NEWEST_BLOSC1: Final = 5
# Format bits of the flags -> codec id. Number 2 was a codec that is in no library any more.
_CODECS: Final = {0: 0, 1: 1, 3: 4, 4: 5}


def has_old_header(chunk: bytes | memoryview) -> bool:
    """Whether 16 bytes or more start like a chunk of Blosc 1: the bits that mark a longer header are not both set."""
    return chunk[2] & 5 != 5 and 1 <= chunk[0] <= _NEWEST_BLOSC1


def with_new_header(chunk: bytes | memoryview) -> bytes:
    """A chunk of Blosc 1 as one of this format, of which what decodes it checks the rest.

    `FormatError` for sizes that do not fit each other, or something that cannot be decoded.
    """
    _, codec_version, flags, typesize = chunk[:4]
    nbytes, blocksize, cbytes = CHUNK_SIZES.unpack_from(chunk)
    if not OLD_HEADER <= cbytes <= len(chunk) or nbytes < 0 or typesize == 0:
        raise FormatError(f"a chunk of Blosc 1 of {len(chunk)} bytes states {cbytes} bytes, {nbytes} uncompressed")
    if flags >> 5 not in _CODECS or flags & _DELTA:
        raise FormatError("a chunk of Blosc 1 with a codec or filter that this package does not have")
    filters = bytearray(6)
    starts = b""
    if flags & _RAW or nbytes == 0:
        flags |= _RAW
        payload = bytes(chunk[OLD_HEADER:cbytes])
    else:
        if flags & _BITSHUFFLE:
            if any(size // typesize % 8 for size in (blocksize, nbytes % max(blocksize, 1))):
                raise FormatError("a chunk of Blosc 1 with bitshuffle, whose items are not a multiple of 8")
            filters[5] = 2
        elif flags & _SHUFFLE:
            filters[5] = 1
        nblocks = -(-nbytes // blocksize) if blocksize > 0 else 0
        end = OLD_HEADER + 4 * nblocks
        if nblocks == 0 or end > cbytes:
            raise FormatError(f"a chunk of Blosc 1 of {cbytes} bytes cannot have {nblocks} blocks")
        moved = np.frombuffer(chunk, "<i4", nblocks, OLD_HEADER).astype(np.int64) + _ADDED
        if moved.min() < end + _ADDED or moved.max() >= cbytes + _ADDED:
            raise FormatError("a block of a chunk of Blosc 1 starts outside it")
        starts = moved.astype("<i4").tobytes()
        payload = bytes(chunk[end:cbytes])
    header = bytes((5, codec_version, flags | 5, typesize)) + struct.pack("<iii", nbytes, blocksize, cbytes + _ADDED)
    return header + filters + bytes((_CODECS[flags >> 5], 0)) + bytes(8) + starts + payload


def pack(obj: Any, clevel: int = 9, filter: Filter = Filter.SHUFFLE, codec: Codec = Codec.BLOSCLZ) -> bytes:
    """Pickle an object and compress the pickle.

    Prefer `pack_array2`, which stores arrays without pickling.

    Parameters
    ----------
    obj : object
        An object with the attributes `itemsize` (the bytes to group) and `size`, like an array.
    clevel, filter, codec
        As for `compress`.

    Returns
    -------
    bytes

    Raises
    ------
    AttributeError
        The object has no `itemsize` or no `size`.
    ValueError
        A parameter is out of its range, or the pickle has more than 2,147,483,615 bytes.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> blosc2.unpack(blosc2.pack(np.arange(3)))
    array([0, 1, 2])
    """
    for name in ("itemsize", "size"):
        if not hasattr(obj, name):
            raise AttributeError(f"the object must have an attribute {name!r}, and {type(obj).__name__} has none")
    typesize = int(obj.itemsize)
    typesize = typesize if 1 <= typesize <= MAX_TYPESIZE else 1
    return compress(
        pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), typesize, clevel, filter, codec, _ignore_multiple_size=True
    )


def unpack(packed_object: Any, **kwargs: Any) -> Any:
    """Unpickle the result of `pack`.

    .. warning::
       Use it only for bytes from a source that you trust: reading a pickle can run any code.

    Parameters
    ----------
    packed_object : buffer
    **kwargs
        For `pickle.loads`: ``encoding``, ``errors``, ``fix_imports``, ``buffers``.

    Returns
    -------
    object

    Raises
    ------
    FormatError
        The bytes are not a chunk, or a damaged one.
    TypeError
        No buffer.
    pickle.UnpicklingError
        The chunk does not contain a pickle, or the pickle is damaged. Pickled classes may raise anything else.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> blosc2.unpack(blosc2.pack(np.float64(2.5)))
    np.float64(2.5)
    """
    return pickle.loads(decompress(packed_object) or b"", **kwargs)


def pack_array(
    arr: np.ndarray[Any, Any], clevel: int = 9, filter: Filter = Filter.SHUFFLE, codec: Codec = Codec.BLOSCLZ
) -> bytes:
    """Pickle an array and compress the pickle; the same as `pack`.

    Prefer `pack_array2`, which stores arrays without pickling and is not limited to 2 GiB.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> len(blosc2.pack_array(np.zeros(100_000))) < 5_000
    True
    """
    return pack(arr, clevel, filter, codec)


def unpack_array(packed_array: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
    """Unpickle the result of `pack_array`.

    .. warning::
       Use it only for bytes from a source that you trust: reading a pickle can run any code.

    Parameters
    ----------
    packed_array : buffer
    **kwargs
        For `pickle.loads`. If any is given, an array of bytes is decoded as UTF-8 text, as Python 2 wrote it.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    FormatError, TypeError, pickle.UnpicklingError
        As `unpack`.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> blosc2.unpack_array(blosc2.pack_array(np.array(["a", "bc"])))
    array(['a', 'bc'], dtype='<U2')
    """
    array = unpack(packed_array, **kwargs)
    if kwargs and isinstance(array, np.ndarray) and array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    result: np.ndarray[Any, Any] = array
    return result


# Plugins that are part of the C library itself.
_PLUGINS: Final = tuple(codec for codec in Codec if codec.facts.support is Support.ARRAY)
# Format bits of a chunk's flags -> the first codec of that format.
_FORMATS: Final = {codec.facts.format: codec for codec in reversed(Codec) if codec.facts.support is Support.BLOCK}
_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"
_CACHE_NAMES: Final = {("1", "Data"): "l1_data_cache_size", ("2", "Unified"): "l2_cache_size",
                       ("3", "Unified"): "l3_cache_size"}  # fmt: skip

_compressor = Codec.BLOSCLZ


def compressor_list(plugins: bool = False) -> list[Codec]:
    """Return the available codecs.

    Parameters
    ----------
    plugins : bool
        Whether to include codecs that work on the blocks of arrays.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.Codec.ZSTD in blosc2.compressor_list()
    True
    """
    return [*_codecs(), *_PLUGINS] if plugins else [*_codecs()]


@remembered(1)
def _codecs() -> tuple[Codec, ...]:
    names = compressor_names()
    return tuple(codec for codec in Codec if codec.name.lower() in names)


def clib_info(codec: Codec) -> tuple[bytes, bytes]:
    """Return name and version of the library of a codec; the version is ``b"unknown"`` if it has none.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.clib_info(blosc2.Codec.LZ4HC)[0]
    b'LZ4'
    """
    return _library_of(_member(codec))


@remembered(64)
def _library_of(codec: Codec) -> tuple[bytes, bytes]:
    name = codec.name.lower()
    library, version = library_info(name) or (name, "unknown")
    return library.encode(), version.encode()


def get_clib(bytesobj: Any) -> str:
    """Return the name of the library that compressed a chunk.

    Parameters
    ----------
    bytesobj : buffer
        A chunk, or the first 16 bytes of one (32 of one made by a plugin).

    Raises
    ------
    FormatError
        There are fewer bytes, or they are not the header of a chunk.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_clib(blosc2.compress2(bytes(range(200)), codec=blosc2.Codec.LZ4))
    'LZ4'
    """
    header = bytesobj if type(bytesobj) is bytes else bytes_of(bytesobj)
    if len(header) < OLD_HEADER or not 1 <= header[0] <= _NEWEST_VERSION:
        raise FormatError("Cannot get the info for the compressor: the bytes do not start with the header of a chunk")
    codec = item_of(_FORMATS, header[2] >> 5)
    if codec is None and header[2] >> 5 == PLUGIN_FORMAT and len(header) > 22:
        codec = next((known for known in Codec if known.value == header[22]), None)
    if codec is None:
        raise FormatError("Cannot get the info for the compressor: the chunk names none that is known")
    return _library_of(codec)[0].decode()


def get_compressor() -> str:
    """Return the name of the codec given to `set_compressor`; initially ``"blosclz"``.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_compressor()
    'blosclz'
    """
    return _compressor.name.lower()


def set_compressor(codec: Codec) -> int:
    """Set the codec that `get_compressor` returns, and return its id.

    It has no other effect: the functions that compress take the codec as a parameter.

    Raises
    ------
    ValueError
        The codec does not compress buffers.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.set_compressor(blosc2.Codec.LZ4), blosc2.get_compressor()
    (1, 'lz4')
    >>> blosc2.set_compressor(blosc2.Codec.BLOSCLZ)
    0
    """
    global _compressor
    if _member(codec) not in compressor_list():
        names = ", ".join(known.name for known in compressor_list())
        raise ValueError(f"{codec.name} does not compress buffers; there are {names}")
    _compressor = codec
    return int(codec.value)


def _member(codec: object) -> Codec:
    if not isinstance(codec, Codec):
        raise UnsupportedValueError(f"codec must be a member of blosc2.Codec, not {codec!r}")
    return codec


def get_cpu_info() -> dict[str, Any]:
    """Describe the processor: ``arch``, ``count``, and the bytes of its caches if the system reports them.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_cpu_info()["count"] >= 1
    True
    """
    info: dict[str, Any] = {"arch": platform.machine(), "count": os.cpu_count() or 1}
    number = 0
    while os.path.isdir(f"{_CACHES}/index{number}"):
        level, kind, size = (_first_line(f"{_CACHES}/index{number}/{name}") for name in ("level", "type", "size"))
        number += 1
        name = item_of(_CACHE_NAMES, (level, kind))
        if name is not None and size[:-1].isdigit() and size[-1] in "KM":
            info[name] = int(size[:-1]) << (10 if size[-1] == "K" else 20)
    return info


def _first_line(path: str) -> str:
    """What a file of the kernel says; nothing where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except OSError:
        return ""
