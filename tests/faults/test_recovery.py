"""A disk that fails for a while: with a good disk again the same handle publishes what waits, whichever call failed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from faults.recorder import Fault, Recorder

NOISE = np.random.default_rng(3).integers(0, 1 << 62, 20_000)
KINDS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "b2e": (blosc2.EmbedStore, "x.b2e", {}),
    "b2z": (blosc2.DictStore, "x.b2z", {}),
    "b2z mixed": (blosc2.DictStore, "x.b2z", {"threshold": 3000}),
    "tree b2z": (blosc2.TreeStore, "x.b2z", {}),
    "b2d": (blosc2.DictStore, "x.b2d", {}),
}
# More than twice as many as are synced at the same time.
MANY = {f"/many/{n}": NOISE[n : n + 20] for n in range(18)}


def write_in_transaction(store: Any) -> None:
    with store.transaction():
        store["/t"] = NOISE[:900]


ACTS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "flush": (lambda store: store.flush(), {}),
    "flush without waiting": (lambda store: store.flush(durable=False), {}),
    "transaction": (write_in_transaction, {"/t": NOISE[:900]}),
    "write_many": (lambda store: store.write_many(MANY), MANY),
    "compact": (lambda store: store.compact(), {}),
    "close": (lambda store: store.close(), {}),
}
# Which calls fail, and how often something is tried before the disk is mended: what befalls one call only is over then.
FAULTS: list[tuple[Fault, int]] = [
    ("eio_on", 1), ("eio_on", 3), ("enospc", 1), ("enospc", 3), ("eio", 1), ("eio_late", 1), ("short", 1),
]  # fmt: skip


def begun(kind: str, folder: Path) -> tuple[Any, Path, dict[str, Any]]:
    """A store with something published and something that waits."""
    make, name, how = KINDS[kind]
    store = make(str(folder / name), mode="w", **how)
    values = {"/a": NOISE[:900], "/small": NOISE[:1], "/b": NOISE, "/c": NOISE[:2]}
    for number, (key, value) in enumerate(values.items()):
        store[key] = value
        if number == 1:
            store.flush()
    return store, folder / name, values


def expect(path: Path, values: dict[str, Any]) -> None:
    with blosc2.open(str(path)) as store:
        groups = {key.rpartition("/")[0] for key in values}  # a tree lists them, too
        assert sorted({*store} - groups) == sorted(values)
        for key, value in values.items():
            np.testing.assert_array_equal(store[key][...], value)
    assert blosc2.check(str(path)).ok


def fail(kind: str, act: str, fault: Fault, at: int, times: int, folder: Path) -> bool:
    """Have all calls fail from one on while something is done some times; False when there are not so many calls."""
    store, path, values = begun(kind, folder)
    do, more = ACTS[act]
    with Recorder(folder, fault, at) as recorder:
        failed = 0
        for _ in range(times):
            try:
                do(store)
                break
            except OSError:
                failed += 1
        recorder.mend()
        if not store.closed:
            if failed:
                do(store)
            store.close()
    expect(path, values | more)
    return bool(recorder.struck)


@pytest.mark.parametrize(("fault", "times"), FAULTS)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_position(kind: str, act: str, fault: Fault, times: int, tmp_path: Path) -> None:
    at = 1
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        if not fail(kind, act, fault, at, times, folder):
            break
        at += 1
    assert at > 1 or kind in ("b2e", "b2d")  # which may have published all before


@pytest.mark.parametrize("write", ["pwrite", "fsync"])
@pytest.mark.parametrize("look", ["fstat", "stat", "ftruncate"])
def test_looking_fails_too(look: str, write: str, tmp_path: Path) -> None:
    """What came of a write cannot be found out then, until the disk is well again."""
    for first in range(1, 20):
        folder = tmp_path / str(first)
        folder.mkdir()
        store, path, values = begun("b2z", folder)
        calls = 0

        def broken(*_: Any, **__: Any) -> Any:
            raise OSError(errno.EIO, "injected")

        with pytest.MonkeyPatch.context() as patched:
            real = getattr(os, write)

            def failing(*args: Any, real: Any = real, first: int = first, patched: Any = patched) -> Any:
                nonlocal calls
                calls += 1
                if calls >= first:
                    patched.setattr(os, look, broken)
                    raise OSError(errno.EIO, "injected")
                return real(*args)

            patched.setattr(os, write, failing)
            failed = 0
            for _ in range(3):
                try:
                    store.flush()
                except OSError:
                    failed += 1
        store.flush()
        store.close()
        expect(path, values)
        if not failed:
            assert first > 1
            return
    raise AssertionError("it never came to an end")


@pytest.mark.parametrize("change", ["append", "version", "replace"])
def test_what_others_do_meanwhile_is_still_refused(change: str, tmp_path: Path) -> None:
    """A failed append is no excuse: a version that another program published is neither cut off nor overwritten."""
    store, path, _ = begun("b2z", tmp_path)
    old = path.read_bytes()
    with Recorder(tmp_path, "eio_on", 3), pytest.raises(OSError, match="injected"):
        store.flush()
    other = tmp_path / "other.b2z"
    other.write_bytes(path.read_bytes()[: len(old)])
    with blosc2.DictStore(str(other), mode="a") as second:
        second["/theirs"] = NOISE[:5]
    if change == "append":
        with path.open("r+b") as file:
            file.write(other.read_bytes())
    elif change == "version":
        path.write_bytes(other.read_bytes())
    else:
        os.replace(other, path)
    now = path.read_bytes()
    with pytest.raises(OSError, match="somebody else"):
        store.flush()
    assert path.read_bytes() == now
    store.discard()
    store.close()
    assert path.read_bytes() == now
    with blosc2.open(str(path)) as opened:
        assert "/theirs" in opened
