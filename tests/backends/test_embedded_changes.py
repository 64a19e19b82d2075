"""Changes of files of embedded values: what is appended, when it becomes current, what is left when that fails."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.isolated import environment
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import blosc2
from blosc2._backends.embedded.changes import EmbeddedChanges
from blosc2._backends.embedded.file import EmbeddedFile
from blosc2._backends.embedded.frame_bytes import arrange, raw_header
from blosc2._backends.embedded.frame_map import MAP, Embedded, open_embedded
from blosc2._backends.layout import open_source
from blosc2._core.codec.codec import Encoder, Encoding
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.checksums import carried, verify_frame
from blosc2.exceptions import FormatError

# What is looked at is one publication of several changes.
pytestmark = pytest.mark.usefixtures("changes_wait")

# The header fields that an append may change: length, sizes, whether there is metadata, and the mark of checksums.
CHANGEABLE = {*range(16, 25), *range(30, 48), 68, 86}

Change = Callable[[blosc2.EmbedStore], None]


def values_of(path: str | Path, mmap_mode: str | None = None) -> dict[str, list[Any]]:
    with blosc2.EmbedStore(path, mode="r", mmap_mode=mmap_mode) as store:
        return {key: leaf[()].tolist() for key, leaf in store.items()}


def frame_of(path: str | Path) -> Frame:
    return Frame.open(Source.open(str(path)))


def filled(path: str | Path, number: int = 20, length: int = 30, seed: int = 1) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    values = {f"/g{n % 3}/v{n}": rng.random(length) for n in range(number)}
    with blosc2.EmbedStore(path, mode="w") as store:
        store.update(values)
    return {key: value.tolist() for key, value in values.items()}


def check_layout(path: str | Path, *, verified: bool = True) -> None:
    """What every file of ours must be: checksums that hold, chunks that decode, values that are windows."""
    embedded = open_embedded(str(path), None)
    frame = embedded.frame
    assert (carried(frame) is not None) == verified
    assert list(verify_frame(frame)) == []
    frame.check_all()
    assert os.path.getsize(path) == frame.frame_len
    for key, entry in embedded.entries.items():
        window = embedded.locate(key)
        assert window is not None
        if entry["length"] <= frame.chunksize:
            assert window[0] is frame.source
            assert window[1] % 64 == 0


# ------------------------------------------------------------------ one append
def put(store: blosc2.EmbedStore) -> None:
    store["/new"] = [1, 2, 3]
    store["/large"] = np.random.default_rng(3).random(6000)


def put_many(store: blosc2.EmbedStore) -> None:
    rng = np.random.default_rng(4)
    store.update({f"/many/{n}": rng.random(n) for n in range(300)})


def delete(store: blosc2.EmbedStore) -> None:
    del store["/g0/v0"]
    del store["/g1/v19"]


def overwrite(store: blosc2.EmbedStore) -> None:
    store["/g0/v0"] = [5]


def edit(store: blosc2.EmbedStore) -> None:
    store["/g0/v0"][3] = 7.5
    store["/g1/v1"].vlmeta["unit"] = "mm"


def rename(store: blosc2.EmbedStore) -> None:
    store.rename("/g0/v0", "/moved")
    store["/g0/v0"] = [1]
    store.rename("/g1/v1", "/g1/other")


def swap(store: blosc2.EmbedStore) -> None:
    store.rename("/g0/v0", "/between")
    store.rename("/g1/v1", "/g0/v0")
    store.rename("/between", "/g1/v1")


CHANGES: list[Change] = [put, put_many, delete, overwrite, edit, rename, swap]
each = pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])


def apply(change: Change, path: Path, *, verify: bool | None = None, **how: Any) -> dict[str, list[Any]]:
    """Make a change, and say what there must be afterwards, by what the store itself shows before it publishes."""
    store = blosc2.EmbedStore(path, verify=verify)
    change(store)
    expected = {key: leaf[()].tolist() for key, leaf in store.items()}
    store.close(**how)
    return expected


@each
@pytest.mark.parametrize("durable", [True, False])
def test_an_append_leaves_the_old_version_where_it_is(
    change: Change, durable: bool, tmp_path: Path, source: str | None
) -> None:
    path = tmp_path / "x.b2e"
    old_values = filled(path)
    before = path.read_bytes()
    reader = blosc2.EmbedStore(path, mode="r", mmap_mode=source)
    expected = apply(change, path, durable=durable)
    after = path.read_bytes()
    assert len(after) > len(before)
    assert {n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b} <= CHANGEABLE
    assert values_of(path, source) == expected
    check_layout(path)
    # Who had the old version open keeps it, and can ask for the new one.
    assert {key: leaf[:].tolist() for key, leaf in reader.items()} == old_values
    assert reader.refresh()
    assert {key: leaf[()].tolist() for key, leaf in reader.items()} == expected
    assert not reader.refresh()
    reader.close()


@each
def test_a_torn_append_shows_the_old_version(change: Change, tmp_path: Path, source: str | None) -> None:
    path, torn = tmp_path / "x.b2e", tmp_path / "torn.b2e"
    old_values = filled(path)
    before = path.read_bytes()
    expected = apply(change, path)
    after = path.read_bytes()
    added = len(after) - len(before)
    rng = random.Random(added)
    for cut in sorted({0, 1, added - 1, added, *(rng.randrange(added) for _ in range(25))}):
        torn.write_bytes(before + after[len(before) : len(before) + cut])
        assert values_of(torn, source) == old_values
    # The next append overwrites what an unfinished one left, be it longer than what it adds.
    torn.write_bytes(before + bytes(rng.randbytes(3 * added)))
    assert apply(change, torn) == expected
    assert values_of(torn, source) == expected
    assert torn.stat().st_size == len(after)
    check_layout(torn)


def test_the_remains_of_a_crash_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    values = filled(path)
    whole = path.read_bytes()
    directory = tmp_path / "x.b2d"
    with blosc2.DictStore(directory, threshold=1 << 20) as store:
        store["/a"] = [1]
    embed = directory / "embed.b2e"
    embedded = embed.read_bytes()
    for file, data in ((path, whole), (embed, embedded)):
        file.write_bytes(data + b"left by a crash")
    for how in ({"mode": "r"}, {"mode": "a", "exclusive": False}):  # there may be somebody at work
        blosc2.EmbedStore(path, **how).close()
        blosc2.DictStore(directory, **how).close()
        assert path.stat().st_size > len(whole)
        assert embed.stat().st_size > len(embedded)
    with blosc2.EmbedStore(path) as store, blosc2.DictStore(directory, threshold=1 << 20) as other:
        assert path.read_bytes() == whole
        assert embed.read_bytes() == embedded
        store["/new"] = other["/b"] = [2]
    assert values_of(path) == {**values, "/new": [2]}
    check_layout(embed)
    # Of a file that others wrote nobody knows what that is.
    data = bytearray(path.read_bytes() + b"something")
    data[86] = 0
    path.write_bytes(data)
    blosc2.EmbedStore(path).close()
    assert path.read_bytes() == data


@each
def test_part_of_a_header_is_never_taken_for_a_version(change: Change, tmp_path: Path) -> None:
    path, torn = tmp_path / "x.b2e", tmp_path / "torn.b2e"
    old_values = filled(path)
    before = path.read_bytes()
    expected = apply(change, path)
    after = path.read_bytes()
    for stop in range(16, 90):
        torn.write_bytes(before[:16] + after[16:stop] + before[stop:87] + after[87:])
        try:
            got = values_of(torn)
        except FormatError:
            continue
        assert got in (old_values, expected)


@each
@pytest.mark.parametrize("after", [True, False], ids=["written", "not written"])
def test_every_call_may_fail(
    change: Change, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None
) -> None:
    """Each write, sync and cut of an append fails once: the old version stays, and a second try succeeds."""
    path = tmp_path / "x.b2e"
    old_values = filled(path)
    original = path.read_bytes()
    import blosc2._backends.embedded.append as module

    plain_write, plain_sync = module._write_at, os.fsync

    def failing(call: Callable[..., Any], calls: Iterator[int], n: int) -> Callable[..., Any]:
        def guarded(*args: Any) -> Any:
            hit = next(calls) == n
            if not hit or after:
                call(*args)
            if hit:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return guarded

    for n in range(20):
        path.write_bytes(original)
        store = blosc2.EmbedStore(path)
        change(store)
        expected = {key: leaf[()].tolist() for key, leaf in store.items()}
        calls = iter(range(100))
        with monkeypatch.context() as patched, pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as raised:
            patched.setattr(module, "_write_at", failing(plain_write, calls, n))
            patched.setattr(os, "fsync", failing(plain_sync, calls, n))
            store.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "done")
        if raised.value.filename == "done":
            break
        assert values_of(path, source) == old_values
        store["/late"] = [1]
        store.close()
        assert values_of(path, source) == {**expected, "/late": [1]}
        check_layout(path)
    assert 4 <= n < 19  # the new part, its sync, the header, its sync


def put_large(store: blosc2.EmbedStore) -> None:
    put(store)
    store["/larger"] = np.random.default_rng(3).random(50_000)  # for which the file is written anew


@pytest.mark.parametrize("change", [*CHANGES, put_large], ids=lambda change: change.__name__)
def test_what_fails_after_it_was_published_is_done_again(
    change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.b2e"
    old_values = filled(path)
    store = blosc2.EmbedStore(path)
    change(store)
    for turn in range(3):
        expected = {key: leaf[()].tolist() for key, leaf in store.items()}
        with monkeypatch.context() as patched:
            # At first the store has to read what it had published before.
            opened = iter([open_source] if turn else [])

            def no_more_files(*what: Any) -> Any:
                for call in opened:  # noqa: B023 - it is used up in this turn
                    return call(*what)
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

            if turn == 1 and change is put_large:
                patched.setattr("blosc2._files.atomic_file.sync_folder", no_more_files)
                opened = iter([])
            else:
                patched.setattr("blosc2._backends.embedded.file.open_source", no_more_files)
            with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
                store.flush()
        assert values_of(path) == expected != old_values
        store.rename("/g2/v8" if turn == 0 else f"/again{turn - 1}", f"/again{turn}")
        store["/late"] = [turn]
    expected = {key: leaf[()].tolist() for key, leaf in store.items()}
    store.close()
    assert values_of(path) == expected
    assert expected["/again2"] == old_values["/g2/v8"]
    check_layout(path)


@pytest.mark.parametrize("after", [True, False], ids=["done", "not done"])
def test_writing_anew_may_fail(after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2e"
    old_values = filled(path)
    for name in ("fsync", "replace", "chmod"):
        for n in range(2 if name == "fsync" else 1):
            store = blosc2.EmbedStore(path)
            put_large(store)
            expected = {key: leaf[()].tolist() for key, leaf in store.items()}
            plain, calls = getattr(os, name), iter(range(100))

            def failing(*args: Any, **how: Any) -> None:
                hit = next(calls) == n  # noqa: B023 - it is used up in this turn
                if not hit or after:
                    plain(*args, **how)  # noqa: B023
                if hit:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))

            with monkeypatch.context() as patched:
                patched.setattr(os, name, failing)
                with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                    store.flush()
            assert values_of(path) in (old_values, expected)
            assert os.listdir(tmp_path) == ["x.b2e"]
            store["/late"] = [1]
            store.close()
            assert values_of(path) == {**expected, "/late": [1]}
            check_layout(path)
            filled(path)


def test_order_and_number_of_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2e"
    filled(path)
    import blosc2._backends.embedded.append as module

    done: list[Any] = []
    plain_write, plain_sync = module._write_at, os.fsync
    monkeypatch.setattr(module, "_write_at", lambda f, at, data: (done.append(at), plain_write(f, at, data)))
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append("sync"), plain_sync(fd)))
    with blosc2.EmbedStore(path) as store:
        store["/a"] = [1]
        end = path.stat().st_size
        store.flush()
        assert done == [end, "sync", 16, "sync"]
        done.clear()
        store["/a"] = [2]
        end = path.stat().st_size
        store.flush(durable=False)
        assert done == [end, 16]


def test_files_that_others_changed_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    filled(path)
    for spoil in (
        lambda data: data + b"x",
        lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    ):
        store = blosc2.EmbedStore(path)
        store["/a"] = [1]
        spoiled = spoil(path.read_bytes())
        path.write_bytes(spoiled)
        with pytest.raises(OSError, match="changed by somebody else"):
            store.flush()
        assert path.read_bytes() == spoiled
        store.discard()
        store.close()
        filled(path)


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
        steps: list[tuple[int, int]] = []
        reader = blosc2.EmbedStore(path, mode="r", mmap_mode="r")
        held = {key: leaf[:] for key, leaf in reader.items()}
        before, after = store.compact(lambda *step: steps.append(step))
        assert (before, after) == (before, path.stat().st_size)
        assert after < before
        assert steps[-1][0] == steps[-1][1] > 0
        assert steps == sorted(steps)
        store["/later"] = [1]
        model["/later"] = np.array([1])
    assert values_of(path) == {key: value.tolist() for key, value in model.items()}
    for key, value in held.items():
        np.testing.assert_array_equal(reader[key][:], value)
    reader.close()
    check_layout(path)
    with blosc2.EmbedStore(fresh) as store:
        store.update(model)
    assert after <= 1.05 * fresh.stat().st_size


def test_compact_of_what_is_compact(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    values = filled(path)
    size = path.stat().st_size
    with blosc2.EmbedStore(path) as store:
        assert store.compact() == (size, size)
        store.clear()
        before, after = store.compact()
        assert before < size
        assert after <= before
        assert values_of(path) == {}
        store["/a"] = [1]
    assert values
    assert values_of(path) == {"/a": [1]}


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


def test_a_failed_compact_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2e"
    filled(path)
    apply(delete, path)
    before = path.read_bytes()
    with blosc2.EmbedStore(path) as store:

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt(f"{done} of {total}")

        with pytest.raises(KeyboardInterrupt):
            store.compact(stop)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["x.b2e"]

        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", full)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                store.compact()
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["x.b2e"]
        store["/a"] = [1]
        store.flush()
        assert store.compact().after < len(before)
    check_layout(path)


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


def test_places_of_values() -> None:
    assert arrange([10, 64, 65, 1], 256) == [0, 64, 128, 256]
    assert arrange([100, 200], 256, 30) == [64, 256]
    assert arrange([300, 10], 256, 0) == [0, 320]  # longer than a chunk: from the start of one
    assert arrange([300, 10], 256, 1) == [256, 576]
    assert arrange([], 256, 5) == []
    assert arrange([0, 0, 256, 1], 256) == [0, 0, 0, 256]


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


def test_a_link_to_a_store_stays_one(tmp_path: Path) -> None:
    path, link = tmp_path / "x.b2e", tmp_path / "link.b2e"
    filled(path)
    link.symlink_to(path)
    with blosc2.EmbedStore(link) as store:
        store["/a"] = [1]
        store.flush()
        store.compact()
        store["/b"] = [2]
    assert link.is_symlink()
    assert {"/a", "/b"} <= set(values_of(path))


# ------------------------------------------------------------------ damage
def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_damage_in_the_last_chunk_is_still_found_after_an_append(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    filled(path, 5)
    embedded = open_embedded(str(path), None)
    window = embedded.locate("/g1/v4")
    assert window is not None
    flip(path, window[1] + 300)
    assert [finding.chunk for finding in verify_frame(frame_of(path))] == [0]
    apply(overwrite, path, verify=False)
    frame = frame_of(path)
    assert carried(frame) is not None
    assert [finding.chunk for finding in verify_frame(frame)] == [0]


def test_damaged_values_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        rng = np.random.default_rng(1)
        store.update({f"/v{n}": rng.random(3000) for n in range(20)})
    embedded = open_embedded(str(path), None)
    window = embedded.locate("/v0")
    assert window is not None
    flip(path, window[1] + 1000)
    before = path.read_bytes()
    with blosc2.EmbedStore(path) as store:
        with pytest.raises(FormatError, match="not those that were written"):
            store.compact()
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["x.b2e"]
        for _ in range(40):  # far more dead bytes than would otherwise be left
            store["/v19"] = rng.random(15_000)
            store.flush(durable=False)
    assert [finding.chunk for finding in verify_frame(frame_of(path))] == [0]
    with blosc2.EmbedStore(path, mode="r", verify=False) as store:
        assert len([leaf[()] for leaf in store.values()]) == 20
    # Without the values around the damage there is nothing left to be afraid of.
    with blosc2.EmbedStore(path) as store:
        for n in range(10):
            del store[f"/v{n}"]
        store.compact()
    check_layout(path)


def test_a_damaged_map_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    filled(path)
    store = blosc2.EmbedStore(path)
    store["/a"] = [1]
    frame = frame_of(path)
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[frame.frame_len - 60] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(FormatError):
        store.flush()
    assert path.read_bytes() == data
    store.discard()
    store.close()


# ------------------------------------------------------------------ readers beside a writer
def test_a_reader_beside_a_writer(tmp_path: Path, source: str | None) -> None:
    """A reader opens and refreshes all the time: it sees whole versions only, and none goes back."""
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path, mode="w") as store:
        for n in range(5):
            store[f"/v{n}"] = np.full(200, 0)
    stop = threading.Event()
    errors: list[BaseException] = []
    versions = []

    def read() -> None:
        try:
            last = 0
            held: list[tuple[Any, int]] = []
            with blosc2.EmbedStore(path, mode="r", mmap_mode=source) as follower:
                while not stop.is_set():
                    with blosc2.EmbedStore(path, mode="r", mmap_mode=source) as reader:
                        seen = {int(reader[f"/v{n}"][50]) for n in range(5)}
                        held.append((reader["/v3"], min(seen)))
                    assert len(seen) == 1
                    assert min(seen) >= last
                    last = min(seen)
                    follower.refresh()
                    now = {int(follower[f"/v{n}"][-1]) for n in range(5)}
                    assert len(now) == 1
                    assert min(now) >= last
                    versions.append(last)
                    for leaf, value in held[-20:]:
                        assert (leaf[:] == value).all()
        except BaseException as error:  # noqa: BLE001 - a thread must report whatever goes wrong
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        with blosc2.EmbedStore(path) as store:
            until = time.monotonic() + 1.0
            number = 0
            while time.monotonic() < until or len(set(versions)) < 3:
                number += 1
                for n in range(5):
                    store[f"/v{n}"] = np.full(200, number)
                store.flush(durable=False)
                if number % 40 == 0:
                    store.compact()
                if errors:
                    break
    finally:
        stop.set()
        thread.join()
    assert errors == []


WRITER = """
import sys
import numpy as np
import blosc2

store = blosc2.EmbedStore(sys.argv[1])
version = int(store["/v0"][0])
while True:
    version += 1
    with store.transaction():
        for n in range(4):
            store[f"/v{n}"] = np.full(50 + 700 * n, version)
        store[f"/new{version % 50}"] = np.full(10, version)
        if version % 3 == 0:
            store.rename(f"/new{version % 50}", f"/moved{version}")
    if version % 11 == 0:
        store.compact()
    print(version, flush=True)
"""


def test_a_killed_writer_leaves_a_whole_version(tmp_path: Path) -> None:
    rng = random.Random(20261121)
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        for n in range(4):
            store[f"/v{n}"] = np.full(50 + 700 * n, 0)
    last = 0
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert int(writer.stdout.readline()) > last  # it is under way
            time.sleep(rng.uniform(0, 0.1))
            writer.kill()
            written = writer.stdout.read().split()
        with blosc2.EmbedStore(path, mode="r", mmap_mode="r") as store:
            now = {int(value) for n in range(4) for value in store[f"/v{n}"][:]}
            assert len(now) == 1
            (version,) = now
            assert version >= (int(written[-1]) if written else last + 1)
            assert len(store) >= 4 + (version - last) // 50
            for key, leaf in store.items():
                assert len(set(leaf[:].tolist())) == 1, key
        frame = frame_of(path)
        assert carried(frame) is not None
        assert list(verify_frame(frame)) == []
        last = version
    with blosc2.EmbedStore(path) as store:
        store.compact()
    check_layout(path)
    for leftover in tmp_path.iterdir():  # a kill in the middle of `compact` leaves its file
        assert leftover == path or leftover.name.endswith(".tmp")


# ------------------------------------------------------------------ in a directory
def test_embedded_values_of_a_directory_are_appended(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.TreeStore(path, mode="w", threshold=1 << 20) as store:
        for n in range(50):
            store[f"/g/v{n}"] = np.full(20, n)
        store["/g"].vlmeta["unit"] = "mm"
    embed = path / "embed.b2e"
    before = embed.read_bytes()
    inode = embed.stat().st_ino
    reader = blosc2.TreeStore(path, mode="r", mmap_mode=source)
    with blosc2.TreeStore(path, threshold=1 << 20) as store:
        store["/g/new"] = [1]
        del store["/g/v3"]
        store["/g/v4"][0] = 99
        store.rename("/g/v5", "/h/v5")
        store["/g"].vlmeta["count"] = 3
    after = embed.read_bytes()
    assert embed.stat().st_ino == inode
    assert {n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b} <= CHANGEABLE
    check_layout(embed)
    assert Embedded((Source.open(str(embed)), 0, -1)).kind == "b2tree"
    assert reader["/g/v3"][0] == 3
    reader.close()
    for turn in range(2):
        with blosc2.TreeStore(path, mode="r", mmap_mode=source) as store:
            assert "/g/v3" not in store
            assert store["/g/v4"][:2].tolist() == [99, 4]
            assert store["/h/v5"][0] == 5
            assert store["/g"].vlmeta[:] == {"unit": "mm", "count": 3}
            assert len(store["/g"]) == 49
        if turn == 0:
            with blosc2.TreeStore(path, threshold=1 << 20) as store:
                before_size, after_size = store.compact()
                assert after_size < before_size
    assert embed.stat().st_size < len(after)
    check_layout(embed)


def test_a_directory_of_many_changes_is_compact(tmp_path: Path) -> None:
    path, fresh = tmp_path / "x.b2d", tmp_path / "fresh.b2d"
    rng = random.Random(2)
    model: dict[str, Any] = {}
    with blosc2.DictStore(path, threshold=1 << 20) as store:
        for _ in range(40):
            for _ in range(20):
                key = f"/k{rng.randrange(60)}"
                if key in model and rng.random() < 0.4:
                    del store[key], model[key]
                else:
                    store[key] = model[key] = np.arange(rng.randrange(1, 50))
            store.flush(durable=False)
        store.compact()
    with blosc2.DictStore(fresh, threshold=1 << 20) as store:
        store.update(model)
    with blosc2.DictStore(path, mode="r") as store:
        assert {key: leaf[:].tolist() for key, leaf in store.items()} == {k: v.tolist() for k, v in model.items()}
    assert (path / "embed.b2e").stat().st_size <= 1.05 * (fresh / "embed.b2e").stat().st_size


def test_a_failed_append_in_a_directory_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.DictStore(path, threshold=1 << 20) as store:
        store["/a"] = [1]
        store["/c"] = [3]
    import blosc2._backends.embedded.append as module

    for n in range(2):
        store = blosc2.DictStore(path, threshold=1 << 20)
        store["/b"] = [2 + n]
        del store["/c"]
        with monkeypatch.context() as patched:
            plain_write, calls = module._write_at, iter(range(100))

            def failing(*args: Any) -> None:
                if next(calls) == n:  # noqa: B023 - it is used up in this turn
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                plain_write(*args)  # noqa: B023

            patched.setattr(module, "_write_at", failing)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                store.flush()
        with blosc2.DictStore(path, mode="r") as reader:
            assert sorted(reader) == ["/a", "/c"] if n == 0 else ["/a", "/b", "/c"]
        store.close()
        with blosc2.DictStore(path, threshold=1 << 20) as store:
            assert sorted(store) == ["/a", "/b"]
            assert store["/b"][0] == 2 + n
            store["/c"] = [3]


# ------------------------------------------------------------------ against a dictionary
@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits so small that every road is taken by small stores."""
    monkeypatch.setattr("blosc2._backends.embedded.frame_bytes._LEAST_CHUNK", 1 << 10)
    for module in ("frame_bytes", "append"):
        monkeypatch.setattr(f"blosc2._backends.embedded.{module}.LARGEST_CHUNK", 1 << 13)
        monkeypatch.setattr(f"blosc2._backends.embedded.{module}._PIECE", 1 << 9)
    monkeypatch.setattr("blosc2._backends.embedded.frame_bytes._ZEROS", bytes(1 << 9))
    monkeypatch.setattr("blosc2._backends.embedded.append._SHORT_TAIL", 1 << 10)
    monkeypatch.setattr("blosc2._backends.embedded.append._SLACK", 1 << 14)
    return


@pytest.mark.usefixtures("small_limits")
def test_as_a_dictionary(tmp_path: Path) -> None:
    names = st.sampled_from([f"/{letter}" for letter in "abcdefgh"])
    counter = iter(range(10**9))

    class Machine(RuleBasedStateMachine):
        @initialize(number=st.sampled_from([0, 3, 30]))
        def create(self, number: int) -> None:
            self.path = tmp_path / f"m{next(counter)}.b2e"
            self.store = blosc2.EmbedStore(self.path, chunksize=64)
            self.now: dict[str, list[int]] = {}
            self.readers: list[tuple[blosc2.EmbedStore, dict[str, list[int]]]] = []
            for n in range(number):
                self.put(f"/many{n}", 40, n)
            self.flush(True)

        @rule(key=names, length=st.sampled_from([0, 1, 9, 60, 300, 1500]), seed=st.integers(0, 9))
        def put(self, key: str, length: int, seed: int) -> None:
            value = np.random.default_rng(seed).integers(0, 1 << 60, length)
            self.store[key] = value
            self.now[key] = value.tolist()

        @rule(key=names)
        def delete(self, key: str) -> None:
            if key in self.now:
                del self.store[key], self.now[key]

        @rule(old=names, new=names)
        def rename(self, old: str, new: str) -> None:
            if old in self.now and new not in self.now:
                self.store.rename(old, new)
                self.now[new] = self.now.pop(old)

        @rule(key=names, number=st.integers(0, 1000))
        def edit(self, key: str, number: int) -> None:
            if self.now.get(key):
                self.store[key][0] = number
                self.now[key] = [number, *self.now[key][1:]]

        @rule(durable=st.booleans())
        def flush(self, durable: bool) -> None:
            self.store.flush(durable)
            check_layout(self.path)
            assert values_of(self.path) == self.now

        @rule()
        def compact(self) -> None:
            self.store.compact()
            self.flush(True)

        @rule()
        def reopen(self) -> None:
            self.store.close()
            self.store = blosc2.EmbedStore(self.path, chunksize=64)

        @rule(mode=st.sampled_from([None, "r"]))
        def open_reader(self, mode: str | None) -> None:
            self.readers.append((blosc2.EmbedStore(self.path, mode="r", mmap_mode=mode), values_of(self.path)))

        @invariant()
        def readers_keep_their_version(self) -> None:
            for reader, values in getattr(self, "readers", ()):
                assert {key: leaf[:].tolist() for key, leaf in reader.items()} == values

        @invariant()
        def same(self) -> None:
            if hasattr(self, "store"):
                assert {key: leaf[:].tolist() for key, leaf in self.store.items()} == self.now

        def teardown(self) -> None:
            if hasattr(self, "store"):
                self.store.close()
                for reader, _ in self.readers:
                    reader.close()
                assert values_of(self.path) == self.now

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_publishing_without_a_store(tmp_path: Path) -> None:
    """The parts by themselves, as other stores use them."""
    frame = blosc2.asarray(np.arange(5)).to_cframe()
    window = (Source.of_buffer(frame), 0, len(frame))
    file = EmbeddedFile(str(tmp_path / "sub" / "x.b2e"))
    first = file.publish(EmbeddedChanges("b2dict", None, {"/a": window}, metadata={"extra": raw_header(1) + b"\xc0"}))
    pending = file.prepare(EmbeddedChanges("b2dict", first, {"/b": window}))
    assert list(open_embedded(file.path, None).entries) == ["/a"]
    pending.abandon()
    assert os.path.getsize(file.path) == first.frame.frame_len
    second = file.publish(EmbeddedChanges("b2dict", first, {"/b": window}))
    assert list(open_embedded(file.path, "r").entries) == list(second.entries) == ["/a", "/b"]
    assert second.frame.vlmeta("extra") == b"\xc0"
    # A file of another kind is written anew, and so is what a caller wants to be.
    inode = os.stat(file.path).st_ino
    third = file.publish(EmbeddedChanges("b2tree", second, {}))
    assert third.kind == "b2tree"
    assert os.stat(file.path).st_ino != inode
    shutil.rmtree(tmp_path / "sub")
    with pytest.raises(OSError):
        file.publish(EmbeddedChanges("b2tree", third, {"/c": window}))
