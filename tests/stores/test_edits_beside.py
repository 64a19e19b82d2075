"""A leaf is edited, which takes no lock of its store, while another thread closes the store or replaces the leaf.

The edit is done and kept, or refused by an error.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import pytest
from faults import FULL
from store_makers import Maker

import blosc2

_PACKAGE = os.path.dirname(blosc2.__file__) + os.sep


class Beside:
    """Runs something in another thread before the n-th line of the package in this one; counts the lines."""

    def __init__(self, action: Callable[[], None], at: int = -1) -> None:
        self.thread, self.at = threading.Thread(target=action), at
        self.lines = 0

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line":
            self.lines += 1
            if self.lines - 1 == self.at:
                sys.settrace(None)
                self.thread.start()
                self.thread.join(0.3)  # a few lines have a lock that it waits for
        return self._trace


def close(store: Any) -> None:
    store.close()


def replace(store: Any) -> None:
    store["/a"] = np.array([9, 9])


def replace_by_list(store: Any) -> None:
    store["/a"] = [9, 9]


def take_back(store: Any) -> None:
    with pytest.raises(KeyError), store.transaction():
        store["/b"] = [0]
        raise KeyError


# What the other thread does, and what is there in the end: where the edit was refused, and where it was not.
ACTIONS: dict[str, tuple[Callable[[Any], None], list[int], list[int]]] = {
    "close": (close, [1, 2], [4, 2]),
    "replace": (replace, [9, 9], [9, 9]),
    "replace by a list": (replace_by_list, [9, 9], [9, 9]),
    "take back": (take_back, [1, 2], [4, 2]),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("kind", ["b2e", "b2z", "b2d", "b2d-embedded"])
def test_an_edit_is_kept_or_refused(kind: str, action: str, tmp_path: Path) -> None:
    act, refused, kept = ACTIONS[action]
    number, seen = 0, set()

    def prepared() -> tuple[Any, Maker]:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        make = Maker(kind, folder)
        with make("w") as store:
            store["/a"] = np.array([1, 2])
        return make("a"), make

    for _ in range(2):  # at first, some modules may have to be imported
        store, make = prepared()
        leaf = store["/a"]
        with Beside(lambda: None) as count:
            leaf[0] = 4
        store.close()
        assert make.values() == {"/a": [4, 2]}
    for at in range(0, count.lines, 1 if FULL else 5):
        store, make = prepared()
        leaf = store["/a"]
        beside = Beside(lambda: act(store), at)  # noqa: B023 - called before the next one
        try:
            with beside:
                leaf[0] = 4
            wanted = kept
        except (blosc2.exceptions.ClosedStoreError, RuntimeError):
            wanted = refused
        beside.thread.join()
        store.close()
        assert make.values() == {"/a": wanted}, f"before line {at}"
        seen.add(wanted is kept)
    assert True in seen
