"""Changes of files of embedded values: what is appended, when it becomes current, what is left when that fails."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.embedded_files import (
    CHANGEABLE,
    Change,
    apply,
    check_layout,
    delete,
    filled,
    overwrite,
    put,
    values_of,
)

import blosc2
from blosc2.exceptions import FormatError

# What is looked at is one publication of several changes.
pytestmark = pytest.mark.usefixtures("changes_wait")


def put_many(store: blosc2.EmbedStore) -> None:
    rng = np.random.default_rng(4)
    store.update({f"/many/{n}": rng.random(n) for n in range(300)})


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


@pytest.mark.usefixtures("ends_as_it_is")
@pytest.mark.local
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


@pytest.mark.usefixtures("ends_as_it_is")
@each
def test_a_half_written_append_shows_the_old_version(change: Change, tmp_path: Path, source: str | None) -> None:
    path, half = tmp_path / "x.b2e", tmp_path / "half.b2e"
    old_values = filled(path)
    before = path.read_bytes()
    expected = apply(change, path)
    after = path.read_bytes()
    added = len(after) - len(before)
    rng = random.Random(added)
    for cut in sorted({0, 1, added - 1, added, *(rng.randrange(added) for _ in range(25))}):
        half.write_bytes(before + after[len(before) : len(before) + cut])
        assert values_of(half, source) == old_values
    # The next append overwrites what an unfinished one left, be it longer than what it adds.
    half.write_bytes(before + bytes(rng.randbytes(3 * added)))
    assert apply(change, half) == expected
    assert values_of(half, source) == expected
    assert half.stat().st_size == len(after)
    check_layout(half)


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
    # In a file of another program the extra bytes may mean something: they stay.
    data = bytearray(path.read_bytes() + b"something")
    data[86] = 0
    path.write_bytes(data)
    blosc2.EmbedStore(path).close()
    assert path.read_bytes() == data


@each
def test_part_of_a_header_is_never_taken_for_a_version(change: Change, tmp_path: Path) -> None:
    path, half = tmp_path / "x.b2e", tmp_path / "half.b2e"
    old_values = filled(path)
    before = path.read_bytes()
    expected = apply(change, path)
    after = path.read_bytes()
    for stop in range(16, 90):
        half.write_bytes(before[:16] + after[16:stop] + before[stop:87] + after[87:])
        try:
            got = values_of(half)
        except FormatError:
            continue
        assert got in (old_values, expected)


@each
@pytest.mark.usefixtures("changes_wait")  # on a slow disk some would be published before
@pytest.mark.parametrize("after", [True, False], ids=["written", "not written"])
def test_every_call_may_fail(
    change: Change, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None
) -> None:
    """Each write, sync and cut of an append fails once: the old version stays, and a second try succeeds."""
    path = tmp_path / "x.b2e"
    old_values = filled(path)
    original = path.read_bytes()
    import blosc2._frames.append as module

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
            store.close()  # not by the collector, in the midst of the next test
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

            def no_more_files(*_: Any) -> Any:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

            if turn == 0 and change is put_large:
                patched.setattr("blosc2._files.atomic_file.sync_folder", no_more_files)
            else:
                patched.setattr("blosc2._backends.embedded.backend.open_source", no_more_files)
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
            path.chmod(0o600)  # which the new file gets, too
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
    import blosc2._frames.append as module

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
