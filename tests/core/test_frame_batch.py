"""Frames of several small arrays at once, in several threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._arrays import cframe_of, template_of
from blosc2._core.frame.frame_writer import FrameBatch


def arrays(count: int, nbytes: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [np.cumsum(rng.integers(-3, 4, nbytes // 4)).astype("i4") for _ in range(count)]


def template(value: Any, keywords: dict[str, Any] | None = None) -> Any:
    found = template_of(value, keywords or {})
    assert found is not None
    return found


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("nbytes", [260, 4096, 65536])
def test_each_frame_is_that_of_its_array(nbytes: int, threads: int) -> None:
    batch = FrameBatch()
    for seed in range(3):  # it serves again and again
        values = [*arrays(20, nbytes, seed), np.zeros(nbytes // 4, "i4"), np.ones(nbytes // 4, "i4")]
        assert all(batch.add(template(value), value) for value in values)
        assert (batch.count, batch.nbytes) == (22, 22 * nbytes)
        assert batch.items_at(7) == values[7].tobytes()
        frames: Any = batch.frames(threads)
        assert frames == [cframe_of(value, {}) for value in values]
        for frame, value in zip(frames, values, strict=True):
            assert np.array_equal(blosc2.ndarray_from_cframe(frame)[:], value)
        batch.clear()
        assert (batch.count, batch.nbytes) == (0, 0)
        assert batch.frames(threads) == []


def test_arrays_of_several_kinds_and_ways_to_compress() -> None:
    batch = FrameBatch()
    ways: list[dict[str, Any]] = [{}, {"cparams": blosc2.CParams(codec=blosc2.Codec.LZ4, clevel=3)}]
    added = [(value, way) for way in ways for size in (1000, 3000) for value in arrays(9, size)]
    added = added[::2] + added[1::2]
    for value, way in added:
        assert batch.add(template(value, way), value)
    assert batch.frames(3) == [cframe_of(value, way) for value, way in added]
    other = np.arange(4000.0)
    assert not batch.add(template(other), other)  # a fifth kind
    assert batch.count == len(added)
    batch.clear()
    assert not batch.add(template(other), other)  # contexts stay


def test_what_it_does_not_take() -> None:
    batch = FrameBatch()
    value = np.arange(3000)
    for other in (value[::2], value[:-1], np.arange(6000)[::2]):
        assert not batch.add(template(value), other)
    assert batch.count == 0
    for number in (-1, 0, 1):
        with pytest.raises(IndexError):
            batch.items_at(number)
    assert template_of(np.array([object()] * 1000), {}) is None
    assert template_of(np.zeros(100_000), {}) is None
    assert template_of(np.zeros(2), {}) is None


def test_batches_of_several_threads_of_python() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        batch = FrameBatch()
        for n in range(10):
            values = arrays(12, 2000, 100 * seed + n)
            for value in values:
                batch.add(template(value), value)
            if batch.frames(2) != [cframe_of(value, {}) for value in values]:
                wrong.append(seed)
            batch.clear()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
