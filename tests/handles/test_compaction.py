"""Arrays and super-chunks in files give back the bytes of what was replaced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import blosc2


def test_an_array(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2nd"
    fresh = tmp_path / "fresh.b2nd"
    values = np.random.default_rng(1).integers(0, 1 << 20, (60, 70))
    array = blosc2.asarray(np.zeros((60, 70), "i8"), chunks=(20, 30), blocks=(10, 10), urlpath=path)
    array.vlmeta["unit"] = "mm"
    for _ in range(4):
        array[5:50] = values[5:50][::-1]
    array[:] = values
    reader = blosc2.open(path, mmap_mode=source)
    before, after = array.compact()
    assert before > 1.5 * after
    assert after == path.stat().st_size
    blosc2.asarray(values, chunks=(20, 30), blocks=(10, 10), urlpath=fresh).vlmeta["unit"] = "mm"
    assert after <= fresh.stat().st_size + 256
    np.testing.assert_array_equal(reader[:], values)
    array[3, 4] = -1
    again = blosc2.open(path, mmap_mode=source)
    assert again[3, 4] == -1
    assert again.vlmeta["unit"] == "mm"
    assert reader[3, 4] == values[3, 4]


def test_a_super_chunk(tmp_path: Path) -> None:
    path = tmp_path / "x.b2frame"
    schunk = blosc2.SChunk(chunksize=4000, urlpath=str(path), cparams={"typesize": 1}, durable=True)
    rng = np.random.default_rng(2)
    for _ in range(20):
        schunk.append_data(rng.bytes(4000))
    for _ in range(10):
        schunk.delete_chunk(0)
    data = schunk[:]
    before, after = schunk.compact()
    assert after < 0.6 * before
    assert blosc2.open(path)[:] == data


def test_where_there_is_nothing_to_do(tmp_path: Path) -> None:
    array = blosc2.arange(5)
    before, after = array.compact()
    assert before == after
    path = tmp_path / "x.b2nd"
    blosc2.asarray(np.arange(5), urlpath=path)
    with pytest.raises(ValueError, match="mode"):
        blosc2.open(path, mode="r").compact()
