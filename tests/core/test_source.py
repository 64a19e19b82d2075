"""Sources: mapped, by position and in memory show the same bytes, and nothing beyond them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from blosc2._core.io.source import Source
from blosc2.exceptions import FormatError

DATA = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path: Path) -> str:
    name = tmp_path / "data.bin"
    name.write_bytes(DATA)
    return str(name)


def of_buffer(path: str) -> Source:
    return Source.of_buffer(Path(path).read_bytes(), path)


def test_appended_bytes_are_not_seen_and_a_cut_is_an_error(path: str) -> None:
    source = Source.open(path)
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(FormatError):
        source.read(len(DATA), 4)
    os.truncate(path, 100)
    assert source.read(50, 50) == DATA[50:100]
    with pytest.raises(FormatError, match="it was cut, or its server failed"):
        source.read(50, 51)


@pytest.mark.parametrize("opened", ["Source.open", "Source.map"])
def test_a_source_that_lives_to_the_end_of_the_process_ends_quietly(tmp_path: Path, opened: str) -> None:
    """The interpreter may have taken its modules apart by then."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    work = f"""
import sys
from blosc2._core.io.source import Source
sys.kept = {opened}({str(path)!r})  # that module goes last
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", work], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
