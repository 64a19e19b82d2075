"""The command line: ``python -m blosc2``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from blosc2._cli import demo
from blosc2._integrity import check, salvage
from blosc2.version import __version__


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {number}")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m blosc2", description="Compressed array containers.")
    parser.add_argument("--version", action="version", version=f"python-blosc2 {__version__}")
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
    return parser


def _check(paths: Sequence[str]) -> int:
    """Print what is damaged; 1 if anything is."""
    damaged = False
    for path in paths:
        report = check(path)
        print(report)
        damaged |= not report.ok
    return int(damaged)


def _salvage(path: str, out: str, fill: float | None) -> int:
    """Print what was recovered; 1 if something is lost."""
    report = salvage(path, out, fill=fill)
    print(report)
    return int(not report.complete)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "check":
            return _check(options.paths)
        if options.command == "salvage":
            return _salvage(options.path, options.out, options.fill)
    except (OSError, ValueError) as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 2
    try:
        return demo.run(options.output, count=options.patches, seed=options.seed)
    except demo.DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
