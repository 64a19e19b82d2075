"""Commands that convert: import, export."""

from __future__ import annotations

import os
import shlex
from typing import Any

import click

from blosc2._tools.cli.changing import progress_bar
from blosc2._tools.cli.locations import LocationError
from blosc2._tools.converting import FORMATS, convert
from blosc2._tools.error_text import one_line

_OURS = FORMATS["blosc2"].suffixes
_OPTIONS = [
    click.argument("source"),
    click.argument("target"),
    click.option("-f", "--force", is_flag=True, help="Replace a target that exists."),
    click.option("--verify", is_flag=True, help="Read all back, and compare it with the source."),
    click.option("--format", "name", type=click.Choice(sorted(FORMATS)), help="The other format, if no suffix tells."),
]


def _with_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("import")
@_with_options
@click.option("--chunks", type=click.Choice(["auto", "keep", "new"]), default="auto", show_default=True,
              help="Whether chunk shapes of the source are kept.")  # fmt: skip
@click.option("--no-resume", is_flag=True, help="Begin anew, even if an interrupted run left something.")
def import_(**options: Any) -> int:
    """Convert HDF5, zarr, npz, images and other formats to a store or an array.

    TARGET ends in .b2z, .b2d, .b2e or .b2nd. What it cannot hold is listed, and the exit code is 1 then.
    """
    if not options["target"].rstrip("/").endswith(_OURS):
        raise LocationError(_no_target(options["source"], options["target"]))
    how = {"chunks": options["chunks"], "resume": not options["no_resume"], "source_format": options["name"]}
    return _convert(options, **how)


@click.command()
@_with_options
def export(**options: Any) -> int:
    """Convert a store or an array to HDF5, zarr 3, npz or safetensors.

    What the target cannot hold is listed, and the exit code is 1 then.
    """
    return _convert(options, target_format=options["name"])


def _no_target(source: str, target: str) -> str:
    """What to say of a target that is no new store or array."""
    store, suffix = next(((target[: target.find(s) + len(s)], s) for s in _OURS if f"{s}/" in target), ("", ""))
    if suffix:
        return f"{target}: import makes a new file, and this is a place in a store; {_to_add(source, store, target)}"
    return f"{target}: the target of import ends in {', '.join(_OURS)}; `blosc2 export` writes other formats"


def _to_add(source: str, target: str, place: str | None = None) -> str:
    """How a source gets into a store that there is."""
    if not target.rstrip("/").endswith(_OURS):
        return "name another one"
    name = os.path.splitext(os.path.basename(source.rstrip("/")))[0]
    first, into = shlex.quote(f"{name}-new.b2z"), shlex.quote(place or f"{target.rstrip('/')}/{name}")
    return f"to add to it: blosc2 import {shlex.quote(source)} {first}, then blosc2 cp {first} {into}"


def _convert(options: dict[str, Any], **how: Any) -> int:
    source, target = options["source"], options["target"]
    if os.path.lexists(target) and not options["force"]:
        raise FileExistsError(f"{target} exists: -f replaces it; {_to_add(source, target)}")
    try:
        with progress_bar(source) as progress:
            report = convert(
                source, target, overwrite=options["force"], verify=options["verify"], progress=progress, **how
            )
    except EOFError as error:  # which click would take for an interrupt
        raise LocationError(one_line(error)) from error
    click.echo(str(report))
    return 0 if report.complete else 1


COMMANDS = (import_, export)
