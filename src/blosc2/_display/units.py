"""Sizes and counts as people read them."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def human_size(nbytes: int) -> str:
    """A number of bytes with three digits and a binary unit.

    Examples
    --------
    >>> human_size(800), human_size(1536), human_size(310 << 20), human_size(5 << 40)
    ('800 bytes', '1.50 KiB', '310 MiB', '5.00 TiB')
    """
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
