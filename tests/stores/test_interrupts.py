"""Ctrl-C at any point of an operation: a store shows the old version or the new one, and works on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FULL
from sweeps import lines

import blosc2
from blosc2._stores import publish
from blosc2._stores.leaves.open_leaves import OpenLeaves

#: Of all points, how many are tried in a short run. It takes some of the cases; `tests/sweeps/run.py` draws from all.
_SOME = 2
CASES = lines.cases()[:: 1 if FULL else 7]


# What was opened when the interrupt came, a file or a folder, and is known to nobody yet, is closed by the collector.
@pytest.mark.filterwarnings("ignore:unclosed (file|scandir iterator):ResourceWarning")
@pytest.mark.parametrize("case", CASES)
def test_interrupts(case: str, tmp_path: Path) -> None:
    """At each point, or at some of them."""
    count = len(lines.count(case, tmp_path))
    for at in range(len(case) % 5, count, 1 if FULL else max(1, count // _SOME)):
        lines.play(case, at, tmp_path)


@pytest.mark.parametrize("nitems", [10, 100_000], ids=["small", "large"])
@pytest.mark.parametrize("act", ["set", "remove"])
def test_an_interrupt_before_an_open_leaf_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str, nitems: int
) -> None:
    """It must not stay open under a key that has another leaf by then, or none."""
    old, new, calls, forget = np.zeros(nitems), np.ones(nitems), [0], OpenLeaves.forget

    def interrupted(self: OpenLeaves, key: str) -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        return forget(self, key)

    with blosc2.TreeStore(tmp_path / "x.b2z", mode="w") as store:
        store["/a"] = old
        store.flush()
        held = store["/a"]
        monkeypatch.setattr(OpenLeaves, "forget", interrupted)
        with pytest.raises(KeyboardInterrupt):
            if act == "set":
                store["/a"] = new
            else:
                del store["/a"]
        np.testing.assert_array_equal(held[:], old)
        if act == "set":
            np.testing.assert_array_equal(store["/a"][:], new)
        else:
            with pytest.raises(KeyError):
                store["/a"]
    with blosc2.open(tmp_path / "x.b2z") as store:
        assert list(store) == (["/a"] if act == "set" else [])


@pytest.mark.parametrize("suffix", [".b2z", ".b2e", ".b2d"])
def test_an_interrupt_right_after_a_transaction_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """All of it stays, also what replaced changes that were pending before."""
    leave = publish.Publication._leave

    def interrupted(self: publish.Publication, failed: bool) -> None:
        if not failed:
            raise KeyboardInterrupt
        leave(self, failed)

    kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    with kind(str(tmp_path / f"x{suffix}"), mode="w") as store:
        store["/a"] = store["/b"] = np.zeros(5)
        store.flush()
        store["/b"] = np.ones(5)
        with pytest.raises(KeyboardInterrupt) as caught, store.transaction():
            del store["/a"]
            store["/b"] = store["/c"] = np.full(5, 2.0)
            monkeypatch.setattr(publish.Publication, "_leave", interrupted)
        monkeypatch.undo()
        if suffix != ".b2d":
            assert "others may see them" in str(caught.value.__notes__)
        assert list(store) == ["/b", "/c"]
        assert [store["/b"][0], store["/c"][0]] == [2, 2]
    assert blosc2.check(tmp_path / f"x{suffix}").ok
