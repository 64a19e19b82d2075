"""Where commands print: what was asked for to stdout, and what is to be known besides to stderr."""

from __future__ import annotations

import sys

import click


def say(text: str) -> None:
    """Print what was asked for. Click would take a terminal of ASCII for one of UTF-8, so it is told where to print."""
    click.echo(text, file=sys.stdout, color=True)


def note(text: str) -> None:
    """Print what is to be known besides."""
    click.echo(text, file=sys.stderr)
