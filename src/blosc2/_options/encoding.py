"""How chunks are compressed: `Encoding`, the one description that goes down from the public classes to the codec.

Users describe it by `blosc2.CParams`, which can be changed; a frame describes it in its header. Both become an
`Encoding` here, which never changes.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from blosc2._core.codec.codec import Encoding as Encoding
from blosc2._options.codecs import Codec, Filter
from blosc2.exceptions import ParameterError

#: The fields of an `Encoding`. The headers of frames have the same, under the same names.
FIELDS: Final = (
    "codec", "codec_meta", "clevel", "use_dict", "typesize", "blocksize", "splitmode", "filters", "filters_meta",
)  # fmt: skip
#: Gives these fields of an `Encoding` or a frame, as a tuple that can be a key of a dictionary.
fields_of: Final = attrgetter(*FIELDS)

#: Slots for filters in the headers of frames and chunks.
FILTER_SLOTS: Final = 6
_NONE: Final = (0,) * FILTER_SLOTS
_AUTO_SPLIT: Final = 3


def encoding_of(cparams: Any, typesize: int, blocksize: int) -> Encoding:
    """The encoding that `blosc2.CParams` ask for, with items and blocks of these sizes in bytes."""
    # Those that this package does not know are the numbers themselves.
    codec, split, *filters = [
        getattr(one, "_value_", one) for one in (cparams.codec, cparams.splitmode, *cparams.filters)
    ]
    return Encoding(
        codec, cparams.codec_meta, cparams.clevel, cparams.use_dict, typesize, blocksize, split, tuple(filters),
        tuple(cparams.filters_meta),
    )  # fmt: skip


def declared_encoding(frame: Any) -> Encoding:
    """The encoding that a frame declares in its header. Nothing is checked."""
    return Encoding(*fields_of(frame))


def plain_encoding(
    codec: int, clevel: int, typesize: int = 1, last_filter: int = Filter.NOFILTER.value, *, blocksize: int = 0,
    splitmode: int = _AUTO_SPLIT,
) -> Encoding:  # fmt: skip
    return Encoding(codec, 0, clevel, False, typesize, blocksize, splitmode, (*_NONE[1:], last_filter), _NONE)


def with_metas(encoding: Encoding, metas: tuple[int, ...]) -> Encoding:
    return Encoding(*(fields_of(encoding)[:-1] + (metas,)))


def zstd_encoding(clevel: int, last_filter: Filter = Filter.NOFILTER) -> Encoding:
    """How the package compresses bytes of its own, such as metadata; level 0 stores them as they are."""
    return plain_encoding(Codec.ZSTD.value, clevel, last_filter=last_filter.value)


def check_meta(codec: Codec, meta: int) -> None:
    """Refuse a `codec_meta` that the codec cannot be used with."""
    if meta not in codec.facts.metas:
        raise ParameterError(f"codec_meta is {meta}, and for the codec {codec.name} it is {codec.facts.meta_text}")
