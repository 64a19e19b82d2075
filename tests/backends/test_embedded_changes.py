"""Changes of files of embedded values: what a crash left, what others changed, and what fails late."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.embedded_files import Change, check_layout, delete, filled, overwrite, put, values_of

import blosc2

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
