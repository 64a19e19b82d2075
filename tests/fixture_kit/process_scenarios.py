"""What the processes of test_processes do. Run as a script, because `spawn` and `forkserver` import its main module."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import sysconfig
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.random import default_rng  # now: an import that a fork interrupts never ends in the child

import blosc2
from blosc2._core.io.sharing import remembered

# Asked once: `sysconfig` has a lock, which another thread may hold when a process forks.
WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

# several chunks of several blocks, large enough that a read is spread over threads
SHAPE = (40, 40_000)
PARTS = 4
# items of the leaves of a mixed store, from 64 bytes to several MB, and how they are compressed in turn
SIZES = (8, 8, 100, 3_000, 8, 50_000, 1_000, 400_000)
HOW: tuple[dict[str, Any], ...] = (
    {"codec": blosc2.Codec.ZSTD, "clevel": 1},
    {"codec": blosc2.Codec.LZ4},
    {"clevel": 0},
    {"codec": blosc2.Codec.BLOSCLZ, "filters": [blosc2.Filter.BITSHUFFLE]},
    {"codec": blosc2.Codec.ZLIB, "clevel": 3},
    {"codec": blosc2.Codec.LZ4HC, "filters": [blosc2.Filter.DELTA]},
    {"codec": blosc2.Codec.ZSTD, "use_dict": True, "clevel": 3},
)
MIXED = {".b2z": blosc2.DictStore, ".b2d": blosc2.DictStore, ".b2e": blosc2.EmbedStore}
# seconds after which a process counts as hung, dumps its stacks and ends
LIMIT = 45


def values() -> np.ndarray:
    """What the big array holds: different in every item."""
    return np.arange(SHAPE[0] * SHAPE[1], dtype=np.int64).reshape(SHAPE)


def mixed_values() -> dict[str, np.ndarray]:
    """What a mixed store holds: every size with every way of compressing, all different."""
    leaves = {}
    for number in range(len(SIZES) * len(HOW)):
        size = SIZES[number % len(SIZES)]
        items = np.arange(number, number + size, dtype=np.int64)
        if number % 3 == 1:
            items = items.astype(np.float64)
        leaves[f"/g{number % 5}/leaf{number}"] = items.reshape(-1, 8) if number % 2 and size % 8 == 0 else items
    return leaves


def make_mixed(folder: str) -> None:
    for suffix, cls in MIXED.items():
        with cls(os.path.join(folder, "Mixed" + suffix), mode="w") as store:
            for number, (key, items) in enumerate(mixed_values().items()):
                store[key] = blosc2.asarray(items, cparams=HOW[number % len(HOW)])


def make(folder: str) -> None:
    """Write the files that the scenarios read."""
    data = values()
    blosc2.asarray(data, urlpath=os.path.join(folder, "array.b2nd"), chunks=(8, 20_000), blocks=(2, 5_000))
    path = os.path.join(folder, "schunk.b2frame")
    blosc2.SChunk(data=data, chunksize=1_600_000, urlpath=path, cparams={"typesize": 8})
    for cls, suffix in (
        (blosc2.EmbedStore, ".b2e"),
        (blosc2.DictStore, ".b2d"),
        (blosc2.DictStore, ".b2z"),
        (blosc2.TreeStore, ".b2z"),
    ):
        with cls(os.path.join(folder, cls.__name__ + suffix), mode="w") as store:
            store["/group/array"] = data
            store["/small"] = np.arange(100)
    make_mixed(folder)


def handle(folder: str, name: str, mmap_mode: str | None) -> Any:
    """An array, the leaf of a store, or a mixed store."""
    x = blosc2.open(os.path.join(folder, name), mmap_mode=mmap_mode)
    if name.startswith("Mixed"):
        return x
    return x["/group/array"] if isinstance(x, blosc2.EmbedStore | blosc2.DictStore) else x


def read(x: Any, part: int) -> bool:
    """Many slices of a handle, each compared."""
    if isinstance(x, Opened | Remembered | Made):
        return x.read(part)
    if isinstance(x, blosc2.EmbedStore | blosc2.DictStore):
        return read_mixed(x, part)
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
    if isinstance(x, blosc2.NDArray):
        corners = zip(rng.integers(0, SHAPE[0] - 4, 12), rng.integers(0, SHAPE[1] - 9_000, 12))
        keys = [(slice(row, row + 4), slice(column, column + 9_000)) for row, column in corners]
        if not np.array_equal(x.read_many(keys), np.stack([data[key] for key in keys])):
            return False
    whole = x[:] if not isinstance(x, blosc2.SChunk) else np.frombuffer(x[:], np.int64).reshape(SHAPE)
    return bool(np.array_equal(whole, data))


def read_mixed(store: Any, part: int) -> bool:
    """All leaves of a store in an order of one's own, as a whole, in slices and in batches."""
    rng = default_rng(part)
    leaves = list(mixed_values().items())
    held = []
    for number in [*rng.permutation(len(leaves)), *rng.integers(0, len(leaves), 20)]:
        key, items = leaves[number]
        leaf = store[key]
        if not np.array_equal(leaf[:], items) or leaf.dtype != items.dtype:
            return False
        n = len(items)
        first, last = sorted(int(i) for i in rng.integers(0, n + 1, 2))
        if not np.array_equal(leaf[first:last:2], items[first:last:2]):
            return False
        rows = rng.integers(0, n, 30)
        if not np.array_equal(leaf.read_many(rows), items[rows]):
            return False
        if number % 4 == 0:
            held.append((key, leaf))
    # Without a GIL, threads that open a leaf of a store at the same moment may get one each.
    return all(store[key] is leaf or (WITHOUT_GIL and np.array_equal(store[key][:], leaf[:])) for key, leaf in held)


def read_pair(pair: tuple[Any, int]) -> bool:
    return read(*pair)


_inherited: Any = None


def read_inherited(part: int) -> bool:
    """Read the handle that the parent had open when this process was forked."""
    return read(_inherited, part)


def threads(x: Any) -> None:
    with ThreadPoolExecutor(PARTS) as pool:
        assert all(pool.map(read_pair, [(x, part) for part in range(PARTS)]))


def sixteen_threads(x: Any) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(read_pair, [(x, part) for part in range(16)]))


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


class Opened:
    """Opens a path for each read and lets go of it, as loaders do: the file stays among those kept open."""

    def __init__(self, path: str, mmap_mode: str | None) -> None:
        self.path, self.mmap_mode = path, mmap_mode

    def read(self, part: int) -> bool:
        return all(read(blosc2.open(self.path, mmap_mode=self.mmap_mode), part) for part in (part, part + PARTS))


@remembered(8)
def squares(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(number * number for number in numbers)


class Made:
    """Compresses arrays and bytes in memory, as a process does that begins to work."""

    def read(self, part: int) -> bool:
        items = np.arange(part, part + 500)
        packed = blosc2.compress2(items, clevel=1)
        return blosc2.decompress2(packed) == items.tobytes() and np.array_equal(
            blosc2.asarray(items)[3:90], items[3:90]
        )


class Remembered:
    """Asks for what is remembered of arguments that are equal, not the same."""

    def read(self, part: int) -> bool:
        return all(squares(tuple(range(1000, 1003))) == (1_000_000, 1_002_001, 1_004_004) for _ in range(200))


def fork_while_at_work(x: Any, forks: int) -> None:
    """Forks happen while other threads do the same as the children, with tables whose locks they may have."""
    assert x.read(0)  # an import that a fork interrupts never ends in the child
    forking = True

    def ask(part: int) -> bool:
        right = True
        while forking:
            right = right and x.read(part)
        return right

    with ThreadPoolExecutor(PARTS) as pool:
        running = [pool.submit(ask, part) for part in range(PARTS)]
        try:
            for part in range(forks):
                assert os.waitpid(in_child(x, part), 0)[1] == 0
        finally:
            forking = False
        assert all(work.result() for work in running)


def fork_while_opening(x: Any) -> None:
    """Forks happen while other threads open one path, read and let go, or forget all that is kept open."""
    opened = Opened(x.urlpath, x.mmap_mode)
    with ThreadPoolExecutor(PARTS) as pool:
        running = [pool.submit(opened.read, part) for part in range(PARTS)]
        children = []
        for part in range(4):
            if part == 2:
                blosc2.free_resources()
            children.append(in_child(opened, part))
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
    "sixteen_threads": sixteen_threads,
    "inherited": inherited,
    "fork_after_parallel_read": fork_after_parallel_read,
    "fork_while_reading": fork_while_reading,
    "fork_while_opening": fork_while_opening,
    "fork_while_remembering": lambda _: fork_while_at_work(Remembered(), 33),
    "fork_while_compressing": lambda _: fork_while_at_work(Made(), 20),
    "copies": copies,
    "pickled_fork": lambda x: pickled(x, "fork"),
    "pickled_spawn": lambda x: pickled(x, "spawn"),
    "pickled_forkserver": lambda x: pickled(x, "forkserver"),
}


def main() -> None:
    # from Python 3.12 on, forking a process that has threads warns; that it works is what is tested here
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    scenario, folder, names, mmap_mode = sys.argv[1:]
    if scenario == "make":
        make(folder)
        return
    for name in names.split(","):
        print(name, flush=True)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        SCENARIOS[scenario](handle(folder, name, mmap_mode if mmap_mode != "pread" else None))


if __name__ == "__main__":
    main()
