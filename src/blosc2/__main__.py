"""The command line: ``python -m blosc2``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from blosc2 import demo
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
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return demo.run(options.output, count=options.patches, seed=options.seed)
    except demo.DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
