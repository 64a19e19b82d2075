"""Something that comes in between at one line of the package, whichever; a test goes through all lines of a call."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Self

import blosc2

#: What the files of the package begin with.
PACKAGE = os.path.dirname(blosc2.__file__) + os.sep


class AtLine:
    """Calls `come` once, before the n-th line of the package that this thread comes to; counts the lines.

    Attributes
    ----------
    at : int
        The number of the line; -1 for none.
    lines : int
        How many there were.
    where : str
        The file and the line at which `come` was called.
    """

    def __init__(self, at: int = -1) -> None:
        self.at, self.lines, self.where = at, 0, ""

    def come(self) -> None:
        raise NotImplementedError

    def watches(self, code: CodeType) -> bool:
        """Whether lines of a function count."""
        return True

    def counts(self, frame: FrameType) -> bool:
        """Whether the next line counts."""
        return True

    def __enter__(self) -> Self:
        self._kept = self._trace  # CPython may still call it after it was told not to trace any more
        sys.settrace(self._kept)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE) or not self.watches(frame.f_code):
            return None
        if event == "line" and self.counts(frame):
            self.lines += 1
            if self.lines - 1 == self.at:
                self.where = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
                sys.settrace(None)
                self.come()
        return self._kept


def lines_of(call: Callable[[], Any]) -> int:
    """How many lines of the package a call comes to."""
    with AtLine() as count:
        call()
    return count.lines


class Beside(AtLine):
    """Calls something in another thread before the n-th line of the package in this one; `found` has what it gave."""

    def __init__(self, action: Callable[[], Any], at: int = -1) -> None:
        super().__init__(at)
        self.found: list[Any] = []
        self.thread = threading.Thread(target=lambda: self.found.append(action()))

    def come(self) -> None:
        self.thread.start()
        self.thread.join(0.3)  # a few lines have a lock that it waits for
