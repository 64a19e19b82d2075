"""The lock of a store that is not there yet: whoever comes second waits or is refused, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import refused_elsewhere
from fixture_kit.isolated import environment
from store_makers import Maker

import blosc2
from blosc2._backends import WriterLock
from blosc2._files import locks

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")

MODES = pytest.mark.parametrize("mode", ["a", "w"])
FORKS = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def outside(code: str, *arguments: str) -> subprocess.Popen[str]:
    program = "import sys, time, os, numpy as np, blosc2\nkind, path, mode, me = sys.argv[1:]\n"
    program += "cls = getattr(blosc2, kind)\n" + code
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


# The writer waits until all programs have started, then opens, adds one leaf and closes.
FILL = """
print("ready", flush=True)
sys.stdin.readline()
store = cls(path, mode="a", timeout=60)
store[f"/job{me}"] = np.arange(10) + int(me)
store[f"/group{me}/more"] = np.full(2000, int(me))
store.close()
"""


@pytest.mark.parametrize("count", [2, 6])
@pytest.mark.parametrize(("cls", "suffix"), [("EmbedStore", ".b2e"), ("DictStore", ".b2z"), ("TreeStore", ".b2d")])
def test_programs_that_make_one_store_together_lose_nothing(cls: str, suffix: str, count: int, tmp_path: Path) -> None:
    path = tmp_path / "deep" / f"store{suffix}"
    programs = [outside(FILL, cls, str(path), "a", str(n)) for n in range(count)]
    for program in programs:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("go\n")
        program.stdin.close()
    for program in programs:
        assert program.wait(timeout=60) == 0
        assert program.stdout is not None
        program.stdout.close()
    with getattr(blosc2, cls)(str(path), mode="r") as store:
        for n in range(count):
            assert np.array_equal(store[f"/job{n}"][:], np.arange(10) + n)
            assert np.array_equal(store[f"/group{n}/more"][:], np.full(2000, n))
    assert os.listdir(path.parent) == [path.name]


@FORKS
@MODES
def test_a_second_writer_of_a_new_store_is_refused(mode: str, make: Maker) -> None:
    first = make(mode)  # a second one in mode "w" would take its path over
    refused_elsewhere(lambda: make("a"))
    began = time.monotonic()
    refused_elsewhere(lambda: make("a", timeout=0.2))
    assert 0.2 <= time.monotonic() - began < 10
    first["/a"] = [1, 2]
    first.close()
    with make("a") as second:
        second["/b"] = [3]
    assert make.values() == {"/a": [1, 2], "/b": [3]}
    assert os.listdir(make.path.parent) == [make.path.name]


def test_nothing_is_left_where_nothing_is_made(make: Maker) -> None:
    folder = make.path.parent / "new" / "folders"
    make.path = folder / make.path.name
    with pytest.raises(FileNotFoundError):
        make("r")
    store = make("a")
    store.discard()
    store.close()
    if not make.path.exists():  # as a `.b2z` that nothing was assigned to
        assert not folder.parent.exists()
    assert not [name for name in folder.parent.rglob("*") if name.name.endswith(".lock")]


@FORKS
def test_links_lock_what_they_lead_to(make: Maker) -> None:
    real = make.path
    link = real.parent / f"link{real.suffix}"
    link.symlink_to(real.name)
    first = make("w")
    make.path = link
    refused_elsewhere(lambda: make("a"))
    first["/a"] = [1]
    first.close()
    with make("a") as store:
        store["/b"] = [2]
    assert link.is_symlink()
    make.path = real
    assert make.values() == {"/a": [1], "/b": [2]}
    assert sorted(os.listdir(real.parent)) == sorted([real.name, link.name])


def test_the_file_of_another_creation_is_not_taken_for_ones_own(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the opening of the file and its lock, a store is made and removed again."""
    opened = locks.CreationLock.open
    held: list[Any] = []

    def open_late(self: Any) -> int:
        descriptor = opened(self)
        if not held:
            held.append(None)
            other = make("w")
            other["/other"] = [1]
            other.close()
        return descriptor

    monkeypatch.setattr(locks.CreationLock, "open", open_late)
    with make("a") as store:
        assert store["/other"][:].tolist() == [1]
        store["/a"] = [2]
    assert make.values() == {"/other": [1], "/a": [2]}
    assert os.listdir(make.path.parent) == [make.path.name]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        blosc2.DictStore(str(tmp_path / "file" / "x.b2z"), mode="w")


@pytest.mark.parametrize("suffix", [".b2z", ".b2e"])
def test_who_waits_to_make_a_store_opens_what_another_has_made(suffix: str, tmp_path: Path) -> None:
    """It would wait for a pause between changes of the other one, which may not come."""
    kind: Any = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    path, ready = tmp_path / f"x{suffix}", tmp_path / f"ready{suffix}"
    with kind(ready, mode="w") as store:
        store["/a"] = [1]
    held = WriterLock(str(path))
    try:
        with ThreadPoolExecutor(1) as pool:
            opened = pool.submit(kind, str(path), mode="a", locking=True, timeout=20)
            with pytest.raises(TimeoutError):
                opened.result(0.2)
            with open(ready, "rb") as file:
                held.take(file.fileno())
            os.link(ready, path)  # which shows it at once, as a creation does, with its lock
            held.adopt()
            with opened.result(10) as store:
                assert store["/a"][0] == 1
    finally:
        held.release()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks names holders")
@pytest.mark.parametrize(("kind", "suffix"), [("DictStore", ".b2z"), ("TreeStore", ".b2d")])
def test_a_reader_hears_of_the_writer_that_has_published_nothing(kind: str, suffix: str, tmp_path: Path) -> None:
    path, cls = str(tmp_path / f"store{suffix}"), getattr(blosc2, kind)
    with cls(path, mode="w") as store:
        for reader in (blosc2.open, cls):
            with pytest.raises(FileNotFoundError, match=rf"not exist yet: .*process \({os.getpid()}\).*flush"):
                reader(path, mode="r")
        store["/a"] = np.arange(3)
        store.flush()
        assert cls(path, mode="r")["/a"][2] == 2
    os.rename(path, path + "2")
    for reader in (blosc2.open, cls):
        with pytest.raises(FileNotFoundError, match=r"not exist; .*modes 'a' and 'w'"):
            reader(path, mode="r")
