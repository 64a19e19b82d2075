"""The commands, and what they share: errors in one line, exit codes, output as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from blosc2._display import printable
from blosc2._tools import demo
from blosc2._tools.cli import FAILED, FINE, changing, check_paths, looking, printing, run_demo, salvage_path, tuning
from blosc2._tools.cli.locations import STORAGE, path_here, whole
from blosc2._tools.cli.output import QUIET, is_quiet, note, progress_bar, say
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


@blosc2.command("check")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@STORAGE
@QUIET
def _check(paths: tuple[str, ...], as_json: bool) -> int:
    """Read all of arrays and stores, and say what is damaged (exit code 1).

    What is on a server is read into a temporary file.
    """
    return check_paths(map(whole, paths), quiet=is_quiet(), as_json=as_json, bar=progress_bar)


@blosc2.command("salvage")
@click.argument("path")
@click.argument("out")
@click.option("--fill", type=float, help="Recover arrays that miss chunks too, with this in their place.")
@STORAGE
@QUIET
def _salvage(path: str, out: str, fill: float | None) -> int:
    """Write what is whole of a damaged array or store to a new one.

    PATH is only read; the suffix of OUT says what it is.
    """
    return salvage_path(whole(path), path_here(out), fill, quiet=is_quiet(), bar=progress_bar)


@blosc2.command("demo", help=demo.__doc__)
@click.option("--output", type=click.Path(path_type=Path), default="blosc2-demo.b2z", show_default=True)
@click.option("--patches", type=click.IntRange(1), default=2000, show_default=True, help="Random patches to check.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the choice of patches.")
def _demo(output: Path, patches: int, seed: int) -> int:
    return run_demo(output, patches, seed)


@blosc2.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def _completion(shell: str) -> None:
    """Print what makes a SHELL complete commands and options.

    For example in ~/.bashrc: eval "$(blosc2 completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    say(kind(blosc2, {}, "blosc2", "_BLOSC2_COMPLETE").source())


for _module in (looking, printing, changing, tuning):
    for _command in _module.COMMANDS:
        blosc2.add_command(_command)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code. Errors are one line on stderr."""
    if "_BLOSC2_COMPLETE" in os.environ:
        blosc2(prog_name="blosc2")  # answers the shell, and exits
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
