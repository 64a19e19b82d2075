"""What the tests of the command line share: an array, and how a command is run."""

from __future__ import annotations

import numpy as np
import pytest

from blosc2._tools.cli import main

RAW = np.arange(60.0).reshape(3, 4, 5)


class Answer:
    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self.capfd = capfd

    def __call__(self, *arguments: str, code: int = 0) -> str:
        self.capfd.readouterr()
        got = main(list(arguments))
        out, self.err = self.capfd.readouterr()
        assert got == code, self.err
        assert "Traceback" not in self.err
        return out


def failing(run: Answer, *arguments: str) -> str:
    """The message of a command that fails: one line, and nothing else."""
    assert run(*arguments, code=2) == ""
    assert run.err.count("\n") == 1
    start = f"blosc2 {arguments[0]}: "
    assert run.err.startswith(start)
    return run.err.removeprefix(start).rstrip("\n")
