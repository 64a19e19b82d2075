"""Checking the compression parameters in a frame's header before new chunks are made with them.

Reading does not need them, because each chunk states how it was compressed. So a file with damaged parameters can be
read; they are checked when the first chunk is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import free_in_child
from blosc2._frames.encoder_pool import encode
from blosc2._frames.header_fields import (
    BLOCKSIZE_AT,
    CODEC_AT,
    CODEC_META_AT,
    FILTERS_AT,
    FILTERS_META_AT,
    LEVEL_AT,
    SPLIT_MODE_AT,
    TYPESIZE_AT,
)
from blosc2._options import Support, check_meta, declared_encoding, fields_of, lossy_codecs
from blosc2.exceptions import FormatError
from blosc2.storage import CParams, Filter, cparams_of

# Where the header has them.
_OFFSETS: Final = {
    "codec": CODEC_AT, "codec_meta": CODEC_META_AT, "clevel": LEVEL_AT, "splitmode": SPLIT_MODE_AT,
    "typesize": TYPESIZE_AT, "blocksize": BLOCKSIZE_AT, "filters": FILTERS_AT, "filters_meta": FILTERS_META_AT,
}  # fmt: skip
_NAMES: Final = tuple(item.name for item in fields(CParams))
#: Those that take the items themselves for numbers.
LOSSY_CODECS: Final = lossy_codecs()
_LOSSY: Final = tuple(codec.value for codec in LOSSY_CODECS)
# Long enough to exercise every codec and filter.
_SAMPLE: Final = bytes(64)
_MOST: Final = 64

# A dictionary, as looking into a set waits for its lock without a GIL: doc/design/threads.md.
_usable: dict[tuple[Any, ...], None] = free_in_child({})


def check_lossy_codec(cparams: CParams, dtype: np.dtype[Any]) -> None:
    """Refuse items of other dtypes than the codec works on: decoded, they would be noise."""
    if cparams.codec not in LOSSY_CODECS:
        return
    dtypes = cparams.codec.facts.dtypes
    if dtype not in [np.dtype(name) for name in dtypes]:
        names = " and ".join(dtypes)
        raise ValueError(f"{cparams.codec.name} compresses {names} of native byte order only, not {dtype}")
    if any(item is not Filter.NOFILTER for item in cparams.filters):
        raise ValueError(f"{cparams.codec.name} works on the numbers themselves: pass filters=[] with it")


def check_declared(frame: Frame, dtype: np.dtype[Any] | None = None) -> None:
    """Refuse to compress new chunks with impossible parameters from a header.

    Parameters
    ----------
    frame : Frame
        One whose own parameters new chunks are to have.
    dtype : numpy.dtype, optional
        Of the items of an array.

    Raises
    ------
    FormatError
        Such parameters do not exist, or not together.
    """
    known = fields_of(frame)
    if dtype is not None and frame.codec in _LOSSY:
        with _refusing(frame, _OFFSETS["filters"]):
            check_lossy_codec(cparams_of(frame, 1), dtype)
    if known in _usable:
        return
    declared = cparams_of(frame, 1)
    # Checked one by one first, to know which byte is wrong.
    for name, offset in _OFFSETS.items():
        with _refusing(frame, offset):
            CParams(**{name: getattr(declared, name)}, nthreads=1)
    with _refusing(frame, _OFFSETS["codec"]):
        if declared.codec.facts.support is Support.ABSENT:
            raise ValueError(f"the codec {frame.codec} is a plugin that is not part of this package")
    with _refusing(frame, _OFFSETS["codec_meta"]):
        check_meta(declared.codec, frame.codec_meta)
    with _refusing(frame, _OFFSETS["filters"]):
        CParams(**{name: getattr(declared, name) for name in _NAMES})
        encoding = declared_encoding(frame)
        encoding.check()
        if not encoding.needs_geometry:  # others were tried when the array was opened
            encode(encoding, _SAMPLE)
    if len(_usable) >= _MOST:
        _usable.clear()
    _usable[known] = None


@contextmanager
def _refusing(frame: Frame, offset: int) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise FormatError(
            f"nothing new can be compressed as this header says: {error}. The array can be read, and copied with "
            "cparams= of its own",
            path=frame.source.path, key=frame.key, offset=frame.offset + offset,
        ) from None  # fmt: skip
