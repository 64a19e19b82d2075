"""Changes of a super-chunk in memory: versions that somebody has stay as they are, and room is used again."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._frames.changeable import MemoryHandle
from blosc2._frames.update import FrameUpdate


class Model:
    """A super-chunk beside a list of what its chunks hold, and older versions beside what these held."""

    def __init__(self, seed: int, several: bool) -> None:
        self.random = random.Random(seed)
        self.several = several
        self.size = self.random.choice([40, 400, 4000])
        data = os.urandom(self.size * self.random.randrange(2, 12))
        self.schunk = blosc2.SChunk(chunksize=self.size, data=data, cparams={"typesize": 4})
        self.held: list[tuple[Frame, list[bytes]]] = []
        self.chunks = self.now(self.schunk._handle.frame)

    @staticmethod
    def now(frame: Frame) -> list[bytes]:
        return [frame.decode_chunk(number) for number in range(frame.nchunks)]

    def chunk(self, size: int) -> tuple[bytes, bytes]:
        data = self.random.choice([os.urandom(size), bytes(size), b"abcd" * (size // 4)])
        return blosc2.compress2(data, typesize=4), data

    def step(self) -> None:
        schunk, chunks = self.schunk, self.chunks
        at = self.random.randrange(len(chunks))
        size = schunk.chunksize or self.size
        if self.several and self.random.random() < 0.3:
            size = 4 * self.random.randrange(1, size // 4 + 1)
        chunk, data = self.chunk(size)
        match self.random.randrange(9):
            case 0:
                schunk.append_chunk(chunk)
                chunks.append(data)
            case 1 | 2:
                schunk.update_chunk(at, chunk)
                chunks[at] = data
            case 3:
                schunk.insert_chunk(at, chunk)
                chunks.insert(at, data)
            case 4 if len(chunks) > 2:
                schunk.delete_chunk(at)
                del chunks[at]
            case 5:
                order = self.random.sample(range(len(chunks)), len(chunks))
                schunk.reorder_offsets(order)
                chunks[:] = [chunks[number] for number in order]
            case 6:
                schunk.vlmeta["number"] = at
            case 7:
                self.held = [*self.held[-2:], (schunk._handle.frame, chunks.copy())]
            case 8:
                with pytest.raises(KeyError), schunk.transaction():
                    schunk.update_chunk(at, chunk)
                    schunk.delete_chunk(0)
                    schunk.append_chunk(chunk)
                    raise KeyError
            case _:
                self.held.clear()

    def check(self) -> None:
        assert self.now(self.schunk._handle.frame) == self.chunks
        assert all(self.now(frame) == chunks for frame, chunks in self.held)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("several", [False, True], ids=["one size", "several sizes"])
def test_versions_that_somebody_has_stay_as_they_are(seed: int, several: bool) -> None:
    model = Model(seed, several)
    for number in range(300):
        model.step()
        if number % 20 == 0:
            model.check()
    model.check()
    assert blosc2.schunk_from_cframe(model.schunk.to_cframe())[:] == b"".join(model.chunks)


def test_room_is_used_again() -> None:
    schunk = blosc2.SChunk(chunksize=4000, data=os.urandom(40_000), cparams={"typesize": 4})
    before = schunk.cbytes
    for number in range(1000):
        data = os.urandom(4000)
        schunk.update_data(number % 10, data)
    assert schunk.cbytes < 4 * before
    assert schunk.decompress_chunk(9) == data


def test_a_view_of_what_was_replaced_stays() -> None:
    array = blosc2.asarray(np.arange(2000.0), chunks=(500,), cparams={"clevel": 0})
    array[:500] = 1.0
    raw = array.schunk.get_chunk(1)
    frame = array.schunk._handle.frame
    views = [memoryview(frame.chunk_stored_at(offset)) for offset in FrameUpdate(frame).offsets.tolist()]
    copies = [bytes(view) for view in views]
    del frame
    for _ in range(50):
        array.schunk.update_chunk(0, raw)
        array.schunk.update_chunk(2, raw)
    assert [bytes(view) for view in views] == copies
    assert array[1000] == 500.0


@pytest.mark.parametrize(
    "order", [[0, 1], [[0, 1]], [[0, 1, 2]], [0, 0, 1], [0, 1, 5], [-1, 0, 1], [0.0, 1.0, 2.0], "abc"]
)
def test_orders_that_are_none(order: Any) -> None:
    schunk = blosc2.SChunk(chunksize=4, data=b"abcdefghijkl", cparams={"typesize": 1})
    schunk.reorder_offsets([2, 1, 0])
    with pytest.raises((ValueError, RuntimeError)):
        schunk.reorder_offsets(order)
    assert schunk[:] == b"ijklefghabcd"


def test_a_short_chunk_that_moves_makes_sizes_differ() -> None:
    schunk = blosc2.SChunk(chunksize=4, data=b"abcdefghij", cparams={"typesize": 1})
    schunk.reorder_offsets([1, 0, 2])
    assert (schunk[:], schunk.chunksize) == (b"efghabcdij", 4)
    schunk.reorder_offsets([2, 0, 1])
    assert (schunk[:], schunk.chunksize) == (b"ijefghabcd", 0)


@pytest.mark.parametrize("several", [False, True], ids=["one size", "several sizes"])
def test_what_is_no_chunk_is_refused(several: bool) -> None:
    schunk = blosc2.SChunk(chunksize=40, data=bytes(range(80)), cparams={"typesize": 1})
    if several:
        schunk.append_data(b"short")
    schunk.append_data(bytes(range(40)))
    data = schunk[:]
    for size in (40, None):
        for chunk in (5, -5, 10**12, bytes(50), schunk.get_chunk(0)):
            with pytest.raises(TypeError):
                schunk.append_chunk((chunk, size))
            with pytest.raises(TypeError):
                schunk.update_chunk(0, (chunk, size))
            with pytest.raises(TypeError):
                schunk.insert_chunk(0, (chunk, size))
    assert schunk[:] == data


def test_a_damaged_chunk_that_reaches_into_new_ones_keeps_its_bytes() -> None:
    new = [blosc2.compress2(os.urandom(400), typesize=1) for _ in range(5)]
    schunk = blosc2.SChunk(chunksize=400, data=os.urandom(800) + b"abcd" * 100, cparams={"typesize": 1})
    damaged = bytearray(schunk.to_cframe())
    at = damaged.index(schunk.get_chunk(2)) + 12  # where its length is
    length = int.from_bytes(damaged[at : at + 4], "little") + 2 * len(new[0])
    damaged[at : at + 4] = length.to_bytes(4, "little")
    schunk = blosc2.schunk_from_cframe(bytes(damaged))
    for chunk in new[:4]:
        schunk.update_chunk(0, chunk)
    frame = schunk._handle.frame
    offset = FrameUpdate(frame).offsets.tolist()[2]
    before = bytes(frame.chunk_stored_at(offset))
    assert len(before) == length
    schunk.update_chunk(0, new[4])
    assert bytes(frame.chunk_stored_at(offset)) == before


def test_a_frame_that_another_thread_changes_is_copied_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    schunk = blosc2.schunk_from_cframe(blosc2.SChunk(chunksize=4, data=b"abcd").to_cframe())
    plain = MemoryHandle._plain

    def late(handle: MemoryHandle, *more: Any) -> bytes:
        schunk.append_data(b"efgh")
        return plain(handle, *more)

    monkeypatch.setattr(MemoryHandle, "_plain", late)
    copied = schunk.to_cframe()
    assert blosc2.schunk_from_cframe(copied)[:] == b"abcd"
    assert schunk[:] == b"abcdefgh"
