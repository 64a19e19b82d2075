"""Conversions that were stopped within a large array go on from there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._core.io.checksum import crc32c
from blosc2._tools.converting import kept_chunks, stores

TARGETS = ["a.b2z", "a.b2d", "a.b2nd"]
#: Of 40 chunks, the first of which is special.
ITEMS = np.random.default_rng(0).integers(0, 99, (2000, 5000), "i4")
ITEMS[:50] = 0


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_chunks, "_LEAST", 1 << 20)
    monkeypatch.setattr(stores, "_LARGE", 1 << 20)
    np.save(tmp_path / "x.npy", ITEMS)
    return tmp_path / "x.npy"


def stopped(source: Path, target: Path, after: int | None, monkeypatch: pytest.MonkeyPatch, **how: Any) -> list[int]:
    """Convert, and stop after so many new chunks. The numbers of the chunks from which arrays were made."""
    begun: list[int] = []
    real = stores.made

    def stop(*arguments: Any, start: int = 0, **keywords: Any) -> Any:
        begun.append(start)
        for number, chunk in enumerate(real(*arguments, start=start, **keywords)):
            if number == after:
                raise KeyboardInterrupt
            yield chunk

    with monkeypatch.context() as patched:
        patched.setattr(stores, "made", stop)
        try:
            blosc2.convert(source, target, **how)
        except KeyboardInterrupt as error:
            left = {path for path in target.parent.iterdir() if ".partial" in path.name}
            notes = getattr(error, "__notes__", [])
            said = [note for note in notes if note.startswith("the same conversion goes on from ")]
            assert {Path(note.split(" from ")[1].removesuffix(", or delete that")) for note in said} == (
                set() if how.get("resume") is False else left
            )
    return begun


def array_in(target: Path) -> np.ndarray[Any, Any]:
    assert blosc2.check(str(target)).ok
    found: Any = blosc2.open(str(target), mode="r")
    items: np.ndarray[Any, Any] = (found if target.suffix == ".b2nd" else found["/x"])[...]
    return items


@pytest.mark.parametrize("name", TARGETS)
def test_it_goes_on(tmp_path: Path, source: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nchunks = blosc2.asarray(ITEMS).schunk.nchunks
    assert stopped(source, tmp_path / name, 3, monkeypatch) == [0]
    assert stopped(source, tmp_path / name, 2, monkeypatch) == [3]
    assert "a.partial" + Path(name).suffix + ".chunks" in os.listdir(tmp_path)
    report = blosc2.convert(source, tmp_path / name, verify=True)
    assert nchunks > 6
    assert (report.went_on, report.resumed) == ("/x", 0)
    assert "/x from its middle" in str(report)
    assert sorted(os.listdir(tmp_path)) == [name, "x.npy"]
    np.testing.assert_array_equal(array_in(tmp_path / name), ITEMS)
    assert blosc2.convert(source, tmp_path / name, overwrite=True).went_on is None


def test_what_is_asked_for_is_not_what_was_kept(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.b2z"
    assert stopped(source, target, 5, monkeypatch) == [0]
    assert stopped(source, target, 5, monkeypatch, cparams={"clevel": 1}) == [0]
    assert stopped(source, target, 5, monkeypatch, cparams={"clevel": 1}, resume=False) == [0]
    np.save(source, ITEMS + 1)
    assert stopped(source, target, None, monkeypatch, cparams={"clevel": 1}) == [0]
    np.testing.assert_array_equal(array_in(target), ITEMS + 1)


@pytest.mark.parametrize("where", ["head", "length", "chunk", "end", "far"])
def test_chunks_that_are_damaged_are_made_anew(
    tmp_path: Path, source: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, kept = tmp_path / "a.b2nd", tmp_path / "a.partial.b2nd.chunks"
    stopped(source, target, 4, monkeypatch)
    data = bytearray(kept.read_bytes())
    first = len(kept_chunks._MAGIC) + 32  # behind the hash
    length, own = kept_chunks._RECORD.unpack_from(data, first)
    assert crc32c(data[first + 12 : first + 12 + length]) == own
    if where == "end":
        del data[-1]
    elif where == "far":
        data[first : first + 8] = (1 << 60).to_bytes(8, "little")
    else:
        data[{"head": 0, "length": first, "chunk": first + 20}[where]] ^= 1
    kept.write_bytes(data)
    assert stopped(source, target, None, monkeypatch) == [3 if where == "end" else 0]
    np.testing.assert_array_equal(array_in(target), ITEMS)


@pytest.mark.parametrize("what", ["directory", "link", "file"])
def test_what_others_have_there_stays(tmp_path: Path, source: Path, what: str) -> None:
    there, other = tmp_path / "a.partial.b2nd.chunks", tmp_path / "other"
    other.write_bytes(b"of somebody else")
    if what == "directory":
        there.mkdir()
        (there / "file").write_bytes(b"kept")
    elif what == "link":
        there.symlink_to(other)
    else:
        there.write_bytes(b"of somebody else, too")
    blosc2.convert(source, tmp_path / "a.b2nd", verify=True)
    assert other.read_bytes() == b"of somebody else"
    assert (
        (there / "file").read_bytes() == b"kept"
        if what == "directory"
        else there.read_bytes()[:16] == b"of somebody else"
    )


def test_what_is_chosen_from_the_data_is_the_same(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blosc2.convert(source, tmp_path / "whole.b2nd", cparams="smallest")
    stopped(source, tmp_path / "a.b2nd", 3, monkeypatch, cparams="smallest")
    blosc2.convert(source, tmp_path / "a.b2nd", cparams="smallest", verify=True)
    assert (tmp_path / "a.b2nd").read_bytes() == (tmp_path / "whole.b2nd").read_bytes()


def test_two_runs_at_a_time(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, real = tmp_path / "a.b2nd", stores.made

    def other(*arguments: Any, **keywords: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(stores, "made", real)
            blosc2.convert(source, target)
        yield from real(*arguments, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(stores, "made", other)
        assert blosc2.convert(source, target, overwrite=True, verify=True).went_on is None
    np.testing.assert_array_equal(array_in(target), ITEMS)
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd", "x.npy"]


@pytest.mark.parametrize("after", [0, 50, 9_000, 1_000_000])
def test_a_full_disk_keeps_nothing(tmp_path: Path, source: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(kept_chunks.FileIO):
        def write(self, data: Any) -> int:
            room = max(after - self.tell(), 0)
            if not room:
                raise OSError(28, os.strerror(28))
            return super().write(memoryview(data)[:room])

    monkeypatch.setattr(kept_chunks, "FileIO", Full)
    blosc2.convert(source, tmp_path / "a.b2nd", verify=True)
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd", "x.npy"]


SLOW = """
import sys, time, blosc2
from blosc2._tools.converting import kept_chunks, stores
kept_chunks._LEAST = stores._LARGE = 1 << 20
real = stores.made
def slow(*a, **k):
    for chunk in real(*a, **k):
        time.sleep(0.02)
        yield chunk
stores.made = slow
print(blosc2.convert(sys.argv[1], sys.argv[2]).went_on)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL does not exist on every platform")
@pytest.mark.parametrize("name", TARGETS)
def test_killed_within_an_array(tmp_path: Path, source: Path, name: str) -> None:
    rng, target = random.Random(name), tmp_path / name
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SLOW, str(source), str(target)], stdout=subprocess.PIPE)
        try:
            process.communicate(timeout=rng.uniform(0.3, 0.6))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    blosc2.convert(source, target, overwrite=True, verify=True)
    np.testing.assert_array_equal(array_in(target), ITEMS)
