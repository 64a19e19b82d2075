"""Finalizers and signal handlers that use a store while a call of the same thread changes or publishes it.

The lock of the store does not keep them out. What they do is done, or refused by an error, and nothing else is lost.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.lines import AtLine
from store_makers import KINDS, Maker, makers, values_of

import blosc2

#: Of all lines, how many are tried in a short run.
_SOME = 3
REFUSED = "this thread is in the middle of changing or publishing the store"


class Between(AtLine):
    """Does something once, before the n-th line of the package.

    Attributes
    ----------
    done : bool
        Whether that was done: not refused.
    """

    def __init__(self, action: Callable[[], None], at: int = -1) -> None:
        super().__init__(at)
        self.action, self.done = action, False

    def come(self) -> None:
        try:
            self.action()
            self.done = True
        except (RuntimeError, blosc2.exceptions.ClosedStoreError):
            pass


BEFORE = {"/g/a": [1, 2], "/g/b": list(range(50)), "/c": [3], "/d": list(range(9)), "/e": [5]}


def edit(store: Any) -> None:
    store["/c"][0] = 4
    store.flush()


def transact(store: Any) -> None:
    with store.transaction():
        store["/c"], store["/new"] = [4], np.arange(30)
        del store["/g/a"]


def close(store: Any) -> None:
    store["/new"] = np.arange(30)
    store.close()


def without(*keys: str, **more: Any) -> dict[str, Any]:
    return {key: value for key, value in BEFORE.items() if key not in keys} | {f"/{key}": more[key] for key in more}


# What a call does to the store, and what it has then.
CALLS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "set": (lambda store: store.__setitem__("/new", list(range(30))), without(new=list(range(30)))),
    "set an array": (lambda store: store.__setitem__("/new", np.arange(30)), without(new=list(range(30)))),
    "delete": (lambda store: store.__delitem__("/g/a"), without("/g/a")),
    "flush": (lambda store: store.flush(), BEFORE),
    "edit": (edit, without(c=[4])),
    "rename": (lambda store: store.rename("/c", "/new"), without("/c", new=[3])),
    "update": (lambda store: store.update({"/c": [4], "/new": [6]}), without(c=[4], new=[6])),
    "transaction": (transact, without("/g/a", c=[4], new=list(range(30)))),
    "write_many": (lambda store: store.write_many({"/c": [4], "/new": [6]}), without(c=[4], new=[6])),
    "compact": (lambda store: store.compact(), BEFORE),
    "close": (close, without(new=list(range(30)))),
}


def edit_another(store: Any) -> None:
    store["/e"][0] = 8


ACTIONS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "set": (lambda store: store.__setitem__("/between", [7]), {"/between": [7]}),
    "set an array": (lambda store: store.__setitem__("/between", np.array([7])), {"/between": [7]}),
    "delete": (lambda store: store.__delitem__("/d"), {"/d": None}),
    "flush": (lambda store: store.flush(), {}),
    "edit": (edit_another, {"/e": [8]}),
    "read": (lambda store: (store["/e"][:], list(store), store.read("/d")), {}),
    "update": (lambda store: store.update({"/between": [7], "/e": [8]}), {"/between": [7], "/e": [8]}),
}


def filled(make: Maker, **more: Any) -> Any:
    with make("w") as store:
        store.update({key: np.array(value) for key, value in BEFORE.items()})
    store = make("a", **more)
    store["/e"] = np.array([5])  # which waits to be published
    return store


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("kind", [*KINDS, "b2z, locking"])
def test_at_each_line(kind: str, action: str, call: str, tmp_path: Path) -> None:
    """Once for each line, or for some of them."""
    act, after = CALLS[call]
    between, then = ACTIONS[action]
    kind, _, locking = kind.partition(", ")
    more = {"locking": True} if locking else {}
    new = makers(kind, tmp_path)

    def prepared() -> tuple[Any, Maker]:
        make = next(new)
        return filled(make, **more), make

    for _ in range(2):  # at first, some modules may have to be imported
        store, make = prepared()
        with Between(lambda: None) as count:
            act(store)
        store.close()
        assert make.values() == after
    for at in range(len(kind + call), count.lines, 1 if FULL else max(1, count.lines // _SOME)):
        store, make = prepared()
        came = Between(lambda: between(store), at)  # noqa: B023 - called before the next one
        try:
            with came:
                act(store)
            wanted = after | (then if came.done else {})
            wanted = {key: value for key, value in wanted.items() if value is not None}
            if not store.closed:
                assert values_of(store) == wanted
                store.close()
            assert make.values() == wanted
            assert locking or os.listdir(make.path.parent) == [make.path.name]
        except BaseException as error:
            error.add_note(f"before {came.where}, line {at} of all; done: {came.done}")
            raise


@pytest.mark.parametrize("kind", ["b2z", "b2d"])
def test_what_is_set_is_published_at_once(kind: str, tmp_path: Path) -> None:
    """With ``locking=True`` also what comes in between when a change has just been published, or it is refused."""
    new = makers(kind, tmp_path)

    def prepared() -> tuple[Any, Maker]:
        make = next(new)
        return filled(make, locking=True), make

    for _ in range(2):
        store, make = prepared()
        with Between(lambda: None) as count:
            store["/new"] = [1]
        store.close()
    for at in range(0, count.lines, 1 if FULL else max(1, count.lines // 100)):
        store, make = prepared()
        came = Between(lambda: store.__setitem__("/between", [7]), at)  # noqa: B023 - called before the next one
        with came:
            store["/new"] = [1]
        assert ("/between" in make.values()) == came.done, f"before {came.where}"
        store.close()


# ------------------------------------------------------------------ the collector
class Circle:
    """Garbage that only the collector finds; something is done when it does."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action, self.me = action, self

    def __del__(self) -> None:
        self.action()


@pytest.mark.parametrize("kind", ["b2e", "b2z", "tree-b2z"])
@pytest.mark.parametrize("call", ["set an array", "delete", "write_many"])
def test_a_finalizer_flushes(kind: str, call: str, tmp_path: Path) -> None:
    """The collector runs after so many new objects: also between the steps of native code."""
    act, after = CALLS[call]
    new = makers(kind, tmp_path)
    for at in range(1, 25):
        make = next(new)
        store = filled(make)
        store["/h"] = store["/i"] = np.arange(3)  # from now on arrays are set in native steps
        came: list[str] = []

        def flush(store: Any = store, came: list[str] = came) -> None:
            gc.disable()  # once is enough
            try:
                store.flush()
                came.append("")
            except RuntimeError as error:
                came.append(str(error))

        gc.collect()
        gc.disable()
        thresholds = gc.get_threshold()
        try:
            Circle(flush)
            gc.set_threshold(at)
            gc.enable()
            act(store)
        finally:
            gc.disable()
            gc.set_threshold(*thresholds)
            gc.enable()
        gc.collect()
        assert len(came) == 1
        wanted = {**after, "/h": [0, 1, 2], "/i": [0, 1, 2]}
        assert values_of(store) == wanted
        store.close()
        assert make.values() == wanted


# ------------------------------------------------------------------ what is said
def test_what_a_refusal_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation that would change the store or publish it, and nothing is touched."""
    store = blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w")
    store["/g/a"] = store["/b"] = np.arange(3)
    store.flush()
    store["/c"] = np.arange(3)
    refused = []

    def refuse(what: str, operation: Callable[[], Any]) -> None:
        with pytest.raises(RuntimeError, match=f"cannot {what}: {REFUSED}.*after the call, or in another thread"):
            operation()
        refused.append(what)

    def beside(*given: Any, **more: Any) -> Any:
        refuse("set items", lambda: store.__setitem__("/d", np.arange(3)))
        refuse("set items", lambda: store.update({"/d": [1]}))
        refuse("delete items", lambda: store.__delitem__("/b"))
        refuse("delete items", lambda: store.pop("/b"))
        refuse("delete items", store.clear)
        refuse("rename", lambda: store.rename("/b", "/d"))
        refuse("make groups", lambda: store.create_group("/h"))
        refuse("set attributes", lambda: store["/g"].attrs.update(x=1))
        refuse("begin a transaction", lambda: store.transaction().__enter__())
        refuse("write many items", lambda: store.write_many({"/d": [1]}))
        refuse("flush", store.flush)
        refuse("compact", store.compact)
        refuse("refresh", store.refresh)
        refuse("discard changes", store.discard)
        refuse("copy the store", lambda: store.to_b2d(str(tmp_path / "copy.b2d")))
        refuse("close the store", store.close)
        refuse("close the store", lambda: store.__exit__(None, None, None))
        return publish(*given, **more)

    publish = type(store._table.backend).publish
    monkeypatch.setattr(type(store._table.backend), "publish", beside)
    store.flush()
    monkeypatch.undo()
    assert len(refused) == 17
    assert values_of(store) == {"/b": [0, 1, 2], "/c": [0, 1, 2], "/g/a": [0, 1, 2]}
    store.close()


def test_other_threads_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not refused: what another thread sets while one publishes comes after that."""
    store = blosc2.DictStore(str(tmp_path / "a.b2z"), mode="w")
    store["/a"] = np.arange(3)
    publish = type(store._table.backend).publish
    others = []

    def beside(*given: Any, **more: Any) -> Any:
        others.append(threading.Thread(target=store.__setitem__, args=("/b", np.arange(4))))
        others[0].start()
        return publish(*given, **more)

    monkeypatch.setattr(type(store._table.backend), "publish", beside)
    store.flush()
    monkeypatch.undo()
    others[0].join()
    store.close()
    with blosc2.DictStore(str(tmp_path / "a.b2z")) as again:
        assert sorted(again) == ["/a", "/b"]


@pytest.mark.parametrize("value", [[7], np.array([7])], ids=["list", "array"])
def test_a_store_that_is_closed_while_a_thread_waits(tmp_path: Path, value: Any) -> None:
    """What it would set is refused, not set in a store that nobody publishes any more."""
    store: Any = blosc2.DictStore(str(tmp_path / "a.b2z"), mode="w")
    errors: list[Exception] = []
    begins = threading.Event()
    store["/a"] = store["/b"] = np.arange(3)  # which lets arrays be set in a native step

    def set_late() -> None:
        begins.set()
        try:
            store["/late"] = value
        except blosc2.exceptions.ClosedStoreError as error:
            errors.append(error)

    other = threading.Thread(target=set_late)
    with store._table.lock:
        other.start()
        begins.wait()
        time.sleep(0.05)  # until it waits, most likely
        store.close()
    other.join()
    assert len(errors) == 1
