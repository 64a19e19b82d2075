"""What the page on running it says and no other test shows: copies beside a writer, signals, what may be deleted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from remote_kit import running

import blosc2
from blosc2._tools.cli import main

WRITER = """
import sys
import numpy as np, blosc2
kind = blosc2.EmbedStore if sys.argv[1].endswith("b2e") else blosc2.TreeStore
store = kind(sys.argv[1], mode="a")
for number in range(100_000):
    with store.transaction():
        store["/first"] = np.full(3000, number)
        store["/second"] = np.full(5000, number, "f4") + np.random.rand(5000).astype("f4") / 2
    if number == 2:
        print("runs", flush=True)
"""


@pytest.mark.parametrize("suffix", ["b2z", "b2e", "b2d"])
def test_a_copy_while_a_writer_runs_has_one_version(suffix: str, tmp_path: Path) -> None:
    path, backup = str(tmp_path / f"s.{suffix}"), tmp_path / ("copy.b2e" if suffix == "b2e" else "copy.b2z")
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            seen: list[int] = []
            # At least eight, and until it has written meanwhile: a busy machine takes its time.
            end = time.monotonic() + 60
            while len(seen) < 8 or (len(set(seen)) < 2 and time.monotonic() < end):
                if suffix == "b2e":
                    backup.unlink(missing_ok=True)
                    assert main(["cp", path, str(backup)]) == 0
                else:
                    with blosc2.open(path, mode="r") as store:
                        store.to_b2z(filename=str(backup), overwrite=True)
                report = blosc2.check(backup)
                assert report.ok
                assert not report.unverified
                copy: Any = blosc2.open(str(backup), mode="r")
                first, second = copy["/first"][:], copy["/second"][:].astype(int)
                assert len(set(first)) == len(set(second)) == 1
                if suffix != "b2d":  # whose leaves have each a version of its own
                    assert first[0] == second[0]
                seen.append(first[0])
        finally:
            writer.kill()
    assert seen == sorted(seen)
    assert len(set(seen)) > 1  # it did write meanwhile


ENDS = """
import signal, sys, time
import blosc2
if sys.argv[2] == "handled":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
store = blosc2.TreeStore(sys.argv[1], mode="w")
store["/flushed"] = [1]
store.flush()
store["/pending"] = [2]
print("waits", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize(("how", "keys"), [("handled", ["/flushed", "/pending"]), ("as it is", ["/flushed"])])
def test_sigterm(how: str, keys: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with subprocess.Popen(
        [sys.executable, "-c", ENDS, path, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        program.send_signal(signal.SIGTERM)
        program.wait(60)
    with blosc2.TreeStore(path, mode="a") as store:  # nothing is locked
        assert list(store) == keys
    assert os.listdir(tmp_path) == ["s.b2z"]


@pytest.mark.skipif(sys.platform == "win32", reason="no locking there")
def test_files_of_locks_may_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    for number in range(3):
        with blosc2.TreeStore(str(path), mode="a", locking=True) as store:
            store[f"/{number}"] = [number]
        os.remove(f"{path}.b2lock")
    assert list(blosc2.open(str(path), mode="r").keys()) == ["/0", "/1", "/2"]


def test_the_folder_of_fetched_bytes_may_be_deleted(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="an extra")
    items = np.random.default_rng(0).random(200_000)
    blosc2.asarray(items, urlpath=str(tmp_path / "a.b2nd"))
    with running() as server:
        url = server.put("a.b2nd", tmp_path / "a.b2nd")
        for _ in range(2):
            array = blosc2.open(url, remote={"disk": str(tmp_path / "disk"), "memory": 1 << 20})
            assert array[5] == items[5]
            shutil.rmtree(tmp_path / "disk")
            np.testing.assert_array_equal(array[:], items)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no such call there")
def test_processors_of_a_container() -> None:
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import blosc2; print(blosc2.ncores)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1\n"
