"""Batches as tensors, by threads and by processes."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, default_collate  # noqa: E402

import blosc2.torch as b2t  # noqa: E402 - after the look for torch

ITEMS = np.random.default_rng(0).normal(0, 1, (6, 10, 14)).astype("f4")
FORKS = hasattr(os, "fork")
# A spawned worker imports PyTorch again, which takes seconds; the other ways to begin one have tests of their own.
KINDS = ["threads", *(["fork"] if FORKS else ["spawn"])]


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "cohort.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for n, items in enumerate(ITEMS):
            store[f"/{n}/scan"] = blosc2.asarray(items, chunks=(5, 7), blocks=(3, 4))
            store[f"/{n}/mask"] = (items > 1).astype("u1")
            store[f"/{n}/places"] = blosc2.foreground_index((items > 1).astype("u1"))
    return path


def patches(path: str, **more: Any) -> Any:
    how = {"fields": ("scan", "mask"), "foreground": "places", "count": 20, "pad_value": 0, "seed": 3}
    return b2t.PatchSampler(path, (5, 20), **{**how, **more})


def as_arrays(batch: Any) -> dict[str, Any]:
    return {name: tensor.numpy().copy() for name, tensor in batch.items()}


def same(ours: list[Any], others: list[Any]) -> bool:
    assert len(ours) == len(others)
    return all(np.array_equal(a[name], b[name]) for a, b in zip(ours, others, strict=True) for name in ("scan", "mask"))


def test_samples_are_tensors(path: str) -> None:
    samples = b2t.Samples(path, ["scan", "mask"])
    assert isinstance(samples, torch.utils.data.Dataset)
    assert len(samples) == 6
    one = samples[2]
    assert np.array_equal(one["scan"].numpy(), ITEMS[2])
    assert one["mask"].dtype == torch.uint8
    batch = samples.read_batch([5, 0])
    assert np.array_equal(batch["scan"].numpy(), ITEMS[[5, 0]])
    rows = b2t.Samples(blosc2.asarray(ITEMS.astype("f8")))
    assert rows[-1].dtype == torch.float64
    assert pickle.loads(pickle.dumps(rows))[1].equal(torch.from_numpy(ITEMS[1].astype("f8")))


@pytest.mark.parametrize("name", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_types_of_items(name: str) -> None:
    items = (np.arange(12).reshape(3, 4) % 5).astype(name)
    batch = b2t.Samples(blosc2.asarray(items)).read_batch([2, 0])
    assert batch.numpy().dtype == name
    assert np.array_equal(batch.numpy(), items[[2, 0]])


@pytest.mark.parametrize("name", [">i2", ">f4", ">c8", "<f8"])
def test_tensors_have_the_order_of_bytes_of_the_machine(tmp_path: Path, name: str) -> None:
    items = np.arange(48).reshape(3, 4, 4).astype(name)
    native = np.dtype(name).newbyteorder("=")
    with blosc2.TreeStore(str(tmp_path / "x.b2z"), mode="w") as made:
        made.update({f"/{n}/x": items[n] for n in range(3)})
    samples = b2t.Samples(str(tmp_path / "x.b2z"), ["x"])
    for found in (samples.read_batch([2, 0])["x"], torch.stack([samples[2]["x"], samples[0]["x"]])):
        assert found.numpy().dtype == native
        np.testing.assert_array_equal(found, items[[2, 0]])
    patches = b2t.PatchSampler(str(tmp_path / "x.b2z"), (6, 4), fields=["x"], count=3, pad_value=7)
    (patch,) = patches.read_batch([0])["x"]
    volume, (low, _), _ = patches.place(0)
    np.testing.assert_array_equal(patch, np.pad(items[volume], ((-low, 6 - 4 + low), (0, 0)), constant_values=7))
    loader = b2t.Loader(samples, batch_size=3, workers=1, shuffle=False)
    (batch,) = loader
    np.testing.assert_array_equal(batch["x"], items)


@pytest.mark.parametrize("name", ["U3", "M8[s]", "i4,f4"])
def test_types_that_tensors_have_not(name: str) -> None:
    samples = b2t.Samples(blosc2.zeros((3, 2), name))
    with pytest.raises(TypeError, match="no tensors of dtype"):
        samples[0]


def test_a_batch_is_not_copied(path: str) -> None:
    samples = b2t.Samples(path, ["scan", "mask"])
    several = samples.__getitems__([4, 1])
    batch = b2t.collate(several)
    assert torch.equal(samples[torch.tensor([4, 1])]["scan"], batch["scan"])
    assert batch["scan"].data_ptr() == several[0]["scan"].data_ptr()
    assert all(torch.equal(default_collate(list(several))[name], batch[name]) for name in batch)
    changed = b2t.Samples(path, ["scan"], transform=lambda sample: sample["scan"].sum())
    sums = b2t.collate(changed.__getitems__([4, 1]))
    assert np.allclose(sums.numpy(), ITEMS[[4, 1]].sum((1, 2)), rtol=1e-5)
    loaded = list(DataLoader(samples, batch_size=4, collate_fn=b2t.collate))
    assert np.array_equal(loaded[1]["scan"].numpy(), ITEMS[4:])
    assert same([as_arrays(b) for b in DataLoader(samples, batch_size=4)], [as_arrays(b) for b in loaded])


@pytest.mark.parametrize("kind", KINDS)
def test_all_workers_give_the_batches_of_numpy(path: str, kind: str) -> None:
    numpy_loader = blosc2.Loader(blosc2.PatchSampler(
        path, (5, 20), fields=("scan", "mask"), foreground="places", count=20, pad_value=0, seed=3), 6, shuffle=True
    )  # fmt: skip
    wanted = [*numpy_loader, *numpy_loader, *numpy_loader]
    loader = b2t.Loader(patches(path), 6, shuffle=True, workers=2, kind=kind)
    found = [as_arrays(batch) for _ in range(2) for batch in loader]
    loop = iter(loader)
    found += [as_arrays(next(loop)) for _ in range(2)]
    state = loader.state_dict()
    del loop
    loader.close()
    other = b2t.Loader(patches(path), 6, shuffle=True, workers=1, kind=kind)
    other.load_state_dict(state)
    found += [as_arrays(batch) for batch in other]
    other.close()
    assert same(found, wanted)


@pytest.mark.skipif(not FORKS, reason="fork does not exist here")
def test_processes_hand_over_shared_memory(path: str) -> None:
    loader = b2t.Loader(patches(path), 6, workers=2, kind="fork")
    batches = list(loader)
    addresses = [batch[name].data_ptr() for batch in batches for name in batch]
    if Path("/proc/self/maps").exists():
        lines = [line.split() for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines()]
        shared = [[int(end, 16) for end in line[0].split("-")] for line in lines if line[1].endswith("s")]
        assert all(any(start <= address < stop for start, stop in shared) for address in addresses)
    loader.close()
    usual = DataLoader(patches(path), 6, num_workers=1, collate_fn=b2t.collate, worker_init_fn=b2t.seed_worker)
    assert same([as_arrays(batch) for batch in usual], [as_arrays(batch) for batch in batches])


@pytest.mark.parametrize("kind", KINDS)
def test_random_transforms_do_not_depend_on_workers(path: str, kind: str) -> None:
    def noisy(sample: Any, rng: Any) -> Any:
        return sample["scan"] + rng.random()

    def batches(**how: Any) -> list[Any]:
        loader = b2t.Loader(patches(path, transform=noisy, rng=True), 5, **how)
        found = [batch.numpy().copy() for _ in range(2) for batch in loader]
        loader.close()
        return found

    found = batches(workers=2, kind=kind)
    assert all(map(np.array_equal, found, batches()))
    assert not np.array_equal(found[0], found[4])


def drawn(number: int) -> int:
    return int(np.random.randint(1 << 31))  # noqa: NPY002 - the generator that others use


class Drawing(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    def __len__(self) -> int:
        return 6

    def __getitem__(self, number: int) -> int:
        return drawn(number)


@pytest.mark.skipif(not FORKS, reason="fork does not exist here")
def test_workers_have_seeds_of_their_own() -> None:
    def batches(seed: int) -> list[list[int]]:
        loader = b2t.Loader(Drawing(), 3, workers=2, kind="fork", seed=seed)
        found = [batch.tolist() for batch in loader]
        loader.close()
        return found

    first = batches(1)
    assert first[0] != first[1]
    assert batches(1) == first
    assert batches(2) != first


@pytest.mark.parametrize("kind", KINDS)
def test_errors_name_the_key(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "x.b2z")
    with blosc2.DictStore(path, mode="w") as store:
        for n in range(8):
            store[f"/{n}"] = np.full(3 + (n == 5), n)
    loader = b2t.Loader(b2t.Samples(path), 2, workers=2, kind=kind)
    found = []
    with pytest.raises(ValueError, match="key '/5' has shape"):
        for batch in loader:
            found.append(batch[:, 0].tolist())  # noqa: PERF401 - what came before the error is looked at
    assert found == [[0, 0 + 1], [2, 3]]
    loader.close()


class Dying(b2t.Samples):
    patient = False

    def _read(self, epochs: Any, places: Any, nthreads: int) -> Any:
        if places[0] == 3 and not self.patient:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._read(epochs, places, nthreads)


# PyTorch raises the error in a signal handler: what the main thread is just opening, such as a socket, stays open.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [*(["fork"] if FORKS else []), "spawn"])
def test_a_worker_that_dies(path: str, kind: str) -> None:
    loader = b2t.Loader(Dying(path, ["scan"]), 1, workers=2, kind=kind)
    with pytest.raises(RuntimeError, match=r"worker.*(killed by signal|exited unexpectedly)"):
        list(loader)
    loader.dataset.patient = True  # new workers see it
    assert len(list(loader)) == 6
    loader.close()


@pytest.mark.skipif(not FORKS, reason="fork does not exist here")
def test_the_others_end_when_a_worker_dies() -> None:
    """PyTorch raises an error for a dead worker wherever the main thread is when another one ends: not in `close`."""
    samples = b2t.Samples(blosc2.arange(20_000))
    for _ in range(5):
        loader = b2t.Loader(samples, 1, workers=2, kind="fork")
        loop = iter(loader)
        next(loop)
        workers = list(loader._processes._iterator._workers)
        with pytest.raises(RuntimeError, match=r"killed by signal|exited unexpectedly"):
            os.kill(workers[0].pid, signal.SIGKILL)
            while True:
                next(loop)
        loader.close()
        assert not any(worker.is_alive() for worker in workers)
        assert next(iter(loader)).tolist() == [0]
        loader.close()


def hanging(sample: Any) -> Any:
    time.sleep(30)
    return sample


@pytest.mark.skipif(not FORKS, reason="fork does not exist here")
def test_workers_that_hang_are_not_waited_for(path: str) -> None:
    loader = b2t.Loader(b2t.Samples(path, ["scan"], transform=hanging), workers=2, kind="fork", timeout=0.5)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="timed out after"):
        next(iter(loader))
    assert time.monotonic() - start < 5  # PyTorch waits so long for each worker
    assert loader._processes._iterator is None


@pytest.mark.skipif(not FORKS, reason="fork does not exist here")
def test_a_worker_that_died_between_loops(path: str) -> None:
    with b2t.Loader(b2t.Samples(path, ["scan"]), 1, workers=2, kind="fork") as loader:
        assert len(list(loader)) == 6
        worker = loader._processes._iterator._workers[0]
        worker.terminate()
        worker.join()
        try:
            found = list(loader)
        except RuntimeError:  # PyTorch's handler of signals was faster
            found = list(loader)
        assert np.array_equal(np.concatenate([batch["scan"].numpy() for batch in found]), ITEMS)


@pytest.mark.parametrize("kind", KINDS)
def test_two_loops_over_a_loader(path: str, kind: str) -> None:
    """Processes serve one loop at a time; threads serve each."""
    samples = b2t.Samples(path, ["scan"])
    with b2t.Loader(samples, 1, workers=2, kind=kind, shuffle=True) as loader:
        first, second = iter(loader), iter(loader)
        if kind == "threads":
            wanted = [[batch["scan"] for batch in b2t.Loader(samples, 1, shuffle=True)]]
            wanted.append([batch["scan"] for batch in list(first)])
            assert all(map(torch.equal, *wanted))
        else:
            with pytest.raises(RuntimeError, match="another loop over this loader has begun"):
                next(first)
        again = b2t.Loader(samples, 1, shuffle=True)
        again.set_epoch(1)
        assert all(torch.equal(a["scan"], b["scan"]) for a, b in zip(second, again, strict=True))
        third = iter(loader)
        next(third)
    if kind != "threads":
        with pytest.raises(RuntimeError, match="or the loader was closed"):
            next(third)
    third.close()


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [*((kind, suffix) for kind in KINDS for suffix in (".b2z", ".b2d", ".b2e")), ("spawn", ".b2z")],
)
def test_a_store_replaced_under_a_loader(kind: str, suffix: str, tmp_path: Path) -> None:
    """What the loop gives is of the old version, to the end or up to an error that names the store."""
    rows = np.random.default_rng(1).integers(0, 256, (12, 50_000), "u1")
    make: Any = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    for name, add in (("old", 0), ("new", 1)):
        with make(str(tmp_path / f"{name}{suffix}"), mode="w") as store:
            for n, row in enumerate(rows):
                store[f"/{n:02d}/scan"] = row + add
    path = str(tmp_path / f"old{suffix}")
    loader = b2t.Loader(b2t.Samples(path, ["scan"]), 1, workers=2, kind=kind, prefetch=1)
    loop = iter(loader)
    found = [next(loop)["scan"].numpy().copy()]
    if suffix == ".b2d":
        os.rename(path, tmp_path / "former.b2d")
    os.replace(tmp_path / f"new{suffix}", path)
    error = None
    try:
        found.extend(batch["scan"].numpy().copy() for batch in loop)
    except blosc2.StaleHandleError as raised:
        error = raised
    loader.close()
    assert np.array_equal(np.concatenate(found), rows[: len(found)])
    assert len(found) == 12 if error is None else path in str(error)
    if suffix == ".b2d" or kind == "spawn":
        return  # a worker may have opened the store in time, or not
    assert error is None


@pytest.mark.skipif(not FORKS, reason="fork does not exist here")
def test_many_batches_after_reads_in_the_parent(path: str) -> None:
    blosc2.Loader(blosc2.Samples(path, ["scan"]), 2, workers=2).__iter__()
    samples = b2t.Samples(path, ["scan"])
    samples.read_batch(range(6))
    loader = b2t.Loader(samples, 1, workers=2, kind="fork", shuffle=True)
    for _ in range(20):
        assert sum(1 for _ in loader) == 6
    loader.close()
    gc.collect()


def test_wrong_kinds(path: str) -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        b2t.Loader(patches(path), kind="greenlets")
    assert repr(b2t.Loader(patches(path), 4, workers=2, kind="spawn")).endswith("of 20, 4, workers=2, kind='spawn')")


def test_without_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')\n")
    program = """import sys, blosc2
assert blosc2.Loader and 'torch' not in sys.modules
try:
    blosc2.torch.Loader
except AttributeError as error:
    assert str(error).endswith("not imported: import blosc2.torch")
from blosc2 import torch
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "pip install 'python-blosc2[torch]'" in done.stderr


# ---------------------------------------------------------------------- samples that are not stacked
@pytest.fixture
def unlike(tmp_path: Path) -> str:
    path = str(tmp_path / "unlike.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for n in range(7):
            store[f"/{n}/scan"] = np.full((n + 1, 4), n)
    return path


def _as_numpy(sample: Any) -> Any:
    return sample["scan"].numpy()


def _scaled(samples: list[Any]) -> Any:
    return [sample["scan"] * 10 for sample in samples]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_unlike_shapes(unlike: str, kind: str) -> None:
    samples = b2t.Samples(unlike, {"scan": "{}/scan", "label": np.arange(7) * 3})
    for workers in (0, 2):
        loader = b2t.Loader(samples, None, workers=workers, kind=kind)
        for _ in range(3):  # memory of workers is used again
            found = list(loader)
            assert [tuple(sample["scan"].shape) for sample in found] == [(n + 1, 4) for n in range(7)]
            assert all(bool((sample["scan"] == n).all()) for n, sample in enumerate(found))
            assert [int(sample["label"]) for sample in found] == [0, 3, 6, 9, 12, 15, 18]
        loader.close()
        loader = b2t.Loader(samples, 3, workers=workers, kind=kind, collate_fn=_scaled)
        for _ in range(3):
            kept = list(loader)
            assert [[tuple(one.shape) for one in batch] for batch in kept] == [
                [(1, 4), (2, 4), (3, 4)], [(4, 4), (5, 4), (6, 4)], [(7, 4)]
            ]  # fmt: skip
            volumes = [one for batch in kept for one in batch]
            assert all(bool((one == 10 * n).all()) for n, one in enumerate(volumes))
        loader.close()
        loader = b2t.Loader(samples, 2, workers=workers, kind=kind)
        with pytest.raises(ValueError, match=r"'/1/scan'.*collate_fn=list"):
            next(iter(loader))
        loader.close()


@pytest.mark.parametrize("kind", KINDS)
def test_alike_samples_in_lists(path: str, kind: str) -> None:
    """They lie in one slot of the worker's memory."""
    loader = b2t.Loader(b2t.Samples(path, ["scan", "mask"]), 2, workers=1, kind=kind, collate_fn=list)
    for _ in range(4):
        found = [one for batch in loader for one in batch]
        assert np.array_equal(np.stack([one["scan"].numpy() for one in found]), ITEMS)
        assert found[5]["mask"].dtype == torch.uint8
    loader.close()
    loader = b2t.Loader(b2t.Samples(path, ["scan"]), None, workers=1, kind=kind, collate_fn=_as_numpy)
    assert np.array_equal(np.stack(list(loader)), ITEMS)
    loader.close()


def test_a_dataloader_of_samples_of_unlike_shapes(unlike: str) -> None:
    samples = b2t.Samples(unlike, {"scan": "{}/scan", "label": [f"kind {n}" for n in range(7)]}, keys=None)
    with pytest.raises(TypeError, match=r"no tensors of dtype <U6.*numbers texts"):
        samples[0]
    samples = b2t.Samples(unlike, ["scan"])
    for workers in (0, 1):
        alone = DataLoader(samples, batch_size=None, num_workers=workers)
        assert [len(one["scan"]) for one in alone] == list(range(1, 8))
        batches = list(DataLoader(samples, batch_size=4, collate_fn=list, num_workers=workers))
        assert [len(one["scan"]) for one in batches[1]] == [5, 6, 7]
    with pytest.raises(ValueError, match=r"'/1/scan'.*collate_fn=list"):
        list(DataLoader(samples, batch_size=4, collate_fn=b2t.collate))
    made = b2t.Samples(unlike, ["scan"], transform=lambda sample: sample)
    with pytest.raises(RuntimeError, match="equal size") as raised:
        list(DataLoader(made, batch_size=4, collate_fn=b2t.collate))
    assert "collate_fn=list" in raised.value.__notes__[0]


def test_labels_in_memory_become_tensors() -> None:
    samples = b2t.Samples({"scan": blosc2.asarray(ITEMS), "label": torch.arange(6), "weight": [0.5] * 6})
    batch = samples.read_batch([5, 1])
    assert batch["label"].tolist() == [5, 1]
    assert batch["label"].dtype == torch.int64
    assert batch["weight"].dtype == torch.float64


class Around(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """A dataset of somebody else, which reads another one."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number: int) -> Any:
        return self.dataset[number]


def jitter(sample: Any, rng: np.random.Generator) -> Any:
    return {**sample, "drawn": float(rng.random())}


def epochs(loader: Any, begin: Any = None, count: int = 3) -> list[list[Any]]:
    """What some epochs give, sample for sample."""
    found = []
    for epoch in range(count):
        if begin is not None:
            begin(epoch)
        batches = [as_arrays(batch) for batch in loader]
        found.append([tuple(items[i].tobytes() for items in batch.values()) for batch in batches for i in range(4)])
    return found


@pytest.mark.parametrize("around", [Around, lambda sampler: torch.utils.data.Subset(sampler, range(12))])
@pytest.mark.parametrize("kind", ["threads", "fork"])
def test_datasets_around_a_sampler_get_new_patches_in_each_epoch(path: str, kind: str, around: Any) -> None:
    sampler = patches(path, count=12, transform=jitter, rng=True)
    plain = epochs(b2t.Loader(sampler, batch_size=4))
    assert len({sample for epoch in plain for sample in epoch}) == 36
    with_workers = b2t.Loader(around(sampler), batch_size=4, workers=2, kind=kind)
    assert epochs(with_workers) == plain
    with_workers.close()
    assert epochs(b2t.Loader(around(sampler), batch_size=4)) == plain


@pytest.mark.parametrize("workers", [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 1, "persistent_workers": True, "multiprocessing_context": "forkserver"},
], ids=["none", "each epoch", "persistent", "forkserver"])  # fmt: skip
def test_a_dataloader_gets_the_epoch_that_is_set(path: str, workers: dict[str, Any]) -> None:
    sampler = patches(path, count=12, transform=jitter, rng=True)
    plain = epochs(b2t.Loader(sampler, batch_size=4))
    loader = DataLoader(Around(sampler), batch_size=4, collate_fn=b2t.collate, **workers)
    assert epochs(loader, sampler.set_epoch) == plain
    sampler.set_epoch(1)
    assert sampler.place(5) == sampler.place((1, 5)) != sampler.place((0, 5))
    with pytest.raises(ValueError, match="epoch must be at least 0"):
        sampler.set_epoch(-1)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("transform", [None, torch.neg])
@pytest.mark.parametrize("make", [b2t.Samples, lambda *given, **how: b2t.PatchSampler(given[0], (10, 14), **how)])
def test_a_plain_dataloader_over_one_array(make: Any, transform: Any, workers: int) -> None:
    samples = make(blosc2.asarray(ITEMS), transform=transform)
    wanted = samples.read_batch(range(6))
    for dataset in (samples, torch.utils.data.Subset(samples, range(6))):
        for collate in (None, torch.stack, b2t.collate):
            (batch,) = DataLoader(dataset, 6, collate_fn=collate, num_workers=workers)
            assert torch.equal(batch, wanted)


@pytest.mark.parametrize("source", [blosc2.asarray(ITEMS), {"scan": blosc2.asarray(ITEMS)}])
def test_batches_of_numpy_become_tensors(source: Any) -> None:
    for kind in KINDS:
        with b2t.Loader(blosc2.Samples(source), 6, workers=1, kind=kind) as loader:
            (batch,) = loader
            batch = batch["scan"] if isinstance(batch, dict) else batch
            assert torch.equal(batch, torch.from_numpy(ITEMS))


@pytest.mark.parametrize("source", [blosc2.asarray(ITEMS), {"scan": blosc2.asarray(ITEMS)}])
def test_what_a_worker_hands_over_as_it_is(source: Any) -> None:
    found = DataLoader(b2t.Samples(source), 6, collate_fn=_as_it_is, num_workers=1, timeout=60)
    rows = [sample["scan"] if isinstance(sample, dict) else sample for sample in next(iter(found))]
    np.testing.assert_array_equal(torch.stack(rows), ITEMS)


def _as_it_is(samples: Any) -> Any:
    return samples


def test_keywords_of_a_dataloader() -> None:
    with pytest.raises(TypeError, match=r"^Loader\(\) has no keyword 'num_workers'; it is workers= here"):
        b2t.Loader(b2t.Samples(np.arange(4)), num_workers=2)
    with pytest.raises(TypeError, match="it is prefetch= here: batches that each worker may be ahead"):
        b2t.Loader(b2t.Samples(np.arange(4)), workers=2, prefetch_factor=2)


def test_a_sampler_of_batches_of_a_loader_of_torch() -> None:
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    items = np.arange(7 * 5 * 6).reshape(7, 5, 6)
    patches = blosc2.torch.PatchSampler({"image": blosc2.asarray(items)}, (4, 4), count=10)
    sampler = BatchSampler(RandomSampler(patches), 4, False)
    batches = list(DataLoader(patches, sampler=sampler, batch_size=None))
    assert [tuple(batch["image"].shape) for batch in batches] == [(4, 4, 4), (4, 4, 4), (2, 4, 4)]
    drawn = torch.cat([batch["image"] for batch in batches])
    whole = patches.read_batch(range(10))["image"]
    assert sorted(drawn.flatten(1).tolist()) == sorted(whole.flatten(1).tolist())
