"""One line of progress on standard error: rewritten on a terminal, printed from time to time elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

# Seconds between two lines where the output is not a terminal.
_INTERVAL = 5.0


class Progress:
    """Count the steps of a long task.

    Examples
    --------
    >>> with Progress("writing", 3) as progress:
    ...     for name in ("a", "b", "c"):
    ...         progress.step(name)
    """

    def __init__(self, task: str, total: int) -> None:
        self._task = task
        self._total = total
        self._done = 0
        self._width = 0
        self._shown = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def step(self, what: str = "") -> None:
        """Note that one more step is done."""
        self._done += 1
        now = time.monotonic()
        if self._terminal and (now - self._shown > 0.05 or self._done == self._total):
            line = f"{self._task}: {self._done} of {self._total} {what}"
            sys.stderr.write("\r" + line.ljust(self._width))
            sys.stderr.flush()
            self._width = len(line)
            self._shown = now
        elif not self._terminal and (now - self._shown > _INTERVAL or self._done == self._total):
            print(f"{self._task}: {self._done} of {self._total}", file=sys.stderr, flush=True)
            self._shown = now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal and self._width:
            sys.stderr.write("\n")
