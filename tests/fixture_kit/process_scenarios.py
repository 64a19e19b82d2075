"""What the processes of test_processes do. Run as a script, because `spawn` and `forkserver` import its main module."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.random import default_rng  # now: an import that a fork interrupts never ends in the child

import blosc2

# several chunks of several blocks, large enough that a read is spread over threads
SHAPE = (40, 100_000)
PARTS = 4
# seconds after which a process counts as hung, dumps its stacks and ends
LIMIT = 45


def values() -> np.ndarray:
    """What the big array holds: different in every item."""
    return np.arange(SHAPE[0] * SHAPE[1], dtype=np.int64).reshape(SHAPE)


def make(folder: str) -> None:
    """Write the files that the scenarios read."""
    data = values()
    blosc2.asarray(data, urlpath=os.path.join(folder, "array.b2nd"), chunks=(8, 50_000), blocks=(2, 10_000))
    path = os.path.join(folder, "schunk.b2frame")
    blosc2.SChunk(data=data, chunksize=4_000_000, urlpath=path, cparams={"typesize": 8})
    for cls, suffix in (
        (blosc2.EmbedStore, ".b2e"),
        (blosc2.DictStore, ".b2d"),
        (blosc2.DictStore, ".b2z"),
        (blosc2.TreeStore, ".b2z"),
    ):
        with cls(os.path.join(folder, cls.__name__ + suffix), mode="w") as store:
            store["/group/array"] = data
            store["/small"] = np.arange(100)


def handle(folder: str, name: str, mmap_mode: str | None) -> Any:
    """An array, or the leaf of a store."""
    x = blosc2.open(os.path.join(folder, name), mmap_mode=mmap_mode)
    return x["/group/array"] if isinstance(x, blosc2.EmbedStore | blosc2.DictStore) else x


def read(x: Any, part: int) -> bool:
    """Many slices of a handle, each compared."""
    data = values()
    rng = default_rng(part)
    for _ in range(12):
        if isinstance(x, blosc2.SChunk):
            a, b = sorted(int(n) for n in rng.integers(0, data.size, 2))
            if x[a:b] != data.ravel()[a:b].tobytes():
                return False
            continue
        rows = slice(*sorted(int(n) for n in rng.integers(0, SHAPE[0], 2)))
        columns = slice(*sorted(int(n) for n in rng.integers(0, SHAPE[1], 2)), int(rng.integers(1, 4)))
        if not np.array_equal(x[rows, columns], data[rows, columns]):
            return False
    whole = x[:] if not isinstance(x, blosc2.SChunk) else np.frombuffer(x[:], np.int64).reshape(SHAPE)
    return bool(np.array_equal(whole, data))


def read_pair(pair: tuple[Any, int]) -> bool:
    return read(*pair)


_inherited: Any = None


def read_inherited(part: int) -> bool:
    """Read the handle that the parent had open when this process was forked."""
    return read(_inherited, part)


def threads(x: Any) -> None:
    with ThreadPoolExecutor(PARTS) as pool:
        assert all(pool.map(read_pair, [(x, part) for part in range(PARTS)]))


def pickled(x: Any, method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert all(pool.map(read_pair, [(x, part) for part in range(PARTS)], chunksize=1))
        pool.close()
        pool.join()


def inherited(x: Any) -> None:
    global _inherited
    _inherited = x
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map(read_inherited, range(PARTS), chunksize=1))
        pool.close()
        pool.join()
    assert read(x, 0)


def in_child(x: Any, part: int) -> int:
    """Fork a child that reads, and dumps its stacks and ends when that takes too long."""
    faulthandler.register(signal.SIGALRM, chain=True)
    child = os.fork()
    if child:
        return child
    signal.alarm(LIMIT - 20)
    os._exit(0 if read(x, part) else 1)


def fork_after_parallel_read(x: Any) -> None:
    """Threads of the parent do not exist in the child, whatever the parent read before."""
    blosc2.set_nthreads(4)
    assert read(x, 1)
    threads(x)
    for _ in range(3):
        child = in_child(x, 2)
        assert read(x, 3)
        _, status = os.waitpid(child, 0)
        assert status == 0


def fork_while_reading(x: Any) -> None:
    """Forks happen while other threads read."""
    with ThreadPoolExecutor(PARTS) as pool:
        running = [pool.submit(read, x, part) for part in range(PARTS)]
        children = [in_child(x, 5) for _ in range(4)]
        assert all(work.result() for work in running)
        assert all(os.waitpid(child, 0)[1] == 0 for child in children)


def copies(x: Any) -> None:
    import copy

    for other in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
        assert type(other) is type(x)
        assert read(other, 1)
        assert other.mode == x.mode if isinstance(x, blosc2.SChunk) else True
    several = pickle.loads(pickle.dumps([x, x]))
    assert all(read(other, 2) for other in several)


SCENARIOS = {
    "threads": threads,
    "inherited": inherited,
    "fork_after_parallel_read": fork_after_parallel_read,
    "fork_while_reading": fork_while_reading,
    "copies": copies,
    "pickled_fork": lambda x: pickled(x, "fork"),
    "pickled_spawn": lambda x: pickled(x, "spawn"),
    "pickled_forkserver": lambda x: pickled(x, "forkserver"),
}


def main() -> None:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    # from Python 3.12 on, forking a process that has threads warns; that it works is what is tested here
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    scenario, folder, name, mmap_mode = sys.argv[1:]
    if scenario == "make":
        make(folder)
        return
    SCENARIOS[scenario](handle(folder, name, mmap_mode if mmap_mode != "pread" else None))
    print("right values")


if __name__ == "__main__":
    main()
