"""Metadata of frames in memory that are edited: chunks stay what they are, and where they are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source


@pytest.mark.parametrize("sizes", [[400] * 6, [400, 120, 400, 8, 64, 400]])
@pytest.mark.parametrize("seed", range(4))
def test_beside_a_dictionary(sizes: list[int], seed: int) -> None:
    rng = random.Random(seed)
    schunk = blosc2.SChunk(chunksize=400, meta={"fixed": 1})
    chunks = [rng.randbytes(size) for size in sizes]
    for chunk in chunks:
        schunk.append_data(chunk)
    want: dict[str, Any] = {}
    for n in range(60):
        before = schunk.to_cframe(), dict(want)
        match rng.randrange(4):
            case 0 if want:
                del schunk.vlmeta[name := rng.choice(list(want))]
                del want[name]
            case 1:
                at = rng.randrange(len(chunks))
                chunks[at] = rng.randbytes(len(chunks[at]))
                schunk.update_data(at, chunks[at], copy=True)
            case _:
                name = rng.choice("abcde")
                schunk.vlmeta[name] = want[name] = [n] * rng.randrange(30)
        assert list(schunk.vlmeta.getall().items()) == list(want.items())
        assert [schunk.decompress_chunk(i) for i in range(len(chunks))] == chunks
        assert schunk[:] == b"".join(chunks)
        assert schunk.meta["fixed"] == 1
        again = blosc2.schunk_from_cframe(schunk.to_cframe())
        assert (again[:], again.vlmeta[:]) == (b"".join(chunks), want)
        assert blosc2.schunk_from_cframe(before[0]).vlmeta[:] == before[1]


def test_readers_keep_their_version_and_transactions_take_back() -> None:
    array = blosc2.asarray(np.arange(100), chunks=(30,))
    array.vlmeta["a"] = 1
    frame = array._handle.frame
    with pytest.raises(KeyError), array.transaction():
        array.vlmeta["a"] = 2
        array[5] = 7
        array.vlmeta["b"] = 3
        raise KeyError
    assert array._handle.frame is frame
    assert array.vlmeta[:] == {"a": 1}
    np.testing.assert_array_equal(array[:], np.arange(100))


def test_only_a_frame_that_was_never_serialised_takes_others() -> None:
    frame = Frame.open(Source.of_buffer(blosc2.ones(3).to_cframe()))
    with pytest.raises(ValueError, match="part of it"):
        frame.with_vlmeta({})
