"""Taking turns: handles come in the order in which they asked, whoever is killed or gives up."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from fixture_kit.interrupts import Interrupt
from fixture_kit.isolated import environment

from blosc2._files import Owner, Turn, locks
from blosc2.exceptions import StoreLockedError

pytestmark = pytest.mark.skipif(not locks._HAS_QUEUE, reason="locks of an open file, on Linux")


def tickets(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[16:24], "little") if path.exists() else 0


def wait_for(path: Path, number: int) -> None:
    while tickets(path) < number:
        time.sleep(0.001)
    time.sleep(0.02)  # until it waits


WAITS = """
import sys
from blosc2._files import Owner, Turn
turn = Turn(sys.argv[1], Owner())
turn.wait(None)
print("turn", flush=True)
sys.stdin.readline()
"""


def waiting(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WAITS, str(path)], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip


@pytest.mark.parametrize("deadline", [None, 60.0])
def test_in_the_order_of_asking(tmp_path: Path, deadline: float | None) -> None:
    path = tmp_path / "x.b2lock"
    limit = None if deadline is None else time.monotonic() + deadline
    first = Turn(str(path), Owner())
    first.wait(limit)
    came: list[int] = []

    def ask(number: int) -> None:
        turn = Turn(str(path), Owner())
        turn.wait(limit)
        came.append(number)
        turn.end()

    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=ask, args=(number,)))
        threads[-1].start()
        wait_for(path, number + 2)
    assert came == []
    first.end()
    # It asks again at once, and comes last.
    first.wait(limit)
    assert came == list(range(8))
    first.end()
    first.end()
    for thread in threads:
        thread.join()


def test_who_is_killed_while_it_waits(tmp_path: Path) -> None:
    path = tmp_path / "x.b2lock"
    first, last = Turn(str(path), Owner()), Turn(str(path), Owner())
    first.wait(None)
    with waiting(path) as second:
        wait_for(path, 2)
        second.kill()
        second.wait()
        first.end()
        last.wait(time.monotonic() + 10)
        last.end()


def test_who_is_killed_in_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "x.b2lock"
    last = Turn(str(path), Owner())
    with waiting(path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "turn\n"
        with pytest.raises(StoreLockedError, match="not this one's turn in time") as raised:
            last.wait(time.monotonic() + 0.05)
        assert str(tmp_path / "x") in str(raised.value)
        first.kill()
        first.wait()
        last.wait(time.monotonic() + 10)
        last.end()


def test_who_gives_up_lets_others_pass(tmp_path: Path) -> None:
    path = tmp_path / "x.b2lock"
    first, second, third = (Turn(str(path), Owner()) for _ in range(3))
    first.wait(None)
    for turn in (second, third):
        with pytest.raises(StoreLockedError):
            turn.wait(time.monotonic())
    first.end()
    third.wait(time.monotonic() + 10)
    with pytest.raises(StoreLockedError):
        second.wait(time.monotonic())
    third.end()
    assert tickets(path) == 5


def test_who_locks_the_file_as_the_older_package_does(tmp_path: Path) -> None:
    import fcntl

    path = tmp_path / "x.b2lock"
    turn = Turn(str(path), Owner())
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    turn.wait(None)
    with pytest.raises(StoreLockedError):
        turn.count(time.monotonic() + 0.05, -1)
    turn.count(None, descriptor)  # the store itself is locked by it
    turn.end()
    os.close(descriptor)
    turn.wait(None)
    turn.count(time.monotonic() + 10, -1)
    turn.end()


def test_where_there_are_no_such_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import fcntl

    def fail(*given: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(fcntl, "fcntl", fail)
    turn = Turn(str(tmp_path / "x.b2lock"), Owner())
    turn.wait(None)
    turn.count(None, -1)
    turn.end()


def test_an_end_that_was_interrupted_is_ended_by_the_second_call(tmp_path: Path) -> None:
    """At each of its lines, and those of what it calls."""
    path = str(tmp_path / "x.b2lock")
    at = lines = 0
    while at <= lines:
        turn = Turn(path, Owner())
        turn.wait(None)
        with Interrupt(at) as interrupt, suppress(KeyboardInterrupt):
            turn.end()
        turn.end()
        other = Turn(path, Owner())
        other.wait(time.monotonic() + 0.1)
        other.end()
        lines = interrupt.lines
        at += 1
    assert at > 6
