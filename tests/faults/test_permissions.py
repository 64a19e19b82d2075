"""Permissions that are revoked while a file or store is open: clear errors, and what was there stays."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from fixture_kit.isolated import environment

from faults import FULL
from faults.stories import stories

NAMES = list(stories()) if FULL else ["array", "sparse schunk", "embed", "dict b2z, upkeep", "tree b2d tiers"]


@pytest.mark.parametrize("name", NAMES)
def test_revoked_permissions(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "faults.unprivileged", name], env=environment(PYTHONDONTWRITEBYTECODE="1"),
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if done.returncode and "Operation not permitted" in done.stderr and "setgroups" in done.stderr:
        pytest.skip("no other user can be had here")
    assert done.returncode == 0, done.stderr[-4000:]
    folders, all_of_it = map(ast.literal_eval, done.stdout.splitlines())
    # Whatever is written anew needs the folder; an append needs the file alone.
    assert folders[0] > 0
    assert sum(all_of_it) >= len(all_of_it) // 2
