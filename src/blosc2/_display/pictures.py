"""Pictures of arrays: grey values of numbers, text for terminals, and PNG files.

Pixels are arrays of uint8: rows by columns for grey values, and a third axis of three or four for red, green, blue and
opacity.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.uint8]]

# From black to white, as a terminal with light text shows them.
_RAMP = np.array(list(" .:-=+*#%@"))
_HEIGHTS = np.array(list("▁▂▃▄▅▆▇█"))
_HALF = "▀"


def limits(items: np.ndarray[Any, Any], percentiles: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """The numbers that become black and white: by default the smallest and largest; None if none is finite.

    Examples
    --------
    >>> limits(np.array([1, 5, np.inf, np.nan]))
    (1.0, 5.0)
    """
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

    Examples
    --------
    >>> grey(np.array([-1.0, 0.0, 0.5, 1.0, 9.0]), 0, 1).tolist()
    [0, 0, 128, 255, 255]
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
