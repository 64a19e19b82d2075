"""Commands that show items: cat, show, view; and where their output goes."""

from __future__ import annotations

import csv
import io
import math
import os
import re
import struct
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any

import click
import numpy as np

from blosc2 import _arrays, _display
from blosc2._arrays import LONGEST, Axis
from blosc2._files import NewFile
from blosc2._options import absolute_path, lacking
from blosc2._tools.cli import locations
from blosc2._tools.cli.locations import STORAGE, Location, LocationError
from blosc2._tools.cli.output import note, say
from blosc2._tools.stores import opened
from blosc2._tools.viewer.html_page import web_page
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk

#: Takes the next bytes of an output.
Write = Callable[[bytes], object]


def new_output(output: str, *, force: bool) -> str:
    """The path of an output, or "-". One that exists is refused; with `force` only what is no file."""
    path = locations.path_here(output)
    if path != "-" and os.path.lexists(path) and not (force and os.path.isfile(path)):
        raise LocationError(f"{path} exists; --force replaces a file")
    return path


def check_no_terminal(output: str | None, what: str) -> None:
    """Refuse to write bytes that are no text to a terminal."""
    if output in (None, "-") and sys.stdout.isatty():
        raise click.UsageError(f"a {what} file is no text: name a file with --output")


@contextmanager
def writing(output: str | None, *, force: bool) -> Iterator[Write]:
    """What takes bytes for the standard output, or for a file that appears when all of them are written."""
    if output is None or output == "-":
        yield lambda data: click.echo(data, nl=False)
        return
    with NewFile(output, replace=force, durable=False) as file:
        yield file.write


# ------------------------------------------------------------------ cat
# More than this is not read to print a shortened text.
_MOST_SHOWN = 1 << 28
# How many bytes of a .npy file, items of a table, and values of a list are in memory at a time.
_PIECE = 64 << 20
_CELLS = 1 << 18
_VALUES = 256


@click.command(context_settings={"ignore_unknown_options": True})  # a selection may begin with "-"
@click.argument("location")
@click.argument("selection", default="...")
@click.option("-f", "--format", "kind", type=click.Choice(["text", "npy", "csv"]), default="text", show_default=True)
@click.option("-o", "--output", help="A new file; '-' is the standard output.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option("--all", "everything", is_flag=True, help="Print all items; without it long texts are shortened.")
@STORAGE
def cat(location: str, selection: str, kind: str, output: str | None, force: bool, everything: bool) -> None:
    """Print items of an array, bytes of a super-chunk, or values of a list.

    SELECTION is a NumPy index of integers, slices and '...', such as '0:5, 3' or '..., ::10'; all items by default.
    Tables and .npy files are written piece by piece, whatever their size.
    """
    output = None if output is None else new_output(output, force=force)
    key = locations.parsed_selection(selection)
    with locations.one_leaf(locations.located(location)) as leaf:
        if not isinstance(leaf, (NDArray, SChunk)):
            _write_values(leaf, _index_of_list(key), kind, output, force=force)
            return
        array: Any = leaf
        if isinstance(leaf, SChunk):
            _index_of_list(key)
            array = _BytesOf(leaf)
        axes = _arrays.axes_of(key, array.shape)
        shape, dtype = _arrays.shape_of(axes), array.dtype
        if isinstance(leaf, SChunk):
            shape, dtype = (math.prod(shape) * leaf.typesize,), np.dtype(np.uint8)
        if kind == "text":
            _write_text(array, axes, output, force=force, everything=everything)
        elif kind == "npy":
            check_no_terminal(output, ".npy")
            with writing(output, force=force) as write:
                write(_npy_header(shape, dtype))
                for piece in _arrays.pieces(array, axes, _PIECE):
                    write(piece.tobytes())
        else:
            if len(shape) > 2 or (len(shape) > 1 and dtype.names):
                raise click.BadParameter(
                    f"a table has two axes, the selection has {len(shape)}", param_hint="SELECTION"
                )
            with writing(output, force=force) as write:
                _write_table(write, _arrays.pieces(array, axes, _CELLS * dtype.itemsize), shape, dtype)


class _BytesOf:
    """The items of a super-chunk, as an array of which pieces are read; each piece is its bytes."""

    def __init__(self, schunk: SChunk) -> None:
        self._schunk = schunk
        self.shape = (len(schunk),)
        self.dtype = np.dtype((np.void, schunk.typesize))
        self.chunks = self.blocks = (max(1, schunk.chunksize // schunk.typesize),)

    def __getitem__(self, index: tuple[int | slice, ...]) -> np.ndarray[Any, Any]:
        return np.frombuffer(self._schunk[index[0]], np.uint8)


# ------------------------------------------------------------------ text
def _write_text(array: Any, axes: Sequence[Axis], output: str | None, *, force: bool, everything: bool) -> None:
    """Items as NumPy prints them, which makes all of the text at once: the widths of columns are those of all items."""
    size = math.prod(_arrays.shape_of(axes)) * array.dtype.itemsize
    everything |= output is not None
    if size > _MOST_SHOWN and not everything:
        raise LocationError(f"these are {_display.human_size(size)}: select fewer items, or print them with --all")
    items = np.asarray(array[_arrays.index_of(axes)])
    text = np.array2string(items, threshold=sys.maxsize if everything else 1000)
    with writing(output, force=force) as write:
        write(_as_text(text + "\n", output))


def _as_text(text: str, output: str | None) -> bytes:
    """A text in the encoding of the standard output, or in that of files."""
    return _display.printed(text, sys.stdout.encoding if output in (None, "-") else "utf-8")


def _index_of_list(key: tuple[Any, ...]) -> Any:
    if len(key) != 1:
        raise click.BadParameter("a list has one axis", param_hint="SELECTION")
    return slice(None) if key[0] is ... else key[0]


def _write_values(values: Any, key: int | slice, kind: str, output: str | None, *, force: bool) -> None:
    if kind != "text":
        raise click.BadParameter("values of lists are printed as text", param_hint="--format")
    with writing(output, force=force) as write:
        for some in _values(values, key):
            write(_as_text("".join(f"{value!r}\n" for value in some), output))


def _values(values: Any, key: int | slice) -> Iterator[Sequence[Any]]:
    if not isinstance(key, slice):
        yield [values[key]]
        return
    chosen = range(len(values))[key]
    for start in range(0, len(chosen), _VALUES):
        yield values[_arrays.index_of([chosen[start : start + _VALUES]])[0]]


# ------------------------------------------------------------------ npy
def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """What a .npy file begins with, as `numpy.save` writes it."""
    fields = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    buffer = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(buffer, fields)
    except ValueError:  # names of fields that are not Latin-1, or more than 64 KB of them; version 3 takes both
        text = repr(fields).encode()
        text += b" " * (-(len(text) + 13) % 64) + b"\n"
        return np.lib.format.magic(3, 0) + struct.pack("<I", len(text)) + text
    return buffer.getvalue()


# ------------------------------------------------------------------ csv
def _write_table(
    write: Write, parts: Iterator[np.ndarray[Any, Any]], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Items as comma-separated values: a row for each of the first axis, a column for each field or of the second."""
    if dtype.names:
        write(_lines([dtype.names]))
    done = 0
    for part in parts:
        if dtype.names:
            columns = [_texts(np.atleast_1d(part[name])) for name in dtype.names]
            write(_lines(zip(*columns, strict=True)))
        elif part.ndim < len(shape) == 2:
            cells = _texts(np.atleast_1d(part))
            done = (done + len(cells)) % shape[1]
            write(_part_of_line(cells, last=done == 0))
        else:
            rows = np.atleast_1d(part)
            write(_lines(_texts(row) for row in (rows if rows.ndim == 2 else rows[:, None])))


def _lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _part_of_line(cells: list[str], *, last: bool) -> bytes:
    """Some cells of a long line: with a comma behind them, or with the end of the line."""
    return _lines([["", *cells]])[1:] if last else _lines([[*cells, ""]])[:-1]


def _texts(items: np.ndarray[Any, Any]) -> list[str]:
    """Items of one axis as they stand in a table; floats so that they are read back the same."""
    if items.dtype.kind in "mM":
        return [str(item) for item in items.astype(str)]
    return [
        item.decode("utf-8", "backslashreplace") if isinstance(item, bytes) else str(item) for item in items.tolist()
    ]


# ------------------------------------------------------------------ show
# The longest side of a PNG, if nothing else is asked for.
_SIDE = 1024
# Terminals that take colours of 24 bits, by $TERM; most others say so in $COLORTERM.
_WITH_COLOURS = ("direct", "kitty", "alacritty", "ghostty", "foot", "wezterm")


@click.command(context_settings={"ignore_unknown_options": True})  # a selection may begin with "-"
@click.argument("location")
@click.argument("selection", default="...")
@click.option("--range", "span", type=float, nargs=2, metavar="LOW HIGH", help="The numbers shown as black and white.")
@click.option(
    "--percentiles", type=click.FloatRange(0, 100), nargs=2, metavar="LOW HIGH", help="The same as shares of the items."
)
@click.option("--axes", "names", metavar="DOWN,RIGHT", help="The axes of the picture, by name or number: y,x or 2,0.")
@click.option("-w", "--width", type=click.IntRange(1, LONGEST), help="At most so many columns, or pixels of a PNG.")
@click.option("--colour/--plain", default=None, help="Whether the terminal takes colours of 24 bits.")
@click.option("-o", "--output", help="A new PNG file instead; '-' is the standard output.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@STORAGE
def show(
    location: str, selection: str, span: tuple[float, float] | None, percentiles: tuple[float, float] | None,
    names: str | None, width: int | None, colour: bool | None, output: str | None, force: bool,
) -> None:  # fmt: skip
    """Show a plane of an array as a picture.

    SELECTION is an index as cat takes it, such as '40, ::2, 100:300'. If it leaves more than two axes, those named y
    and x, or lat and lon, are shown, else the two longest, in the middle of the others. Three or four uint8 on a last
    axis are colours. Greys and colours are those of the plane and of up to 16 others; on a server, of small ones only.
    Large planes are read with a step. What was read is said on stderr.
    """
    _check_options(span, percentiles, output)
    output = None if output is None else new_output(output, force=force)
    key = locations.parsed_selection(selection)
    where = locations.located(location)
    with locations.leaf_with_attributes(where) as (leaf, around):
        if not isinstance(leaf, NDArray):
            raise LocationError(f"{where} is one {type(leaf).__name__}, not an array; 'blosc2 cat' prints it")
        _arrays.check_dtype(leaf.dtype)
        axes, attributes = _arrays.axes_of(key, leaf.shape), ChainMap(leaf.vlmeta, around)
        chosen = None if names is None else _chosen(axes, names, _arrays.axis_names(attributes, leaf.ndim))
        axes, sides = _arrays.middle_plane(axes, leaf.dtype, attributes, chosen)
        box, sample = _box(output, width), None if span or percentiles else _arrays.sample_of_planes(leaf, axes, sides)
        picture = _arrays.read_picture(leaf, axes, sides, box, span=span, percentiles=percentiles, sample=sample)
    caption = f"{where}[{_arrays.index_text(picture.axes)}]: {picture.size()} items, {leaf.dtype}, {picture.scale()}"
    if output is not None:
        with writing(output, force=force) as write:
            write(_display.png_bytes(picture.opaque_where_known()))
    else:
        _print(picture.pixels, colour)
    note(_display.printable(caption))


def _chosen(axes: list[Axis], text: str, names: list[str]) -> list[int]:
    """The two axes of a selection that a text names."""
    chosen = []
    for part in (part.strip().lower() for part in text.split(",")):
        number = names.index(part) if part in names else int(part) if part.isdecimal() else len(axes)
        if not (number < len(axes) and isinstance(axes[number], range)):
            known = f", of {', '.join(names)}" if names else ""
            raise click.BadParameter(f"{part!r} is no axis that the selection leaves{known}", param_hint="--axes")
        chosen.append(number)
    if len({*chosen}) != 2 or len(chosen) != 2:
        raise click.BadParameter(f"{text!r}: name two different axes, such as y,x", param_hint="--axes")
    return chosen


def _check_options(
    span: tuple[float, float] | None, percentiles: tuple[float, float] | None, output: str | None
) -> None:
    if span and percentiles:
        raise click.UsageError("--range and --percentiles are two ways to say the same: use one")
    for name, pair in (("--range", span), ("--percentiles", percentiles)):
        if pair and not (np.isfinite(pair).all() and pair[0] < pair[1]):
            raise click.BadParameter("LOW must be less than HIGH", param_hint=name)
    if output not in (None, "-") and not output.lower().endswith(".png"):
        raise LocationError(f"{locations.path_of(output)}: pictures are written as PNG; name a file that ends in .png")
    if output is not None:
        check_no_terminal(output, ".png")


# ------------------------------------------------------------------ where it goes
def _box(output: str | None, width: int | None) -> tuple[int, int]:
    """How many pixels there may be: rows and columns."""
    if output is not None:
        side = width or _SIDE
        return side, side
    columns, lines = get_terminal_size()
    if width is not None:
        return 2 * width, width
    return 2 * max(lines - 2, 4), max(1, min(columns, LONGEST))  # with room for the line below, and for the prompt


def _print(pixels: np.ndarray[Any, Any], colour: bool | None) -> None:
    if pixels.ndim == 1:
        text = _display.line_of_blocks(pixels)
    elif colour or (colour is None and takes_colours()):
        text = _display.colour_picture(pixels)
    else:
        text = ""
    if not (text and _display.has_characters(sys.stdout.encoding, text)):
        text = _display.text_picture(np.atleast_2d(pixels))
    say(text)


def takes_colours() -> bool:
    """Whether the standard output is a terminal that shows colours of 24 bits, as far as it says so."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return False
    if "WT_SESSION" in os.environ or os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return True
    return any(name in os.environ.get("TERM", "") for name in _WITH_COLOURS)


# ------------------------------------------------------------------ view
_NEEDS_EXTRA = lacking("the viewer", "textual", "view", " (--html works without it)")
_NEEDS_TERMINAL = "the viewer needs a terminal; 'blosc2 view --html' writes a page instead"


@click.command()
@click.argument("location")
@click.argument("out", required=False)
@click.option("--html", is_flag=True, help="Write one HTML page instead; OUT is '-' for the standard output.")
@click.option("-f", "--force", is_flag=True, help="Replace OUT if it exists.")
@STORAGE
def view(location: str, out: str | None, html: bool, force: bool) -> None:
    """Look into a store or an array in the terminal.

    It shows the tree, and of an array its values, statistics and a picture, and reads only what it shows. With --html
    it writes a page that needs no other file: to OUT, or to the location's name with .html in the working directory.
    """
    if not html and (out is not None or force):
        raise click.UsageError("OUT and --force are for --html")
    where = locations.located(location)
    if html:
        target = new_output(out or _page_name(where), force=force)
        _write_page(where, target, force=force)
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LocationError(_NEEDS_TERMINAL)
    try:
        from blosc2._tools.viewer.app import Viewer
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in ("textual", "rich"):
            raise
        raise LocationError(_NEEDS_EXTRA) from None
    with opened(where.path) as found:
        Viewer(found, where.path, _key(found, where)).run()


def _key(found: object, where: Location) -> str:
    return locations.one_key(locations.need_store(found, where), where) if where.key else ""


def _page_name(where: Location) -> str:
    """A name for the page: that of the file, and of the key with "-" for what is in no name."""
    stem = os.path.splitext(locations.file_name(where.path) or "page")[0]
    return re.sub(r"[^\w.-]+", "-", stem + where.key).strip("-") + ".html"


def _write_page(where: Location, target: str, *, force: bool) -> None:
    with opened(where.path) as found:
        name = os.path.basename(absolute_path(where.path))
        page = web_page(found, name, _key(found, where)).encode("utf-8", "backslashreplace")
    with writing(target, force=force) as write:
        write(page)
    if target != "-":
        note(f"{target}: {len(page):,} bytes")


COMMANDS = (cat, show, view)
