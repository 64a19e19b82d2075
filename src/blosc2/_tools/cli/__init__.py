"""The command line, which needs the extra ``cli``.

Programs do not import this package; `python -m blosc2` and the command `blosc2` do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from blosc2._display import for_any_encoding
from blosc2._options import lacking

__all__ = ["main"]

#: The exit codes: all is well; something is damaged, missing, or different; the command could not be carried out.
FINE, FOUND, FAILED = 0, 1, 2


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
        print(f"blosc2: {lacking('the command line', 'click', 'cli')}", file=sys.stderr)
        return FAILED
    try:
        from blosc2._tools.cli.app import run
    except KeyboardInterrupt:
        print("blosc2: interrupted", file=sys.stderr)
        return 130
    return run(arguments)
