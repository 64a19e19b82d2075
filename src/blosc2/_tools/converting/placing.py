"""The name of a target while it is written, and the step that gives it its own."""

from __future__ import annotations

import os

from blosc2._files import Owner, remove_leftovers, sync_file, sync_folder


def partial_name(path: str) -> str:
    """Beside a path, with the same suffix: ``study.partial.b2z``."""
    folder, name = os.path.split(path.rstrip("/"))
    stem, dot, suffix = name.partition(".")
    return os.path.join(folder, f"{stem}.partial{dot}{suffix}")


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
        aside = f"{path}.replaced"
        remove(aside)
        if os.path.lexists(path):
            owner.rename(path, aside)
        owner.rename(partial, path)
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
