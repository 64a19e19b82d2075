"""How a target is named while it is written, and the step that gives it its own name."""

from __future__ import annotations

import os

from blosc2._files import Owner, remove_leftovers, sync_file, sync_folder
from blosc2._tools.converting.items import LeftOut


def partial_name(path: str, *, unique: bool) -> str:
    """Beside a path, with the same suffix: ``study.partial.b2z``; a `unique` one is that of no other program."""
    stem, suffix = os.path.splitext(path.rstrip("/"))
    return f"{stem}.partial{f'-{os.urandom(4).hex()}' if unique else ''}{suffix}"


def put_in_place(partial: str, path: str, *, overwrite: bool) -> None:
    """Give a complete target its name.

    Raises
    ------
    FileExistsError
        Somebody made a file of this name meanwhile.
    """
    path, owner = path.rstrip("/"), Owner()
    if os.path.isfile(partial):
        sync_file(partial)
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{path} was made by somebody else meanwhile; overwrite=True replaces it")
    if os.path.isdir(path) or os.path.isdir(partial):
        aside = f"{path}.replaced-{os.urandom(4).hex()}"
        is_there = os.path.lexists(path)
        if is_there:
            owner.rename(path, aside)
        try:
            owner.rename(partial, path)
        except BaseException:
            if is_there:
                owner.rename(aside, path)
            raise
        remove(aside)
    else:
        owner.replace(partial, path)
    remove_leftovers(partial, owner)  # of runs that were killed
    sync_folder(path)


def remove(path: str) -> None:
    """Remove a file or directory, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        Owner().remove_tree(path, strict=True)
    elif os.path.lexists(path):
        Owner().unlink(path)


class UnresumedTarget:
    """What targets share that are written in one run: nothing is kept of a run that was interrupted.

    Attributes
    ----------
    partial, left_out
        As in `Target`.
    """

    def __init__(self, path: str) -> None:
        self.partial, self.left_out = partial_name(path, unique=True), list[LeftOut]()

    def has(self, key: str) -> bool:  # noqa: ARG002 - of all targets
        """No item is there before the run begins."""
        return False

    def seal(self) -> None:
        """Nothing says that the target is not complete."""

    def abandon(self, *, keep: bool) -> None:  # noqa: ARG002 - of all targets
        """Remove what was written."""
        remove(self.partial)
