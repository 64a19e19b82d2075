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

    `pack_array2` keeps arrays without pickling, and should be preferred.

    Parameters
    ----------
    obj : object
        With an attribute `itemsize` (the bytes that are grouped) and `size`, as arrays have.
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
        A parameter out of its range, or a pickle of more than 2,147,483,615 bytes.

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
    """Unpickle what `pack` gave.

    .. warning::
       Only for bytes from a source that you trust: a pickle can run any code when it is read.

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
        No chunk, or a damaged one.
    TypeError
        No buffer.
    pickle.UnpicklingError, or whatever the pickled classes raise
        The chunk holds no pickle, or a damaged one.

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

    `pack_array2` keeps arrays without pickling, is not limited to 2 GiB, and should be preferred.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> len(blosc2.pack_array(np.zeros(100_000))) < 5_000
    True
    """
    return pack(arr, clevel, filter, codec)


def unpack_array(packed_array: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
    """Unpickle what `pack_array` gave.

    .. warning::
       Only for bytes from a source that you trust: a pickle can run any code when it is read.

    Parameters
    ----------
    packed_array : buffer
    **kwargs
        For `pickle.loads`. With any of them, an array of bytes is taken for UTF-8 text, as Python 2 wrote it.

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
