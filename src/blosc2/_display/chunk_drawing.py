"""Drawing the chunks of an array, as SVG."""

from __future__ import annotations

from collections.abc import Sequence

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
