"""Renaming several files into place, and undoing all of it if one rename fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from blosc2._files.owner import Owner


class FileMoves:
    """Moves and removals that can be taken back until `forget`.

    Parameters
    ----------
    keep : callable
        Gives a file a second name, which is returned; None where that is not possible.
    owner : Owner
        Who changes the files.
    """

    def __init__(self, keep: Callable[[str], str | None], owner: Owner) -> None:
        self._keep = keep
        self._owner = owner
        #: Whether what was moved stays, whatever comes.
        self.is_final = False
        # What was renamed ("" for a removal), to which path, and the other name of what was there: "" for nothing, None
        # for what is lost.
        self._done: list[tuple[str, str, str | None]] = []

    def put(self, new: str, path: str, *, taken: bool) -> None:
        """Rename a file. `taken` says that another file has the name."""
        self._done.append((new, path, self._keep(path) if taken else ""))
        self._owner.replace(new, path)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._done.append(("", path, self._keep(path)))
        self._owner.unlink(path)

    def begin_step(self) -> None:
        """Begin the next step. Its renames are undone before those of earlier steps, which are durable by then."""
        self._done.append(("", "", None))

    def forget(self) -> None:
        """Keep all renames."""
        self._done = []
        self.is_final = True

    def take_back(self, sync: Callable[[list[str]], object]) -> tuple[list[str], list[str]]:
        """Undo all renames, the last first. Returns the paths that are restored, and those that are not.

        Where one step cannot be undone, those before it are not: what is there then was there on the way, and a file
        that was to get another name is under one of the two.
        """
        undone: list[str] = []
        while self._done and self._owner.is_here:
            new, path, old = self._done[-1]
            if not path:
                try:
                    sync(undone)
                except OSError:
                    break
                self._done.pop()
                continue
            if not new and os.path.isdir(path) and not os.path.islink(path):  # folders for what came in its place
                for folder, _, _ in os.walk(path, topdown=False):
                    with suppress(OSError):
                        self._owner.rmdir(folder)
            # A file that still has its first name was not renamed.
            if not os.path.lexists(new or path):
                try:
                    if old:
                        self._owner.makedirs(os.path.dirname(path))
                        self._owner.replace(old, path)
                    elif old == "":
                        self._owner.unlink(path)
                    else:
                        break
                except OSError:
                    break
                undone.append(path)
            self._done.pop()
        return undone, [path for _, path, _ in self._done if path]
