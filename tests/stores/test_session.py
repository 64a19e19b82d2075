"""What operations check before they begin."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from blosc2._core.io.forking import Lock
from blosc2._stores.session import Session
from blosc2.exceptions import ClosedStoreError, FormatError, ReadOnlyError


class Owner:
    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.paths: list[str | None] = []

    def check(self, path: str | None) -> None:
        self.paths.append(path)
        if self.error is not None:
            raise self.error


class WriterLock:
    def __init__(self, *, inherited: bool) -> None:
        self.inherited = inherited
        self.owner = Owner(RuntimeError("this is a forked child") if inherited else None)


def session(mode: str = "a", lock: Any = None) -> Session:
    made = Session()
    made.path, made.mode, made.writer_lock, made.lock = "store.b2z", mode, lock, Lock()
    return made


def test_an_open_store_may_be_changed() -> None:
    lock = WriterLock(inherited=False)
    made = session(lock=lock)
    made.check_open()
    made.check_writable("set items")
    made.check_thread("change keys")
    assert lock.owner.paths == ["store.b2z"]
    assert not made.is_inherited
    assert not session(mode="w").is_inherited  # in memory there is no lock


def test_a_closed_store() -> None:
    made = session()
    made.closed = True
    for check in (made.check_open, lambda: made.check_writable("set items")):
        with pytest.raises(ClosedStoreError, match="closed store") as info:
            check()
        assert info.value.path == "store.b2z"


def test_a_lost_store_says_each_time_why_it_could_not_be_opened() -> None:
    made = session()
    made.closed, made.lost = True, (FormatError("damaged"), ())
    errors = [made.closed_error(), made.closed_error()]
    assert all(isinstance(error, FormatError) for error in errors)
    assert errors[0] is not errors[1]


def test_a_store_in_mode_r() -> None:
    with pytest.raises(ReadOnlyError, match="Cannot set items in read-only mode") as info:
        session(mode="r").check_writable("set items", "/a")
    assert info.value.key == "/a"


def test_while_many_leaves_are_written() -> None:
    made = session()
    made.streaming = True
    with pytest.raises(RuntimeError, match="cannot flush: write_many is under way"):
        made.check_not_streaming("flush")
    with pytest.raises(RuntimeError, match="cannot set items"):
        made.check_writable("set items")


def test_a_forked_child() -> None:
    made = session(lock=WriterLock(inherited=True))
    assert made.is_inherited
    for check in (made.check_own, lambda: made.check_writable("set items")):
        with pytest.raises(RuntimeError, match="forked child"):
            check()


def test_a_transaction_of_another_thread() -> None:
    class Transaction:
        thread = threading.get_ident()

    made: Any = session()
    made.transaction = Transaction()
    made.check_thread("change keys")
    Transaction.thread += 1
    with pytest.raises(RuntimeError, match="cannot change keys: another thread has a transaction"):
        made.check_thread("change keys")
