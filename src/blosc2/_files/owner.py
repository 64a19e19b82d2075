"""Which process may change files: the one that began the change, and no child forked from it meanwhile.

A child has a copy of everything that its parent was doing. By leaving a block, ending a generator or dropping a buffer
it would publish, cut off or remove files of its parent. So each change of files has an `Owner`, made where the change
begins. Every step of the change asks the owner, which refuses it in any other process. In a child, descriptors that
were open for writing lead nowhere.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from io import FileIO
from typing import Any, BinaryIO, Final, Self, cast

from blosc2._core.io.sharing import Block, keep_from_child
from blosc2.exceptions import ExistingFileError, OtherFileSystemError, StoreLockedError

# A part of a path that `temporary_name` gave: what it is for, and what tells it from others.
_TEMPORARY: Final = re.compile(r"(^|[/\\])\.([^/\\]+)\.[0-9a-f]{8}\.tmp(?=[/\\]|$)")


def name_place(error: OSError) -> None:
    """Have an error name the place of what is made under a temporary name, which means nothing to callers."""
    for name in ("filename", "filename2"):
        given = getattr(error, name)
        if isinstance(given, str):
            setattr(error, name, _TEMPORARY.sub(r"\1\2", given))
    if error.filename2 is not None and error.filename == error.filename2:
        del error.filename2


def special_file(path: str) -> ExistingFileError:
    """The error for a device, a pipe or a socket that a new file would replace."""
    return ExistingFileError(errno.EEXIST, "it is no regular file, and is not replaced: give another path", path)


class Owner:
    """The process that makes it."""

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self.pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is that process, not a fork of it."""
        return self.pid == os.getpid()

    def check(self, path: str | None) -> None:
        """Raise `StoreLockedError` in a forked child, which is to change nothing of what lies at a path."""
        if self.pid != os.getpid():
            raise refusal(path, self.pid)

    # ------------------------------------------------------------------ files that are open for writing
    def open_raw(self, path: str, mode: str) -> FileIO:
        """A file for writing, without a buffer."""
        return cast("FileIO", self.open(path, mode, buffered=False))

    def open(self, path: str, mode: str, *, buffered: bool = True) -> BinaryIO:
        """A file for writing, which collects what is written."""
        self.check(path)
        try:
            opened: Any = open(path, mode, -1 if buffered else 0)  # noqa: SIM115 - for the caller
        except OSError as error:
            name_place(error)
            raise
        file: BinaryIO = keep_from_child(opened)
        if self.pid != os.getpid():  # forked before it was kept from children
            file.close()
            self.check(path)
        return file

    def open_lock(self, path: str, flags: int, *, create: bool = True) -> int:
        """A descriptor for locking a file, which is created if it is missing, unless told not to."""
        self.check(path)
        return os.open(path, flags | (os.O_CREAT if create else 0), 0o666)

    # ------------------------------------------------------------------ names
    def replace(self, old: str, new: str, *, keeps_access: bool = True) -> None:
        """Rename a file, replacing what has the name, whose owner, group and permissions it gets unless told not to."""
        self.check(new)
        if keeps_access:
            self.keep_access(old, new)
        try:
            os.replace(old, new)
        except OSError as error:
            raise _explained(error, new) from None

    def rename(self, old: str, new: str) -> None:
        """Rename, as the system has it."""
        self.check(new)
        try:
            os.rename(old, new)
        except OSError as error:
            raise _explained(error, new) from None

    def keep_access(self, new: str, path: str) -> None:
        """Give a new file or folder the owner, group and permissions of the one that it will replace at a path.

        What the system does not allow stays as it is. So does a file with more names than one, which is not new.

        `ExistingFileError` where a device, a pipe or a socket would be replaced.
        """
        self.check(path)
        try:
            before = os.lstat(path)
        except OSError:
            return
        now = os.lstat(new)
        kind = stat.S_IFMT(before.st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise special_file(path)
        is_new = kind == stat.S_IFDIR or (kind == stat.S_IFREG and now.st_nlink == 1)
        if kind != stat.S_IFMT(now.st_mode) or not is_new:
            return
        mode = stat.S_IMODE(before.st_mode)
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            _give(new, now, before)
        elif mode != stat.S_IMODE(now.st_mode):
            self.chmod(new, mode)

    def link(self, old: str, new: str) -> None:
        """Give a file another name."""
        self.check(new)
        os.link(old, new)

    def symlink(self, target: str, path: str) -> None:
        """Make a link."""
        self.check(path)
        os.symlink(target, path)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        self.check(path)
        os.unlink(path)

    def chmod(self, path: str, mode: int) -> None:
        """Set permissions."""
        self.check(path)
        os.chmod(path, mode)

    def utime(self, path: str, ns: tuple[int, int] | None = None) -> None:
        """Set the time of the last change; by default, now."""
        self.check(path)
        if ns is None:
            os.utime(path)
        else:
            os.utime(path, ns=ns)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Make a folder."""
        self.check(path)
        try:
            os.mkdir(path, mode)
        except OSError as error:
            name_place(error)
            raise

    def makedirs(self, path: str) -> None:
        """Make a folder and its missing parents."""
        self.check(path)
        # `os.makedirs` calls itself for each, and a key may lie in more groups than Python lets it.
        missing = [path]
        while missing:
            folder = missing[-1]
            try:
                if not os.path.isdir(folder):
                    os.mkdir(folder)
            except FileNotFoundError:
                above = os.path.dirname(folder)
                if above in ("", folder):
                    raise
                missing.append(above)
                continue
            except FileExistsError:
                if not os.path.isdir(folder):  # made by somebody else just now
                    raise
            except OSError as error:
                name_place(error)
                raise
            missing.pop()

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        self.check(path)
        os.rmdir(path)

    def copy(self, old: str, new: str) -> None:
        """Copy the bytes of a file to a new one, or over another."""
        self.check(new)
        import shutil  # not needed by most programs, and slow to import

        try:
            shutil.copyfile(old, new)
        except OSError as error:
            name_place(error)
            raise

    def remove_tree(self, path: str, *, strict: bool = False) -> None:
        """Remove a folder of one's own and all in it, as far as that is possible; in a forked child it is another's.

        With `strict`, what cannot be removed raises.
        """
        passed_over: tuple[type[OSError], ...] = () if strict else (OSError,)
        folders = [path]
        for folder in folders:  # which grows: `os.walk` calls itself for each one, and there may be too many for that
            with suppress(*passed_over), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    with suppress(*passed_over):
                        self.unlink(entry.path)
        for folder in reversed(folders):
            with suppress(*passed_over):
                self.rmdir(folder)


def refusal(path: str | None, pid: int) -> StoreLockedError:
    """The error for a forked child that would continue a change of its parent."""
    return StoreLockedError(
        f"this was opened for writing by process {pid}, of which this one is a fork: only that one can change it; "
        "open it here anew, a store with mode='r', or with locking=True in both",
        path=path,
    )


def _give(path: str, now: os.stat_result, before: os.stat_result) -> None:
    """Give a new file the permissions of another, its owner and group, or at least its group."""
    mode = stat.S_IMODE(before.st_mode)
    # Not by its name: where others may write to the folder, that may lead to another file by now.
    with Descriptor(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as opened:
        if os.path.samestat(os.fstat(opened.fileno()), now):
            give_access(opened.fileno(), before, mode)


def give_access(number: int, before: os.stat_result, mode: int) -> None:
    """Give a file that is open permissions, and the owner and group of another file, or at least its group."""
    # As long as it has another group, that may do what all others may.
    os.fchmod(number, mode & 0o1707 | (mode & 0o7) << 3)
    try:
        os.fchown(number, before.st_uid, before.st_gid)
    except OSError:
        mode &= 0o1777  # nothing runs as another owner than it did
        try:
            os.fchown(number, -1, before.st_gid)
        except OSError:
            return
    with suppress(OSError):
        os.fchmod(number, mode)


def _explained(error: OSError, path: str) -> OSError:
    """The error of a rename. If it was between file systems, it says what to do."""
    name_place(error)
    if error.errno != errno.EXDEV:
        return error
    return OtherFileSystemError(
        errno.EXDEV, "the folder is the mount point of another file system, to which no finished file can be renamed: "
        "mount a store as a whole, or use keys outside of that folder", path,
    )  # fmt: skip


class Descriptor(Block):
    """A descriptor that is closed once, at the end of its block if it has one. In a forked child it leads nowhere."""

    __slots__ = ("__weakref__", "_number")

    def __init__(self, number: int) -> None:
        self._number = number
        keep_from_child(self)

    def fileno(self) -> int:
        """Its number."""
        if self._number < 0:
            raise ValueError("the descriptor is closed")
        return self._number

    def __enter__(self) -> Self:
        return self

    def _leave(self, failed: bool) -> None:  # noqa: ARG002
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_number", -1) >= 0:
            self.close()

    def close(self) -> None:
        """Close it, and ignore errors."""
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)
