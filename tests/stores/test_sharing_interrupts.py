"""Ctrl-C at any line of a change of a shared store: the lock is let go, and the change was made or not."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.interrupts import Interrupt
from store_makers import KINDS, Maker, makers, values_of

import blosc2

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="locks of POSIX"),
    # A file that was just opened is closed by the collector.
    pytest.mark.filterwarnings(
        "ignore:unclosed file:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

#: Of all lines, how many are tried in a short run.
_SOME = 25
BEFORE = {"/a": [1, 2], "/b": list(range(50)), "/c": [3]}
AFTER = {"/a": [4, 2], "/b": list(range(5)), "/e": [3], "/f": list(range(60))}


def in_one_transaction(store: Any) -> None:
    with store.transaction():
        one_by_one(store)


def one_by_one(store: Any) -> None:
    store["/a"][0] = 4
    store["/b"] = np.arange(5)
    store.rename("/c", "/e")
    store["/f"] = np.arange(60)


def by_update(store: Any) -> None:
    store.update({"/a": np.array([4, 2]), "/b": np.arange(5), "/e": np.array([3]), "/f": np.arange(60)})
    del store["/c"]


class OfEdits(Interrupt):
    """Counts only the lines that make pending changes of edits."""

    def watches(self, code: CodeType) -> bool:
        return code.co_name == "collect"


def play(act: Any, make: Maker, interrupt: Interrupt) -> Interrupt:
    """A change that is interrupted, and what can be done and seen afterwards."""
    with make("w", locking=True) as store:
        store.update({key: np.array(value) for key, value in BEFORE.items()})
        with interrupt, suppress(KeyboardInterrupt):
            act(store)
        where = f"{interrupt.where} (line {interrupt.at})"
        assert not store._table.has_changes, where
        shown = values_of(store)
        assert all(value in (BEFORE.get(key), AFTER.get(key)) for key, value in shown.items()), where
        if act is in_one_transaction and not make.is_directory:
            assert shown in (BEFORE, AFTER), where
        with make(locking=True, timeout=1) as other:
            assert values_of(other) == shown, where
            other["/more"] = [1]  # the lock is free
        store["/again"] = [2]
        assert values_of(store) == make.values() == {**shown, "/more": [1], "/again": [2]}, where
    assert blosc2.check(make.path).ok, where
    return interrupt


@pytest.mark.parametrize("act", [in_one_transaction, one_by_one, by_update])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_at_any_line(kind: str, act: Any, tmp_path: Path) -> None:
    new = makers(kind, tmp_path)
    lines = play(act, next(new), Interrupt(-1)).lines
    assert lines > 100
    step = 1 if FULL else max(1, lines // _SOME)
    for at in range(len(kind) % step, lines, step):
        play(act, next(new), Interrupt(at))


@pytest.mark.parametrize("act", [in_one_transaction, one_by_one])
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_while_edits_become_changes(kind: str, act: Any, tmp_path: Path) -> None:
    new = makers(kind, tmp_path)
    lines = play(act, next(new), OfEdits(-1)).lines
    assert lines >= 3
    for at in range(lines):
        play(act, next(new), OfEdits(at))
