"""Reading a file that a writer may be changing: when to try again."""

from __future__ import annotations

from typing import Final

# A reader does not wait longer than this for a writer.
_MOST: Final = 100


class Retry:
    """Counts failed attempts to read a file.

    An attempt may fail because a writer changed the file meanwhile. It did if the file looks different now, and then
    another attempt is worth it. A file that fails twice with the same content is damaged.

    Examples
    --------
    >>> retry = Retry()
    >>> retry.again(b"half a header"), retry.again(b"a header"), retry.again(b"a header")
    (True, True, False)
    """

    _last: object = None
    _tries = 0

    def again(self, state: object) -> bool:
        """Whether to read once more; `state` says how the file looks now."""
        self._tries += 1
        if state == self._last or self._tries == _MOST:
            return False
        self._last = state
        return True
