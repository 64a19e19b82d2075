"""Forks inside every block, generator and callback, and at every call that changes files; see `fork_stories`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixture_kit.fork_stories import ARRAYS, STORES
from fixture_kit.isolated import TESTS, environment

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")


@pytest.mark.parametrize("kind", [*STORES, *ARRAYS])
def test_a_child_reads_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    script = str(TESTS / "fixture_kit" / "fork_stories.py")
    program = [sys.executable, "-W", "error", script, kind, str(tmp_path)]
    done = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr
