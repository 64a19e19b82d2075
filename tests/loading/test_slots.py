"""Memory that worker processes use again: what anybody keeps is never overwritten, and nothing is left over."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

torch = pytest.importorskip("torch")

import blosc2.torch as b2t  # noqa: E402 - after the look for torch
from blosc2.torch import slots  # noqa: E402

ROWS, WIDTH = 96, 300
ITEMS = np.arange(ROWS, dtype="i4")[:, None] + np.zeros(WIDTH, "i4")
LINUX = sys.platform == "linux"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")


def dataset(**how: Any) -> Any:
    return b2t.Samples({"row": blosc2.asarray(ITEMS), "label": blosc2.asarray(np.arange(ROWS))}, **how)


def loader_of(samples: Any, size: int = 4, **how: Any) -> Any:
    return b2t.Loader(samples, size, **{"shuffle": True, "workers": 2, "kind": "fork", **how})


def is_right(batch: dict[str, Any]) -> bool:
    """Whether each row is the one that the label says."""
    return bool((batch["row"] == batch["label"][:, None]).all())


def labels(batches: Any) -> list[list[int]]:
    return [batch["label"].tolist() for batch in batches]


@pytest.fixture(scope="module")
def wanted() -> list[list[int]]:
    """The labels of the batches of three epochs."""
    loader = b2t.Loader(dataset(), 4, shuffle=True)
    return [numbers for _ in range(3) for numbers in labels(loader)]


@pytest.mark.parametrize("prefetch", [1, 3])
@pytest.mark.parametrize("workers", [1, 2])
def test_all_batches_are_kept(wanted: list[list[int]], workers: int, prefetch: int) -> None:
    with loader_of(dataset(), workers=workers, prefetch=prefetch) as loader:
        kept = [batch for _ in range(3) for batch in loader]
    assert labels(kept) == wanted
    assert all(map(is_right, kept))
    assert all(map(is_right, pickle.loads(pickle.dumps(kept[:5]))))


@pytest.mark.parametrize("kind", ["spawn", "forkserver"])
def test_batches_of_workers_that_begin_anew(wanted: list[list[int]], kind: str) -> None:
    with loader_of(dataset(), kind=kind, workers=1) as loader:
        kept = [batch for batch in loader if batch["label"][0] % 2]
        places = {batch["row"].data_ptr() for batch in loader}
        kept += [batch for batch in loader if batch["label"][0] % 2]
    assert labels(kept) == [numbers for numbers in wanted[:24] + wanted[48:] if numbers[0] % 2]
    assert all(map(is_right, kept))
    assert len(places) < 24


VIEWS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda rows: rows[1:3, 5:50:3],
    "numpy": lambda rows: rows.numpy(),
    "row of numpy": lambda rows: rows.numpy()[2, ::-1],
    "numpy of a row": lambda rows: rows[3].numpy(),
    "transposed": lambda rows: rows.T,
    "detached": lambda rows: rows.detach(),
    "other dtype": lambda rows: rows.view(torch.uint8),
    "dlpack": lambda rows: torch.from_dlpack(rows),
    "numpy by dlpack": lambda rows: np.from_dlpack(rows),
    "buffer": lambda rows: memoryview(rows.numpy()),
    "storage": lambda rows: rows.untyped_storage(),
}


def shown(view: Any) -> Any:
    """A copy of what a view shows."""
    if isinstance(view, torch.Tensor):
        view = view.detach().numpy()
    return bytes(view) if isinstance(view, torch.UntypedStorage) else np.array(view)


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_kept(name: str) -> None:
    """Whatever refers to the memory of a batch keeps it, though the batch is gone."""
    kept, copies = [], []
    with loader_of(dataset(), prefetch=1) as loader:
        for _ in range(2):
            for number, batch in enumerate(loader):
                if number % 3 == 0:
                    kept.append(VIEWS[name](batch["row"]))
                    copies.append(shown(kept[-1]))
            del batch
    for view, copy in zip(kept, copies, strict=True):
        assert np.array_equal(shown(view), copy)


def test_a_graph_keeps_what_it_needs() -> None:
    weight = torch.ones(WIDTH, requires_grad=True)
    graphs, sums = [], []
    items = blosc2.asarray(ITEMS.astype("f4"))
    with loader_of(b2t.Samples(items), prefetch=1) as loader:
        for batch in loader:
            graphs.append((weight * batch).sum())
            sums.append(batch.sum(0).clone())
        del batch
    for graph, wanted in zip(graphs, sums, strict=True):
        weight.grad = None
        graph.backward()
        assert torch.equal(weight.grad, wanted)


def test_another_process_has_a_copy(wanted: list[list[int]]) -> None:
    to_child, from_child = torch.multiprocessing.get_context("fork").SimpleQueue(), multiprocessing.SimpleQueue()

    def child() -> None:
        kept = [to_child.get() for _ in range(5)]
        to_child.get()
        from_child.put([labels(kept), all(map(is_right, kept))])

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    with loader_of(dataset(), prefetch=1) as loader:
        for number, batch in enumerate(loader):
            if number < 5:
                to_child.put(batch)
        for batch in loader:
            assert is_right(batch)
    to_child.put(None)
    assert from_child.get() == [wanted[:5], True]
    process.join()


def test_a_forked_child_keeps_batches(wanted: list[list[int]]) -> None:
    """What a child has of the parent when it is forked stays, though the parent goes on without it."""
    ready, answer = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
    with loader_of(dataset(), prefetch=1) as loader:
        loop = iter(loader)
        kept = [next(loop) for _ in range(3)]

        def child() -> None:
            ready.get()
            answer.put([labels(kept), all(map(is_right, kept))])

        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        kept = []
        rest = labels(loop)
        for batch in loader:
            assert is_right(batch)
        ready.put(None)
        assert answer.get() == [wanted[:3], True]
        process.join()
    assert rest == wanted[3:24]


def test_threads_that_keep_batches_for_a_while() -> None:
    wrong: list[Any] = []
    turn = threading.Lock()

    def consume(loop: Iterator[Any], seed: int) -> None:
        draw, kept = random.Random(seed), []
        while True:
            with turn:
                batch = next(loop, None)
            if batch is None:
                break
            kept.append((batch["row"][1:], batch["label"][1:].clone()))
            while kept and draw.random() < 0.6:
                rows, numbers = kept.pop(draw.randrange(len(kept)))
                if not bool((rows == numbers[:, None]).all()):
                    wrong.append(numbers)

    with loader_of(dataset()) as loader:
        for epoch in range(4):
            loop = iter(loader)
            threads = [threading.Thread(target=consume, args=(loop, 10 * epoch + n)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert wrong == []


def test_memory_is_used_again() -> None:
    with loader_of(dataset(), prefetch=2) as loader:
        places: set[int] = set()
        for epoch in range(6):
            for batch in loader:
                assert is_right(batch)
                places.add(batch["row"].data_ptr())
                batch["row"].zero_()  # what is written to memory that is used again does not show
            assert len(places) <= 2 * (2 + 2), epoch
        kept = list(loader)  # more than there are slots
        assert len({batch["row"].data_ptr() for batch in kept}) == len(kept) == 24
        assert all(map(is_right, kept))
        del kept, batch
        again = {batch["row"].data_ptr() for _ in range(3) for batch in loader}
        assert len(again) <= 2 * (2 + 2)


@pytest.mark.skipif(not LINUX, reason="descriptors and mappings are counted in /proc")
def test_nothing_is_left_over() -> None:
    def left() -> tuple[int, int, set[str]]:
        gc.collect()
        maps = Path("/proc/self/maps").read_text(encoding="ascii")
        names = {name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")}
        return len(os.listdir("/proc/self/fd")), maps.count("/torch_"), names

    def run(how: str) -> None:
        loader = loader_of(dataset(), prefetch=1)
        loop = iter(loader)
        kept = [next(loop) for _ in range(7)]
        loop = iter(loader)  # leaves the first loop
        kept += [next(loop) for _ in range(7)]
        if how == "killed":
            with pytest.raises(RuntimeError):  # PyTorch's handler of signals may raise it anywhere
                os.kill(loader._processes._iterator._workers[0].pid, signal.SIGKILL)
                while True:
                    next(loop)
            assert all(map(is_right, loader))
        if how != "dropped":
            loader.close()
        assert all(map(is_right, kept))

    run("closed")  # what is made once for a process is there
    before = left()
    for how in ("closed", "dropped", "killed", "closed"):
        run(how)
        until = time.monotonic() + 20
        while (after := left()) != before and time.monotonic() < until:
            time.sleep(0.02)  # threads of queues close their ends when they have time
        assert after[0] <= before[0], how
        assert after[1:] == before[1:], how


@pytest.mark.skipif(not LINUX, reason="files in shared memory are listed in /dev/shm")
@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_program_that_ends_in_a_loop(end: str) -> None:
    program = f"""
import numpy as np, os
import blosc2, blosc2.torch
samples = blosc2.torch.Samples(blosc2.asarray(np.zeros((64, 1000))))
loader = blosc2.torch.Loader(samples, 4, workers=2, kind="fork")
loop = iter(loader)
kept = [next(loop) for _ in range(3)]
print(os.getpid(), *[worker.pid for worker in loader._processes._iterator._workers], flush=True)
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    pids = done.stdout.split()
    assert len(pids) == 3
    until = time.monotonic() + 60
    while any(Path("/proc", pid).exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)  # workers notice that their parent is gone
    assert not [name for name in os.listdir("/dev/shm") if name.split("_")[1:2] and name.split("_")[1] in pids]


def mixed(sample: dict[str, Any]) -> dict[str, Any]:
    """What a transform may give: other shapes and types, and what is no tensor."""
    number = int(sample["label"])
    return {
        "row": sample["row"][: 50 + 5 * (number // 24)], "half": sample["row"].to(torch.float16), "label": number,
        "name": f"case {number}", "more": [sample["row"][:2].clone(), (sample["label"].numpy() / 2, 1.5)],
        "none": torch.empty(0), "two": (both := torch.ones(3)), "again": both,
    }  # fmt: skip


def flat(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        return [list(batch), *(item for value in batch.values() for item in flat(value))]
    if isinstance(batch, (list, tuple)):
        return [type(batch), *(item for value in batch for item in flat(value))]
    return [(batch.dtype, batch.tolist())] if isinstance(batch, torch.Tensor) else [batch]


def test_what_transforms_give() -> None:
    samples = dataset(transform=mixed)
    wanted = [flat(batch) for batch in b2t.Loader(samples, 24)] * 3
    with loader_of(samples, 24, shuffle=False) as loader:
        kept = [batch for _ in range(3) for batch in loader]
    assert [flat(batch) for batch in kept] == wanted


class Keeping(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """A dataset of the user's over samples, which keeps some of them in the worker, and says whether they stay."""

    def __init__(self, whole: bool) -> None:
        self.inner, self.whole, self.kept = dataset(), whole, []
        if whole:
            self.__getitems__ = self.several  # type: ignore[method-assign]

    def __len__(self) -> int:
        return ROWS

    def check(self) -> None:
        if not all(bool((row == label).all()) for row, label in self.kept):
            raise ValueError("what was kept was overwritten")

    def __getitem__(self, number: int) -> Any:
        self.check()
        sample = self.inner[number]
        self.kept.append((sample["row"], int(sample["label"])))
        return self.kept[number % len(self.kept)]

    def several(self, numbers: list[int]) -> Any:
        self.check()
        found = self.inner.__getitems__(numbers)
        self.kept.append((found[1]["row"], int(found[1]["label"])))
        return found


@pytest.mark.parametrize("whole", [False, True])
def test_a_dataset_that_keeps_samples(whole: bool) -> None:
    with loader_of(Keeping(whole), prefetch=1) as loader:
        for _ in range(2):
            for batch in loader:
                rows, numbers = batch.values() if whole else batch
                assert bool((rows == numbers[:, None]).all())


def test_a_sample_that_cannot_be_read() -> None:
    """After an error its slot is used for other batches."""

    def failing(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["label"] == 50:
            raise ValueError("no such sample")
        return sample

    with loader_of(dataset(transform=failing), shuffle=False) as loader:
        for _ in range(3):
            found = []
            with pytest.raises(ValueError, match="no such sample"):
                for batch in loader:
                    assert is_right(batch)
                    found += batch["label"].tolist()
            assert found == list(range(48))


def test_one_field_that_is_kept_keeps_no_other() -> None:
    """As where a program collects the labels of an epoch: beyond the slots each field has memory of its own."""
    kept = [batch["label"] for batch in loader_of(dataset(), prefetch=1)]
    assert len(kept) == ROWS // 4
    alone = [label for label in kept if label.untyped_storage().nbytes() < 4 * WIDTH * 4]
    assert len(alone) >= ROWS // 4 - 8


FEW = 64
FEW_ITEMS = np.arange(1, FEW + 1, dtype="i4")[:, None] + np.zeros(WIDTH, "i4")
both_kinds = pytest.mark.parametrize("kind", ["fork", "spawn"])


class Dataset(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """Rows of a value, read at once, that a function then gets with the dataset itself."""

    def __init__(self, also: Any = None, *more: Any) -> None:
        self.inner, self.also, self.more = b2t.Samples(blosc2.asarray(FEW_ITEMS)), also, more
        self.calls = 0
        self.kept: list[Any] = []

    def __len__(self) -> int:
        return FEW

    def __getitem__(self, number: int) -> Any:
        return self.inner[number]

    def __getitems__(self, numbers: list[int]) -> Any:
        found = self.inner.__getitems__(numbers)
        self.calls += 1
        return found if self.also is None else self.also(self, found)


def one_worker(dataset: Any, kind: str = "fork", **how: Any) -> Any:
    return b2t.Loader(dataset, 4, **{"workers": 1, "prefetch": 1, "kind": kind, **how})


def first(batch: Any) -> list[int]:
    """The values of the rows, which consist of one each."""
    assert (batch == batch[:, :1]).all()
    return [int(value) for value in batch[:, 0]]


WANTED = [list(range(n, n + 4)) for n in range(1, FEW, 4)]


# ---------------------------------------------------------------------- threads
class Threads(Dataset):
    """Two stores that are read by two threads, at the same time."""

    pool: Any = None

    def __getitems__(self, numbers: list[int]) -> Any:
        if self.pool is None:
            self.pool, self.negative = ThreadPoolExecutor(2), b2t.Samples(blosc2.asarray(-FEW_ITEMS))
            sys.setswitchinterval(1e-5)
        rows, negative = (self.pool.submit(one.__getitems__, numbers) for one in (self.inner, self.negative))
        return list(zip(rows.result(), negative.result(), strict=True))


@both_kinds
def test_threads_that_read_in_a_worker(kind: str) -> None:
    with one_worker(Threads(), kind) as loader:
        found = [(first(rows), first(-negative)) for _ in range(40) for rows, negative in loader]
    assert found == [(numbers, numbers) for numbers in WANTED] * 40


def own_slots(released: Any) -> Any:
    own = slots.OwnSlots(1, 0, released)
    own.reads_batch, own._usual = True, 1000
    return own


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
    loader = one_worker(Dataset())
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
        other = loader if end in ("loops", "fork", "fork before") else one_worker(Dataset())
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
    with one_worker(Dataset(changed_after, how), kind) as loader:
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
    with one_worker(Dataset(keeping_arrays)) as loader:
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


@pytest.mark.skipif(not LINUX, reason="there is one strategy only")
@both_kinds
def test_a_dataset_that_changes_the_strategy_of_sharing(kind: str) -> None:
    with one_worker(Dataset(other_strategy), kind) as loader:
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
    with one_worker(Dataset(forking, go, answers, in_thread), kind) as loader:
        assert [first(batch) for _ in range(3) for batch in loader] == WANTED * 3
        for _ in range(2):
            go.put(None)
        found = sorted(answers.get() for _ in range(2))
    assert found == [[(WANTED[0], WANTED[0])], [(WANTED[2], WANTED[2]), (WANTED[3], WANTED[3])]]


# ---------------------------------------------------------------------- ends
def test_a_batch_of_workers_that_another_thread_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    loader, take, new = one_worker(Dataset()), slots.Slots.take, []

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


@pytest.mark.skipif(not LINUX, reason="files in shared memory are listed in /dev/shm")
def test_no_files_of_memory_are_left_by_name() -> None:
    done = subprocess.run([sys.executable, "-c", FILES_LEFT], capture_output=True, text=True, timeout=120)
    assert done.stdout == "128000 True 0\n", done.stderr
