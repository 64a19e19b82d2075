"""Batches epoch after epoch: threads that read ahead, order, states, errors, ends."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import Loader, Samples

ITEMS = np.random.default_rng(0).integers(0, 200, (23, 6, 5)).astype("u1")
WORKERS = [0, 1, 2, 7]


@pytest.fixture
def samples() -> Samples:
    return Samples({"image": blosc2.asarray(ITEMS), "number": blosc2.asarray(np.arange(23))})


def numbers(batches: Any) -> list[list[int]]:
    found = []
    for batch in batches:
        assert np.array_equal(batch["image"], ITEMS[batch["number"]])
        found.append(batch["number"].tolist())
    return found


def loader_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("blosc2-loader")]


@pytest.fixture(autouse=True)
def no_threads_are_left() -> Any:
    yield
    gc.collect()
    for thread in loader_threads():
        thread.join(10)
    assert not loader_threads()


@pytest.mark.parametrize("workers", WORKERS)
def test_an_epoch_in_order(samples: Samples, workers: int) -> None:
    loader = Loader(samples, 5, workers=workers)
    assert len(loader) == 5
    assert numbers(loader) == [list(range(first, min(first + 5, 23))) for first in range(0, 23, 5)]
    dropped = Loader(samples, 5, workers=workers, drop_last=True)
    assert [len(batch) for batch in numbers(dropped)] == [5] * 4


@pytest.mark.parametrize("workers", WORKERS)
def test_shuffled_epochs_do_not_depend_on_the_workers(samples: Samples, workers: int) -> None:
    loader = Loader(samples, 4, shuffle=True, seed=5, workers=workers, prefetch=3)
    alone = Loader(samples, 4, shuffle=True, seed=5)
    epochs = [numbers(loader) for _ in range(3)]
    assert epochs == [numbers(alone) for _ in range(3)]
    assert all(sorted(itertools.chain(*epoch)) == list(range(23)) for epoch in epochs)
    assert epochs[0] != epochs[1]
    other = Loader(samples, 4, shuffle=True, seed=5)
    other.set_epoch(2)
    assert numbers(other) == epochs[2]


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("taken", [0, 1, 4, 6, 7])
def test_a_state_goes_on_where_the_loop_was(samples: Samples, workers: int, taken: int) -> None:
    def make(workers: int) -> Loader:
        return Loader(samples, 4, shuffle=True, seed=1, workers=workers)

    whole = make(0)
    wanted = [*numbers(whole), *numbers(whole)]
    loader = make(workers)
    numbers(loader)
    loop = iter(loader)
    # Six batches are an epoch: after the last one, the state is the beginning of the next.
    found = numbers([next(loop) for _ in range(min(taken, 6))])
    state = loader.state_dict()
    assert found == wanted[6 : 6 + taken]
    del loop
    resumed = make(2 - min(workers, 2))
    resumed.load_state_dict(state)
    if taken < 6:
        assert numbers(resumed) == wanted[6 + taken :]
    else:
        assert resumed.epoch == 2


def test_a_loop_that_is_left_is_over(samples: Samples) -> None:
    loader = Loader(samples, 4, shuffle=True, workers=2)
    first = numbers(loader)
    for _ in loader:
        break
    assert loader.epoch == 1
    assert numbers(loader) not in (first, [])
    assert loader.epoch == 3


def test_states_of_other_loaders_are_refused(samples: Samples) -> None:
    state = Loader(samples, 4, shuffle=True).state_dict()
    for other in (
        Loader(samples, 5, shuffle=True), Loader(samples, 4), Loader(samples, 4, shuffle=True, seed=1),
        Loader(samples, 4, shuffle=True, drop_last=True), Loader(samples, 4, shuffle=True, replicas=2),
        Loader(Samples(blosc2.zeros(5)), 4, shuffle=True),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="it cannot go on from there"):
            other.load_state_dict(state)
    with pytest.raises(TypeError, match=r"one of state_dict\(\), not NoneType"):
        Loader(samples, 4).load_state_dict(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="an epoch has 6"):
        Loader(samples, 4, shuffle=True).load_state_dict({**state, "batch": 6})
    for name in state:
        with pytest.raises(ValueError, match=f"the state has no '{name}'"):
            Loader(samples, 4, shuffle=True).load_state_dict({key: state[key] for key in state if key != name})
    with pytest.raises(ValueError, match="epoch must be at least 0, not -1"):
        Loader(samples, 4).set_epoch(-1)
    for wrong in ({"workers": -1}, {"prefetch": 0}):
        with pytest.raises(ValueError, match="at least"):
            Loader(samples, 4, **wrong)


def test_a_loader_is_shown_and_closed(samples: Samples) -> None:
    with Loader(samples, 4, workers=2) as loader:
        assert repr(loader) == f"Loader(Samples of {len(samples)}, 4, workers=2, kind='threads')"
        assert len(list(loader)) == len(loader)
    loader.close()
    assert len(list(loader)) == len(loader)
    assert repr(Loader(samples, 4)) == f"Loader(Samples of {len(samples)}, 4, workers=0)"


def test_replicas_share_an_epoch(samples: Samples) -> None:
    found = [numbers(Loader(samples, 3, shuffle=True, rank=rank, replicas=3, workers=1)) for rank in range(3)]
    assert [len(batches) for batches in found] == [3, 3, 3]
    assert set(itertools.chain(*itertools.chain(*found))) == set(range(23))


@pytest.mark.parametrize("workers", [0, 3])
def test_an_error_comes_when_its_batch_is_due(workers: int, tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2z")
    with blosc2.DictStore(path, mode="w") as store:
        for n in range(12):
            store[f"/{n:02}"] = np.full(3 + (n == 7), n)
    loader = Loader(Samples(path), 2, workers=workers)
    found = []
    with pytest.raises(ValueError, match="key '/07' has shape") as raised:
        for batch in loader:
            found.append(batch[:, 0].tolist())  # noqa: PERF401 - what came before the error is looked at
    assert found == [[0, 1], [2, 3], [4, 5]]
    assert "batch 3 of epoch 0" in raised.value.__notes__
    # It can be tried again, for instance after what was wrong has been put right.
    assert loader.state_dict()["batch"] == 3
    assert not loader_threads()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError, StopIteration])
def test_whatever_a_transform_raises(samples: Samples, error: type[BaseException]) -> None:
    def fail(sample: Any) -> Any:
        if sample["number"] == 9:
            raise error("nine")
        return sample["number"]

    samples.transform = fail
    found = []
    with pytest.raises(RuntimeError if error is StopIteration else error):
        for batch in Loader(samples, 4, workers=2):
            found.append(batch)  # noqa: PERF402
    assert len(found) == 2


def test_only_so_much_is_read_ahead(samples: Samples) -> None:
    seen: list[int] = []
    samples.transform = lambda sample: seen.append(int(sample["number"])) or sample["number"]
    loop = iter(Loader(samples, 1, workers=2, prefetch=3))
    next(loop)
    time.sleep(0.3)
    assert 1 <= len(seen) <= 1 + 2 * 3
    next(loop)
    time.sleep(0.1)
    assert len(seen) <= 2 + 2 * 3
    loop.close()  # type: ignore[attr-defined]
    assert not loader_threads()


def test_a_loop_that_nobody_holds_ends_its_threads(samples: Samples) -> None:
    loader = Loader(samples, 1, workers=3)
    loop = iter(loader)
    next(loop)
    assert len(loader_threads()) == 3
    kept = weakref.ref(loop)
    del loop
    gc.collect()
    assert kept() is None
    for _ in range(100):
        if not loader_threads():
            break
        time.sleep(0.05)
    assert not loader_threads()


def test_threads_beside_each_other_and_many_loops(samples: Samples) -> None:
    loaders = [Loader(samples, 3, shuffle=True, seed=seed, workers=2) for seed in range(3)]
    wanted = [numbers(Loader(samples, 3, shuffle=True, seed=seed)) for seed in range(3)]
    for _ in range(10):
        for loader in loaders:
            loader.set_epoch(0)
        together = zip(*loaders, strict=True)
        found = [[batch["number"].tolist() for batch in batches] for batches in together]
        assert [list(batches) for batches in zip(*found, strict=True)] == wanted


def test_other_datasets() -> None:
    loader = Loader([np.full(2, n) for n in range(5)], 2, workers=2)
    assert [batch[:, 0].tolist() for batch in loader] == [[0, 1], [2, 3], [4]]


PROGRAM = """
import sys, time
import numpy as np
import blosc2
samples = blosc2.Samples(blosc2.asarray(np.arange(1000)), transform=lambda sample: time.sleep(0.001) or sample)
loop = iter(blosc2.Loader(samples, 2, workers=4))
next(loop)
if sys.argv[1] == "raise":
    raise SystemExit(7)
print("end", flush=True)
"""


@pytest.mark.parametrize("how", ["end", "raise"])
def test_a_program_ends_in_the_middle_of_a_loop(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM, how], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == (7 if how == "raise" else 0), done.stderr
    assert not done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist here")
def test_a_forked_child_does_not_wait_for_its_parents_threads(samples: Samples) -> None:
    loader = Loader(samples, 2, workers=2)
    loop = iter(loader)
    next(loop)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            try:
                next(loop)
            except RuntimeError:
                loader.set_epoch(0)
                status = 0 if len(list(loader)) == len(loader) else 2
        finally:
            os._exit(status)
    for _ in range(600):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        raise AssertionError("the child waits")
    assert status == 0
    assert len(list(loop)) == len(loader) - 1


# ---------------------------------------------------------------------- samples that are not stacked
@pytest.mark.parametrize("workers", WORKERS)
def test_samples_one_by_one_and_in_lists(workers: int, tmp_path: Path) -> None:
    """Volumes of unlike size."""
    path = str(tmp_path / "x.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for n in range(7):
            store[f"/{n}/scan"] = np.full((n + 1, 4), n)
    samples = Samples(path, {"scan": "{}/scan", "label": np.arange(7) * 3})
    alone = Loader(samples, None, shuffle=True, workers=workers)
    assert (alone.batch_size, len(alone)) == (None, 7)
    assert repr(alone).startswith("Loader(Samples of 7, None, ")
    first, second = list(alone), list(alone)
    for epoch in (first, second):
        assert sorted(int(sample["label"]) // 3 for sample in epoch) == list(range(7))
        assert all(sample["scan"].shape == (int(sample["label"]) // 3 + 1, 4) for sample in epoch)
    lists = list(Loader(samples, 3, workers=workers, collate_fn=list))
    assert [[sample["scan"].shape for sample in batch] for batch in lists] == [
        [(1, 4), (2, 4), (3, 4)], [(4, 4), (5, 4), (6, 4)], [(7, 4)]
    ]  # fmt: skip
    padded = Loader(samples, 3, workers=workers, collate_fn=lambda batch: max(len(one["scan"]) for one in batch))
    assert list(padded) == [3, 6, 7]
    assert list(Loader(samples, None, workers=workers, collate_fn=lambda sample: int(sample["label"]))) == [
        0, 3, 6, 9, 12, 15, 18
    ]  # fmt: skip
    assert [batch["scan"].shape for batch in Loader(samples, 1, workers=workers)][4] == (1, 5, 4)
    with pytest.raises(ValueError, match=r"'/1/scan'.*batch_size=None of a loader.*collate_fn=list"):
        next(iter(Loader(samples, 2, workers=workers)))


def test_a_loop_over_single_samples_goes_on_where_it_stopped(samples: Samples) -> None:
    loader = Loader(samples, None, shuffle=True)
    whole = [int(sample["number"]) for sample in loader]
    loader.set_epoch(0)
    loop = iter(loader)
    begun = [int(next(loop)["number"]) for _ in range(5)]
    other = Loader(samples, None, shuffle=True, workers=2)
    other.load_state_dict(loader.state_dict())
    assert begun + [int(sample["number"]) for sample in other] == whole


def test_other_datasets_in_lists() -> None:
    class Mine:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, number: int) -> Any:
            return np.zeros(number)

    assert [len(batch[1]) for batch in Loader(Mine(), 2, collate_fn=list)] == [1, 3]
    assert [len(sample) for sample in Loader(Mine(), None)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"shapes \(0,\) and \(1,\) do not fit"):
        list(Loader(Mine(), 2))
    with pytest.raises(TypeError, match=r"such as blosc2\.Samples\('x\.b2z'\)"):
        Loader("x.b2z", 2)
    with pytest.raises(TypeError, match=r"such as blosc2\.Samples\(store\)"):
        Loader(blosc2.EmbedStore(), 2)
    with pytest.raises(TypeError, match="collate_fn must be callable"):
        Loader(Mine(), 2, collate_fn="list")  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2])
def test_other_datasets_read_the_epoch_of_the_loop(workers: int) -> None:
    volumes = blosc2.asarray(np.arange(3 * 20 * 20).reshape(3, 20, 20))
    patches = blosc2.PatchSampler(volumes, (2, 2), count=8)

    class Around:
        def __len__(self) -> int:
            return len(patches)

        def __getitem__(self, number: int) -> Any:
            return patches[number]

    loader = Loader(Around(), batch_size=8, workers=workers)
    expected = [patches.read_batch([(epoch, n) for n in range(8)]) for epoch in range(3)]
    for epoch, batch in zip(expected, [next(iter(loader)) for _ in expected], strict=True):
        np.testing.assert_array_equal(batch, epoch)
    assert not np.array_equal(expected[0], expected[1])
    patches.set_epoch(2)
    np.testing.assert_array_equal(patches.read_batch(range(8)), expected[2])
    with pytest.raises(ValueError, match="epoch must be at least 0"):
        patches.set_epoch(-1)
