"""Objects as compressed pickles: `pack` and `unpack`, `pack_array` and `unpack_array`.

**Unpickling runs whatever code the bytes ask for.** Nothing else in this package unpickles.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from blosc2._functions.buffers import compress, decompress
from blosc2.storage import MAX_TYPESIZE, Codec, Filter


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
    pickle.UnpicklingError, or whatever the pickled classes raise
        The chunk does not contain a pickle, or the pickle is damaged.

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
