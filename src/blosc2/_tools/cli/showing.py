"""The command show: a plane of an array as a picture, in the terminal or in a PNG file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Any

import click
import numpy as np

from blosc2._display import colour_picture, grey, limits, line_of_blocks, png_bytes, printable, text_picture
from blosc2._tools.cli.locations import LocationError, located
from blosc2._tools.cli.outputs import check_no_terminal, check_output, writing
from blosc2._tools.cli.selecting import Axis, axes_of, index_of, one_leaf, parsed_selection
from blosc2.ndarray import NDArray

# The longest side of a PNG, if nothing else is asked for, and the largest that can be: it bounds what is in memory.
_SIDE = 1024
_LONGEST = 2048
# So many items of a short side are shown, however long the other is.
_FEWEST = 8
# How many pixels high a picture of one axis is.
_STRIP = 16
# Terminals that take colours of 24 bits, by $TERM; most others say so in $COLORTERM.
_WITH_COLOURS = ("direct", "kitty", "alacritty", "ghostty", "foot", "wezterm")


@click.command(context_settings={"ignore_unknown_options": True})  # a selection may begin with "-"
@click.argument("location")
@click.argument("selection", default="...")
@click.option("--range", "span", type=float, nargs=2, metavar="LOW HIGH", help="The numbers shown as black and white.")
@click.option(
    "--percentiles", type=click.FloatRange(0, 100), nargs=2, metavar="LOW HIGH", help="The same as shares of the items."
)
@click.option("-w", "--width", type=click.IntRange(1, _LONGEST), help="At most so many columns, or pixels of a PNG.")
@click.option("--colour/--plain", default=None, help="Whether the terminal takes colours of 24 bits.")
@click.option("-o", "--output", help="A new PNG file instead; '-' is the standard output.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
def show(
    location: str, selection: str, span: tuple[float, float] | None, percentiles: tuple[float, float] | None,
    width: int | None, colour: bool | None, output: str | None, force: bool,
) -> None:  # fmt: skip
    """Show a plane of an array as a picture.

    SELECTION is a NumPy index such as '40, ::2, 100:300'. Of axes that it leaves before the last two, the middle is
    shown. Three or four uint8 on a last axis are colours. Large planes are read with a step.
    """
    _check_options(span, percentiles, output)
    check_output(output, force=force)
    key = parsed_selection(selection)
    where = located(location)
    with one_leaf(where) as leaf:
        if not isinstance(leaf, NDArray):
            raise LocationError(f"{where} is one {type(leaf).__name__}, not an array; 'blosc2 cat' prints it")
        _check_dtype(leaf.dtype)
        axes, sides = _plane(axes_of(key, leaf.shape), leaf.dtype)
        whole = [len(_range(axes[side])) for side in sides]
        axes = _with_steps(axes, sides, _box(output, width))
        items = np.asarray(leaf[index_of(axes)])
    in_colour = items.ndim > len(sides)
    low, high = _contrast(items, span, percentiles, in_colour=in_colour)
    pixels = grey(items, low, high)
    shown = " x ".join(f"{length:,}" for length in items.shape[: len(sides)])
    total = " x ".join(f"{length:,}" for length in whole)
    size = shown if shown == total else f"{shown} of {total}"
    scale = "colours" if in_colour else f"{low:.6g} is black, {high:.6g} is white"
    caption = f"{where}[{_index_text(axes)}]: {size} items, {leaf.dtype}, {scale}"
    if output is not None:
        _write_png(output, _transparent(pixels, items, in_colour=in_colour), force=force)
    else:
        _print(pixels, colour)
    click.echo(printable(caption), err=True)


def _check_options(
    span: tuple[float, float] | None, percentiles: tuple[float, float] | None, output: str | None
) -> None:
    if span and percentiles:
        raise click.UsageError("--range and --percentiles are two ways to say the same: use one")
    for name, pair in (("--range", span), ("--percentiles", percentiles)):
        if pair and not (np.isfinite(pair).all() and pair[0] < pair[1]):
            raise click.BadParameter("LOW must be less than HIGH", param_hint=name)
    if output not in (None, "-") and not output.lower().endswith(".png"):
        raise LocationError(f"{output}: pictures are written as PNG; name a file that ends in .png")
    if output is not None:
        check_no_terminal(output, ".png")


def _check_dtype(dtype: np.dtype[Any]) -> None:
    """Refuse what is no number that can be a grey value."""
    if dtype.kind == "c":
        raise LocationError("complex numbers have no grey values; store their np.abs or np.angle, and show that")
    if dtype.names:
        raise LocationError("records have no grey values; store one of their fields, and show that")
    if dtype.kind not in "biuf":
        raise LocationError(f"items of dtype {dtype} have no grey values; 'blosc2 cat' prints them")


# ------------------------------------------------------------------ what is shown
def _range(axis: Axis) -> range:
    assert isinstance(axis, range)
    return axis


def _plane(axes: list[Axis], dtype: np.dtype[Any]) -> tuple[list[Axis], list[int]]:
    """The selection with the middle of all axes but the last one or two, and which these are; colours come behind."""
    free = [number for number, axis in enumerate(axes) if isinstance(axis, range)]
    if any(not _range(axes[side]) for side in free):
        raise LocationError("the selection has no items; 'blosc2 info' tells the shape")
    if not free:
        raise LocationError("this is one item, and no picture; 'blosc2 cat' prints it")
    colours = len(free) > 2 and dtype == np.uint8 and len(_range(axes[free[-1]])) in (3, 4)
    planes = free[:-1] if colours else free
    for side in planes[:-2]:
        axis = _range(axes[side])
        axes[side] = axis[len(axis) // 2]
    return axes, planes[-2:]


def _box(output: str | None, width: int | None) -> tuple[int, int]:
    """How many pixels there may be: rows and columns."""
    if output is not None:
        side = width or _SIDE
        return side, side
    columns, lines = get_terminal_size()
    if width is not None:
        return 2 * width, width
    return 2 * max(lines - 2, 4), max(1, min(columns, _LONGEST))  # with room for the line below, and for the prompt


def _with_steps(axes: list[Axis], sides: Sequence[int], box: tuple[int, int]) -> list[Axis]:
    """The selection with a step, the same for both sides, so that it fits; a short side keeps some of its items."""
    most = box[-len(sides) :]
    lengths = [len(_range(axes[side])) for side in sides]
    step = max(-(-length // limit) for length, limit in zip(lengths, most, strict=True))
    for side, length, limit in zip(sides, lengths, most, strict=True):
        fewest = max(1, min(_FEWEST, limit // 2))
        axes[side] = _range(axes[side])[:: min(step, max(1, length // fewest))]
    return axes


def _contrast(
    items: np.ndarray[Any, Any], span: tuple[float, float] | None, percentiles: tuple[float, float] | None, *,
    in_colour: bool,
) -> tuple[float, float]:  # fmt: skip
    """The numbers that become black and white."""
    if span:
        return span
    if percentiles:
        return limits(items, percentiles) or (0.0, 1.0)
    if in_colour:
        return 0.0, 255.0
    if items.dtype.kind == "b":
        return 0.0, 1.0
    return limits(items) or (0.0, 1.0)


def _transparent(pixels: np.ndarray[Any, Any], items: np.ndarray[Any, Any], *, in_colour: bool) -> np.ndarray[Any, Any]:
    """The pixels of a file: one axis as a strip, and NaN without opacity."""
    if items.ndim == 1:
        pixels, items = np.repeat(pixels[None], _STRIP, axis=0), np.repeat(items[None], _STRIP, axis=0)
    missing = np.isnan(items)
    if in_colour or not missing.any():
        return pixels
    opacity = np.where(missing, 0, 255).astype(np.uint8)
    return np.stack([pixels, pixels, pixels, opacity], axis=-1)


def _index_text(axes: Sequence[Axis]) -> str:
    """The index that was read, as it is written for `cat`."""
    texts = []
    for part in index_of(axes):
        if isinstance(part, slice):
            stop = "" if part.stop is None else part.stop
            texts.append(f"{part.start}:{stop}" + (f":{part.step}" if part.step != 1 else ""))
        else:
            texts.append(str(part))
    return ", ".join(texts)


# ------------------------------------------------------------------ where it goes
def _write_png(output: str, pixels: np.ndarray[Any, Any], *, force: bool) -> None:
    with writing(output, force=force) as write:
        write(png_bytes(pixels))


def _print(pixels: np.ndarray[Any, Any], colour: bool | None) -> None:
    blocks = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    if pixels.ndim == 1:
        click.echo(line_of_blocks(pixels) if blocks else text_picture(pixels[None]))
    elif colour or (colour is None and blocks and takes_colours()):
        click.echo(colour_picture(pixels), color=True)
    else:
        click.echo(text_picture(pixels))


def takes_colours() -> bool:
    """Whether the standard output is a terminal that shows colours of 24 bits, as far as it says so."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return False
    if "WT_SESSION" in os.environ or os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return True
    return any(name in os.environ.get("TERM", "") for name in _WITH_COLOURS)


COMMANDS = (show,)
