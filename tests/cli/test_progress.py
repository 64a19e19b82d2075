"""Progress and summaries: on stderr, of a terminal alone, and not where nobody wants them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_kit import Answer

import blosc2

pytestmark = pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals here")

COMMANDS = pytest.mark.parametrize("command", [
    ["cp", "s.b2z", "t.b2z"], ["diff", "s.b2z", "same.b2z"], ["diff", "a.b2nd", "a.b2nd"], ["check", "s.b2z"],
    ["salvage", "s.b2z", "t.b2z"], ["compact", "s.b2z"], ["pack", "d.b2d", "t.b2z"], ["unpack", "s.b2z", "t.b2d"],
])  # fmt: skip


@pytest.fixture(autouse=True)
def same(folder: Path) -> None:
    (folder / "same.b2z").write_bytes((folder / "s.b2z").read_bytes())


def on_a_terminal(*arguments: str) -> str:
    """What a command prints on a terminal that is its stderr."""
    master, terminal = os.openpty()
    command = [sys.executable, "-m", "blosc2", *arguments]
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    found = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:  # as Linux says that nobody has it open any more
            break
        if not piece:
            break
        found += piece
    os.close(master)
    assert program.wait() == 0, found
    return found.decode()


@COMMANDS
def test_a_terminal_shows_progress(folder: Path, command: list[str]) -> None:
    found = on_a_terminal(*command)
    assert "100%" in found
    assert "[####" in found


@COMMANDS
def test_a_pipe_does_not(folder: Path, run: Answer, command: list[str]) -> None:
    run(*command)
    assert "%" not in run.err
    assert "\r" not in run.err


@COMMANDS
def test_nor_does_who_is_quiet(folder: Path, run: Answer, command: list[str]) -> None:
    assert on_a_terminal(*command, "-q") == ""
    for path in folder.glob("t.b2*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert run(*command, "--quiet") == ""
    assert run.err == ""


def test_other_summaries(folder: Path, run: Answer) -> None:
    assert run("rm", "s.b2z/age", "-q") == ""
    assert run.err == ""


def test_what_is_damaged_is_not_kept_quiet(folder: Path, run: Answer) -> None:
    data = bytearray((folder / "s.b2z").read_bytes())
    data[data.index(np.int64(1).tobytes())] ^= 1
    (folder / "s.b2z").write_bytes(data)
    assert run("check", "-q", "a.b2nd", "s.b2z", code=1).startswith("<CheckReport")
    assert "1 lost" in run("salvage", "-q", "s.b2z", "t.b2z", code=1)


def test_each_leaf_has_a_line(folder: Path, run: Answer) -> None:
    run("cp", "-v", "s.b2z/mri", "t.b2z/brain/")
    assert run.err.splitlines() == ["/brain/mri/007/raw", "/brain/mri/008/raw", "2 leaves copied to t.b2z"]
    with blosc2.open("t.b2z", mode="a") as store:
        store["/age"] = np.arange(3)
    assert "only in the first" in run("diff", "-v", "s.b2z", "t.b2z", code=1)
    assert run.err == "/age\n"
    assert "%" not in on_a_terminal("diff", "-v", "s.b2z", "same.b2z")
