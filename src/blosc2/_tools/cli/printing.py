"""What commands print: tables, trees, values, and where that goes."""

from __future__ import annotations

import csv
import io
import math
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from blosc2._display import human_size
from blosc2._files import NewFile
from blosc2._tools.cli.locations import LocationError, located, one_leaf, parsed_selection
from blosc2._tools.selections import Axis, axes_of, index_of, pieces, shape_of
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk

#: Takes the next bytes of an output.
Write = Callable[[bytes], object]


def check_output(output: str | None, *, force: bool) -> None:
    """Refuse a path that exists; with `force` only what is no file."""
    if output not in (None, "-") and os.path.lexists(output) and not (force and os.path.isfile(output)):
        raise LocationError(f"{output} exists; --force replaces a file")


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
def cat(location: str, selection: str, kind: str, output: str | None, force: bool, everything: bool) -> None:
    """Print items of an array, bytes of a super-chunk, or values of a list.

    SELECTION is a NumPy index such as '0:5, 3' or '..., ::10'; all items by default. Tables and .npy files are written
    piece by piece, whatever their size.
    """
    check_output(output, force=force)
    key = parsed_selection(selection)
    with one_leaf(located(location)) as leaf:
        if not isinstance(leaf, (NDArray, SChunk)):
            _write_values(leaf, _index_of_list(key), kind, output, force=force)
            return
        array: Any = leaf
        if isinstance(leaf, SChunk):
            _index_of_list(key)
            array = _BytesOf(leaf)
        axes = axes_of(key, array.shape)
        shape, dtype = shape_of(axes), array.dtype
        if isinstance(leaf, SChunk):
            shape, dtype = (math.prod(shape) * leaf.typesize,), np.dtype(np.uint8)
        if kind == "text":
            _write_text(array, axes, output, force=force, everything=everything)
        elif kind == "npy":
            check_no_terminal(output, ".npy")
            with writing(output, force=force) as write:
                write(_npy_header(shape, dtype))
                for piece in pieces(array, axes, _PIECE):
                    write(piece.tobytes())
        else:
            if len(shape) > 2 or (len(shape) > 1 and dtype.names):
                raise click.BadParameter(
                    f"a table has two axes, the selection has {len(shape)}", param_hint="SELECTION"
                )
            with writing(output, force=force) as write:
                _write_table(write, pieces(array, axes, _CELLS * dtype.itemsize), shape, dtype)


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
    size = math.prod(shape_of(axes)) * array.dtype.itemsize
    everything |= output is not None
    if size > _MOST_SHOWN and not everything:
        raise LocationError(f"these are {human_size(size)}: select fewer items, or print them with --all")
    items = np.asarray(array[index_of(axes)])
    text = np.array2string(items, threshold=sys.maxsize if everything else 1000)
    with writing(output, force=force) as write:
        write((text + "\n").encode("utf-8", "backslashreplace"))


def _index_of_list(key: tuple[Any, ...]) -> Any:
    if len(key) != 1:
        raise click.BadParameter("a list has one axis", param_hint="SELECTION")
    return slice(None) if key[0] is ... else key[0]


def _write_values(values: Any, key: int | slice, kind: str, output: str | None, *, force: bool) -> None:
    """The values of a list, one a line, as Python writes them."""
    if kind != "text":
        raise click.BadParameter("values of lists are printed as text", param_hint="--format")
    with writing(output, force=force) as write:
        for some in _values(values, key):
            write("".join(f"{value!r}\n" for value in some).encode("utf-8", "backslashreplace"))


def _values(values: Any, key: int | slice) -> Iterator[Sequence[Any]]:
    if not isinstance(key, slice):
        yield [values[key]]
        return
    chosen = range(len(values))[key]
    for start in range(0, len(chosen), _VALUES):
        yield values[index_of([chosen[start : start + _VALUES]])[0]]


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
        _write_lines(write, [dtype.names])
    done = 0
    for part in parts:
        if dtype.names:
            columns = [_texts(np.atleast_1d(part[name])) for name in dtype.names]
            _write_lines(write, zip(*columns, strict=True))
        elif part.ndim < len(shape) == 2:
            cells = _texts(np.atleast_1d(part))
            done = (done + len(cells)) % shape[1]
            _write_part_of_line(write, cells, last=done == 0)
        else:
            rows = np.atleast_1d(part)
            _write_lines(write, (_texts(row) for row in (rows if rows.ndim == 2 else rows[:, None])))


def _write_lines(write: Write, rows: Any) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write(text.getvalue().encode("utf-8", "backslashreplace"))


def _write_part_of_line(write: Write, cells: list[str], *, last: bool) -> None:
    """Some cells of a long line: with a comma behind them, or with the end of the line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["", *cells] if last else [*cells, ""])
    data = text.getvalue().encode("utf-8", "backslashreplace")
    write(data[1:] if last else data[:-1])


def _texts(items: np.ndarray[Any, Any]) -> list[str]:
    """Items of one axis as they stand in a table; floats so that they are read back the same."""
    if items.dtype.kind in "mM":
        return [str(item) for item in items.astype(str)]
    return [
        item.decode("utf-8", "backslashreplace") if isinstance(item, bytes) else str(item) for item in items.tolist()
    ]


COMMANDS = (cat,)
