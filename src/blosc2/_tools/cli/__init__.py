"""The command line.

Programs do not import this package; `python -m blosc2` and the command `blosc2` do. The commands need the extra
``cli``; here are those that work without it, `check`, `salvage` and `demo`, which are commands of `app` with it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from blosc2 import _integrity
from blosc2._display import for_any_encoding, human_size
from blosc2._files import Progress, remote_source
from blosc2._options import lacking, local_path, remote_path, scheme_of
from blosc2._tools import demo
from blosc2._tools.cli.words import in_commands, told
from blosc2.exceptions import FormatError
from blosc2.version import __version__

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by "2>&-": else the next file would get its descriptor
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - to the end
    for_any_encoding(sys.stdout, sys.stderr)  # nor need file names be text
    try:
        import click
    except ImportError:
        return run_basics(arguments)
    try:
        from blosc2._tools.cli.app import run
    except KeyboardInterrupt:
        print("blosc2: interrupted", file=sys.stderr)
        return 130
    return run(arguments)


#: The exit codes: all is well; something is damaged, missing, or different; the command could not be carried out.
FINE, FOUND, FAILED = 0, 1, 2

NEEDS_EXTRA = lacking("this command", "click", "cli", " (check, salvage and demo work without it)")


#: Makes what shows the progress of an operation with a label.
Bar = Callable[[str], AbstractContextManager[Progress]]


def untold(done: int, total: int) -> None:
    """Progress that nobody wants to see."""


def no_bar(_: str) -> AbstractContextManager[Progress]:
    return nullcontext(untold)


# So many bytes of an object on a server are in memory at a time.
_PIECE = 8 << 20


@contextmanager
def _here(path: str, bar: Bar, *, quiet: bool) -> Iterator[tuple[str, str]]:
    """A path of the file system, and what it is called: of what is on a server a temporary file with its bytes."""
    if scheme_of(path) in (None, "file"):
        path = local_path(path)
        yield path, path
        return
    where = remote_path(path)
    source = remote_source(where)
    if not quiet:
        print(f"{where}: {human_size(source.size)} are read into a temporary file", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="blosc2-") as folder:
        name = os.path.join(folder, f"object{where.suffix}")
        with open(name, "wb") as file, bar(where) as progress:
            for start in range(0, source.size, _PIECE):
                done = start + file.write(source.read(start, min(_PIECE, source.size - start)))
                progress(done, source.size)
        yield name, where


def check_paths(paths: Iterable[str], *, quiet: bool, as_json: bool = False, bar: Bar = no_bar) -> int:
    """Print what is damaged, and unless it is to be quiet what is not; `FOUND` if anything is.

    As JSON it is a list with an object for each path. What cannot be read is told, and others are checked: `FAILED`.
    """
    damaged, failed, found = False, False, []
    for path in paths:
        try:
            with _here(path, bar, quiet=quiet) as (file, name), bar(name) as progress:
                report = _integrity.check(file, progress=progress)
        except (OSError, FormatError) as error:
            failed = True
            print(f"blosc2 check: {told(error)}", file=sys.stderr)
            if as_json:
                found.append({"path": str(path), "ok": False, **dict.fromkeys(_KINDS, ()), "error": told(error)})
            continue
        damaged |= not report.ok
        if as_json:
            found.append({"path": name, "ok": report.ok, **_findings(report, file, name)})
        elif not (quiet and report.ok):
            print(in_commands(str(report)).replace(file, name))
    if as_json:
        print(json.dumps(found))
    return FAILED if failed else FOUND if damaged else FINE


_KINDS = ("findings", "unverified", "notes")


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


def salvage_path(path: str, out: str, fill: float | None, *, quiet: bool, bar: Bar = no_bar) -> int:
    """Print what was recovered, if it is to be quiet only where something is lost; `FOUND` if so."""
    with _here(path, bar, quiet=quiet) as (file, name), bar(name) as progress:
        report = _integrity.salvage(file, out, fill=fill, progress=progress)
    if not (quiet and report.complete):
        print(in_commands(str(report)).replace(file, name))
    return FINE if report.complete else FOUND


def run_demo(output: Path, patches: int, seed: int) -> int:
    try:
        return demo.run(output, count=patches, seed=seed)
    except demo.DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return FAILED


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m blosc2", description="Compressed array containers.")
    parser.add_argument("--version", action="version", version=f"python-blosc2 {__version__}")
    parser.epilog = "More commands (ls, tree, cat, show, cp, pack, diff, ...): pip install 'python-blosc2[cli]'"
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    run = commands.add_parser(
        "demo",
        help="convert a brain scan and photographs to a store, check it, and time reading from it",
        description=demo.__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    run.add_argument("--output", type=Path, default=Path("blosc2-demo.b2z"), help="the store to write")
    run.add_argument("--patches", type=_positive, default=2000, help="random patches to check against the source")
    run.add_argument("--seed", type=int, default=0, help="seed of the choice of patches")
    look = commands.add_parser("check", help="read all of arrays and stores, and say what is damaged")
    look.add_argument("paths", nargs="+", metavar="PATH", help="a file or directory of any kind")
    save = commands.add_parser("salvage", help="write what is whole of a damaged array or store to a new one")
    save.add_argument("path", metavar="PATH", help="the damaged file or directory, which is only read")
    save.add_argument("out", metavar="OUT", help="the new one; its suffix says what it is")
    save.add_argument("--fill", type=float, help="recover arrays that miss chunks too, with this in their place")
    look.add_argument("--json", action="store_true", help="print JSON")
    for command in (look, save):
        command.add_argument("-q", "--quiet", action="store_true", help="print only what is damaged")
    return parser


def run_basics(arguments: Sequence[str]) -> int:
    """Run one of the three commands; return the exit code."""
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    if first not in (None, "check", "salvage", "demo"):
        print(f"blosc2 {first}: {NEEDS_EXTRA}", file=sys.stderr)
        return FAILED
    options = _parser().parse_args(arguments)
    try:
        if options.command == "check":
            return check_paths(options.paths, quiet=options.quiet, as_json=options.json)
        if options.command == "salvage":
            return salvage_path(options.path, options.out, options.fill, quiet=options.quiet)
    except BrokenPipeError:  # whoever reads the output wants no more
        sys.stdout = io.StringIO()  # takes what is still to be flushed at exit
        return FINE
    except (OSError, ValueError) as error:
        print(f"blosc2 {options.command}: {told(error)}", file=sys.stderr)
        return FAILED
    return run_demo(options.output, options.patches, options.seed)
