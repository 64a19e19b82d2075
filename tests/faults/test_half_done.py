"""An operation on many leaves of a `.b2d` that fails, and cannot be taken back either: what is left completes it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import recount

import blosc2
from faults import FULL
from faults.crashes import FAST
from faults.recorder import Fault, Recorder


def noise(length: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).random(length)


def rename(store: Any) -> None:
    store.rename("/g", "/n")


def delete(store: Any) -> None:
    del store["/g"]


def update(store: Any) -> None:
    store.update({f"/g/k{n}": np.arange(310) for n in range(4)})


def write_many(store: Any) -> None:
    store.write_many({f"/g/k{n}": np.arange(310) for n in range(4)})


def rename_in_a_transaction(store: Any) -> None:
    with store.transaction():
        rename(store)
        store["/g"] = [5]


BEFORE = {**{f"/g/k{n}": list(range(n, 300 + n)) for n in range(4)}, "/g/h/s": [1], "/z": [2]}
RENAMED = {key.replace("/g/", "/n/"): items for key, items in BEFORE.items()}
CHANGED = {**BEFORE, **{f"/g/k{n}": list(range(310)) for n in range(4)}}
ACTS: dict[str, tuple[Callable[[Any], None], dict[str, list[int]]]] = {
    "rename": (rename, RENAMED),
    "del": (delete, {"/z": [2]}),
    "clear": (lambda store: store.clear(), {}),
    "update": (update, CHANGED),
    "write_many": (write_many, CHANGED),
    "transaction": (rename_in_a_transaction, {**RENAMED, "/g": [5]}),
}


def values(store: Any) -> dict[str, list[int]]:
    return {key: leaf[:].tolist() for key in store if isinstance(leaf := store[key], blosc2.NDArray)}


def play(act: str, threshold: int, fault: Fault, at: int) -> bool:
    """Do it with a fault at one call; False when there are not so many."""
    do, after = ACTS[act]
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        path = Path(folder, "x.b2d")
        with blosc2.TreeStore(path, mode="w", threshold=threshold) as store:
            store.update({key: np.array(items) for key, items in BEFORE.items()})
        with (
            blosc2.TreeStore(path, mode="a", threshold=threshold) as store,
            Recorder(Path(folder), fault, at) as recorder,
        ):
            told = ""
            try:
                do(store)
            except OSError as error:
                told = " ".join([str(error), *getattr(error, "__notes__", [])])
            recorder.mend()
            if not recorder.struck:
                return False
            with blosc2.TreeStore(path, mode="r") as reader:
                published = values(reader)
            shown = values(store)
            assert shown == after or (told and shown == published == BEFORE), told
            if published not in (BEFORE, after):
                assert "flush() again" in told
            recount(store, shown)
            store.flush()
            with blosc2.TreeStore(path, mode="r") as reader:
                recount(reader, shown)
            if shown != after:
                do(store)
            recount(store, after)
        assert blosc2.check(str(path)).ok
        with blosc2.TreeStore(path, mode="r") as reader:
            recount(reader, after)
    return True


@pytest.mark.parametrize("fault", ["eio", "eio_late", "eio_on", "enospc", "short"])
@pytest.mark.parametrize("threshold", [0, 100])
@pytest.mark.parametrize("act", ACTS)
def test_it_is_taken_back_or_completed(act: str, threshold: int, fault: Fault) -> None:
    at = 1
    while play(act, threshold, fault, at):
        at += 1 if FULL else 7
    assert at > 10


def outgrow(store: Any) -> None:
    store["/k"] = noise(400_000)


def outgrow_where_it_was(store: Any) -> None:
    store.rename("/k", "/old")
    store["/k"] = noise(400_000)
    del store["/big"]


@pytest.mark.parametrize("fault", ["eio", "eio_late", "eio_on"])
@pytest.mark.parametrize("act", [outgrow, outgrow_where_it_was])
def test_a_value_is_never_in_neither_place(act: Callable[[Any], None], fault: Fault, tmp_path: Path) -> None:
    """The file of embedded values is written anew, as there are too many dead bytes, and files come beside it."""
    struck = at = 0
    while at == struck:
        at += 1
        path = tmp_path / f"{at}.b2d"
        with blosc2.TreeStore(path, mode="w", threshold=2_000_000) as store:
            store.update({"/k": noise(200_000), "/big": noise(200_001), "/z": np.arange(3)})
        with (
            blosc2.TreeStore(path, mode="a", threshold=2_000_000) as store,
            Recorder(tmp_path, fault, at) as recorder,
        ):
            try:
                with store.transaction():
                    act(store)
            except OSError:
                assert recorder.struck
            recorder.mend()
            with blosc2.TreeStore(path, mode="r") as reader:
                now = values(reader)
                assert now["/z"] == [0, 1, 2]
                assert len(now["/k"]) in (200_000, 400_000)
                assert act is outgrow or 200_000 in (len(now["/k"]), len(now.get("/old", "")))
        struck += bool(recorder.struck)
    assert struck > 5
