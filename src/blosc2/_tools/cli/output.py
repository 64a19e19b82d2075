"""Where commands print: what was asked for to stdout, and what is to be known besides to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from blosc2._display import printable
from blosc2._files import Progress


def _note_option(context: click.Context, option: click.Parameter, given: bool) -> None:
    context.meta[f"blosc2.{option.name}"] = given


def untold(done: int, total: int) -> None:
    """Progress that nobody wants to see."""


#: For commands that show their progress, or sum up what they did; and for those that can name each leaf.
QUIET = click.option(
    "-q", "--quiet", is_flag=True, expose_value=False, callback=_note_option, help="No progress, and no summary."
)
VERBOSE = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, callback=_note_option, help="A line for each leaf, on stderr."
)


def _is_set(option: str) -> bool:
    return bool(click.get_current_context().meta.get(f"blosc2.{option}"))


def is_quiet() -> bool:
    return _is_set("quiet")


def say(text: str) -> None:
    """Print what was asked for. Click would take a terminal of ASCII for one of UTF-8, so it is told where to print."""
    click.echo(text, file=sys.stdout, color=True)


def note(text: str) -> None:
    """Print what is to be known besides."""
    click.echo(text, file=sys.stderr)


def sum_up(text: str) -> None:
    """Print what was done, unless nobody wants to know."""
    if not is_quiet():
        note(text)


def name_leaf(text: str) -> None:
    """Print which leaf is next, for those who want to know."""
    if _is_set("verbose"):
        note(printable(text))


@contextmanager
def progress_bar(label: str) -> Iterator[Progress]:
    """What shows the progress of an operation, on stderr when that is a terminal."""
    if not sys.stderr.isatty() or is_quiet() or _is_set("verbose"):
        yield untold
        return
    with click.progressbar(length=1, label=printable(label), file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = max(total, 1)
            bar.update(done - bar.pos)

        yield show
