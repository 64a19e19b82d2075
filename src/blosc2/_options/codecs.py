"""The codecs and filters that exist. A new one is declared here, in one line, and nowhere else.

Each member of `Codec` and `Filter` carries the facts about it, and the rest of the package asks these. Compiled code
has a table of its own, which the build writes from this one (cmake/codec_table.py).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, IntEnum
from typing import Final, NamedTuple, Self

#: Format bits in the flags of a chunk whose codec is a plugin: the codec is then named by its id.
PLUGIN_FORMAT: Final = 6
#: The first id of plugins. Lower ones belong to C-Blosc2 itself.
FIRST_PLUGIN: Final = 32


class Support(IntEnum):
    """What decoding needs."""

    ABSENT = 0  # no build has it: chunks with it are refused
    BLOCK = 1  # a block of a chunk alone
    WHOLE_CHUNK = 2  # all blocks of the chunk
    ARRAY = 3  # the shape of the array's blocks, which a super-chunk of the C library tells


class CodecFacts(NamedTuple):
    """What the package knows of a codec: what it is part of, and the format bits in the flags of a chunk.

    `dtypes` are the only ones that it compresses: it takes the items for such numbers, and gives back others that are
    close; empty for a codec that gives back the bytes, whatever they are. `metas` are the values of `codec_meta` that
    it can be used with, and `meta_text` says what they stand for. `fast` is whether it compresses at a GB a second and
    more.
    """

    provider: str
    support: Support = Support.ABSENT
    format: int = PLUGIN_FORMAT
    dtypes: tuple[str, ...] = ()
    metas: Collection[int] = range(256)
    meta_text: str = ""
    fast: bool = False


class FilterFacts(NamedTuple):
    """What the package knows of a filter.

    `lossy` is whether it drops bits of the items, `takes_typesize` whether its meta is the typesize; where that is 0,
    the filter asks the array. `keeps_runs` is whether it turns a block of one byte, repeated, into the same block.
    """

    support: Support
    lossy: bool = False
    takes_typesize: bool = False
    keeps_runs: bool = False


def _library(chunk_format: int, *, fast: bool = False) -> CodecFacts:
    return CodecFacts("C-Blosc2", Support.BLOCK, chunk_format, fast=fast)


def _plugin(*, dtypes: tuple[str, ...] = (), metas: Collection[int] = range(256), meta_text: str = "") -> CodecFacts:
    return CodecFacts("plugin in C-Blosc2", Support.ARRAY, dtypes=dtypes, metas=metas, meta_text=meta_text)


_FLOATS: Final = ("float32", "float64")
_EXTERNAL: Final = CodecFacts("plugin outside C-Blosc2")
_PLAIN: Final = FilterFacts(Support.BLOCK)


class Codec(Enum):
    """Codecs by their id on disk. Codecs from 32 on are plugins, which a build may lack.

    The ZFP codecs **lose** something: they take floats of 4 and 8 bytes in 1 to 4 dimensions, and give back others that
    are close. For plugins, `codec_meta` is

    ======== ==========================================================================================
    NDLZ     The side of a cell, 4 or 8. It takes arrays of bytes with two axes.
    ZFP_ACC  The largest error is ``10**codec_meta``: 1 by default, 0.001 with -3.
    ZFP_PREC About how many bits of each number are right, 1 to 255.
    ZFP_RATE The percentage of the bytes that is kept, 1 to 100. How large errors are depends on the data.
    ======== ==========================================================================================

    Others ignore it, and those from OPENHTJ2K on are in no build.
    """

    __module__ = "blosc2.storage"  # where programs and pickles find it
    _value_: int
    facts: CodecFacts

    def __new__(cls, number: int, facts: CodecFacts = _EXTERNAL) -> Self:
        member = object.__new__(cls)
        member._value_ = number
        member.facts = facts
        return member

    BLOSCLZ = 0, _library(0, fast=True)
    LZ4 = 1, _library(1, fast=True)
    LZ4HC = 2, _library(1)
    ZLIB = 4, _library(3)
    ZSTD = 5, _library(4)
    NDLZ = 32, _plugin(metas=(4, 8), meta_text="the side of a cell, 4 or 8")
    ZFP_ACC = 33, _plugin(dtypes=_FLOATS)
    ZFP_PREC = 34, _plugin(dtypes=_FLOATS, meta_text="how many bits are right, 1 to 255")
    ZFP_RATE = 35, _plugin(dtypes=_FLOATS, metas=range(101), meta_text="the percentage kept, 1 to 100")
    OPENHTJ2K = 36
    GROK = 37
    OPENZL = 38
    J2K = 39
    HTJ2K = 40


class Filter(Enum):
    """Filters by their id on disk.

    What they do, and what the number for each in `filters_meta` is, if it has a meaning:

    ========== =======================================================================================
    SHUFFLE    Sorts the bytes of items by their place in the item.
    BITSHUFFLE Does so with the bits.
    DELTA      Takes the difference from the first block of the chunk.
    TRUNC_PREC **Loses** bits of floats. How many of the fraction stay: 1 to 23 (4 bytes), 52 (8 bytes).
    NDCELL     Sorts the items of arrays by cells. The side of a cell, at least 1.
    NDMEAN     **Loses** what floats of 4 and 8 bytes differ from the mean of their cell. As for NDCELL.
    BYTEDELTA  Takes differences of neighbouring bytes, after SHUFFLE. The item size; 0 is that of the data.
    INT_TRUNC  **Loses** the last bits of integers. How many stay: 1 to all.
    ========== =======================================================================================
    """

    __module__ = "blosc2.storage"
    _value_: int
    facts: FilterFacts

    def __new__(cls, number: int, facts: FilterFacts = _PLAIN) -> Self:
        member = object.__new__(cls)
        member._value_ = number
        member.facts = facts
        return member

    NOFILTER = 0, FilterFacts(Support.BLOCK, keeps_runs=True)
    SHUFFLE = 1, FilterFacts(Support.BLOCK, keeps_runs=True)
    BITSHUFFLE = 2, _PLAIN
    DELTA = 3, FilterFacts(Support.WHOLE_CHUNK)
    TRUNC_PREC = 4, FilterFacts(Support.BLOCK, lossy=True, keeps_runs=True)
    NDCELL = 32, FilterFacts(Support.ARRAY)
    NDMEAN = 33, FilterFacts(Support.ARRAY, lossy=True)
    BYTEDELTA = 35, FilterFacts(Support.BLOCK, takes_typesize=True)
    INT_TRUNC = 36, FilterFacts(Support.BLOCK, lossy=True)


def lossy_codecs() -> tuple[Codec, ...]:
    """Codecs that take the items themselves for numbers."""
    return tuple(codec for codec in Codec if codec.facts.dtypes)
