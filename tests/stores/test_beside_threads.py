"""What other threads set while several keys are changed together is theirs: it is not taken back with them."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from store_makers import Maker, values_of


def in_thread(function: Callable[[], Any]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.mark.parametrize("count", [20, 300])
def test_an_update_that_fails(make: Maker, count: int) -> None:
    """With few items, and with as many as a `.b2z` writes at once."""

    def other() -> None:
        store["/k1"], store["/own"] = [2], [3]
        del store["/k2"]

    def items() -> Iterator[tuple[str, Any]]:
        for n in range(count):
            if n == 5:
                in_thread(other)
            yield f"/k{n}", [1]
        yield "/bad", object()

    with make("w") as store:
        store["/k0"], store["/k2"] = [7], [7]
        store.flush()
        with pytest.raises(TypeError):
            store.update(items())
        wanted = {"/k0": [7], "/k1": [2], "/own": [3]}
        assert values_of(store) == wanted
    assert make.values() == wanted


def test_an_update_whose_frames_were_moved_out_of_memory(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 2000)

    def items() -> Iterator[tuple[str, Any]]:
        for n in range(30):
            yield f"/k{n}", np.arange(n, n + 100)
            if n == 20:
                in_thread(lambda: store.__setitem__("/k3", [5]))
        yield "/bad", object()

    with make("w") as store:
        with pytest.raises(TypeError):
            store.update(items())
        assert values_of(store) == {"/k3": [5]}
    assert make.values() == {"/k3": [5]}


def test_a_transaction_that_cannot_be_published(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for its end sets its key afterwards, and keeps it."""
    with make("w") as store:
        store["/a"] = [1]
        store.flush()
        started, tries = threading.Event(), []

        def setter() -> None:
            started.wait()
            while True:
                try:
                    store["/own"] = [3]
                except RuntimeError:  # the transaction is under way: refused, as documented
                    continue
                return

        thread = threading.Thread(target=setter)
        thread.start()

        def fail(*_: Any, **__: Any) -> None:
            started.set()
            tries.append(thread.join(0.05))  # it waits for the lock by now
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(store._backend, "publish", fail)
            with pytest.raises(OSError, match="No space"), store.transaction():
                store["/c"] = [2]
            assert tries
        thread.join()
        assert values_of(store) == {"/a": [1], "/own": [3]}
    assert make.values() == {"/a": [1], "/own": [3]}


def test_leaves_of_a_writer_stay_live_when_it_looks_for_changes(make: Maker) -> None:
    with make("w") as store:
        store["/a"] = np.arange(3)
        store.flush()
        leaf = store["/a"]
        assert not store.refresh()
        leaf[0] = 5
        assert store["/a"][0] == 5
    assert make.values() == {"/a": [5, 1, 2]}
