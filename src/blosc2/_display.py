"""How arrays and stores are shown: numbers for people, HTML for notebooks, drawings of chunk grids, pictures.

Everything here makes text, or the bytes of a picture, of plain values; the packages that own the objects decide what
the values are. All text that comes from a file is escaped here.
"""

from __future__ import annotations

import codecs
import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def human_size(nbytes: int) -> str:
    """A number of bytes with three digits and a binary unit."""
    size, unit = float(nbytes), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    if unit == 0:
        return "1 byte" if nbytes == 1 else f"{nbytes} bytes"
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:.{digits}f} {_UNITS[unit]}"


def number(count: int, what: str, several: str | None = None) -> str:
    """A count with its noun: "1 leaf", "1,200 leaves"."""
    return f"{count:,} {what if count == 1 else several or what + 's'}"


def ratio_text(nbytes: int, cbytes: int) -> str:
    """A ratio of compression; "" if nothing is stored."""
    if not nbytes or not cbytes:
        return ""
    ratio = nbytes / cbytes
    return f"{ratio:.1f}x" if ratio < 99.95 else f"{ratio:,.0f}x"


def sizes_text(nbytes: int, cbytes: int) -> str:
    """Uncompressed and compressed bytes: "1.20 GiB in 310 MiB (4.0x)"."""
    ratio = ratio_text(nbytes, cbytes)
    return f"{human_size(nbytes)} in {human_size(cbytes)} ({ratio})" if ratio else human_size(nbytes)


def printable(text: str) -> str:
    """A text in one line: control characters, and bytes that are no text, become escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, KeyError) and type(error) is KeyError:
        text = str(error.args[0]) if error.args else ""
    if isinstance(error, OSError) and error.strerror:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*names, error.strerror])
    if isinstance(error, MemoryError) and not text:
        text = "not enough memory"
    text = "; ".join([text or type(error).__name__, *getattr(error, "__notes__", ())])
    return " ".join(text.split()) or type(error).__name__


# What stands for a character of a drawing that an encoding does not have; other characters become escapes.
_PLAIN = str.maketrans({"├": "|", "│": "|", "└": "`", "─": "-", "…": "..."})
_ERRORS = "blosc2.plain"


def _in_plain_characters(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(_ERRORS, _in_plain_characters)


def for_any_encoding(*streams: object) -> None:
    """Have streams take every text: trees are drawn in ASCII where need be, and other characters become escapes."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


def printed(text: str, encoding: str | None) -> bytes:
    """A text as a stream of this encoding takes it after `for_any_encoding`."""
    return text.encode(encoding or "utf-8", _ERRORS)


def has_characters(encoding: str | None, text: str) -> bool:
    """Whether an encoding has all characters of a text."""
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


Pixels = np.ndarray[Any, np.dtype[np.uint8]]

# From black to white, as a terminal with light text shows them.
_RAMP = np.array(list(" .:-=+*#%@"))
_HEIGHTS = np.array(list("▁▂▃▄▅▆▇█"))
_HALF = "▀"


def limits(items: np.ndarray[Any, Any], percentiles: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """The numbers that become black and white: by default the smallest and largest; None if none is finite."""
    finite = items[np.isfinite(items)]
    if not finite.size:
        return None
    if percentiles is None:
        return float(finite.min()), float(finite.max())
    low, high = np.percentile(finite.astype(np.float64), percentiles)
    return float(low), float(high)


def grey(items: np.ndarray[Any, Any], low: float, high: float) -> Pixels:
    """Numbers as grey values: `low` is black (0), `high` is white (255), and what lies outside is one or the other.

    NaN is black. If `low` and `high` are the same, what is neither less nor more is a middle grey.
    """
    with np.errstate(over="ignore"):
        values = items.astype(np.float64)
    if low == high:
        found = np.where(values < low, 0, np.where(values > high, 255, 128))
        return np.where(np.isnan(values), 0, found).astype(np.uint8)
    with np.errstate(all="ignore"):
        scaled = (values / 2 - low / 2) / (high / 2 - low / 2)  # halves: the difference of two floats may be no float
    scaled[np.isnan(scaled)] = 0
    return np.asarray(np.floor(np.clip(scaled, 0, 1) * 255 + 0.5).astype(np.uint8))


# Of labels: the background is black. Others keep their colours from plane to plane.
_OF_LABELS = np.array([
    (0x44, 0x77, 0xAA), (0xEE, 0x66, 0x77), (0x22, 0x88, 0x33), (0xCC, 0xBB, 0x44), (0x66, 0xCC, 0xEE),
    (0xAA, 0x33, 0x77), (0xEE, 0x77, 0x33), (0x00, 0x99, 0x88), (0xBB, 0xBB, 0xBB), (0x99, 0x44, 0x22),
    (0x99, 0xDD, 0x55),
], np.uint8)  # fmt: skip
# A plane with fewer items for each is too small to say whether it has labels.
_ITEMS_OF_LABEL: Final = 16
# Labels lie as close together.
_LABEL_RANGE: Final = 1 << 16


def labels_of(items: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The different integers of a plane that looks like labels, such as the classes of a segmentation; else ()."""
    if items.dtype.kind not in "iu" or not items.size:
        return ()
    low, high = int(items.min()), int(items.max())
    if not 0 < high - low < _LABEL_RANGE:
        return ()
    apart = items.astype(np.int64) - low if items.dtype.kind == "i" else items - items.dtype.type(low)
    found = np.flatnonzero(np.bincount(apart.ravel().astype(np.int64)))
    labels = tuple(low + int(n) for n in found)
    return labels if have_colours(labels) and len(labels) <= items.size // _ITEMS_OF_LABEL else ()


def have_colours(labels: Sequence[int]) -> bool:
    """Whether there are as many colours; the background needs none."""
    return len(labels) - (0 in labels) <= len(_OF_LABELS)


def label_colours(labels: Sequence[int]) -> np.ndarray[Any, Any]:
    """A colour for each label: its own one, or the next that no label before it has."""
    free, found = list(range(len(_OF_LABELS))), np.zeros((len(labels), 3), np.uint8)
    for n, label in enumerate(labels):
        if label:
            place = min(free, key=lambda colour: (colour - label + 1) % len(_OF_LABELS))
            free.remove(place)
            found[n] = _OF_LABELS[place]
    return found


def in_label_colours(items: np.ndarray[Any, Any], labels: Sequence[int]) -> Pixels:
    """Labels as colours."""
    ordered = sorted(labels)
    colours = dict(zip(labels, label_colours(labels), strict=True))
    return np.array([colours[n] for n in ordered])[np.searchsorted(np.array(ordered, items.dtype), items)]


def label_legend(labels: Sequence[int]) -> str:
    """What colours stand for, as HTML; the background has none."""
    named = zip(labels, label_colours(labels).tolist(), strict=True)
    parts = (
        f'<span style="color:#{bytes(colour).hex()}" aria-hidden="true">&#9632;</span> {label}'
        for label, colour in named if label
    )  # fmt: skip
    return " &ensp; ".join(parts)


def _opaque(pixels: Pixels) -> np.ndarray[Any, Any]:
    """Pixels as they look on black: without opacity."""
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        return (pixels[..., :3] * (pixels[..., 3:] / 255) + 0.5).astype(np.uint8)
    return pixels


def text_picture(pixels: Pixels) -> str:
    """Pixels as plain characters: a line for each two rows, so that the picture is not stretched."""
    shown = _opaque(pixels).astype(np.float64)
    if shown.ndim == 3:
        shown = shown @ np.array([0.299, 0.587, 0.114])
    if len(shown) % 2:
        shown = np.concatenate([shown, shown[-1:]])
    shades = (shown[::2] + shown[1::2]) / 2
    steps = np.minimum((shades * (len(_RAMP) / 256)).astype(int), len(_RAMP) - 1)
    return "\n".join("".join(_RAMP[line]) for line in steps)


def colour_picture(pixels: Pixels) -> str:
    """Pixels as half blocks with colours of 24 bits: a line for each two rows."""
    shown = _opaque(pixels)
    if shown.ndim == 2:
        shown = np.repeat(shown[..., None], 3, axis=2)
    lines = []
    for row in range(0, len(shown), 2):
        last = None
        parts = []
        below = shown[row + 1].tolist() if row + 1 < len(shown) else None
        for column, above in enumerate(shown[row].tolist()):
            colours = (above, below[column] if below is not None else None)
            if colours != last:
                code = "38;2;" + ";".join(map(str, above))
                if colours[1] is not None:
                    code += ";48;2;" + ";".join(map(str, colours[1]))
                parts.append(f"\x1b[{code}m")
                last = colours
            parts.append(_HALF)
        lines.append("".join(parts) + "\x1b[0m")
    return "\n".join(lines)


def line_of_blocks(row: Pixels) -> str:
    """Grey values of one axis as a line of blocks, the higher the lighter."""
    return "".join(_HEIGHTS[row.astype(int) // 32])


def png_bytes(pixels: Pixels) -> bytes:
    """Pixels as a PNG file: grey, red-green-blue, or the latter with opacity, each of 8 bits."""
    height, width = pixels.shape[:2]
    kind = {1: 0, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    rows = np.zeros((height, 1 + pixels[0].size), np.uint8)  # each begins with the number of its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    )


# In user units, which are pixels unless a page scales the drawing.
_LONGEST = 120.0
_SHORTEST = 12.0
_MARGIN = 4.0
_TEXT = 16.0
# How far the third axis goes to the right and up, for each unit of its length.
_SLANT = 0.45
# More lines than this on one axis would be a grey area.
_MOST_LINES = 24


def chunk_grid(shape: Sequence[int], chunks: Sequence[int]) -> str:
    """Draw an array as a box with the borders of its chunks; "" if it has no items or no axes.

    Of more than three axes the last three are drawn. Of many chunks along an axis, only some borders are drawn; the
    label tells how many there are.
    """
    if not shape or 0 in shape or 0 in chunks:
        return ""
    shape, chunks = shape[-3:], chunks[-3:]
    lengths = _lengths(shape)
    cells = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    cuts = [_cuts(n, c, length) for n, c, length in zip(shape, chunks, lengths, strict=True)]
    if len(shape) == 1:
        cuts, lengths = [[0.0, _SHORTEST * 2], *cuts], [_SHORTEST * 2, *lengths]
    depth = lengths[0] * _SLANT if len(shape) == 3 else 0.0
    (rows, columns), (height, width) = cuts[-2:], lengths[-2:]
    lines = [_line(0, y, width, y) for y in rows] + [_line(x, 0, x, height) for x in columns]
    if depth:
        slant = [d * _SLANT for d in cuts[0]]
        lines += [_line(x, 0, x + depth, -depth) for x in columns]
        lines += [_line(width, y, width + depth, y - depth) for y in rows]
        lines += [_line(d, -d, width + d, -d) for d in slant]
        lines += [_line(width + d, -d, width + d, height - d) for d in slant]
    across = f"{shape[-1]:,}" + _chunk_note(cells[-1])
    labels = [_label(0, height + _TEXT, across)]
    if len(shape) > 1:
        labels.append(_label(width + depth + 6, height / 2 - depth, f"{shape[-2]:,}" + _chunk_note(cells[-2])))
    if depth:
        labels.append(_label(width + depth / 2 + 8, height - depth / 2 + 10, f"{shape[0]:,}" + _chunk_note(cells[0])))
    full_width = width + depth + 130 + 2 * _MARGIN
    full_height = height + depth + _TEXT + 8 + 2 * _MARGIN
    spoken = f"chunks of {' x '.join(map(str, chunks))} in {' x '.join(map(str, shape))} items"
    box = f"{-_MARGIN:.0f} {-depth - _MARGIN:.1f} {full_width:.0f} {full_height:.0f}"
    return (
        f'<svg width="{full_width:.0f}" height="{full_height:.0f}" viewBox="{box}" role="img" aria-label="{spoken}" '
        'stroke="currentColor" fill="currentColor">'
        f'<g fill="rgba(127,127,127,.18)" stroke="none">{_faces(width, height, depth)}</g>'
        f'<g stroke-width="1" stroke-opacity=".75">{"".join(lines)}</g>'
        f'<g stroke="none" font-size="11">{"".join(labels)}</g></svg>'
    )


def _lengths(shape: Sequence[int]) -> list[float]:
    """How long each axis is drawn: in proportion, but none too short to be seen."""
    longest = max(shape)
    return [max(_SHORTEST, _LONGEST * n / longest) for n in shape]


def _cuts(length: int, chunk: int, drawn: float) -> list[float]:
    """Where the borders of chunks lie along an axis, its two ends included."""
    count = -(-length // chunk)
    step = -(-count // _MOST_LINES)
    return [drawn * k * chunk / length for k in range(0, count, step)] + [drawn]


def _chunk_note(count: int) -> str:
    return f" ({count:,} chunks)" if count > 1 else ""


def _faces(width: float, height: float, depth: float) -> str:
    front = f'<path d="M0 0H{width:.1f}V{height:.1f}H0Z"/>'
    if not depth:
        return front
    top = f'<path d="M0 0L{depth:.1f} {-depth:.1f}H{width + depth:.1f}L{width:.1f} 0Z"/>'
    side = f'<path d="M{width:.1f} 0L{width + depth:.1f} {-depth:.1f}V{height - depth:.1f}L{width:.1f} {height:.1f}Z"/>'
    return front + top + side


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{text}</text>'


_STYLE = """<style>
.blosc2-view{font-size:90%;line-height:1.5;color:inherit}
.blosc2-view h4{margin:0 0 .4em;font-size:105%}
.blosc2-view table{border-collapse:collapse;margin:0}
.blosc2-view th,.blosc2-view td{text-align:left;padding:.1em .8em .1em 0;border:0;background:none;vertical-align:top}
.blosc2-view th{font-weight:600}
.blosc2-view .parts{display:flex;flex-wrap:wrap;gap:2em;align-items:flex-start}
.blosc2-view .bar{display:flex;height:1em;width:24em;max-width:100%;margin:.4em 0;background:rgba(127,127,127,.15)}
.blosc2-view .bar span{display:block;height:100%;min-width:1px;border-right:1px solid rgba(127,127,127,.6)}
.blosc2-view ul{list-style:none;margin:0;padding-left:1.2em}
.blosc2-view .tree>ul{padding-left:0}
.blosc2-view summary{cursor:pointer}
.blosc2-view .note{opacity:.75}
.blosc2-view code{background:none;color:inherit;padding:0}
.blosc2-view svg{max-width:100%;height:auto}
</style>"""

# Distinct in light and dark themes, and for people who see few colours.
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_OTHERS = "#999999"


def escaped(text: object) -> str:
    return escape(printable(str(text)))


def page(title: str, *parts: str) -> str:
    """All that is shown of one object. The parts are HTML already, the title is not."""
    heading, inner = escaped(title), "".join(parts)
    return f'<div class="blosc2-view" role="group" aria-label="{heading}">{_STYLE}<h4>{heading}</h4>{inner}</div>'


def definition_table(rows: Iterable[tuple[str, object]]) -> str:
    inner = "".join(f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>' for name, value in rows)
    return f"<table><tbody>{inner}</tbody></table>"


def byte_bar(parts: Iterable[tuple[str, int]], total: int) -> str:
    """A bar of where the bytes are, with the largest parts named and the others together; "" if there are none."""
    largest = sorted((part for part in parts if part[1] > 0), key=lambda part: -part[1])[: len(_COLOURS)]
    if not largest or total <= 0:
        return ""
    shown = [(name, size, colour) for (name, size), colour in zip(largest, _COLOURS, strict=False)]
    rest = total - sum(size for _, size, _ in shown)
    if rest > 0:
        shown.append(("others", rest, _OTHERS))
    pieces, legend = [], []
    for name, size, colour in shown:
        share = 100 * size / total
        text = f"{name}: {human_size(size)}, {share:.0f} %"
        pieces.append(f'<span style="width:{share:.2f}%;background:{colour}" title="{escaped(text)}"></span>')
        legend.append(f'<span style="color:{colour}" aria-hidden="true">&#9632;</span> {escaped(text)}')
    return (
        f'<div class="bar" role="img" aria-label="{escaped(", ".join(f"{n} {human_size(s)}" for n, s, _ in shown))}">'
        f'{"".join(pieces)}</div><div class="note">{" &ensp; ".join(legend)}</div>'
    )


class Node(NamedTuple):
    """A group or a leaf, by the last part of its key; "/" is the root.

    `text` is what a leaf is: its shape and dtype, or its kind. `leaves` are those below a group; the bytes are theirs,
    uncompressed and compressed, but `cbytes` of a single leaf is what it takes in the file. `children` are those that
    are shown, and `more` says in words what else the group contains.
    """

    name: str
    is_group: bool
    text: str = ""
    leaves: int | None = None
    nbytes: int | None = None
    cbytes: int | None = None
    children: tuple[Node, ...] = ()
    more: str = ""

    def summary(self) -> str:
        """What is shown behind the name."""
        parts = [self.text] if self.text else []
        if self.leaves is not None:
            parts.append(number(self.leaves, "leaf", "leaves"))
        if self.nbytes is not None and self.cbytes is not None:
            both = sizes_text(self.nbytes, self.cbytes)
            parts.append(both if self.is_group else both.partition(" (")[0])
        return ", ".join(parts)


def as_text(root: Node) -> str:
    summary = root.summary()
    return "\n".join([printable(root.name) + (f"  {summary}" if summary else ""), *_tree_lines(root, "")])


def _tree_lines(node: Node, indent: str) -> Iterator[str]:
    last = len(node.children) - (not node.more)
    for at, child in enumerate(node.children):
        end = at == last
        summary = child.summary()
        name = printable(child.name) + ("/" if child.is_group else "")
        yield f"{indent}{'└── ' if end else '├── '}{name}{'  ' if summary else ''}{summary}"
        yield from _tree_lines(child, indent + ("    " if end else "│   "))
    if node.more:
        yield f"{indent}└── {node.more}"


def as_html(root: Node) -> str:
    """The tree as nested lists that can be folded; only the first level is open."""
    return f'<div class="tree">{html_list(root)}</div>'


def html_list(node: Node, path: str = "", links: Mapping[str, str] = MappingProxyType({})) -> str:
    """What is below a group of this path; `links` has the addresses of leaves, by their paths."""
    items = "".join(f"<li>{_item(child, f'{path}/{child.name}', links)}</li>" for child in node.children)
    if node.more:
        items += f'<li class="note">{escaped(node.more)}</li>'
    return f"<ul>{items}</ul>" if items else ""


def _item(node: Node, path: str, links: Mapping[str, str]) -> str:
    name = f"<code>{escaped(node.name)}{'/' if node.is_group else ''}</code>"
    if path in links and not node.is_group:
        name = f'<a href="{links[path]}">{name}</a>'
    summary = node.summary()
    head = name + (f' <span class="note">{escaped(summary)}</span>' if summary else "")
    inner = html_list(node, path, links)
    return f"<details><summary>{head}</summary>{inner}</details>" if inner else head
