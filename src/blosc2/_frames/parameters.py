"""How frames are made and compressed: keywords of constructors, encoders that are reused, parameters in a header.

Making an encoder takes longer than compressing a small chunk. It has a compression context of the C library, which
serves one thread at a time. So it is removed from the table while it is used; both steps are atomic in the interpreter
and need no lock.

Reading does not need the parameters in a header, because each chunk states how it was compressed. So a file with
damaged parameters can be read; they are checked when the first chunk is written.

Each constructor refuses an unknown keyword before anything is created: a misspelt `urlpath` must not make an array that
exists only in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._core.codec.codec import Encoder
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import free_in_child, free_lock, in_child
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_write import Write
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
from blosc2._options import (
    Encoding,
    Support,
    check_meta,
    compressed,
    declared_encoding,
    fields_of,
    lossy_codecs,
    shares_chunk,
)
from blosc2.exceptions import FormatError, ParameterError
from blosc2.storage import (
    ARRAY_KEYWORDS,
    SCHUNK_KEYWORDS,
    Codec,
    CParams,
    DParams,
    Filter,
    Storage,
    asked_for,
    cparams_from,
    cparams_of,
    dparams_from,
    storage_dflts,
    storage_from,
    unexpected_keyword,
)

# A context keeps the memory of its codec, up to some MB, so only a few are kept.
_MOST_IDLE: Final = 4

_idle: dict[tuple[Any, ...], Encoder] = free_in_child({})


def encode(encoding: Encoding, data: Any, nthreads: int = 1) -> bytes:
    """Compress a buffer into a chunk, whose bytes do not depend on how many threads share its blocks."""
    if nthreads > 1 and shares_chunk(encoding, memoryview(data).nbytes):
        chunk = _encode_in_threads(encoding, memoryview(data).cast("B"), nthreads)
        if chunk is not None:
            return chunk
    kind = fields_of(encoding)
    encoder = _idle.pop(kind, None) or Encoder(encoding)
    stored: bytes = encoder.encode_bytes(data)
    # An encoder that raised is not used again: its state is unknown.
    if encoder.is_small():
        if len(_idle) >= _MOST_IDLE:
            _idle.clear()
        _idle[kind] = encoder
    return stored


def _encode_in_threads(encoding: Encoding, view: memoryview, nthreads: int) -> bytes | None:
    """The chunk; None where it is all zeros, which an operation does not store."""
    source = np.frombuffer(view, np.uint8)
    geometry = Geometry(source.shape, source.shape, source.shape, 1)
    operation = Write(None, geometry, (0,), (1,), source.shape, source, encoding)
    chunks: dict[int, bytes | int] = compressed(operation, len(view), nthreads)
    return chunk if isinstance(chunk := chunks[0], bytes) else None


def check_for_bytes(encoding: Encoding) -> None:
    """Refuse parameters that work on arrays only, not on bytes."""
    if encoding.needs_geometry:
        raise ParameterError("this codec or filter works on the blocks of arrays, not on bytes: use asarray with it")


def forget_encoders() -> None:
    """Free the idle encoders."""
    _idle.clear()


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


def check_lossy_codec(cparams: CParams, dtype: np.dtype[Any], ndim: int | None = None) -> None:
    """Refuse items of other dtypes than the codec works on: decoded, they would be noise.

    With `ndim`, refuse a rate, too, that is so low that nothing but zeros is stored.
    """
    if cparams.codec not in LOSSY_CODECS:
        return
    dtypes = cparams.codec.facts.dtypes
    if dtype not in [np.dtype(name) for name in dtypes]:
        names = " and ".join(dtypes)
        raise ParameterError(f"{cparams.codec.name} compresses {names} of native byte order only, not {dtype}")
    if any(item is not Filter.NOFILTER for item in cparams.filters):
        raise ValueError(f"{cparams.codec.name} works on the numbers themselves: pass filters=[] with it")
    if cparams.codec is Codec.ZFP_RATE and ndim is not None:
        # Of the bits of its 4 items along each axis, the exponent and two more come first.
        least = -(-100 * (11 if dtype.itemsize == 4 else 14) // (8 * dtype.itemsize * 4 ** max(ndim, 1)))
        if cparams.codec_meta < least:
            raise ParameterError(
                f"codec_meta is {cparams.codec_meta} percent for ZFP_RATE: below {least} it keeps nothing of {dtype} "
                f"in {ndim}-D, and 100 is the most"
            )


def check_declared(frame: Frame, dtype: np.dtype[Any] | None = None) -> None:
    """Raise `FormatError` where new chunks would be compressed with impossible parameters from a header."""
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


_STORAGE = tuple(item.name for item in fields(Storage))


class ConstructorKeywords(NamedTuple):
    """Checked keywords of a constructor.

    `cparams` are as given: what they leave out depends on the data, so `cparams_from` comes later.
    """

    storage: Storage
    cparams: CParams | dict[str, Any] | None
    dparams: DParams
    chunks: Any = None
    blocks: Any = None
    layout: Any = None


def array_keywords(keywords: Mapping[str, Any]) -> ConstructorKeywords:
    """Split the keywords of a constructor of arrays; `cparams` is not checked yet."""
    for name in keywords:
        if name not in ARRAY_KEYWORDS:
            raise unexpected_keyword(name, ARRAY_KEYWORDS)
    return _split(keywords)


def schunk_keywords(keywords: Mapping[str, Any]) -> ConstructorKeywords:
    """Split the keywords of a constructor of super-chunks, as `array_keywords` does."""
    for name in keywords:
        if name not in SCHUNK_KEYWORDS:
            raise unexpected_keyword(name, SCHUNK_KEYWORDS)
    cparams = keywords.get("cparams")
    if cparams is not None:  # refused now, while nothing has been created
        cparams_from(cparams)
        _refuse_precision(cparams)
    return _split(keywords)


def _refuse_precision(cparams: Any) -> None:
    if getattr(asked_for(cparams) or cparams, "precision", None) is not None:
        raise ValueError("precision= rounds numbers, and bytes are none: use asarray")


def cparams_keywords(keywords: dict[str, Any], itemsize: int = 1, **overrides: Any) -> CParams:
    """Give the parameters of functions that take either `cparams=` or the fields themselves.

    `itemsize` is that of the data, which ``typesize=None`` stands for.
    """
    given = _either(keywords, "cparams")
    _refuse_precision(given)
    cparams = cparams_from(given, **overrides)
    asked: Any = given["typesize"] if isinstance(given, dict) and "typesize" in given else cparams.typesize
    if isinstance(given, CParams):
        asked = given.typesize
    return cparams if asked is not None else cparams_from(given, **{"typesize": itemsize, **overrides})


def dparams_keywords(keywords: dict[str, Any]) -> DParams:
    """Give the parameters of functions that take either `dparams=` or the fields themselves."""
    return dparams_from(_either(keywords, "dparams"))


def _split(keywords: Mapping[str, Any]) -> ConstructorKeywords:
    if not keywords:
        return ConstructorKeywords(_default_storage(), None, dparams_from(None))
    storage = keywords.get("storage")
    stored = {name: keywords[name] for name in _STORAGE if name in keywords}
    if storage is not None:
        if stored:
            raise AttributeError("Cannot pass both `storage` and other kwargs already included in Storage")
        storage = storage_from(storage)
    else:
        storage = storage_from(stored) if stored else _default_storage()
    return ConstructorKeywords(
        storage, keywords.get("cparams"), dparams_from(keywords.get("dparams")), keywords.get("chunks"),
        keywords.get("blocks"), keywords.get("layout"),
    )  # fmt: skip


def _default_storage() -> Storage:
    """The default storage. All callers share one object, which nobody changes, until `storage_dflts` changes."""
    global _defaults
    if _defaults is None or _defaults[0] != storage_dflts:
        _defaults = (dict(storage_dflts), storage_from(None))
    return _defaults[1]


_defaults: tuple[dict[str, Any], Storage] | None = None


def _begin_child() -> None:
    if _defaults is not None:
        free_lock(_defaults[0])


in_child(_begin_child)


def _either(keywords: dict[str, Any], name: str) -> Any:
    given = keywords.get(name)
    if given is None:
        return {key: value for key, value in keywords.items() if key != name}
    if len(keywords) > 1:
        kind = "CParams" if name == "cparams" else "DParams"
        raise AttributeError(f"Cannot pass both {name} and other kwargs already included in {kind}")
    return given
