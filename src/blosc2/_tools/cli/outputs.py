"""Where a command writes what it reads: the standard output, or a new file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from blosc2._files import NewFile
from blosc2._tools.cli.locations import LocationError

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
