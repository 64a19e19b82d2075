"""Files that scripted programs make are the bytes that they were: see `snapshots.py`."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

import blosc2
from contract import snapshots

pytestmark = pytest.mark.skipif(
    (blosc2.blosclib_version, sys.platform, platform.machine()) != (snapshots.release(), "linux", "x86_64"),
    reason="another release of C-Blosc2, or another kind of machine, compresses to other bytes",
)


@pytest.mark.parametrize("family", [family.__name__ for family in snapshots.FAMILIES])
def test_files_are_the_same_bytes(tmp_path: Path, family: str) -> None:
    assert snapshots.differences(snapshots.played(tmp_path, f"{family}-"), snapshots.listed(f"{family}-")) == []


def test_each_line_has_a_program() -> None:
    assert {name.partition("-")[0] for name in snapshots.listed()} == {one.__name__ for one in snapshots.FAMILIES}
    assert len(snapshots.listed()) == sum(snapshots.FAMILIES.values()) >= 300
