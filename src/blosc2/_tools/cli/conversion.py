"""Commands that convert: import, export."""

from __future__ import annotations

from typing import Any

import click

from blosc2._tools.cli.changing import progress_bar
from blosc2._tools.cli.locations import LocationError
from blosc2._tools.converting import FORMATS, convert

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
        raise LocationError(f"{options['target']}: the target of import ends in {', '.join(_OURS)}; see export")
    how = {"chunks": options["chunks"], "resume": not options["no_resume"], "source_format": options["name"]}
    return _convert(options, **how)


@click.command()
@_with_options
def export(**options: Any) -> int:
    """Convert a store or an array to HDF5, zarr 3, npz or safetensors.

    What the target cannot hold is listed, and the exit code is 1 then.
    """
    return _convert(options, target_format=options["name"])


def _convert(options: dict[str, Any], **how: Any) -> int:
    with progress_bar(options["source"]) as progress:
        report = convert(
            options["source"], options["target"], overwrite=options["force"], verify=options["verify"],
            progress=progress, **how,
        )  # fmt: skip
    click.echo(str(report))
    return 0 if report.complete else 1


COMMANDS = (import_, export)
