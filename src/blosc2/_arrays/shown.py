"""An array in one line, and as HTML with a drawing of its chunks."""

from __future__ import annotations

import binascii
import math
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from blosc2 import _display, _indexing
from blosc2._arrays.planes import index_text, middle_plane, read_picture
from blosc2._frames import CHOICE, unpack
from blosc2._options import OPAQUE_KINDS
from blosc2.exceptions import FormatError
from blosc2.info import dtype_text
from blosc2.storage import Codec

if TYPE_CHECKING:
    from blosc2._arrays.readable import ReadableArray
    from blosc2._core.frame.frame import Frame
    from blosc2._indexing import Version


def one_line(array: ReadableArray) -> str:
    """Shape, dtype, where it is, chunks, blocks, codec and ratio."""
    geometry, dtype, frame = _described(array)
    where = _where(array)
    ratio = _display.ratio_text(geometry.size * dtype.itemsize, int(frame.cbytes))
    return (
        f"<NDArray {geometry.shape} {dtype_text(dtype)}{f' in {where}' if where else ''}, chunks {geometry.chunks}, "
        f"blocks {geometry.blocks}, {_codec(int(frame.codec))}{f' {ratio}' if ratio else ''}>"
    )


def described_choice(array: ReadableArray) -> list[tuple[str, str]]:
    """The line of `info` about how compression was chosen from the data, if it was."""
    packed = array._handle.frame.metalayer(CHOICE)
    try:
        why = None if packed is None else unpack(packed)
    except (FormatError, ValueError):  # whoever reads it learns no more than it says
        return []
    return [("chosen", _display.printable(why))] if isinstance(why, str) else []


def _described(array: ReadableArray) -> Version:
    """The version as of the last read: nothing is looked up."""
    described = array._handle.described
    assert described is not None
    return described


def _where(array: ReadableArray) -> str:
    """The file, and the key in it; "" for an array in memory."""
    path, key = array.urlpath, array._handle.key
    parts = [repr(key)] if key else []
    if path:
        parts.append(str(path))
    return _display.printable(" of ".join(parts))


def _codec(number: int) -> str:
    try:
        return Codec(number).name
    except ValueError:
        return f"codec {number}"


def html(array: ReadableArray) -> str:
    """What a notebook shows."""
    geometry, dtype, frame = _described(array)
    counts = [-(-n // c) if c else 0 for n, c in zip(geometry.shape, geometry.chunks, strict=True)]
    rows: list[tuple[str, object]] = [
        ("shape", geometry.shape),
        ("dtype", dtype_text(dtype)),
        ("bytes", _display.sizes_text(geometry.size * dtype.itemsize, int(frame.cbytes))),
        ("chunks", f"{geometry.chunks}, {_display.number(math.prod(counts), 'chunk')}"),
        ("blocks", geometry.blocks),
        ("codec", f"{_codec(int(frame.codec))}, level {array.cparams.clevel}, {_filters(array)}"),
    ]
    where = _where(array)
    if where:
        rows.append(("in", where))
    mode = getattr(array._handle, "mmap_mode", None)
    if mode:
        rows.append(("mapped", "yes" if mode == "r" else f"yes, mmap_mode={mode!r}"))
    names: list[str] = []
    with suppress(OSError, FormatError):  # what is wrong with the file, reads and `check` say
        names = list(frame.vlmeta_chunks())
    if names:
        rows.append(
            ("attributes", ", ".join(names[:10]) + (f", ... {len(names) - 10} more" if len(names) > 10 else ""))
        )
    grid = _display.chunk_grid(geometry.shape, geometry.chunks)
    parts = f'<div class="parts"><div>{_display.definition_table(rows)}</div><div>{grid}</div>{_picture(array)}</div>'
    return _display.page("NDArray", parts)


# How large a picture is at most and at least, in pixels, how large small ones are drawn, and how many bytes are decoded
# for it: some ten milliseconds.
_SIDE: Final = 128
_DRAWN: Final = 192
_SMALLEST: Final = 8
# The environment variable that is 0 where no pictures are wanted.
_SWITCH: Final = "BLOSC2_PICTURES"
_DECODED: Final = 8 << 20


class _Seen:
    """The version of an array that was seen last, which reading for a picture does not change."""

    def __init__(self, version: Version) -> None:
        self._version = version
        geometry, self.dtype, frame = version
        self.shape, self.blocks = geometry.shape, geometry.blocks
        if frame.needs_geometry or frame.checks_chunks:  # these are decoded as a whole
            self.blocks = geometry.chunks
        self.vlmeta: Any = _Attributes(frame)  # of which pictures ask for some

    def __getitem__(self, key: Any) -> Any:
        return _indexing.read(self._version, key, 1)


class _Attributes:
    """The attributes of a frame, one at a time."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def get(self, name: str) -> Any:
        packed = self._frame.vlmeta(name)
        return None if packed is None else unpack(packed)


def _picture(array: ReadableArray) -> str:
    """The middle plane of an array; "" where it has none, where reading it would take long, or if nobody wants it."""
    if os.environ.get(_SWITCH, "1") == "0":
        return ""
    version = _described(array)
    geometry, dtype, frame = version
    is_read_elsewhere = frame.source.far or not set(OPAQUE_KINDS).isdisjoint(frame.metalayers())
    if is_read_elsewhere or geometry.ndim < 2 or dtype.names or dtype.kind not in "biuf":
        return ""
    try:
        seen = _Seen(version)
        axes, sides = middle_plane([range(n) for n in geometry.shape], dtype, seen.vlmeta)
        picture = read_picture(seen, axes, sides, (_SIDE, _SIDE), most=_DECODED)
    except Exception:  # noqa: BLE001 - whatever is wrong, who reads the array learns it
        return ""
    height, width = picture.pixels.shape[:2]
    if min(height, width) < _SMALLEST:
        return ""
    times = max(1, _DRAWN // max(height, width))
    data = binascii.b2a_base64(_display.png_bytes(picture.opaque_where_known()), newline=False).decode()
    what = f"[{index_text(picture.axes)}]: {picture.size()} items, {picture.scale()}"
    legend = f"<br>{_display.label_legend(picture.labels)}" if picture.labels else ""
    alt = _display.escaped(f"the middle plane, {what}")
    return (
        f'<div style="max-width:16em"><img alt="{alt}" width="{width * times}" '
        f'height="{height * times}" style="image-rendering:pixelated" src="data:image/png;base64,{data}">'
        f'<div class="note">{_display.escaped(what)}{legend}</div></div>'
    )


def _filters(array: ReadableArray) -> str:
    names = [getattr(item, "name", str(item)).lower() for item in array.cparams.filters]
    return ", ".join(name for name in names if name != "nofilter") or "no filter"
