"""The block cache of the process: how large it is, and what it has done."""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

from blosc2._core.codec import shared_blocks
from blosc2._core.io.sharing import Lock
from blosc2._options.goals import UNITS

_LOCK = Lock()


class BlockCacheStats(NamedTuple):
    """What the block cache holds, and what it has done since `set_block_cache`.

    Attributes
    ----------
    limit : int
        Bytes that it may take; 0 if it is off.
    nbytes : int
        Bytes that it takes.
    blocks : int
        Blocks that it holds.
    hits, misses : int
        Blocks that were wanted, and were there or had to be decoded.
    evictions : int
        Blocks that made room for others.
    """

    limit: int
    nbytes: int
    blocks: int
    hits: int
    misses: int
    evictions: int


def set_block_cache(size: int | str | None) -> int:
    """Keep decoded blocks of files in memory, up to a number of bytes, for all threads of this process.

    It is for reads that come back to the same blocks, such as the epochs of a training or patches that overlap, and
    for data that fit into memory decompressed, at least in part: a block that is there is copied instead of being
    decoded. Blocks that were not wanted for longest make room for others. By default it is off.

    The cache holds blocks of which a slice, a row or a patch took a part or all; chunks that are read as a whole
    pass it by. Each version of a file has blocks of its own, so that changes, `refresh` and replaced files
    never show an old block. The blocks of a `.b2z` or `.b2e` are found again as long as the store is open, those of an
    array in a file of its own as long as it is, or is kept open (`set_file_cache`).

    Parameters
    ----------
    size : int or str or None
        Bytes, or a text such as ``"2 GB"`` or ``"512 MiB"``. 0 or None switches it off. In any case it begins empty,
        with new counts.

    Returns
    -------
    int
        The bytes that were allowed before.

    Examples
    --------
    >>> old = set_block_cache("100 MB")
    >>> set_block_cache(old)
    100000000
    """
    nbytes = _nbytes(size)
    with _LOCK:
        return shared_blocks.set_limit(nbytes)


def block_cache_stats() -> BlockCacheStats:
    """What the block cache holds, and what it has done.

    Examples
    --------
    >>> block_cache_stats().limit
    0
    """
    return BlockCacheStats(*shared_blocks.counts())


def _nbytes(size: int | str | None) -> int:
    if size is None:
        return 0
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", size.lower())
        if found is None or found[2] not in UNITS:
            raise ValueError(f"{size!r} is no number of bytes such as '2 GB' or '512 MiB'")
        nbytes = int(float(found[1]) * UNITS[found[2]])
    elif isinstance(size, bool):
        raise TypeError(f"a number of bytes is needed, not {size}")
    else:
        nbytes = operator.index(size)
    if not 0 <= nbytes < 1 << 60:
        raise ValueError(f"a number of bytes below 2**60 is needed, at least 0, not {size}")
    return nbytes
