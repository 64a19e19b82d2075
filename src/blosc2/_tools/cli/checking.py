"""Commands for what may be damaged: check, salvage; and demo."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from blosc2 import _integrity
from blosc2._display import human_size
from blosc2._files import remote_source
from blosc2._options import RemotePath
from blosc2._tools import demo as demonstration
from blosc2._tools.cli import FAILED, FINE, FOUND
from blosc2._tools.cli.locations import STORAGE, path_here, whole
from blosc2._tools.cli.output import QUIET, is_quiet, note, progress_bar
from blosc2._tools.cli.words import in_commands, told
from blosc2.exceptions import FormatError

# So many bytes of an object on a server are in memory at a time.
_PIECE = 8 << 20
_KINDS = ("findings", "unverified", "notes")


@contextmanager
def _here(path: str) -> Iterator[tuple[str, str]]:
    """A path of the file system, and what it is called: of what is on a server a temporary file with its bytes."""
    if not isinstance(path, RemotePath):
        yield path, path
        return
    source = remote_source(path)
    if not is_quiet():
        note(f"{path}: {human_size(source.size)} are read into a temporary file")
    with tempfile.TemporaryDirectory(prefix="blosc2-") as folder:
        name = os.path.join(folder, f"object{path.suffix}")
        with open(name, "wb") as file, progress_bar(path) as progress:
            for start in range(0, source.size, _PIECE):
                done = start + file.write(source.read(start, min(_PIECE, source.size - start)))
                progress(done, source.size)
        yield name, path


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@STORAGE
@QUIET
def check(paths: tuple[str, ...], as_json: bool) -> int:
    """Read all of arrays and stores, and say what is damaged (exit code 1).

    What cannot be read is told, and others are checked. What is on a server is read into a temporary file.
    """
    damaged, failed, found = False, False, []
    for path in map(whole, paths):
        try:
            with _here(path) as (file, name), progress_bar(name) as progress:
                report = _integrity.check(file, progress=progress)
        except (OSError, FormatError) as error:
            failed = True
            note(f"blosc2 check: {told(error)}")
            found.append({"path": path, "ok": False, **dict.fromkeys(_KINDS, ()), "error": told(error)})
            continue
        damaged |= not report.ok
        found.append({"path": name, "ok": report.ok, **_findings(report, file, name)})
        if not (as_json or (is_quiet() and report.ok)):
            print(in_commands(str(report)).replace(file, name))
    if as_json:
        print(json.dumps(found))
    return FAILED if failed else FOUND if damaged else FINE


def _findings(report: Any, file: str, name: str) -> dict[str, list[dict[str, Any]]]:
    """What a check found, where a file may be called otherwise than it was read."""
    return {
        kind: [
            {"file": each.path.replace(file, name), "key": each.key, "byte": each.offset,
             "what": in_commands(each.problem)}
            for each in getattr(report, kind)
        ]
        for kind in _KINDS
    }  # fmt: skip


@click.command()
@click.argument("path")
@click.argument("out")
@click.option("--fill", type=float, help="Recover arrays that miss chunks too, with this in their place.")
@STORAGE
@QUIET
def salvage(path: str, out: str, fill: float | None) -> int:
    """Write what is whole of a damaged array or store to a new one.

    PATH is only read; the suffix of OUT says what it is.
    """
    target = path_here(out)
    with _here(whole(path)) as (file, name), progress_bar(name) as progress:
        report = _integrity.salvage(file, target, fill=fill, progress=progress)
    if not (is_quiet() and report.complete):
        print(in_commands(str(report)).replace(file, name))
    return FINE if report.complete else FOUND


@click.command(help=demonstration.__doc__)
@click.option("--output", type=click.Path(path_type=Path), default="blosc2-demo.b2z", show_default=True)
@click.option("--patches", type=click.IntRange(1), default=2000, show_default=True, help="Random patches to check.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice of patches.")
def demo(output: Path, patches: int, seed: int) -> int:
    try:
        return demonstration.run(output, count=patches, seed=seed)
    except demonstration.DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return FAILED


COMMANDS = (check, salvage, demo)
