"""Frames of small arrays, from templates: header, index and trailer are made once for each kind of array.

For an array of some bytes, nearly all work of `asarray` is bookkeeping. Arrays of one dtype, shape and compression
differ only in one chunk and two lengths, so the rest is kept as a template. Stores make all frames of such arrays by
them: one by one, several in threads (`_core.frame.frame_writer`), and those of a few bytes without Python (`RawKinds`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from blosc2._arrays.spec import ArrayPlan
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import (
    RawKinds,
    SmallFrameTemplate,
    forget_idle,
    pack_header,
    pack_index,
    pack_trailer,
)
from blosc2._core.io.sharing import free_lock, in_child, item_of
from blosc2._core.io.source import Source
from blosc2._core.ndim.geometry import describe
from blosc2._frames import ZERO_OFFSET, parse_dtype
from blosc2.storage import CParams, asked_for, cparams_dflts

#: Uncompressed bytes up to which an array is one block of one chunk, whatever its items are.
_SMALL: Final = 64 << 10
#: Bytes up to which values of a store are not compressed, unless somebody asked for it: the rest of a frame has some
#: 300, so that little would be saved, in many times the time.
TINY: Final = 256
#: Templates of one set of compression parameters, and such sets.
_MOST: Final = 256
_MOST_SETS: Final = 8

Items = np.ndarray[Any, Any]


class _Known:
    """What the frames of one kind of arrays have in common: a template, or nothing."""

    __slots__ = ("description", "dtype", "names", "template")

    def __init__(self, dtype: np.dtype[Any], template: SmallFrameTemplate | None = None) -> None:
        # The key of structured dtypes is their address, which must not become another one's.
        self.dtype = dtype
        self.names = dtype.names
        self.template = template
        # The catalog's description of uncompressed arrays of this kind.
        self.description: bytes | None = None


class _Set:
    """Templates of arrays that are compressed in one way."""

    __slots__ = ("given", "known", "made_from")

    def __init__(self, made_from: dict[str, Any], *, given: bool) -> None:
        # A copy: callers can change their objects, and the defaults.
        self.made_from = {name: list(value) if isinstance(value, list) else value for name, value in made_from.items()}
        self.given = given
        self.known: dict[tuple[Any, tuple[int, ...]], _Known] = {}


_sets: list[_Set] = []


def _begin_child() -> None:
    for one in _sets:
        free_lock(one.known)
        free_lock(one.made_from)


in_child(_begin_child)


def settled(items: Items, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords, with a choice that they ask for made for these items.

    Small arrays do without the line that tells of it, and tiny ones without the choice: it costs more than it saves.
    """
    given = keywords.get("cparams")
    if given is None or asked_for(given) is None or items.dtype.hasobject:
        return keywords
    if items.nbytes <= TINY:
        return {name: value for name, value in keywords.items() if name != "cparams"}
    plan = ArrayPlan(items.shape, items.dtype, keywords)
    plan.settle(items.__getitem__, items.shape)
    is_plain = plan.chosen is None or (items.nbytes <= _SMALL and plan.precision is None)
    return {**keywords, "cparams": plan.cparams if is_plain else plan.chosen}


def cframe_of(items: Items, keywords: dict[str, Any]) -> bytes:
    """The bytes of ``asarray(items, **keywords).to_cframe()``, but faster for small arrays.

    The items are of no subclass of `ndarray`, and the keywords ask for an array in memory.
    """
    keywords = settled(items, keywords)
    known = _kind_of(items, keywords) if items.nbytes <= _SMALL else None
    frame = None if known is None or known.template is None else known.template.frame(items)
    if frame is not None:
        return frame
    plan = ArrayPlan(items.shape, items.dtype, keywords)
    return plan.write(plan.compressed(items)).to_cframe()


def tiny_frame(items: Items, keywords: dict[str, Any], *, asked: bool | None = None) -> tuple[bytes, bytes] | None:
    """The frame of an array that is not worth compressing, and its description. None for other arrays.

    It is that of `cframe_of` with a chunk that is stored as it is. `asked` says whether somebody asked for compression;
    by default, whether there are any keywords.
    """
    if (bool(keywords) if asked is None else asked) or items.nbytes > TINY:
        return None
    known = _kind_of(items, settled(items, keywords))
    frame = None if known is None or known.template is None else known.template.raw_frame(items)
    return None if known is None or frame is None else (frame, _description(known, frame))


def template_of(items: Items, keywords: dict[str, Any]) -> SmallFrameTemplate | None:
    """What makes the frames of arrays like this one, in several threads; None for arrays without a template.

    These are the frames of `cframe_of`.
    """
    if not TINY < items.nbytes <= _SMALL or items.dtype.hasobject:
        return None
    known = _kind_of(items, settled(items, keywords))
    return None if known is None else known.template


def raw_kinds(keywords: dict[str, Any]) -> RawKinds | None:
    """The kinds of arrays whose frames are made without Python code; for a store that nobody asked to compress them."""
    if asked_for(keywords.get("cparams")) is not None:
        keywords = {}  # of such small arrays nothing is chosen
    templates = _set_of(keywords)
    if templates is None:
        return None

    def learn(items: Items) -> tuple[SmallFrameTemplate, bytes] | None:
        known = _kind_of(items, keywords) if items.nbytes <= TINY and not items.dtype.hasobject else None
        frame = None if known is None or known.template is None else known.template.raw_frame(items)
        if known is None or known.template is None or frame is None:
            return None
        return known.template, _description(known, frame)

    return RawKinds(learn, cparams_dflts if not keywords else keywords["cparams"].__dict__, templates.made_from)


def _description(known: _Known, frame: bytes) -> bytes:
    """The description of arrays of one kind that are stored as they are."""
    if known.description is None:
        known.description = describe(Frame.open(Source.of_buffer(frame)), parse_dtype)
    return known.description


def _kind_of(items: Items, keywords: dict[str, Any]) -> _Known | None:
    """What is known of the kind of a small array; None if the keywords may say more than how to compress."""
    templates = _set_of(keywords)
    if templates is None:
        return None
    dtype = items.dtype
    # Names of fields can be assigned, and equal structures may be written differently, so only the same object counts.
    key = (dtype if dtype.names is None else id(dtype), items.shape)
    known = item_of(templates.known, key)
    if known is None or known.names is not dtype.names:
        known = _learn(ArrayPlan(items.shape, dtype, keywords))
        if len(templates.known) >= _MOST:
            templates.known.clear()
        templates.known[key] = known
    return known


def _set_of(keywords: dict[str, Any]) -> _Set | None:
    """The templates for these keywords. None if the keywords may say more than how to compress."""
    cparams = keywords.get("cparams")
    if len(keywords) > ("cparams" in keywords):
        return None
    if cparams is None:
        fields = cparams_dflts
    elif type(cparams) is CParams:
        fields = cparams.__dict__
    else:
        return None
    given = cparams is not None
    for one in _sets:
        if one.made_from == fields and one.given is given:
            return one
    one = _Set(fields, given=given)
    if len(_sets) >= _MOST_SETS:
        _sets.clear()
    _sets.append(one)
    return one


def _learn(plan: ArrayPlan) -> _Known:
    """What arrays that are made by a plan have in common."""
    dtype, geometry = plan.dtype, plan.geometry
    nested = any(dtype[name].base.names is not None for name in dtype.names or ())
    one_block = geometry.shape == geometry.chunks == geometry.blocks
    if nested or not one_block or not geometry.size or plan.encoding.needs_geometry or plan.encoding.use_dict:
        return _Known(dtype)
    nbytes = int(geometry.chunk_nbytes)
    header = pack_header(plan.fields, plan.metalayers, False, 0, nbytes, 0)
    trailer = pack_trailer({})
    tail, zeros = pack_index(np.zeros(1, np.int64), 1) + trailer, pack_index(ZERO_OFFSET, 1) + trailer
    return _Known(dtype, SmallFrameTemplate(header, tail, zeros, nbytes, plan.encoding))


def forget_templates() -> None:
    """Forget all templates and their idle encoders."""
    _sets.clear()
    forget_idle()
