"""What the panes of the viewer show, as text: tables, windows of values, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from blosc2._display import colour_picture, grey, human_size, printable
from blosc2._tools.planes import check_dtype, decoded_bytes, read_picture
from blosc2._tools.viewer.describing import attributes, properties
from blosc2._tools.viewer.pages import Page
from blosc2._tools.viewer.sources import Bytes, Source, Values
from blosc2._tools.viewer.statistics import Rows
from blosc2._tools.viewer.values import WIDEST, Cells
from blosc2.ndarray import NDArray

#: A picture decodes at most so many bytes.
MOST_DECODED = 256 << 20
_TALLEST_STRIP = 16


def table_of(rows: Rows, title: str = "") -> Text:
    """Names and values in two columns."""
    found = Text()
    if title:
        found.append(printable(title) + "\n", "bold")
    width = min(WIDEST, max((cell_len(printable(name)) for name, _ in rows), default=0))
    for name, value in rows:
        found.append(fitted(printable(name), max(width, cell_len(printable(name)))), "dim")
        found.append("  " + printable(value) + "\n")
    return found


def information(thing: Any, name: str) -> Text:
    """Properties and attributes."""
    found = table_of(properties(thing), name)
    rows = attributes(thing)
    if rows:
        found.append("\n")
        found.append_text(table_of(rows, "Attributes"))
    return found


def fitted(text: str, width: int) -> str:
    """A text in so many columns of the terminal, with an ellipsis where it is cut."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, max(0, width - 1)) + "…"


def window_text(cells: Cells, width: int, source: Source) -> tuple[Text, int]:
    """A window of values as aligned columns, and how many columns fit."""
    side = max(map(cell_len, cells.rows), default=0)
    widest = width if isinstance(source, (Bytes, Values)) else WIDEST
    columns = list(zip(*cells.texts, strict=True))
    widths: list[int] = []
    used = side
    for heading, column in zip(cells.columns, columns, strict=True):
        need = min(widest, max(cell_len(heading), *map(cell_len, column)))
        if widths and used + 2 + need > width:
            break
        widths.append(min(need, max(1, width - used - 2)))
        used += 2 + widths[-1]
    found = Text(no_wrap=True)
    line = "".join("  " + _aligned(text, size, source) for text, size in zip(cells.columns, widths))
    found.append(" " * side + line + "\n", "bold")
    for label, texts in zip(cells.rows, cells.texts, strict=True):
        found.append(label.rjust(side), "dim")
        found.append("".join("  " + _aligned(text, size, source) for text, size in zip(texts, widths)) + "\n")
    return found, max(1, len(widths))


def _aligned(text: str, width: int, source: Source) -> str:
    if source.dtype.kind in "biufcmM" and not isinstance(source, Bytes) and cell_len(text) <= width:
        return " " * (width - cell_len(text)) + text
    return fitted(text, width)


def picture_text(source: Source, page: Page, box: tuple[int, int]) -> Text:
    """The plane of a page with half blocks, and what it shows; what is no picture says why."""
    if not isinstance(source, NDArray):
        raise ValueError("only arrays have pictures")
    if source.dtype.kind != "c":
        check_dtype(source.dtype)
    if page.is_empty or page.rows is None:
        raise ValueError("this array has no plane to draw")
    axes = page.pictured(source.dtype)
    picture = read_picture(source, axes, page.sides, box, most=MOST_DECODED)
    pixels = picture.pixels
    if len(page.sides) == 1:
        pixels = _line(picture.items, picture.low, picture.high, min(box[0], _TALLEST_STRIP))
    elif page.columns is not None and page.rows > page.columns:
        pixels = pixels.swapaxes(0, 1)
    found = Text.from_ansi(colour_picture(pixels))
    found.no_wrap = True
    what = "magnitudes, " if source.dtype.kind == "c" else ""
    found.append(f"\n{picture.size()} items, {what}{picture.scale()}", "dim")
    return found


def _line(items: Any, low: float, high: float, height: int) -> Any:
    """Items of one axis as columns of pixels, the higher the larger."""
    tall = np.round(grey(items, low, high) / 255 * (height - 1)).astype(int)
    shown = np.arange(height)[::-1, None] <= tall
    return np.where(shown, 200, 0).astype(np.uint8)


def plane_bytes(source: Source, page: Page) -> int:
    """About how many bytes are decoded to read the whole plane."""
    return decoded_bytes(source, page.plane())


def too_large(size: int, keys: Sequence[str]) -> Text:
    """What stands where statistics would take a while."""
    return Text(
        f"The plane takes {human_size(size)} to read. Press {keys[0]} to read it, {keys[1]} for all of the array."
    )
