"""Children that are forked in the middle of something, and what becomes of them."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from blosc2.exceptions import StoreLockedError

#: Seconds after which a child counts as hung, and is ended.
LIMIT = 20


class Child:
    """A child: where it goes on, `begun` says so; `ended` waits for it in the parent.

    A child that hangs is ended by a signal. What it says with `tell` is shown when it fails.
    """

    def __init__(self) -> None:
        self._out, self._into = os.pipe()
        self.pid = os.fork()
        if self.here:
            os.close(self._out)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(LIMIT)
        else:
            os.close(self._into)

    @property
    def here(self) -> bool:
        """Whether this is the child."""
        return self.pid == 0

    def tell(self, text: str) -> None:
        """In the child: say something."""
        os.write(self._into, text.encode())

    def ended(self) -> None:
        """In the parent: wait for the child; `AssertionError` unless it ended well."""
        said = b""
        while part := os.read(self._out, 1 << 16):
            said += part
        os.close(self._out)
        status = os.waitpid(self.pid, 0)[1]
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            raise AssertionError(f"the child {'hung' if name == 'SIGALRM' else name}: {said.decode()}")
        assert (os.waitstatus_to_exitcode(status), said) == (0, b""), said.decode()


def refused_elsewhere(act: Callable[[], Any]) -> None:
    """Expect that another process may not open for writing what this one has open."""

    def refused() -> None:
        try:
            act()
        except StoreLockedError:
            return
        raise AssertionError("it was opened")

    in_child(refused)


def in_child(work: Callable[[], Any]) -> None:
    """Do something in a forked child, and nothing else there."""
    child = Child()
    if child.here:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - told to the parent
            child.tell(traceback.format_exc())
        finally:
            sys.stdout.flush()
            os._exit(code)
    child.ended()
