"""Files that appear whole or not at all; and renaming several files into place, or none."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, Protocol

from blosc2._core.io.sharing import Block
from blosc2._files.owner import Owner
from blosc2._files.sync import sync_descriptor, sync_folder
from blosc2._options import absolute_path, shortened
from blosc2.exceptions import StoreLockedError, name_file


class Lock(Protocol):
    """A lock on a file that passes to the file which replaces it."""

    def take(self, descriptor: int) -> None:
        """Lock the new file too."""

    def adopt(self) -> None:
        """The new file has its name."""

    def adopt_if_current(self) -> None:
        """Something failed. The new file may or may not have its name."""


# Attributes of files that the system gives to new ones by itself.
_GIVEN: Final = {"security.selinux"}


def has_names_or_attributes(path: str, status: os.stat_result) -> bool:
    """Whether a file has further names, access lists or other attributes, which a new one would lose."""
    return status.st_nlink > 1 or bool({*os.listxattr(path)} - _GIVEN if hasattr(os, "listxattr") else False)


def is_replaceable(path: str) -> bool:
    """Whether a new file in the place of one would be all that it is, also to others."""
    status = os.stat(path)
    mine = (os.geteuid(), os.getegid()) if os.name == "posix" else (status.st_uid, status.st_gid)
    return (status.st_uid, status.st_gid) == mine and not has_names_or_attributes(path, status)


class NewFile(Block):
    """A file that takes its name only when it is complete: written beside it, synced, renamed.

    As a context manager it gives the file to write to, and commits unless the block raises. It is made when `file` is
    first asked for: by then whoever removes it, whatever comes between, knows its temporary name.

    A link is followed if the file may be there already (`replace`). A `lock` goes over to the file before it gets its
    name. It is written `beside` something else where no file may appear in the folder that it will be in. Without
    buffers it is written by its descriptor: buffers have locks, which a forked child should not wait for.
    """

    def __init__(
        self, path: str, *, replace: bool, lock: Lock | None = None, beside: str | None = None,
        owner: Owner | None = None, buffered: bool = True, durable: bool = True,
    ) -> None:  # fmt: skip
        self.path = through_link(path) if replace else path
        self._called = path
        self._owner = Owner() if owner is None else owner
        self._lock = lock
        self._durable = durable
        self._replace = replace
        self._buffered = buffered
        self._temporary = temporary_name(self.path if beside is None else beside)
        self._file: BinaryIO | None = None
        self._is_over = False

    @property
    def file(self) -> BinaryIO:
        """The file to write to, which is made now if it is not there yet."""
        if self._file is None:
            try:
                self._file = self._owner.open(self._temporary, "xb+", buffered=self._buffered)
            except StoreLockedError:
                raise
            except OSError as error:
                # The temporary name means nothing to a caller.
                raise type(error)(error.errno, f"cannot write here: {error.strerror}", self._called) from None
        return self._file

    def __enter__(self) -> BinaryIO:
        return self.file

    def _leave(self, failed: bool) -> None:
        """Give the file its name, or remove it."""
        if not failed:
            self.commit(durable=self._durable)
            return
        self.abandon()
        error = sys.exc_info()[1]
        if error is not None:
            name_file(error, self.path)

    def commit(self, *, durable: bool = True, lock: Lock | None = None) -> None:
        """Make the file durable and give it its name."""
        lock = self._lock if lock is None else lock
        try:
            self._owner.check(self.path)
            self.file.flush()
            if durable:
                sync_descriptor(self.file.fileno())
            if lock is not None:
                lock.take(self.file.fileno())
            self.file.close()
            if self._replace:
                _replace(self._temporary, self.path, self._owner)
            else:
                publish_new(self._temporary, self.path, self._owner)
            if lock is not None:
                lock.adopt()
        except BaseException as failed:
            name_file(failed, self.path)
            self.abandon()
            if lock is not None:
                lock.adopt_if_current()
            raise
        self._is_over = True
        if durable:
            sync_folder(self.path)

    def let_go(self) -> None:
        """Close the complete file, and leave it under its temporary name."""
        self._is_over = True
        self.file.close()

    def abandon(self) -> None:
        """Remove the temporary file. In a forked child, leave it to the process that makes it.

        Where that fails, it is tried again when this object goes: whoever abandons a file has an error to tell already.
        """
        if self._file is not None:
            with suppress(OSError):  # the unwritten bytes are not needed any more
                self._file.close()
        with suppress(OSError):
            if self._owner.is_here and os.path.exists(self._temporary):
                self._owner.unlink(self._temporary)
            self._is_over = True

    def __del__(self) -> None:
        # An interrupt came before somebody had it, or after it was let go of.
        if not getattr(self, "_is_over", True):
            with suppress(OSError):
                self.abandon()


def through_link(path: str) -> str:
    """The final target of a link, whether it exists or not. A path that is not a link is returned unchanged."""
    if not os.path.islink(path):
        return path
    found = os.path.realpath(path)
    if os.path.islink(found):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return found


def temporary_name(path: str) -> str:
    """A hidden name beside a path. It says what it is for."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{shortened(name)}.{os.urandom(4).hex()}.tmp")


def remove_leftovers(path: str, owner: Owner) -> None:
    """Remove files that killed processes left beside a path. The caller must hold its lock."""
    folder, name = os.path.split(absolute_path(path))
    begin = f".{shortened(name)}."
    pattern = re.compile(re.escape(begin) + r"[0-9a-f]{8}\.tmp")
    for found in os.listdir(folder):
        if found.startswith(begin) and pattern.fullmatch(found):  # a folder may have very many others
            left = os.path.join(folder, found)
            if os.path.isdir(left) and not os.path.islink(left):
                owner.remove_tree(left)
            else:
                with suppress(OSError):
                    owner.unlink(left)


def _replace(temporary: str, path: str, owner: Owner) -> None:
    try:
        owner.replace(temporary, path)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        raise OSError(
            errno.EBUSY,
            "the file is a mount point of its own, so no other file can take its place: change it by the name that was "
            "mounted here, or mount the folder that it is in",
            path,
        ) from None


def publish_new(temporary: str, path: str, owner: Owner) -> None:
    """Rename, unless something of that name exists."""
    try:
        owner.link(temporary, path)
    except FileExistsError:
        raise _taken(path) from None
    except StoreLockedError:
        raise
    except OSError:  # a file system without hard links
        if os.path.exists(path):
            raise _taken(path) from None
        owner.rename(temporary, path)
    else:
        owner.unlink(temporary)


def _taken(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "somebody else has created something at this path meanwhile", path)


class FileMoves:
    """Moves and removals that can be taken back until `forget`.

    `keep` gives a file a second name, which it returns; None where that is not possible.
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
        self._owner.replace(new, path, keeps_access=taken)

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
                        self._owner.replace(old, path, keeps_access=False)
                    elif old == "":
                        self._owner.unlink(path)
                    else:
                        break
                except OSError:
                    break
                undone.append(path)
            self._done.pop()
        return undone, [path for _, path, _ in self._done if path]
