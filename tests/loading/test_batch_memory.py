"""Memory of large batches that threads read: what anybody keeps is never overwritten, and a loop leaves none behind."""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._tools.loading import samples

ROWS, WIDTH = 24, samples.LARGE // 8  # a batch of four rows of i4 is twice as large
ITEMS = np.arange(ROWS, dtype="i4")[:, None] + np.zeros(WIDTH, "i4")

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MAP_PRIVATE"), reason="memory comes from the allocator here")


def some_samples() -> blosc2.Samples:
    return blosc2.Samples({"row": blosc2.asarray(ITEMS), "label": blosc2.asarray(np.arange(ROWS))})


def is_right(batch: dict[str, Any]) -> bool:
    return bool((batch["row"] == batch["label"][:, None]).all())


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_is_used_again(workers: int) -> None:
    loader, seen = blosc2.Loader(some_samples(), 4, workers=workers, prefetch=1), set()
    for _ in range(4):
        count = 0
        for batch in loader:
            assert is_right(batch)
            assert not batch["row"].flags.owndata
            assert batch["row"].flags.writeable
            seen.add(batch["row"].ctypes.data)
            count += 1
            del batch
        assert count == 6
        assert not samples._spare
    assert len(seen) < 4 * 6


@pytest.mark.parametrize("keep", ["batch", "row", "view", "copy of a view"])
def test_what_is_kept_stays(keep: str) -> None:
    kept: list[tuple[int, Any]] = []
    for batch in blosc2.Loader(some_samples(), 4, workers=2):
        assert is_right(batch)
        row, first = batch["row"], int(batch["label"][0])
        kept.append((first, {"batch": batch, "row": row, "view": row[1:, ::7], "copy of a view": row[0].copy()}[keep]))
    for first, what in kept:
        if keep == "batch":
            assert is_right(what)
        else:
            rows = {"row": 4, "view": 3, "copy of a view": 1}[keep]
            wanted = first + (1 if keep == "view" else 0) + np.arange(rows)
            assert np.array_equal(what.reshape(rows, -1)[:, 0], wanted)


def test_a_loop_that_is_left_keeps_nothing() -> None:
    before = len(samples._loops)
    batches = iter(blosc2.Loader(some_samples(), 4, workers=2))
    batch = next(batches)
    assert len(samples._loops) == before + 1
    del batches
    gc.collect()
    assert len(samples._loops) == before
    assert is_right(batch)
    del batch
    assert not samples._spare


def test_two_loops_at_once() -> None:
    """The end of one does not take the memory of the other."""
    one, other = (iter(blosc2.Loader(some_samples(), 4, workers=1)) for _ in range(2))
    first = next(one)
    assert all(map(is_right, other))
    rest = list(one)
    assert is_right(first)
    assert all(map(is_right, rest))
    assert len(rest) == 5


def test_without_threads_memory_comes_from_numpy() -> None:
    batch = next(iter(blosc2.Loader(some_samples(), 4)))
    assert batch["row"].flags.owndata


def test_memory_that_cannot_be_had() -> None:
    """The error is that of NumPy."""
    batches = iter(blosc2.Loader(some_samples(), 4, workers=1))
    next(batches)
    with pytest.raises(MemoryError):
        some_samples()._new((1 << 60,), np.dtype("u1"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_keeps_nothing() -> None:
    """The loop that began in its parent never ends in it."""
    batches = iter(blosc2.Loader(some_samples(), 4, workers=1))
    batch = next(batches)
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            is_first = is_right(batch) and is_right(next(iter(blosc2.Loader(some_samples(), 4, workers=1))))
            del batch
            gc.collect()
            status = 0 if is_first and not samples._loops and not samples._spare else 2
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert is_right(batch)


# ---------------------------------------------------------------------- tensors
def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    import blosc2.torch as b2t

    rows = b2t.Samples({"row": blosc2.asarray(ITEMS), "label": blosc2.asarray(np.arange(ROWS))})
    kept = []
    for batch in b2t.Loader(rows, 4, workers=2):
        assert is_right(batch)
        kept.append((int(batch["label"][0]), batch["row"].numpy(), batch["row"][2]))
    del batch
    gc.collect()
    for _ in b2t.Loader(rows, 4, workers=2):
        pass
    for first, items, one in kept:
        assert np.array_equal(items[:, 5], first + np.arange(4))
        assert torch.all(one == first + 2)


def test_a_tensor_that_is_shared_with_processes() -> None:
    """PyTorch moves it to other memory; NumPy arrays over it stay right."""
    pytest.importorskip("torch")
    import blosc2.torch as b2t

    rows = b2t.Samples({"row": blosc2.asarray(ITEMS), "label": blosc2.asarray(np.arange(ROWS))})
    for batch in b2t.Loader(rows, 4, workers=1):
        items = batch["row"].numpy()
        batch["row"].share_memory_()
        assert is_right(batch)
        first = int(batch["label"][0])
        del batch
        gc.collect()
        assert np.array_equal(items[:, 5], first + np.arange(4))
