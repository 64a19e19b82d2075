"""The command view: a viewer in the terminal, or one HTML page."""

from __future__ import annotations

import os
import re
import sys

import click

from blosc2._options import absolute_path, lacking
from blosc2._tools.cli.locations import Location, LocationError, located, need_store, one_key, opened
from blosc2._tools.cli.printing import check_output, writing
from blosc2._tools.viewer import web_page

_NEEDS_EXTRA = lacking("the viewer", "textual", "view", " (--html works without it)")
_NEEDS_TERMINAL = "the viewer needs a terminal; 'blosc2 view --html' writes a page instead"


@click.command()
@click.argument("location")
@click.argument("out", required=False)
@click.option("--html", is_flag=True, help="Write one HTML page instead; OUT is '-' for the standard output.")
@click.option("-f", "--force", is_flag=True, help="Replace OUT if it exists.")
def view(location: str, out: str | None, html: bool, force: bool) -> None:
    """Look into a store or an array in the terminal.

    It shows the tree, and of an array its values, statistics and a picture, and reads only what it shows. With --html
    it writes a page that needs no other file: to OUT, or to the location's name with .html in the working directory.
    """
    if not html and (out is not None or force):
        raise click.UsageError("OUT and --force are for --html")
    where = located(location)
    if html:
        target = out or _page_name(where)
        check_output(target, force=force)
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
    """The group or leaf that a location names, "" for all of it."""
    return one_key(need_store(found, where), where) if where.key else ""


def _page_name(where: Location) -> str:
    """A name for the page: that of the file, and of the key with "-" for what is in no name."""
    stem = os.path.splitext(os.path.basename(where.path.rstrip("/")) or "page")[0]
    return re.sub(r"[^\w.-]+", "-", stem + where.key).strip("-") + ".html"


def _write_page(where: Location, target: str, *, force: bool) -> None:
    with opened(where.path) as found:
        name = os.path.basename(absolute_path(where.path))
        page = web_page(found, name, _key(found, where)).encode("utf-8", "backslashreplace")
    with writing(target, force=force) as write:
        write(page)
    if target != "-":
        click.echo(f"{target}: {len(page):,} bytes", err=True)


COMMANDS = (view,)
