"""Files of embedded values: what a change costs, and what is kept of files of others."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.embedded_files import (
    apply,
    check_layout,
    filled,
    frame_of,
    put,
    values_of,
)
from hypothesis import given
from hypothesis import strategies as st

import blosc2
from blosc2._backends.embedded.frame_layout import raw_header
from blosc2._backends.embedded_map import MAP, open_embedded
from blosc2._core.codec.codec import Encoder, Encoding
from blosc2._core.leaves.embedded_values import counted

# What is looked at is one publication of several changes.
pytestmark = pytest.mark.usefixtures("changes_wait")


# ------------------------------------------------------------------ what stays, and what it costs
def test_the_cost_of_a_flush_does_not_grow_with_the_store(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        for n in range(4):
            store[f"/big{n}"] = np.random.default_rng(n).random(1 << 18)
        for n in range(100):
            store[f"/small{n}"] = [n]
    assert path.stat().st_size > 4 << 20
    added = []
    with blosc2.EmbedStore(path) as store:
        store["/first"] = [0]
        store.flush()  # the last chunk, which may be a long one, gets its end
        for n in range(60):
            size = path.stat().st_size
            store[f"/more{n}"] = [n]
            store.flush()
            added.append(path.stat().st_size - size)
    assert max(added) < 80_000
    assert len(values_of(path)) == 165
    check_layout(path)


@pytest.mark.parametrize("size", [100, 30_000, 3_000_000])
def test_dead_bytes_are_bounded(tmp_path: Path, size: int) -> None:
    """A store whose only value is replaced again and again does not grow without end."""
    path = tmp_path / "x.b2e"
    rng = np.random.default_rng(1)
    most = 0
    with blosc2.EmbedStore(path) as store:
        for _ in range(30):
            store["/v"] = rng.integers(0, 255, size, dtype="u1")
            store.flush(durable=False)
            most = max(most, path.stat().st_size)
        assert most < 4 * size + (3 << 20)
    check_layout(path)


def test_compact_after_many_changes(tmp_path: Path) -> None:
    """10,000 deletes and overwrites: afterwards the file is as small as a fresh one."""
    path, fresh = tmp_path / "x.b2e", tmp_path / "fresh.b2e"
    rng = random.Random(1)
    make = np.random.default_rng(1).random
    model: dict[str, Any] = {f"/k{n}": make(rng.choice([1, 8, 100])) for n in range(300)}
    with blosc2.EmbedStore(path) as store:
        store.update(model)
        store.flush()
        done = 0
        while done < 10_000:
            for _ in range(rng.randrange(1, 60)):
                key = f"/k{rng.randrange(300)}"
                if key in model and rng.random() < 0.5:
                    del store[key], model[key]
                else:
                    store[key] = model[key] = make(rng.choice([1, 8, 100]))
                done += 1
            store.flush(durable=False)
        before, after = store.compact()
        assert after == path.stat().st_size < before
        store["/later"] = [1]
        model["/later"] = np.array([1])
    assert values_of(path) == {key: value.tolist() for key, value in model.items()}
    check_layout(path)
    with blosc2.EmbedStore(fresh) as store:
        store.update(model)
    assert after <= 1.05 * fresh.stat().st_size


def test_compact_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    rng = np.random.default_rng(1)
    with blosc2.EmbedStore(path) as store:
        for n in range(24):
            store[f"/v{n}"] = rng.integers(0, 255, 2 << 20, dtype="u1")
            store.flush(durable=False)
        del store["/v3"]
        store.flush()
        tracemalloc.start()
        try:
            store.compact()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert path.stat().st_size > 40 << 20
    assert peak < 16 << 20


# ------------------------------------------------------------------ large values, long last chunks
def test_a_value_larger_than_a_chunk(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2e"
    rng = np.random.default_rng(1)
    small = {f"/s{n}": rng.random(500) for n in range(400)}
    with blosc2.EmbedStore(path) as store:
        store.update(small)
    chunksize = open_embedded(str(path), None).frame.chunksize
    size = path.stat().st_size
    large = rng.random(12_000)
    with blosc2.EmbedStore(path) as store:
        store["/large"] = large  # little beside the others: it is added as it is
        store.flush()
        assert path.stat().st_size < size + 250_000
        assert store.chunksize == chunksize
        np.testing.assert_array_equal(store["/large"][:], large)
        store.update({f"/large{n}": large for n in range(5)})  # now it pays to make chunks for them
        store.flush()
        assert store.chunksize > large.nbytes
    check_layout(path)
    with blosc2.EmbedStore(path, mode="r", mmap_mode=source) as reader:
        assert len(reader) == 406
        np.testing.assert_array_equal(reader["/large3"][:], large)
        np.testing.assert_array_equal(reader["/s399"][:], small["/s399"])


@pytest.mark.usefixtures("ends_as_it_is")
def test_a_long_last_chunk_is_not_written_over_and_over(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    rng = np.random.default_rng(1)
    with blosc2.EmbedStore(path) as store:
        store.update({f"/big{n}": rng.integers(0, 255, 1 << 20, dtype="u1") for n in range(6)})
    frame = frame_of(path)
    assert frame.chunksize == 4 * (frame.chunksize // 4)
    assert frame.nbytes % frame.chunksize > 1 << 20
    with blosc2.EmbedStore(path) as store:
        sizes = []
        for n in range(40):
            store[f"/small{n}"] = [n]
            store.flush(durable=False)
            sizes.append(path.stat().st_size)
    assert sizes[0] - 6 * (1 << 20) < 6 << 20
    assert sizes[-1] - sizes[0] < 40 * 20_000
    frame = frame_of(path)
    assert frame.nbytes % 64 == 0 or frame.nchunks > 2
    assert len(values_of(path)) == 46
    check_layout(path)


@pytest.mark.parametrize("nbytes", [1, 31, 32, 100, 70_000])
def test_raw_headers_are_those_of_the_library(nbytes: int) -> None:
    encoding = Encoding(5, 0, 0, False, 1, nbytes, 3, (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0))
    assert Encoder(encoding).encode_bytes(bytes(nbytes))[:32] == raw_header(nbytes)


# ------------------------------------------------------------------ frames of others
def test_values_that_go_and_come(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        store.flush()
        assert frame_of(path).nbytes == 0
        for n in range(3):
            store["/a"] = [n]
            store.flush()
            assert values_of(path) == {"/a": [n]}
            check_layout(path)
            del store["/a"]
            store.flush()
            assert frame_of(path).nbytes == 0
            assert values_of(path) == {}


def test_metadata_of_others_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path, meta={"mine": [1, 2]}) as store:
        store["/a"] = [1]
    schunk = blosc2.open(path.rename(tmp_path / "x.b2frame"), mode="a")
    schunk.vlmeta["note"] = {"x": 1}
    (tmp_path / "x.b2frame").rename(path)
    for turn in range(3):
        with blosc2.EmbedStore(path) as store:
            store[f"/b{turn}"] = [1]
            if turn == 2:
                store.flush()
                store.compact()
        frame = frame_of(path)
        assert set(frame.vlmeta_chunks()) == {MAP, "note"}
        assert set(frame.metalayers()) == {"b2embed", "mine", "_pad"}


@pytest.mark.usefixtures("ends_as_it_is")
def test_unverified_files_stay_unverified_until_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    filled(path)
    data = bytearray(path.read_bytes())
    data[86] = 0  # as every other writer does
    path.write_bytes(data)
    expected = apply(put, path)
    check_layout(path, verified=False)
    assert values_of(path) == expected
    with blosc2.EmbedStore(path) as store:
        store.compact()
    check_layout(path)


def test_a_header_of_more_than_a_sector_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path, meta={"mine": "x" * 600}) as store:
        store["/a"] = [1]
    inode = path.stat().st_ino
    with blosc2.EmbedStore(path) as store:
        store["/b"] = [1]
    assert path.stat().st_ino != inode
    check_layout(path)


lengths_of_maps = (
    st.integers(-(1 << 80), 1 << 80) | st.integers(0, 1000) | st.booleans() | st.none() | st.text(max_size=2)
)
entries_of_maps = st.dictionaries(st.sampled_from(["length", "offset", "urlbase", "\u00e4" * 40]), lengths_of_maps)


@given(st.dictionaries(st.text(max_size=50), entries_of_maps), st.integers(0, 1 << 62))
def test_the_lengths_of_a_hostile_map_are_summed(entries: dict[str, dict[str, Any]], limit: int) -> None:
    known = [n for entry in entries.values() if type(n := entry.get("length")) is int and 0 <= n <= limit]
    sums = len(known), sum(known), sum(n for n in known if 100 < n <= 500)
    assert counted(entries, limit, 100, 500) == sums
