"""The commands, and what they share: errors in one line, exit codes, output as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import click

from blosc2._display import printable
from blosc2._tools.cli import FAILED, FINE, changing, checking, looking, printing, tuning
from blosc2._tools.cli.output import note
from blosc2._tools.cli.words import told
from blosc2.version import __version__

_HELP = """Look into compressed arrays and stores, and change them.

A LOCATION is a file, a store, or a key in a store: scans.b2z/patients/007/ct. Keys may have *, ?, [...] and **, in
quotes so that the shell leaves them alone. Commands that only read take URLs as well: https://..., s3://...
"""


@click.group("blosc2", help=_HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="python-blosc2", message="%(prog)s %(version)s")
def blosc2() -> None:
    pass


for _module in (looking, printing, changing, tuning, checking):
    for _command in _module.COMMANDS:
        blosc2.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code. Errors are one line on stderr."""
    try:
        return int(blosc2.main(list(arguments) or ["--help"], prog_name="blosc2", standalone_mode=False) or FINE)
    except click.ClickException as error:
        names = (error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "blosc2").split()
        what = " ".join(printable(error.format_message()).split())
        if isinstance(error, click.MissingParameter) and error.ctx and error.param and error.param.nargs < 0:
            # Which one of several is missing cannot be told.
            what = f"an argument is missing of {' '.join(error.ctx.command.collect_usage_pieces(error.ctx)[1:])}"
        note(f"{' '.join(names)}: {what} (`{' '.join(names)} --help` tells what there is)")
        return error.exit_code
    except click.exceptions.Exit as done:
        return done.exit_code
    except SystemExit:  # click ends so, and only so, when whoever reads the output wants no more
        return FINE
    except (KeyboardInterrupt, click.Abort) as error:
        cause = error.__context__ if isinstance(error, click.Abort) else error
        note("; ".join(["blosc2: interrupted", *getattr(cause, "__notes__", [])]))
        return 130
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes one line
        command = next((argument for argument in arguments if argument in blosc2.commands), "")
        text = told(error)
        if any(argument.startswith("--timeout") for argument in arguments):
            text = text.replace("wait with --timeout", "wait longer with --timeout")
        note(f"blosc2 {command}: {text}")
        return FAILED
