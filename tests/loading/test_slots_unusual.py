"""Memory that worker processes use again, when a dataset or a program does something unusual with it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import blosc2

torch = pytest.importorskip("torch")

import blosc2.torch as b2t  # noqa: E402 - after the look for torch
from blosc2.torch import slots  # noqa: E402

ROWS, WIDTH = 64, 300
ITEMS = np.arange(1, ROWS + 1, dtype="i4")[:, None] + np.zeros(WIDTH, "i4")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")

both_kinds = pytest.mark.parametrize("kind", ["fork", "spawn"])


class Dataset(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """Rows of a value, read at once, that a function then gets with the dataset itself."""

    def __init__(self, also: Any = None, *more: Any) -> None:
        self.inner, self.also, self.more = b2t.Samples(blosc2.asarray(ITEMS)), also, more
        self.calls = 0
        self.kept: list[Any] = []

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, number: int) -> Any:
        return self.inner[number]

    def __getitems__(self, numbers: list[int]) -> Any:
        found = self.inner.__getitems__(numbers)
        self.calls += 1
        return found if self.also is None else self.also(self, found)


def loader_of(dataset: Any, kind: str = "fork", **how: Any) -> Any:
    return b2t.Loader(dataset, 4, **{"workers": 1, "prefetch": 1, "kind": kind, **how})


def first(batch: Any) -> list[int]:
    """The values of the rows, which consist of one each."""
    assert (batch == batch[:, :1]).all()
    return [int(value) for value in batch[:, 0]]


WANTED = [list(range(n, n + 4)) for n in range(1, ROWS, 4)]


# ---------------------------------------------------------------------- threads
class Threads(Dataset):
    """Two stores that are read by two threads, at the same time."""

    pool: Any = None

    def __getitems__(self, numbers: list[int]) -> Any:
        if self.pool is None:
            self.pool, self.negative = ThreadPoolExecutor(2), b2t.Samples(blosc2.asarray(-ITEMS))
            sys.setswitchinterval(1e-5)
        rows, negative = (self.pool.submit(one.__getitems__, numbers) for one in (self.inner, self.negative))
        return list(zip(rows.result(), negative.result(), strict=True))


@both_kinds
def test_threads_that_read_in_a_worker(kind: str) -> None:
    with loader_of(Threads(), kind) as loader:
        found = [(first(rows), first(-negative)) for _ in range(40) for rows, negative in loader]
    assert found == [(numbers, numbers) for numbers in WANTED] * 40


def own_slots(released: Any) -> Any:
    own = slots.OwnSlots(1, 0, released)
    own.reads_batch, own._usual = True, 1000
    return own


def test_only_the_thread_of_a_worker_gets_room() -> None:
    own, found = own_slots(np.zeros(3, "i8")), []

    def other() -> None:
        with own.reading():
            found.append(own.place(100))

    assert own.place(100) is not None
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [None]
    assert own.reads_batch
    assert own.place(100)[1] == 128


def test_what_reads_in_the_middle_of_a_search_gets_no_room() -> None:
    """As a handler of signals or a finalizer may."""
    found = []

    class Released(np.ndarray):  # type: ignore[type-arg]
        def __getitem__(self, position: Any) -> Any:
            found.append(own.place(100))
            return super().__getitem__(position)

    own = own_slots(np.zeros(1, "i8"))
    storage, start = own.place(100)
    own.forget()
    del storage
    own._released = own._released.view(Released)
    assert (start, own.place(100)[1]) == (0, 0)
    assert found == [None] * len(found) != []


# ---------------------------------------------------------------------- tensors that are shared again
def by_queue(tensor: Any) -> None:
    torch.multiprocessing.get_context("fork").SimpleQueue().put(tensor)


SHARED: dict[str, Callable[[Any], Any]] = {
    "share_memory_": lambda tensor: tensor.share_memory_(),
    "a view": lambda tensor: tensor[1:].share_memory_(),
    "storage": lambda tensor: tensor.untyped_storage().share_memory_(),
    "by name": lambda tensor: tensor.untyped_storage()._share_filename_cpu_(),
    "queue": by_queue,
}


def forked_once() -> None:
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("end", ["close", "close before", "drop", "fork", "fork before", "loops"])
@pytest.mark.parametrize("how", SHARED)
def test_arrays_over_batches_that_are_shared_again(how: str, end: str) -> None:
    """PyTorch moves the memory of a tensor that is shared. An array over it stays, and so does what it shows."""
    loader = loader_of(Dataset())
    loop = iter(loader)
    batches = [next(loop) for _ in range(3)]
    arrays = [batch.numpy() for batch in batches]
    if end == "close before":
        loader.close()
    if end == "fork before":
        forked_once()
    for batch in batches:
        SHARED[how](batch)
        assert first(batch) in WANTED
    if end == "close":
        loader.close()
    if end == "fork":
        forked_once()
    del batches, batch, loop
    if end == "drop":
        del loader
    for _ in range(3):
        other = loader if end in ("loops", "fork", "fork before") else loader_of(Dataset())
        assert [first(batch) for batch in other] == WANTED
    assert [first(array) for array in arrays] == WANTED[:3]
    if end != "drop":
        loader.close()


def changed_after(dataset: Any, found: Any) -> Any:
    SHARED[dataset.more[0]](found.whole)
    found.whole.mul_(-1)
    return found


@pytest.mark.parametrize(("how", "kind"), [*((how, "fork") for how in SHARED), ("share_memory_", "spawn")])
def test_a_dataset_that_shares_what_it_read_and_changes_it(how: str, kind: str) -> None:
    with loader_of(Dataset(changed_after, how), kind) as loader:
        assert [first(-batch) for _ in range(3) for batch in loader] == WANTED * 3


def keeping_arrays(dataset: Any, found: Any) -> Any:
    """Some of what was read is kept as an array, and shared; and more is read, so that slots become too small."""
    if any(first(array) != values for array, values in dataset.kept):
        raise ValueError("what was kept was overwritten")
    if len(dataset.kept) < 6:
        dataset.kept.append((found.whole.numpy(), first(found.whole)))
        found.whole.share_memory_()
    return [(row, torch.ones(50 * dataset.calls)) for row in found]


def test_a_dataset_that_keeps_arrays_over_what_it_shared() -> None:
    with loader_of(Dataset(keeping_arrays)) as loader:
        for _ in range(3):
            kept = []
            for rows, _ in loader:
                kept.append(rows)
                if len(kept) % 3 == 0:
                    forked_once()  # the slots of what is there are given up
            assert [first(rows) for rows in kept] == WANTED


def other_strategy(dataset: Any, found: Any) -> Any:
    """PyTorch's way to hand over memory is another than that by which the memory of the batch was made."""
    torch.multiprocessing.set_sharing_strategy(["file_system", "file_descriptor"][dataset.calls // 4 % 2])
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="there is one strategy only")
@both_kinds
def test_a_dataset_that_changes_the_strategy_of_sharing(kind: str) -> None:
    with loader_of(Dataset(other_strategy), kind) as loader:
        assert [first(batch) for _ in range(3) for batch in loader] == WANTED * 3


# ---------------------------------------------------------------------- forks
TAKEN_BEFORE_A_FORK = """
import os, threading
begun, taken = threading.Event(), threading.Event()
armed = False
def before():  # of another library, registered earlier: it is called later
    if armed:
        begun.set()
        taken.wait(0.5)
os.register_at_fork(before=before)
import numpy as np, blosc2, blosc2.torch
items = np.arange(64)[:, None] + np.zeros(2000, "i8")
loader = blosc2.torch.Loader(blosc2.torch.Samples(blosc2.asarray(items)), 4, workers=1, kind="fork", prefetch=1)
loop, kept = iter(loader), []
next(loop)
def take():
    begun.wait()
    kept.append(next(loop))
    taken.set()
thread = threading.Thread(target=take)
thread.start()
armed = True
here, there = os.pipe()
pid = os.fork()
armed = False
if pid == 0:
    os.close(there)
    os.read(here, 1)  # until the parent is done
    os._exit(sum(batch[:, 0].tolist() != [4, 5, 6, 7] for batch in kept))
thread.join(60)
taken_here = [batch[:, 0].tolist() for batch in kept]
kept.clear()
for batch in loop: pass
for _ in range(3):
    for batch in loader: pass
os.close(there)
print(taken_here, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
loader.close()
"""


def test_a_batch_that_a_thread_takes_while_the_process_forks() -> None:
    done = subprocess.run([sys.executable, "-c", TAKEN_BEFORE_A_FORK], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("[[4, 5, 6, 7]] 0\n", 0), done.stderr


def forking(dataset: Any, found: Any) -> Any:
    """The worker forks a helper, which goes on with what was read before, in two calls."""
    go, answers, in_thread = dataset.more
    dataset.kept.append((found.whole, first(found.whole)))
    if dataset.calls in (1, 4):

        def fork() -> None:
            if os.fork() == 0:
                go.get()
                answers.put([(first(rows), values) for rows, values in dataset.kept])
                os._exit(0)

        if in_thread:
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
        else:
            fork()
    del dataset.kept[:-1]
    if dataset.calls >= 4:
        dataset.kept.clear()
    return found


@pytest.mark.parametrize(("kind", "in_thread"), [("fork", False), ("fork", True), ("spawn", False)])
def test_a_worker_that_forks(kind: str, in_thread: bool) -> None:
    context = multiprocessing.get_context(kind)
    go, answers = context.SimpleQueue(), context.SimpleQueue()
    with loader_of(Dataset(forking, go, answers, in_thread), kind) as loader:
        assert [first(batch) for _ in range(3) for batch in loader] == WANTED * 3
        for _ in range(2):
            go.put(None)
        found = sorted(answers.get() for _ in range(2))
    assert found == [[(WANTED[0], WANTED[0])], [(WANTED[2], WANTED[2]), (WANTED[3], WANTED[3])]]


# ---------------------------------------------------------------------- ends
def test_a_batch_of_workers_that_another_thread_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    loader, take, new = loader_of(Dataset()), slots.Slots.take, []

    def late(*about: Any) -> Any:
        if not new:  # another thread does so while this one waits for the lock
            loader.close()
            new.append(iter(loader))
            thread = threading.Thread(target=lambda: new.append(next(new[0])))
            new.append(thread)
            thread.start()
            thread.join()
        return take(*about)

    monkeypatch.setattr(slots.Slots, "take", late)
    with pytest.raises(RuntimeError, match="processes that were ended"):
        next(iter(loader))
    assert first(new[2]) == WANTED[0]
    assert [first(batch) for batch in new[0]] == WANTED[1:]
    loader.close()


FILES_LEFT = """
import os, time, torch
torch.multiprocessing.set_sharing_strategy("file_system")
import numpy as np, blosc2, blosc2.torch
names = lambda: {name for name in os.listdir("/dev/shm") if name.split("_")[1:2] and name.split("_")[1] in pids}
dataset = blosc2.torch.Samples(blosc2.asarray(np.ones((64, 2000))))
with blosc2.torch.Loader(dataset, 4, workers=2, kind="fork", prefetch=1) as loader:
    found = sum(int(batch.sum()) for batch in loader)
    pids = [str(process.pid) for process in loader._processes._iterator._workers]
    made = names()
until = time.monotonic() + 10
while made & names() and time.monotonic() < until:
    time.sleep(0.02)
print(found, bool(made), len(made & names()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="files in shared memory are listed in /dev/shm")
def test_no_files_of_memory_are_left_by_name() -> None:
    done = subprocess.run([sys.executable, "-c", FILES_LEFT], capture_output=True, text=True, timeout=120)
    assert done.stdout == "128000 True 0\n", done.stderr
