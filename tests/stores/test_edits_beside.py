"""A leaf is edited, which takes no lock of its store, while another thread closes the store or replaces the leaf.

The edit is done and kept, or refused by an error.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.lines import PACKAGE, Beside
from store_makers import Maker, makers

import blosc2


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
    new, seen = makers(kind, tmp_path), set()

    def prepared() -> tuple[Any, Maker]:
        make = next(new)
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
    for at in sorted({*range(0, count.lines, 1 if FULL else 5), count.lines - 1}):
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


# ------------------------------------------------------------------ the edit at each line of what another thread does
class Refused(Exception):
    """What a value raises."""


class BadValue:
    def __array__(self, *args: object, **more: object) -> Any:
        raise Refused


def fail_to_update(store: Any) -> None:
    with pytest.raises(Refused):
        store.update([("/g/a", [9, 9]), ("/x", BadValue())])


def fail_to_publish(store: Any) -> None:
    backend = type(store._table.backend)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "publish", fail)
        with pytest.raises(OSError, match="full"), store.transaction():
            store["/x"] = [1]


def fail(*args: object, **more: object) -> None:
    raise OSError("full")


def transact(store: Any) -> None:
    with store.transaction():
        store["/x"] = [1]


# What a call does, the key that the leaf has then, and whether edits may be dropped.
CALLS: dict[str, tuple[Callable[[Any], None], str, bool]] = {
    "rename": (lambda store: store.rename("/g/a", "/new"), "/new", False),
    "rename a group": (lambda store: store.rename("/g", "/new"), "/new/a", False),
    "an update fails": (fail_to_update, "/g/a", False),
    "a transaction": (transact, "/g/a", False),
    "a transaction fails": (fail_to_publish, "/g/a", False),
    "discard": (lambda store: store.discard(), "/g/a", True),
    "flush": (lambda store: store.flush(), "/g/a", False),
    "compact": (lambda store: store.compact(), "/g/a", False),
    "write_many": (lambda store: store.write_many({"/x": [1]}), "/g/a", False),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", ["b2e", "tree-b2z", "b2d"])
def test_an_edit_at_each_line_of_a_call(kind: str, call: str, tmp_path: Path) -> None:
    act, key, may_drop = CALLS[call]
    if call == "rename a group" and not kind.startswith("tree"):
        act, key = (lambda store: store.rename("/g/a", "/new/a")), "/new/a"
    new = makers(kind, tmp_path)

    def prepared() -> tuple[Any, Maker]:
        make = next(new)
        with make("w") as store:
            store["/g/a"], store["/c"] = np.array([1, 2]), np.array([3])
        return make("a"), make

    for _ in range(2):  # at first, some modules may have to be imported
        store, make = prepared()
        with Beside(lambda: None) as count:
            act(store)
        store.close()
    # The steps in which an edit could be lost are few.
    for at in range(0, count.lines, 1 if FULL else max(1, count.lines // 40)):
        store, make = prepared()
        leaf, errors = store["/g/a"], []

        def edit(leaf: Any = leaf, errors: list[Exception] = errors) -> None:
            try:
                leaf[0] = 4
            except (blosc2.exceptions.ClosedStoreError, RuntimeError) as error:
                errors.append(error)

        beside = Beside(edit, at)
        with beside:
            act(store)
        if beside.thread.ident is None:  # it took fewer lines this time
            store.close()
            continue
        beside.thread.join()
        shown = store[key][:].tolist()
        store.close()
        where = f"line {at}"
        assert make.values()[key] == shown, where  # nothing is shown that is not published
        assert shown == ([1, 2] if errors else [4, 2]) or (may_drop and shown == [1, 2]), where


# ------------------------------------------------------------------ nobody waits for ever
# A call; what comes in between, and also another thread does; and the function in which that thread is just then.
WAITS: dict[str, tuple[Callable[[Any], None], Callable[[Any], None], str]] = {
    "a key is set while a leaf is edited": (
        lambda leaves: leaves["/a"].__setitem__(0, 4), lambda leaves: leaves["store"].__setitem__("/b", [1]), "forget",
    ),
    "a leaf is edited while another is replaced": (
        lambda leaves: leaves["store"].__setitem__("/a", [4]), lambda leaves: leaves["/e"].__setitem__(0, 7),
        "_set_shown",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WAITS)
def test_a_finalizer_does_not_wait_for_who_waits_for_it(what: str, tmp_path: Path) -> None:
    """It takes a lock that another thread has. So no lock that that one may need is held where it can come in."""
    call, act, function = WAITS[what]
    number = 0

    def lines_of_call(at: int) -> int:
        nonlocal number
        number += 1
        store: Any = blosc2.DictStore(str(tmp_path / f"{number}.b2z"), mode="w")
        store["/a"] = store["/b"] = store["/e"] = np.arange(3)
        leaves = {"store": store, **{key: store[key] for key in ("/a", "/b", "/e")}}
        has_lock, goes_on = threading.Event(), threading.Event()

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code.co_filename.startswith(PACKAGE) and frame.f_code.co_name == function:
                sys.settrace(None)
                has_lock.set()
                goes_on.wait()
            return None

        def other() -> None:
            sys.settrace(trace)
            act(leaves)
            sys.settrace(None)

        beside = threading.Thread(target=other, daemon=True)
        lines, between = 0, False

        def come_between(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal lines, between
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            lines += event == "line"
            if lines - 1 == at and event == "line":
                sys.settrace(None)
                between = True
                beside.start()
                has_lock.wait(0.1)  # it waits for this one, where this one has the lock of the store
                threading.Timer(0.01, goes_on.set).start()
                with contextlib.suppress(RuntimeError):
                    act(leaves)
            return come_between

        def run() -> None:
            sys.settrace(come_between)
            call(leaves)
            sys.settrace(None)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive(), f"line {at}: both wait"
        if between:
            beside.join(30)
            assert not beside.is_alive(), f"line {at}: the other thread waits"
        store.close()
        return lines

    lines_of_call(-1)  # at first, some modules may have to be imported
    count = lines_of_call(-1)
    for at in range(0, count, 1 if FULL else 7):
        lines_of_call(at)
