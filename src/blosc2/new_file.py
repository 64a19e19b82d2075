"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Protocol


class Lock(Protocol):
    """A lock that is on a file and goes over to the one that replaces it."""

    def take(self, descriptor: int) -> None:
        """Lock the new file too."""

    def settle(self) -> None:
        """The new file has its name."""

    def forget_taken(self) -> None:
        """It did not get it."""


class NewFile:
    """A file that takes its name only when it is complete: written beside it, synced, renamed.

    As a context manager it gives the file to write to, and commits unless the block raises.

    Parameters
    ----------
    path : str
        The name it will have.
    replace : bool
        Whether a file of that name may be there; otherwise `FileExistsError` when it is.
    lock : Lock, optional
        Goes over to the file before it gets its name.
    beside : str, optional
        What it is written beside instead, where no file may appear in the folder that it will be in.
    """

    def __init__(self, path: str, *, replace: bool, lock: Lock | None = None, beside: str | None = None) -> None:
        self.path = path
        self._lock = lock
        self._replace = replace
        self._temporary = temporary_name(path if beside is None else beside)
        try:
            self.file: BinaryIO = open(self._temporary, "xb+")  # noqa: SIM115 - closed by commit and abandon
        except OSError as error:
            # The temporary name would tell a caller nothing.
            raise type(error)(error.errno, f"cannot write here: {error.strerror}", path) from None

    def __enter__(self) -> BinaryIO:
        return self.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abandon()

    def commit(self, *, durable: bool = True, lock: Lock | None = None) -> None:
        """Make the file durable and give it its name."""
        lock = self._lock if lock is None else lock
        try:
            self.file.flush()
            if durable:
                os.fsync(self.file.fileno())
            if lock is not None:
                lock.take(self.file.fileno())
            self.file.close()
            if self._replace:
                if os.path.exists(self.path):
                    os.chmod(self._temporary, os.stat(self.path).st_mode & 0o7777)
                os.replace(self._temporary, self.path)
            else:
                publish_new(self._temporary, self.path)
        except BaseException:
            self.abandon()
            if lock is not None:
                lock.forget_taken()
            raise
        if lock is not None:
            lock.settle()
        if durable:
            sync_folder(self.path)

    def let_go(self) -> None:
        """Close the file, of which nothing is left to write, and leave it where it is."""
        self.file.close()

    def abandon(self) -> None:
        """Leave nothing behind."""
        try:
            self.file.close()
        except OSError:  # what could not be written is not wanted any more
            pass
        if os.path.exists(self._temporary):
            os.unlink(self._temporary)


def temporary_name(path: str) -> str:
    """A hidden name beside a path, which says what it is for."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")


def remove_tree(path: str) -> None:
    """Remove a folder and all in it, as far as that is possible."""
    import shutil  # not needed by most programs, and slow to import

    shutil.rmtree(path, ignore_errors=True)


def remove_leftovers(path: str) -> None:
    """Remove what killed processes left beside a path; only for who holds its lock."""
    folder, name = os.path.split(os.path.abspath(path))
    pattern = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{8}\.tmp")
    for found in os.listdir(folder):
        if pattern.fullmatch(found):
            left = os.path.join(folder, found)
            if os.path.isdir(left) and not os.path.islink(left):
                remove_tree(left)
            else:
                with suppress(OSError):
                    os.unlink(left)


def publish_new(temporary: str, path: str) -> None:
    """Rename, unless something of that name exists."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise _taken(path) from None
    except OSError:  # a file system without hard links
        if os.path.exists(path):
            raise _taken(path) from None
        os.rename(temporary, path)
    else:
        os.unlink(temporary)


def _taken(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "somebody else has put something in this place meanwhile", path)


def sync_folder(path: str) -> None:
    """Make a rename or a removal durable, where the system lets a folder be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
