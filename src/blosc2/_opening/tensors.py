"""NumPy arrays and tensors as plain frames: `pack_array2`, `save_array` and similar functions.

The frame is a super-chunk whose metadata entry ``__pack_tensor__`` names kind, shape and dtype; no pickle is involved.
The library of a tensor is imported where a stored one is to be made again, and not before.
"""

from __future__ import annotations

import math
import os
import sys
from importlib import import_module
from typing import Any, Final, Unpack

import numpy as np

from blosc2._core.io.sharing import item_of
from blosc2._core.ndim.gaps import as_dtype
from blosc2._frames import (
    Fields,
    FrameContent,
    FrameHandle,
    HandleOptions,
    bytes_of,
    check_for_bytes,
    check_target,
    chunk_nbytes,
    compressed_pieces,
    dtype_from_description,
    is_masked,
    new_handle,
    pack,
    pack_metalayers,
    read_into,
    refuse_unstorable,
    schunk_keywords,
    vlmeta_chunk,
)
from blosc2._opening.open_path import open, schunk_from_cframe
from blosc2._options import encoding_of, lacking, refuse_without_path
from blosc2.exceptions import FormatError, MissingMetadataError
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import DParams, SChunkKeywords, cparams_from, takes

# Of a chunk where nobody says how many. Threads share chunks, and Ctrl-C waits for some of them.
_CHUNK_NBYTES: Final = 4 << 20
_ENTRY: Final = "__pack_tensor__"
_NUMPY: Final = "numpy"
# Kinds of tensors -> the names of their classes, and what makes one of an array.
_LIBRARIES: Final = {"torch": (("Tensor",), "from_numpy"), "tensorflow": (("Tensor", "Variable"), "constant")}

Array = np.ndarray[Any, Any]


@takes(SChunkKeywords)
def pack_tensor(tensor: Any, chunksize: int | None = None, **kwargs: Unpack[SChunkKeywords]) -> bytes | int:
    """Compress an array or tensor into the bytes of a frame.

    Parameters
    ----------
    tensor : numpy.ndarray, NDArray, torch.Tensor or tensorflow.Tensor
        An array or tensor of any shape, strides and dtype that NumPy has, except objects. It is stored in C order. Of
        a bfloat16 tensor give the bits, ``tensor.view(torch.uint16)``, and view what is unpacked as bfloat16 again.
    chunksize : int, optional
        Uncompressed bytes of a chunk; by default 4 MiB, or one chunk for less data.
    **kwargs
        As for `SChunk`: ``cparams``, ``dparams``, ``urlpath``, ``mode``, ...

    Returns
    -------
    bytes or int
        The frame; with ``urlpath``, the number of bytes written.

    Raises
    ------
    TypeError
        `tensor` is something else, or its dtype cannot be stored.
    FileExistsError
        ``urlpath`` exists; ``mode="w"`` replaces it.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> frame = blosc2.pack_tensor(np.arange(12).reshape(3, 4))
    >>> blosc2.unpack_tensor(frame)[2]
    array([ 8,  9, 10, 11])
    """
    kind, array = _as_numpy(tensor)
    description = _describe(array.dtype)
    keywords = schunk_keywords(kwargs)
    storage = keywords.storage
    if storage.urlpath is None and storage.mode == "r":
        refuse_without_path("an array")
    check_target(storage, "array")
    cparams = cparams_from(keywords.cparams, unless_given={"typesize": array.itemsize})
    chunksize = chunk_nbytes(chunksize, min(array.nbytes, _CHUNK_NBYTES), cparams.typesize)
    encoding = encoding_of(cparams, cparams.typesize, cparams.blocksize)
    check_for_bytes(encoding)
    chunks = compressed_pieces(encoding, bytes_of(array), chunksize, cparams.nthreads)
    # Its description goes into a file together with the data, so that there is never one without it.
    vlmeta = {_ENTRY: vlmeta_chunk(pack((kind, array.shape, description)))}
    count = -(-array.nbytes // chunksize)
    fields = Fields(encoding, chunksize)
    content = FrameContent(fields, pack_metalayers(storage.meta), vlmeta, chunks, count, array.nbytes)
    handle = new_handle(storage, content, HandleOptions(deserialize="full", cparams=cparams))
    return handle.to_cframe() if storage.urlpath is None else int(handle.frame.frame_len)


def unpack_tensor(cframe: Any) -> Any:
    """Unpack the array or tensor of `pack_tensor`.

    Parameters
    ----------
    cframe : bytes-like

    Returns
    -------
    numpy.ndarray, torch.Tensor or tensorflow.Tensor
        An object of the packed kind.

    Raises
    ------
    FormatError
        The bytes are not a frame, or a damaged one.
    KeyError
        The frame contains something else.
    ImportError
        The library of the tensor is not installed; `unpack_array2` returns it as an array.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> blosc2.unpack_tensor(blosc2.pack_tensor(np.zeros(2, "M8[s]"))).dtype
    dtype('<M8[s]')
    """
    return _as_tensor(*_restore(schunk_from_cframe(cframe)))


@takes(SChunkKeywords)
def pack_array2(arr: Any, chunksize: int | None = None, **kwargs: Unpack[SChunkKeywords]) -> bytes | int:
    """Compress an array into the bytes of a frame; the same as `pack_tensor`.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> len(blosc2.pack_array2(np.zeros(1_000_000))) < 500
    True
    """
    return pack_tensor(arr, chunksize, **kwargs)


def unpack_array2(cframe: Any) -> Array:
    """Unpack the array or tensor of `pack_array2` or `pack_tensor`, as a NumPy array.

    Parameters and errors are those of `unpack_tensor`; no other library is needed.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> blosc2.unpack_array2(blosc2.pack_array2(np.array(["a", "bc"])))
    array(['a', 'bc'], dtype='<U2')
    """
    return _restore(schunk_from_cframe(cframe))[1]


@takes(SChunkKeywords)
def save_tensor(tensor: Any, urlpath: str | bytes | os.PathLike[Any], chunksize: int | None = None,
                **kwargs: Any) -> int:  # fmt: skip
    """Compress an array or tensor into a file.

    Parameters
    ----------
    tensor, chunksize, **kwargs
        As for `pack_tensor`. ``mode="w"`` replaces an existing file.
    urlpath : str, bytes or path

    Returns
    -------
    int
        The size of the file in bytes.

    Raises
    ------
    TypeError, FileExistsError
        As `pack_tensor`; an existing file stays as it was.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> name = os.path.join(tempfile.mkdtemp(), "ramp.b2frame")
    >>> blosc2.save_tensor(np.arange(5), name) == os.path.getsize(name)
    True
    >>> blosc2.load_tensor(name)
    array([0, 1, 2, 3, 4])
    """
    return int(pack_tensor(tensor, chunksize, urlpath=urlpath, **kwargs))


def load_tensor(urlpath: str | bytes | os.PathLike[Any], dparams: DParams | dict[str, Any] | None = None, *,
                storage_options: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Load the array or tensor in a file of `save_tensor`.

    Parameters
    ----------
    urlpath : str, bytes or path
    dparams : DParams or dict, optional
    storage_options : dict, optional
        For URLs, as in `blosc2.open`.

    Returns
    -------
    numpy.ndarray, torch.Tensor or tensorflow.Tensor
        An object of the saved kind.

    Raises
    ------
    FileNotFoundError
    FormatError, KeyError, ImportError
        As `unpack_tensor`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> name = os.path.join(tempfile.mkdtemp(), "grid.b2frame")
    >>> _ = blosc2.save_tensor(np.ones((2, 2)), name)
    >>> blosc2.load_tensor(name, dparams={"nthreads": 1})
    array([[1., 1.],
           [1., 1.]])
    """
    return _as_tensor(*_load(urlpath, dparams, storage_options))


@takes(SChunkKeywords)
def save_array(arr: Any, urlpath: str | bytes | os.PathLike[Any], chunksize: int | None = None, **kwargs: Any) -> int:
    """Compress an array into a file; the same as `save_tensor`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> name = os.path.join(tempfile.mkdtemp(), "ramp.b2frame")
    >>> blosc2.save_array(np.arange(1_000_000), name) < 100_000
    True
    >>> blosc2.load_array(name)[-1]
    np.int64(999999)
    """
    return save_tensor(arr, urlpath, chunksize, **kwargs)


def load_array(urlpath: str | bytes | os.PathLike[Any], dparams: DParams | dict[str, Any] | None = None, *,
               storage_options: dict[str, Any] | None = None) -> Array:  # fmt: skip
    """Load the array or tensor in a file of `save_array` or `save_tensor`, as a NumPy array.

    Parameters and errors are those of `load_tensor`; no other library is needed.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> name = os.path.join(tempfile.mkdtemp(), "names.b2frame")
    >>> _ = blosc2.save_array(np.array([b"ab", b"c"]), name)
    >>> blosc2.load_array(name)
    array([b'ab', b'c'], dtype='|S2')
    """
    return _load(urlpath, dparams, storage_options)[1]


def _load(urlpath: Any, dparams: Any, storage_options: Any) -> tuple[str, Array]:
    return _restore(open(urlpath, mode="r", dparams=dparams, storage_options=storage_options))


# ---------------------------------------------------------------- kinds


def _as_numpy(tensor: Any) -> tuple[str, Array]:
    """The kind of a tensor, and its items in C order."""
    if is_masked(tensor):
        raise TypeError("a masked array cannot be packed: its mask would be lost; pack data and mask")
    if isinstance(tensor, np.ndarray):
        # Of subclasses only the items: nobody could restore more.
        return _NUMPY, np.asarray(tensor, order="C")
    if isinstance(tensor, NDArray):
        return _NUMPY, np.asarray(tensor)
    for kind, (classes, _) in _LIBRARIES.items():
        library = item_of(sys.modules, kind)
        known = (getattr(library, name, None) for name in classes)
        if isinstance(tensor, tuple(cls for cls in known if isinstance(cls, type))):
            return kind, np.asarray(as_dtype(tensor, None), order="C")
    raise TypeError(
        f"Unrecognized tensor/array: {type(tensor).__name__}; NumPy arrays, and tensors of torch and tensorflow where "
        "these are imported, can be packed: numpy.asarray makes an array of most other things"
    )


def _as_tensor(kind: str, array: Array) -> Any:
    if kind == _NUMPY:
        return array
    try:
        library = import_module(kind)
    except ImportError as error:
        what, note = f"a tensor of {kind}", "; unpack_array2 and load_array give it as a NumPy array"
        text = lacking(what, kind, "torch", note) if kind == "torch" else f"{what} needs the package {kind!r}{note}"
        raise ImportError(text, name=kind) from error
    return getattr(library, _LIBRARIES[kind][1])(array)


def _describe(dtype: np.dtype[Any]) -> Any:
    """A dtype as the metadata entry has it: its text, or the list of its fields."""
    refuse_unstorable(dtype)
    if dtype.names is None:
        return dtype.str
    try:
        return dtype.descr
    except ValueError:
        raise TypeError(
            f"cannot pack the dtype {dtype}: its fields overlap or are out of order; "
            "numpy.lib.recfunctions.repack_fields puts them in order"
        ) from None


# ---------------------------------------------------------------- reading


def _restore(found: Any) -> tuple[str, Array]:
    """Kind and items of what a super-chunk holds; everything that it says is checked before memory is taken."""
    handle: FrameHandle | None = getattr(found, "_handle", None)
    if not isinstance(found, SChunk) or handle is None or _ENTRY not in found.vlmeta:
        raise MissingMetadataError(
            f"there is no array of save_array or pack_tensor here (no metadata entry {_ENTRY!r}), "
            f"but {type(found).__name__}: use blosc2.open or from_cframe",
            path=None if handle is None else handle.urlpath,
        )
    frame = handle.frame
    kind, shape, dtype = _parse(found.vlmeta[_ENTRY], handle)
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes != frame.nbytes:
        raise _error(f"it names {shape} items of {dtype}, {nbytes} bytes, and there are {frame.nbytes}", handle)
    try:
        array = np.empty(shape, dtype)
    except ValueError as error:  # sizes whose product is zero, and which NumPy refuses all the same
        raise _error(f"an array cannot have the shape {shape}: {error}", handle) from None
    if nbytes:
        items: Any = array.reshape(-1).view(np.uint8)
        read_into(frame, 0, nbytes, memoryview(items), handle.nthreads)
    return kind, array


def _parse(value: Any, handle: FrameHandle) -> tuple[str, tuple[int, ...], np.dtype[Any]]:
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        raise _error("it is not (kind, shape, dtype)", handle)
    kind, shape, description = value
    if not isinstance(kind, str) or kind not in (_NUMPY, *_LIBRARIES):
        raise _error(f"the kind {kind!r} is none of {[_NUMPY, *_LIBRARIES]}", handle)
    if not isinstance(shape, (list, tuple)) or not all(type(size) is int and size >= 0 for size in shape):
        raise _error(f"{shape!r} is not a shape", handle)
    try:
        return kind, tuple(shape), _dtype_of(description)
    except (ValueError, RecursionError) as error:
        raise _error(f"of its dtype: {error}", handle) from None


def _dtype_of(description: Any) -> np.dtype[Any]:
    if not isinstance(description, (str, list, tuple)):
        raise ValueError(f"{description!r} is neither text nor a list of fields")
    if isinstance(description, str):
        return dtype_from_description(description)
    fields = [_field(field) for field in description]
    if len(fields) == 1 and fields[0][:1] == ("",) and isinstance(fields[0][1], str):
        return dtype_from_description(fields[0][1])  # a void dtype, as others write it
    return dtype_from_description(fields)


def _field(field: Any) -> tuple[Any, ...]:
    """A field whose parts may be lists where NumPy wants tuples, as old files have them."""
    if not isinstance(field, (list, tuple)) or len(field) not in (2, 3):
        raise ValueError(f"{field!r} is not (name, format) or (name, format, shape)")
    name, form, *shape = field
    if isinstance(name, list):
        name = tuple(name)
    if isinstance(form, list):
        form = [_field(inner) for inner in form]
    return (name, form, *(tuple(size) if isinstance(size, list) else size for size in shape))


def _error(reason: str, handle: FrameHandle) -> FormatError:
    return FormatError(f"the metadata entry {_ENTRY!r} is wrong: {reason}", path=handle.urlpath)
