"""Commands that choose compression from the data: tune, recompress."""

from __future__ import annotations

import os
from typing import Any

import click

from blosc2 import _stores
from blosc2._display import human_size, printable
from blosc2._functions import tune as tune_data
from blosc2._options import ALIASES, GOALS
from blosc2._stores import Store
from blosc2._tools.cli import locations
from blosc2._tools.cli.locations import STORAGE, WAIT, Location, LocationError
from blosc2._tools.cli.output import QUIET, is_quiet, progress_bar, say
from blosc2._tools.stores import opened
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk

#: What `--cparams` and `--goal` take.
GOAL_NAMES = click.Choice([*ALIASES, *GOALS])


@click.command()
@click.argument("location")
@click.option("--goal", type=GOAL_NAMES, default="auto", show_default=True, help="What to choose for.")
@click.option("--min-read", metavar="SPEED", help="The smallest that is read at this speed, such as '2 GB/s'.")
@click.option("--max-size", metavar="SIZE", help="The fastest to read of this size at most, such as '10 MB', or 0.3.")
@click.option("--read", "reads", multiple=True, metavar="SELECTION",
              help="What will be read, such as '5,:,:', to choose chunks and blocks for; may be repeated.")  # fmt: skip
@click.option("--precision", metavar="ERROR", help="The error that numbers may have: 0.01, '0.1%' or '3 digits'.")
@STORAGE
def tune(location: str, reads: tuple[str, ...], max_size: str | None, **options: Any) -> None:
    """Say what compression suits the data of arrays best; nothing is changed.

    Of one array, all that was tried is listed. LOCATION is an array, or a group or store, of which each array gets a
    line.
    """
    size: Any = max_size
    if max_size is not None and max_size.replace(".", "", 1).isdigit():
        size = float(max_size)
    options["max_size"] = size
    options["reads"] = [locations.parsed_selection(text) for text in reads] or None
    where = locations.located(location)
    with opened(where.path) as found:
        _say_of(found, where, options)


def _say_of(found: Any, where: Location, options: dict[str, Any]) -> None:
    """Say what suits what is at a location."""
    if not isinstance(found, Store):
        if where.key:
            locations.need_store(found, where)
        say(_described(found, where, options))
        return
    places = list(locations.matches(found, where))
    keys = [key for place in places for key in locations.leaves_below(found, place)]
    if places == keys and len(keys) == 1:
        say(_described(found[keys[0]], where, options))
        return
    for key in keys:
        leaf = found[key]
        if isinstance(leaf, NDArray):
            say(f"{printable(key)}: {tune_data(leaf, **options).why}")


def _described(found: Any, where: Location, options: dict[str, Any]) -> str:
    """What suits one array, with all that was tried."""
    if not isinstance(found, (NDArray, SChunk)):
        raise LocationError(f"{where} is a {type(found).__name__}, and compression is chosen for arrays")
    chosen = tune_data(found, **options)
    shapes = f"\nchunks {chosen.chunks}, blocks {chosen.blocks}" if chosen.chunks is not None else ""
    return f"{chosen.why}{shapes}\n{chosen.tried or ''}".rstrip()


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="LOCATION...")
@click.option("--cparams", "goal", type=GOAL_NAMES, default="auto", show_default=True, help="What to choose for.")
@WAIT
@QUIET
def recompress(places: tuple[str, ...], goal: str, timeout: float) -> None:
    """Compress arrays anew in place, each by its own data, where that makes them smaller.

    A LOCATION is a store, a group or an array in it, or the file of an array. After an interrupt, or an error about one
    array, run it again: what was compressed stays, and it goes on.
    """
    wanted = [locations.located(locations.path_here(text)) for text in places]
    for where in wanted:
        if not os.path.exists(where.path):
            raise FileNotFoundError(f"{where.path} does not exist")
    for where in wanted:
        found = locations.opened_to_change(where.path, timeout)
        if isinstance(found, Store):
            with found, progress_bar(where.path) as progress:
                keys = [key or "/" for key in locations.matches(found, where)]
                done = found.recompress(None if "/" in keys else keys, goal, progress=progress)
                if done.changed:
                    found.compact()
            told = str(done)
        elif isinstance(found, NDArray) and not where.key:
            told = _of_file(found, where.path, goal)
        else:
            raise LocationError(f"{where} is a {type(found).__name__}, and arrays are compressed anew")
        if not is_quiet():
            say(f"{where}: {told}")


def _of_file(array: NDArray, path: str, goal: str) -> str:
    """Compress the array of a file anew."""
    before = array._handle.byte_range()[2]
    smaller = _stores.smaller(array, goal, before)
    if smaller is None:
        return f"{human_size(before)}, nothing is smaller"
    smaller.copy(urlpath=path, mode="w", contiguous=True)
    return f"{human_size(before)} -> {human_size(smaller._handle.byte_range()[2])}"


COMMANDS = (tune, recompress)
