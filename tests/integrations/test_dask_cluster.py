"""Arrays of dask, written by a cluster of processes of which one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

import dask
import dask.array as da

import blosc2
from blosc2 import to_store

if sys.platform == "win32":
    pytest.skip("SIGKILL does not exist on this platform", allow_module_level=True)

#: The memory of each of two workers, of which the array has more.
MEMORY = "512MB"
WIDTH, ROWS, BLOCKS = 2048, 2048, 48


def block_of(number: int) -> Any:
    """The items of a block: numbers that can be compressed a little."""
    rng = np.random.default_rng(number)
    return (rng.integers(0, 1 << 10, (ROWS, WIDTH), dtype="i4") + number).astype("i4")


class Source:
    """Makes blocks, notes each in a folder, and ends its process without a word when it makes a certain one."""

    def __init__(self, folder: str, deadly: int) -> None:
        self.folder, self.deadly = folder, deadly

    def __call__(self, items: Any, block_info: Any = None) -> Any:
        number = block_info[0]["chunk-location"][0]
        with open(os.path.join(self.folder, "made"), "a") as file:
            file.write(f"{number}\n")
        if number == self.deadly:
            try:
                os.close(os.open(os.path.join(self.folder, "killed"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return block_of(number)


@pytest.fixture
def client() -> Any:
    how = {"processes": True, "threads_per_worker": 1, "memory_limit": MEMORY, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, **how) as cluster, distributed.Client(cluster) as found:
        yield found


@pytest.mark.filterwarnings("ignore")  # of the cluster, about the worker that is killed
def test_killed_workers_cost_a_retry(tmp_path: Path, client: Any) -> None:
    notes, data = tmp_path / "notes", tmp_path / "data"
    notes.mkdir()
    data.mkdir()
    source = Source(str(notes), deadly=BLOCKS // 3)
    array = da.zeros((ROWS * BLOCKS, WIDTH), "i4", chunks=(ROWS, WIDTH)).map_blocks(
        source, dtype="i4", meta=np.zeros((0, 0), "i4")
    )
    assert array.nbytes > dask.utils.parse_bytes(MEMORY)
    path = data / "large.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/kept"] = np.arange(3)
    before = path.read_bytes()
    seen: list[bool] = []

    def kill_one_that_writes() -> None:
        """Kill a worker when half of the parts are there, and see that the store is what it was."""
        while len(list(data.rglob("*.part"))) <= BLOCKS // 2:
            time.sleep(0.01)
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        seen.append(path.read_bytes() == before)

    killer = threading.Thread(target=kill_one_that_writes, daemon=True)
    killer.start()
    to_store(array, path, "/x", cparams={"clevel": 1})
    killer.join(60)
    assert seen == [True]
    assert (notes / "killed").exists()
    # Every block was made once, but for those that the two processes had begun or just finished when they were killed:
    # how many these are depends on when the client fetches answers. If it kept none, half of all would be made again.
    made = (notes / "made").read_text().split()
    assert set(made) == {str(number) for number in range(BLOCKS)}
    assert len(made) <= BLOCKS + BLOCKS // 4
    assert os.listdir(data) == ["large.b2z"]
    with blosc2.open(str(path), mmap_mode="r") as store:
        assert sorted(store) == ["/kept", "/x"]
        for number in range(BLOCKS):
            np.testing.assert_array_equal(store["/x"][number * ROWS : (number + 1) * ROWS], block_of(number))
    assert blosc2.check(str(path)).ok


def test_a_killed_client_is_restarted(tmp_path: Path) -> None:
    """What the tasks of a run have written, whose process died, is used again by the next run."""
    code = """
import sys, os, signal
import dask.array as da, numpy as np
from blosc2 import to_store

def numbered(items, block_info=None):
    number = block_info[0]["chunk-location"][0]
    with open("made", "a") as file:
        file.write(f"{number}\\n")
    if number == 5 and sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return items + number

numbered.__dask_tokenize__ = lambda: "numbered"
array = da.zeros((100, 50), chunks=(10, 50)).map_blocks(numbered, dtype="f8", meta=np.zeros((0, 0)))
to_store(array, "a.b2z", "/x", scheduler="synchronous")
"""
    done = [subprocess.run([sys.executable, "-c", code, how], cwd=tmp_path) for how in ("killed", "whole")]
    assert [each.returncode for each in done] == [-signal.SIGKILL, 0]
    made = (tmp_path / "made").read_text().split()
    assert sorted(map(int, made)) == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9]
    np.testing.assert_array_equal(
        blosc2.open(str(tmp_path / "a.b2z"))["/x"][:], np.repeat(np.arange(10.0), 10)[:, None] * np.ones(50)
    )
    assert sorted(os.listdir(tmp_path)) == ["a.b2z", "made"]
