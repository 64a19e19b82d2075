"""Every public operation that both packages have gives the same there: the rows of `bench/every_method.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop
PROGRAM = Path(__file__).resolve().parents[2] / "bench" / "every_method.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_public_name_of_both_has_a_row() -> None:
    done = run("--names")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.parametrize("words", [", 8 KB", ", 16 KB", "10 leaves", "chunks of 1000", "Array of 20"])
def test_results_are_equal(words: str) -> None:
    done = run("--check", "--only", words)
    assert "FAILED" not in done.stdout, done.stdout
    assert done.returncode == 0, done.stderr
