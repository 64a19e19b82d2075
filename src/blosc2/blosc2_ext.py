"""Three functions under the name of the other implementation's extension module.

Private: for programs that already call them here. `open` returns an array or super-chunk even if the file contains
another kind of object; other programs should use `blosc2.open`.
"""

from __future__ import annotations

import os
from typing import Any, Never

from blosc2._frames import HandleOptions, open_handle
from blosc2._functions import compress2, decompress2, wrap
from blosc2._options import check_open_modes, deserialize_mode, local_path
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import cparams_from, dparams_from

__all__ = ["compress2", "decompress2", "open"]

_KEYWORDS = ("mmap_mode", "initial_mapping_size", "locking", "cparams", "dparams", "deserialize")


def open(urlpath: str | bytes | os.PathLike[Any], mode: str, offset: int, **kwargs: Any) -> NDArray | SChunk:
    """Open the frame at an offset of a file: an array if it has the geometry of one, else a super-chunk.

    Parameters
    ----------
    urlpath : str, bytes or path
    mode : {"r", "a"}
    offset : int
        Frames that do not start at 0 can only be read.
    **kwargs
        ``mmap_mode``, ``cparams``, ``dparams``, ``deserialize``; ``locking``; ``initial_mapping_size`` is checked.

    Returns
    -------
    NDArray or SChunk
        Lists of values and stores in one frame come as the super-chunk below them. What another package would compute
        or fetch can be described, and its metadata read.

    Raises
    ------
    FileNotFoundError
    FormatError
        There is no frame at that offset.
    ValueError
        A keyword that is not known, or modes that do not go together.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> name = os.path.join(tempfile.mkdtemp(), "ones.b2nd")
    >>> _ = blosc2.ones(3, urlpath=name)
    >>> blosc2.blosc2_ext.open(name, "r", 0).schunk.nchunks
    1
    """
    for name in kwargs:
        if name not in _KEYWORDS:
            raise ValueError(f"{name} is not supported as keyword argument")
    path = local_path(urlpath)
    mmap_mode = kwargs.get("mmap_mode")
    locking = bool(kwargs.get("locking"))
    effective = check_open_modes(
        mode, mmap_mode, kwargs.get("initial_mapping_size"), path=path, offset=offset, locking=locking
    )
    if effective not in ("r", "a"):
        raise ValueError(f"mode must be 'r' or 'a' here, not {mode!r}: nothing is created or emptied")
    policy = str(deserialize_mode(kwargs.get("deserialize", "safe")))
    cparams = None if kwargs.get("cparams") is None else cparams_from(kwargs["cparams"])
    dparams = None if kwargs.get("dparams") is None else dparams_from(kwargs["dparams"])
    handle = open_handle(path, HandleOptions(effective, mmap_mode, policy, dparams, cparams, locking=locking), offset)
    found = wrap(handle)
    return found if isinstance(found, (NDArray, SChunk)) else SChunk._of(handle)


def __getattr__(name: str) -> Never:
    raise AttributeError(
        f"blosc2_ext has no {name!r} here: there is no such extension module in this package, only "
        f"{', '.join(__all__)} are offered under its name"
    )
