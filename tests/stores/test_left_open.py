"""Stores that nobody closes: what was assigned is there when the program has ended, however it ended by itself."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fixture_kit.isolated import environment
from store_makers import KINDS, Maker

import blosc2


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    return Maker(request.param, tmp_path)


def program(make: Maker, end: str) -> list[str]:
    """A program that leaves a store open, with a change in a leaf too, and ends in some way."""
    code = f"""
import sys, os, numpy as np, blosc2
store = blosc2.{make.cls.__name__}({str(make.path)!r}, mode="a", **{make.options!r})
store["/a"] = [1, 2]
store["/g/b"] = np.arange(100)
store["/a"][1] = 7
{end}
"""
    return [sys.executable, "-W", "default::ResourceWarning", "-c", code]


VALUES = {"/a": [1, 7], "/g/b": list(range(100))}


CYCLE = "held = [store, blosc2]; held.append(held); del store"


@pytest.mark.parametrize("end", ["pass", "1 / 0", "sys.exit(3)", CYCLE, f"{CYCLE}, held; import gc; gc.collect()"])
def test_an_open_store_is_published_at_exit(make: Maker, end: str) -> None:
    done = subprocess.run(program(make, end), env=environment(), capture_output=True, text=True, timeout=60)
    assert "ResourceWarning" in done.stderr
    assert "was not closed: its changes are published now" in done.stderr
    assert "Exception ignored" not in done.stderr
    assert make.values() == VALUES
    assert os.listdir(make.path.parent) == [make.path.name]


def test_a_closed_store_is_not_warned_of(make: Maker) -> None:
    done = subprocess.run(program(make, "store.close()"), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert make.values() == VALUES


def test_a_store_whose_file_was_changed_loses_its_changes_in_one_line(make: Maker) -> None:
    end = f"""
store.flush()
store["/a"][0] = 3
name = {str(make.path)!r}
name = os.path.join(name, "embed.b2e") if os.path.isdir(name) else name
with open(name, "ab") as file:
    file.write(b"of somebody else")
"""
    done = subprocess.run(program(make, end), env=environment(), capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if line.startswith("blosc2: ")]
    assert lines == [f"blosc2: changes of {make.path} are lost at the end of the program: {lines[0].split(': ', 2)[2]}"]
    assert "the file was changed by somebody else since it was opened" in lines[0]
    assert "Traceback" not in done.stderr


def test_a_store_whose_file_is_gone_is_forgotten_in_few_lines(make: Maker) -> None:
    end = f"""
store.flush()
store["/a"][0] = 3
name = {str(make.path)!r}
os.remove(os.path.join(name, "embed.b2e") if os.path.isdir(name) else name)
del store
"""
    done = subprocess.run(program(make, end), env=environment(), capture_output=True, text=True, timeout=60)
    assert "Exception ignored" in done.stderr
    assert len(done.stderr.splitlines()) <= 8, done.stderr
    if make.path.suffix == ".b2e":
        assert "the file was removed by somebody else since it was opened" in done.stderr


def test_the_error_says_how_to_save_changes_whose_file_is_gone(make: Maker, tmp_path: Path) -> None:
    with make("w") as store:
        store["/a"] = [1]
        store.flush()
        store["/a"][0] = 3
        gone = make.path / "embed.b2e" if make.path.is_dir() else make.path
        gone.rename(tmp_path / "away")
        with pytest.raises(OSError, match=r"writes the whole store with them to a new file, or discard\(\) them"):
            store.flush()
        new = str(tmp_path / "new.b2z")
        if isinstance(store, blosc2.DictStore):
            store.to_b2z(new)
        else:
            with blosc2.DictStore(new) as other:
                other.update(store)
        with blosc2.open(new) as saved:
            assert list(saved["/a"]) == [3]
        store.discard()


def test_what_a_transaction_holds_is_not_published_at_exit(make: Maker) -> None:
    with make("w") as store:
        store["/a"] = [5]
    end = "store.flush(); block = store.transaction(); block.__enter__(); store['/never'] = [1]; del store['/a']"
    done = subprocess.run(program(make, end), env=environment(), capture_output=True, text=True, timeout=60)
    assert "lost with the transaction" in done.stderr
    assert make.values() == VALUES


def fill(make: Maker) -> None:
    """Leaves a store open in a global of a child, which ends without what a program does at its exit."""
    global left_open
    left_open = make("a")
    left_open["/child"] = [1]
    left_open["/child"][0] = 2


left_open: Any = None


@pytest.mark.parametrize("method", ["spawn", pytest.param("fork", marks=pytest.mark.skipif(
    os.name == "nt", reason="no forks on Windows"))])  # fmt: skip
def test_a_child_publishes_its_own_stores(make: Maker, method: str) -> None:
    child: Any = multiprocessing.get_context(method).Process(target=fill, args=(make,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert make.values() == {"/child": [2]}


@pytest.mark.skipif(os.name == "nt", reason="no forks on Windows")
def test_a_forked_child_publishes_nothing_of_its_parent(make: Maker) -> None:
    store = make("a")
    store["/a"] = [1]
    store.flush()
    store["/a"][0] = 2
    before = make.values()
    for end in ("pass", "raise SystemExit"):
        pid = os.fork()
        if pid == 0:
            try:
                exec(end)
                blosc2._stores.open_stores.end_all()
                held = [store]
                del store, held
                gc.collect()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert make.values() == before == {"/a": [1]}
    store.close()
    assert make.values() == {"/a": [2]}


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_kill_while_an_open_store_is_published(make: Maker) -> None:
    """At any moment of the end of a program: what was published before is there, and the rest whole or not at all."""
    with make("w") as store:
        store["/old"] = list(range(50))
    rng = random.Random(3)
    end = """
for n in range(40):
    store[f"/n/{n}"] = np.full(300, n)
print("ends", flush=True)
"""
    for _ in range(6):
        with subprocess.Popen(program(make, end), env=environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as running:  # fmt: skip
            assert running.stdout is not None
            assert running.stdout.readline() == "ends\n"
            time.sleep(rng.uniform(0, 0.03))
            running.send_signal(signal.SIGKILL)
        found = make.values()
        assert found.pop("/old") == list(range(50))
        for key, value in found.items():
            assert value in ([1, 2], [1, 7], list(range(100)), [int(key[3:])] * 300 if key.startswith("/n/") else None)
        assert blosc2.check(make.path).ok
