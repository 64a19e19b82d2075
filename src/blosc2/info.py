"""What objects tell of themselves: tables of properties, as `info` shows them, and where their data are."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from blosc2.exceptions import legible


class InfoReporter:
    """Shows the `info_items` of an object as text, or as HTML in notebooks."""

    def __init__(self, described: Any) -> None:
        self._described = described

    def __repr__(self) -> str:
        items = self._described.info_items
        width = max((len(name) for name, _ in items), default=0)
        lines = []
        for name, value in items:
            first, *rest = _text(value).split("\n")
            lines.append(f"{name:<{width}} : {first}")
            lines += [" " * (width + 3) + line for line in rest]
        return legible("\n".join(lines))

    def _repr_html_(self) -> str:
        import html  # of notebooks alone, and slow to import

        rows = "".join(
            f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
            f"<td style='text-align: left'><pre>{html.escape(legible(_text(value)))}</pre></td></tr>"
            for name, value in self._described.info_items
        )
        return f"<table><tbody>{rows}</tbody></table>"


def _text(value: Any) -> str:
    return dtype_text(value) if isinstance(value, np.dtype) else str(value)


_LONGEST: Final = 80


def dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype as it is spelled wherever people read one: as NumPy prints it, and cut if it has many fields."""
    return cut_text(str(dtype))


def cut_text(text: str) -> str:
    """A text for a cell of a table."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def size_text(nbytes: int) -> str:
    """A number of bytes, with the closest binary unit beside it: "3145728 (3.00 MiB)"."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            return f"{nbytes} ({size:.2f} {unit})" if unit != "B" else f"{nbytes} ({nbytes} B)"
        size /= 1024
    raise AssertionError("unreachable")


def file_rows(sizes: tuple[int, int | None] | None) -> list[tuple[str, str]]:
    """Rows of `info` about a file, if there is one: its size, and how much of it replaced data take, if it is known."""
    if sizes is None:
        return []
    size, unused = sizes
    return [("on disk", size_text(size)), *([] if unused is None else [("unused", size_text(unused))])]


class HandleProperties:
    """Properties of an object that reads through a handle."""

    __slots__ = ()
    _handle: Any

    @property
    def urlpath(self) -> str | None:
        """The path of the file; None in memory."""
        path: str | None = self._handle.urlpath
        return path

    @property
    def mode(self) -> str:
        """The mode that it was opened with."""
        mode: str = self._handle.options.mode
        return mode

    @property
    def mmap_mode(self) -> str | None:
        """How the file is mapped; None if it is not mapped."""
        how: str | None = self._handle.options.mmap_mode
        return how
