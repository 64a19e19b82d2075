"""Saves that fail: their messages name what the caller named, and no temporary file beside it."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from faults.crashes import FAST
from faults.injection import check_words
from faults.recorder import Recorder

ITEMS = np.arange(200_000).reshape(400, 500)


def _store(folder: Path) -> Any:
    with blosc2.TreeStore(str(folder / "made.b2z"), mode="w") as store:
        store["/a/b"], store["/c"] = ITEMS, ITEMS[:5]
    return blosc2.open(str(folder / "made.b2z"), mode="r")


def _copied(folder: Path, how: str) -> None:
    with _store(folder) as store:
        getattr(store, how)(str(folder / f"copy.{how[3:]}"))


def _compacted(folder: Path) -> None:
    _store(folder).close()
    with blosc2.TreeStore(str(folder / "made.b2z"), mode="a") as store:
        store["/c"] = ITEMS[:9]
        store.flush()
        store.compact()


def _converted(folder: Path) -> None:
    np.savez(folder / "in.npz", x=ITEMS)
    blosc2.convert(str(folder / "in.npz"), str(folder / "out.b2z"))


def _merged(folder: Path) -> None:
    _store(folder).close()
    blosc2.merge([folder / "made.b2z"], folder / "merged.b2d")


SAVES: dict[str, Callable[[Path], Any]] = {
    "array": lambda folder: blosc2.asarray(ITEMS, urlpath=str(folder / "a.b2nd")),
    "directory": lambda folder: blosc2.asarray(ITEMS, urlpath=str(folder / "a.b2nd"), contiguous=False),
    "replaced": lambda folder: [blosc2.asarray(ITEMS, urlpath=str(folder / "a.b2nd"), mode="w") for _ in range(2)],
    "save_array": lambda folder: blosc2.save_array(ITEMS, str(folder / "a.b2frame")),
    "save": lambda folder: blosc2.asarray(ITEMS).save(str(folder / "a.b2nd")),
    "store": _store,
    "to_b2z": lambda folder: _copied(folder, "to_b2z"),
    "to_b2d": lambda folder: _copied(folder, "to_b2d"),
    "compact": _compacted,
    "convert": _converted,
    "merge": _merged,
}


@pytest.mark.parametrize("fault", ["eio", "enospc"])
@pytest.mark.parametrize("name", SAVES)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # stores that are dropped on a full disk
def test_messages_name_what_the_caller_named(name: str, fault: Any) -> None:
    told = 0
    for at in range(1, 60):
        with tempfile.TemporaryDirectory(dir=FAST) as folder:
            with Recorder(Path(folder), fault, at) as recorder:
                try:
                    SAVES[name](Path(folder))
                except (OSError, RuntimeError, ValueError) as error:
                    told += 1
                    check_words(error)
                recorder.mend()  # a store that is dropped publishes what waits
                gc.collect()
            if not recorder.struck:
                break
    assert told
