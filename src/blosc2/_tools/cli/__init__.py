"""The command line.

Programs do not import this package; `python -m blosc2` and the command `blosc2` do. The commands need the extra
``cli``; `basics` has those that work without it.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text
    try:
        import click
    except ImportError:
        from blosc2._tools.cli.basics import run_basics

        return run_basics(arguments)
    try:
        from blosc2._tools.cli.app import run
    except KeyboardInterrupt:
        print("blosc2: interrupted", file=sys.stderr)
        return 130
    return run(arguments)
