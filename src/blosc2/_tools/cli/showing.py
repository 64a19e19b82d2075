"""The command show: a plane of an array as a picture, in the terminal or in a PNG file."""

from __future__ import annotations

import os
import sys
from shutil import get_terminal_size
from typing import Any

import click
import numpy as np

from blosc2._display import colour_picture, line_of_blocks, png_bytes, printable, text_picture
from blosc2._tools.cli.locations import LocationError, located, one_leaf, parsed_selection
from blosc2._tools.cli.printing import check_no_terminal, check_output, writing
from blosc2._tools.planes import LONGEST, check_dtype, index_text, middle_plane, read_picture
from blosc2._tools.selections import axes_of
from blosc2.ndarray import NDArray

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
@click.option("-w", "--width", type=click.IntRange(1, LONGEST), help="At most so many columns, or pixels of a PNG.")
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
        check_dtype(leaf.dtype)
        axes, sides = middle_plane(axes_of(key, leaf.shape), leaf.dtype)
        picture = read_picture(leaf, axes, sides, _box(output, width), span=span, percentiles=percentiles)
    caption = f"{where}[{index_text(picture.axes)}]: {picture.size()} items, {leaf.dtype}, {picture.scale()}"
    if output is not None:
        _write_png(output, picture.opaque_where_known(), force=force)
    else:
        _print(picture.pixels, colour)
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
