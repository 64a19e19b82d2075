"""An array in one line, and as HTML with a drawing of its chunks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from blosc2 import _display
from blosc2._frames import CHOICE, unpack
from blosc2.exceptions import FormatError
from blosc2.info import dtype_text
from blosc2.storage import Codec

if TYPE_CHECKING:
    from blosc2._arrays.readable import ReadableArray
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
    names = list(frame.vlmeta_chunks())
    if names:
        rows.append(
            ("attributes", ", ".join(names[:10]) + (f", ... {len(names) - 10} more" if len(names) > 10 else ""))
        )
    grid = _display.chunk_grid(geometry.shape, geometry.chunks)
    parts = f'<div class="parts"><div>{_display.definition_table(rows)}</div><div>{grid}</div></div>'
    return _display.page("NDArray", parts)


def _filters(array: ReadableArray) -> str:
    names = [getattr(item, "name", str(item)).lower() for item in array.cparams.filters]
    return ", ".join(name for name in names if name != "nofilter") or "no filter"
