"""The folders of a `.b2d`: where the file of a key belongs, and which folders come and go with files."""

from __future__ import annotations

import errno
import os
import stat

from blosc2._backends.key_rules import is_path
from blosc2._backends.layout import EMBED
from blosc2._files import Owner, sync_files, through_link
from blosc2.exceptions import legible


class Folders:
    """The tree of one store.

    Parameters
    ----------
    root : str
        The directory.
    owner : Owner
        The process that has it open for writing.
    """

    __slots__ = ("_inside", "_owner", "_root")

    def __init__(self, root: str, owner: Owner) -> None:
        self._root = root
        self._owner = owner
        self._inside: set[str] = set()

    def forget(self) -> None:
        """Forget which folders lie inside."""
        self._inside = set()

    def path_for(self, key: str, suffix: str) -> str:
        """The file that a leaf is written to; for a link, the file that it leads to."""
        path = self._root + key + suffix
        if not os.path.islink(path):
            return path
        target, root = through_link(path), os.path.realpath(self._root)
        if not target.startswith(root + os.sep) or os.path.basename(target) == EMBED:
            raise ValueError(
                f"{legible(path)}: the file of the key {key!r} is a link that leads out of the store; delete it first"
            )
        return self._root + target[len(root) :]

    def check_inside(self, key: str) -> None:
        """Refuse to write through a link that leads out of the tree."""
        folder = os.path.dirname(self._root + key)
        if is_path(key) and folder in self._inside:
            return
        real, root = os.path.realpath(folder), os.path.realpath(self._root)
        if not is_path(key) or (real != root and not real.startswith(root + os.sep)):
            raise ValueError(f"{legible(self._root)}: the key {key!r} leads out of the store")
        self._inside.add(folder)

    def prepare(self, paths: list[str]) -> tuple[set[str], set[str]]:
        """Make the folders of files, and check that nothing is in the way, before the files are moved there.

        Returns the folders whose entries will change, and the paths that exist already.
        """
        folders = {os.path.dirname(path) for path in paths}
        touched = set(folders)
        occupied = set()
        try:
            for folder in folders:
                touched.update(self.make(folder))
            for path in paths:
                try:
                    kind = os.lstat(path).st_mode
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(kind) or (stat.S_ISLNK(kind) and os.path.isdir(path)):
                    raise IsADirectoryError(errno.EISDIR, "a folder is where the file of a leaf should be", path)
                occupied.add(path)
        except BaseException:
            for folder in folders:
                self.remove_empty(folder)
            raise
        return touched, occupied

    def make(self, folder: str) -> list[str]:
        """Make a folder unless it exists; returns the folders that got a new entry."""
        changed = []
        above = folder
        while not os.path.isdir(above):
            above = os.path.dirname(above)
            changed.append(above)
        if changed:
            self._owner.makedirs(folder)
        return changed

    def remove_empty(self, folder: str) -> str:
        """Remove a folder and those above it as far as they are empty; returns the first that stays."""
        while folder != self._root and folder.startswith(self._root):
            try:
                self._owner.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                break
            folder = os.path.dirname(folder)
        return folder

    def sync(self, folders: set[str]) -> None:
        """Make the names in folders durable."""
        sync_files((), [folder for folder in folders if os.path.isdir(folder)])
