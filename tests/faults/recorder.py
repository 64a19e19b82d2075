"""Record every call of this process that changes files below a directory, and make some of them fail.

The recorder replaces the functions in `os`, `open`, and the files that `open` returns. All of the package uses them,
its native parts too. `tests/faults/test_recorder.py` shows that no call is missed: replaying the record gives the same
files.

A fault is planned for the n-th of these calls:

========== ==================================================================================================
eio        the call does nothing and fails
eio_late   the call is made and fails all the same (not what opens or makes something: as eio)
eio_on     as eio, and so do all later ones, until `Recorder.mend`
enospc     a write that makes a file longer writes half and fails; other calls that need room fail; so do later ones,
           until `Recorder.mend`. What is overwritten needs no room
short      a write writes half, and says so
unwritten  the write at this call, or the next one, succeeds and never reaches the disk: the first `fsync` of its file
           tells so, `sync` and later `fsync` do not; `Recorder.lose` shows what is left
stop       the call does nothing and ends the program (`Stopped`); no later call does anything: first they raise
           too, and once `Recorder.bury` was called they pretend
========== ==================================================================================================
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from faults.disk import ROOT, Name, Op, Tree

if sys.platform != "win32":
    import fcntl

Fault = Literal["eio", "eio_late", "eio_on", "enospc", "short", "unwritten", "stop", "close"]

_REAL: dict[str, Callable[..., Any]] = {
    name: getattr(os, name)
    for name in (
        "open", "write", "pwrite", "writev", "pwritev", "fsync", "fdatasync", "sync", "ftruncate", "truncate",
        "rename", "replace", "link", "unlink", "remove", "mkdir", "rmdir", "chmod", "fchmod", "symlink",
        "copy_file_range", "sendfile", "posix_fallocate",
    )
    if hasattr(os, name)
}  # fmt: skip
_REAL_OPEN = io.open
_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
# What needs room on a disk.
_NEEDS_ROOM = {"write", "create", "mkdir", "link", "rename"}


class Stopped(BaseException):
    """The program ends here."""


class _File(io.FileIO):
    """An unbuffered file whose changes are seen."""

    recorder: Recorder

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        at = self._size() if "a" in self.mode else self.tell()
        return self.recorder._write(self.fileno(), view, at, super().write)

    def truncate(self, size: int | None = None, /) -> int:
        length = self.tell() if size is None else size
        self.recorder._truncate(self.fileno(), length, super().truncate)
        return length

    def close(self) -> None:
        if not self.closed:
            self.recorder._close(self.fileno(), super().close)

    def _size(self) -> int:
        return os.fstat(self.fileno()).st_size


class Recorder:
    """The calls that change something below a directory, as long as the context lasts.

    Parameters
    ----------
    root : path
        The directory, which exists.
    fault : str, optional
        One of those above.
    at : int
        The number of the call that it befalls, from 1 on.

    Attributes
    ----------
    count : int
        Calls up to now.
    ops : list of Op
        What was done, in order; of failed calls, nothing.
    tree : Tree
        How the directory is now.
    start : Tree
        How it was.
    struck : str
        The call that the fault befell; empty until then.
    watch : callable or None
        What is called before each call, without being seen itself.
    """

    def __init__(self, root: Path, fault: Fault | None = None, at: int = 0) -> None:
        self.root = os.path.realpath(root)
        self.fault, self.at = fault, at
        self.count = self.closes = 0
        self.struck = ""
        self.watch: Callable[[], None] | None = None
        self.dead = self._buried = False
        self.ops: list[Op] = []
        self.start, self._numbers = Tree.load(Path(self.root))
        self.tree = self.start.copy()
        self._next = len(self.tree.nodes)
        self._device = os.stat(self.root).st_dev
        self._broken: Fault | None = None
        # The ranges of each file that did not reach the disk, and the files whose next sync has to report that.
        self._unwritten: dict[int, list[tuple[int, int]]] = {}
        self._untold: set[int] = set()
        # Syncs come from several threads.
        self._lock = threading.RLock()
        self._old: dict[str, Any] = {}

    # ------------------------------------------------------------------ in the place of the real functions
    def __enter__(self) -> Self:
        for name in _REAL:
            self._old[name] = getattr(os, name)
            setattr(os, name, getattr(self, f"_os_{name}"))
        self._old_close = os.close
        if self.fault == "close":
            os.close = lambda fd: self._close(fd, lambda: self._old_close(fd))
        self._old_open = builtins.open, io.open
        builtins.open = io.open = self._open  # type: ignore[assignment]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name, old in self._old.items():
            setattr(os, name, old)
        builtins.open, io.open = self._old_open
        os.close = self._old_close

    def mend(self) -> None:
        """From now on nothing fails any more."""
        self._broken = None
        self.fault = None

    def bury(self) -> None:
        """The program has stopped: what its objects still do when they are freed has no effect."""
        assert self.dead
        self._buried = True

    def lose(self) -> None:
        """Show what is on the disk: zeros where writes did not reach it. To be called when the context is over."""
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                for start, stop in self._unwritten.get(self._numbers.get(os.stat(path).st_ino, -1), ()):
                    with _REAL_OPEN(path, "r+b", buffering=0) as file:
                        file.seek(start)
                        file.write(bytes(max(0, min(stop, os.stat(path).st_size) - start)))

    # ------------------------------------------------------------------ faults
    def _call(self, what: str, detail: str, act: Callable[[], Any], pretend: Any = None) -> Any:
        """Make a call, unless it is to fail."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch()  # not while the lock is held: what it does may wait for calls of other threads
            self.watch = watch
        with self._lock:
            return self._one_call(what, detail, act, pretend)

    def _one_call(self, what: str, detail: str, act: Callable[[], Any], pretend: Any) -> Any:
        if self._buried:
            return pretend
        if self.dead:
            raise Stopped
        self.count += 1
        fault = self._broken
        if self.fault is not None and self.count == self.at and self.fault != "unwritten":
            fault, self.struck = self.fault, f"{what} {detail}".rstrip()
            if fault in ("eio_on", "enospc"):
                self._broken = fault
        if fault == "stop":
            self.dead = True
            raise Stopped
        if fault in ("eio", "eio_on") or (fault == "eio_late" and what in ("create", "mkdir", "open")):
            raise OSError(errno.EIO, "injected")
        if fault == "enospc" and what in _NEEDS_ROOM:
            raise OSError(errno.ENOSPC, "injected")
        result = act()
        if fault == "eio_late":
            raise OSError(errno.EIO, "injected")
        return result

    def _close(self, descriptor: int, close: Callable[[], Any]) -> None:
        """Close a descriptor; a failing `close` closes it all the same. What is closed again may be anybody's."""
        if self.fault != "close":
            close()
            return
        try:
            known = self._node(descriptor) is not None
        except OSError:
            raise AssertionError(f"descriptor {descriptor} is closed twice") from None
        close()
        self.closes += known
        if known and self.closes == self.at:
            self.struck = f"close {descriptor}"
            raise OSError(errno.EIO, "injected")

    # ------------------------------------------------------------------ paths
    def _location(self, path: Any, dir_fd: int | None = None) -> Name | None:
        """Directory and name of a path; None when it is elsewhere."""
        if isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if dir_fd is not None and not os.path.isabs(text):
            folder = self._numbers.get(os.fstat(dir_fd).st_ino) if os.fstat(dir_fd).st_dev == self._device else None
            assert folder is None or os.sep not in text
            return None if folder is None or folder not in self.tree.nodes else (folder, text)
        parent, name = os.path.split(os.path.abspath(text))
        parent = os.path.realpath(parent)
        if parent != self.root and not parent.startswith(self.root + os.sep):
            return None
        number = ROOT
        for part in parent[len(self.root) :].split(os.sep):
            if part:
                found = self.tree.folder(number).get(part)
                if found is None:
                    return None
                number = found
        return number, name

    def _entry(self, location: Name) -> int | None:
        return self.tree.folder(location[0]).get(location[1])

    def _node(self, descriptor: int) -> int | None:
        """The number of an open file."""
        status = os.fstat(descriptor)
        if status.st_dev != self._device or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            return None
        return self._numbers.get(status.st_ino)

    def _note(self, op: Op) -> None:
        self.tree.apply(op)
        self.ops.append(op)

    def _new(self, inode: int) -> int:
        self._next += 1
        self._numbers[inode] = self._next
        return self._next

    # ------------------------------------------------------------------ opening
    def _created(self, location: Name | None, path: Any, flags: int, act: Callable[[], Any]) -> Any:
        """Open a file for writing, which may create or empty it."""
        if location is None:
            return act()
        old = self._entry(location)
        if old is not None and (not flags & os.O_TRUNC or flags & os.O_EXCL):
            return self._call("open", location[1], act)
        if old is None and not flags & os.O_CREAT:
            return act()

        def run() -> Any:
            opened = act()
            inode = os.fstat(opened if isinstance(opened, int) else opened.fileno()).st_ino
            if old is None:
                self._note(Op("create", self._new(inode), location))
            elif self.tree.size(old):
                self._note(Op("truncate", old, offset=0))
            return opened

        return self._call("create" if old is None else "truncate", location[1], run)

    def _os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def act() -> int:
            return int(_REAL["open"](path, flags, mode, dir_fd=dir_fd))

        if not flags & _CHANGES:
            return act()
        return int(self._created(self._location(path, dir_fd), path, flags, act))

    def _open(
        self, file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
        newline: Any = None, closefd: bool = True, opener: Any = None,
    ) -> Any:  # fmt: skip
        if not set(mode) & set("wax+"):
            return _REAL_OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        known = isinstance(file, int) and self._node(file) is not None
        location = self._location(file)
        if (location is None and not known) or opener is not None:
            return _REAL_OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        kind = next((letter for letter in "wax" if letter in mode), "r")
        flags = {"r": 0, "a": os.O_CREAT, "w": os.O_CREAT | os.O_TRUNC, "x": os.O_CREAT | os.O_EXCL}[kind]

        def act() -> _File:
            raw = _File(file, mode.replace("b", "").replace("t", ""), closefd)
            raw.recorder = self
            return raw

        raw = self._created(location, file, flags, act)
        if buffering == 0:
            return raw
        size = os.fstat(raw.fileno()).st_blksize if buffering < 2 else buffering  # as the real one does
        buffered = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)

    # ------------------------------------------------------------------ data
    def _write(self, descriptor: int, view: memoryview, at: int, write: Callable[[memoryview], int]) -> int:
        node = self._node(descriptor)
        if node is None:
            return write(view)

        def act(part: memoryview) -> int:
            done = write(part)
            self._note(Op("write", node, offset=at, data=bytes(part[:done])))
            self._wrote(node, at, at + done)
            return done

        strikes = self.fault in ("short", "enospc") and self.count + 1 == self.at and len(view) > 1
        grows = at + len(view) > self.tree.size(node)
        if strikes and not self.dead and (grows or self.fault == "short"):
            half = view[: len(view) // 2]
            if self.fault == "short":
                self.struck = f"write {len(view)} at {at}"
                self.count += 1
                return act(half)
            act(half)
        what = "write" if grows else "overwrite"
        return int(self._call(what, f"{len(view)} at {at}", lambda: act(view), len(view)))

    def _wrote(self, node: int, start: int, stop: int) -> None:
        """Note that what was written here reaches the disk, or that it does not."""
        left = [part for a, b in self._unwritten.get(node, ()) for part in ((a, min(b, start)), (max(a, stop), b))]
        self._unwritten[node] = [(a, b) for a, b in left if a < b]
        if self.fault == "unwritten" and not self.struck and self.count >= self.at and stop > start:
            self.struck = f"write {stop - start} at {start}"
            self._unwritten[node].append((start, stop))
            self._untold.add(node)

    def _os_write(self, fd: int, data: Any) -> int:
        if self._node(fd) is None:
            return int(_REAL["write"](fd, data))
        appends = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
        at = os.fstat(fd).st_size if appends else os.lseek(fd, 0, os.SEEK_CUR)
        return self._write(fd, memoryview(data).cast("B"), at, lambda part: _REAL["write"](fd, part))

    def _os_pwrite(self, fd: int, data: Any, offset: int) -> int:
        view = memoryview(data).cast("B")
        return self._write(fd, view, offset, lambda part: _REAL["pwrite"](fd, part, offset))

    def _os_writev(self, fd: int, buffers: Any) -> int:
        return self._os_write(fd, b"".join(bytes(b) for b in buffers))

    def _os_pwritev(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        return self._os_pwrite(fd, b"".join(bytes(b) for b in buffers), offset)

    def _os_sendfile(self, out_fd: int, in_fd: int, offset: int | None, count: int, *rest: Any) -> int:
        if self._node(out_fd) is None:
            return int(_REAL["sendfile"](out_fd, in_fd, offset, count, *rest))
        data = os.read(in_fd, count) if offset is None else os.pread(in_fd, count, offset)
        return self._os_write(out_fd, data) if data else 0

    def _os_copy_file_range(
        self, src: int, dst: int, count: int, offset_src: int | None = None, offset_dst: int | None = None
    ) -> int:
        if self._node(dst) is None:
            return int(_REAL["copy_file_range"](src, dst, count, offset_src, offset_dst))
        data = os.read(src, count) if offset_src is None else os.pread(src, count, offset_src)
        if not data:
            return 0
        return self._os_write(dst, data) if offset_dst is None else self._os_pwrite(dst, data, offset_dst)

    def _truncate(self, descriptor: int, length: int, truncate: Callable[[int], Any]) -> None:
        node = self._node(descriptor)
        if node is None:
            truncate(length)
            return

        def act() -> None:
            truncate(length)
            self._note(Op("truncate", node, offset=length))

        self._call("truncate", f"to {length}", act)

    def _os_ftruncate(self, fd: int, length: int) -> None:
        self._truncate(fd, length, lambda size: _REAL["ftruncate"](fd, size))

    def _os_posix_fallocate(self, fd: int, offset: int, length: int) -> None:
        if self._node(fd) is None:
            _REAL["posix_fallocate"](fd, offset, length)
        elif offset + length > os.fstat(fd).st_size:
            self._truncate(fd, offset + length, lambda size: _REAL["ftruncate"](fd, size))

    def _os_truncate(self, path: Any, length: int) -> None:
        if isinstance(path, int):
            self._os_ftruncate(path, length)
            return
        fd = int(_REAL["open"](path, os.O_WRONLY))
        try:
            self._os_ftruncate(fd, length)
        finally:
            os.close(fd)

    # ------------------------------------------------------------------ syncs, which nothing waits for here
    def _os_fsync(self, fd: Any) -> None:
        descriptor = fd if isinstance(fd, int) else fd.fileno()
        node = self._node(descriptor)
        if node is None:
            return

        def act() -> None:
            if node in self._untold:
                self._untold.discard(node)
                raise OSError(errno.EIO, "injected")
            self._note(Op("fsync", node))

        self._call("fsync", f"#{node}", act)

    _os_fdatasync = _os_fsync

    def _os_sync(self) -> None:
        self._call("sync", "", lambda: self._note(Op("sync")))

    # ------------------------------------------------------------------ names
    def _os_mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        location = self._location(path, dir_fd)

        def act() -> None:
            _REAL["mkdir"](path, mode, dir_fd=dir_fd)
            if location is not None:
                inode = os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_ino
                self._note(Op("mkdir", self._new(inode), location))

        if location is None or self._entry(location) is not None:
            act()
        else:
            self._call("mkdir", location[1], act)

    def _os_unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("unlink", path, dir_fd)

    _os_remove = _os_unlink

    def _os_rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._remove("rmdir", path, dir_fd)

    def _remove(self, kind: str, path: Any, dir_fd: int | None) -> None:
        location = self._location(path, dir_fd)
        node = None if location is None else self._entry(location)

        def act() -> None:
            _REAL[kind](path, dir_fd=dir_fd)
            if location is not None and node is not None:
                self._note(Op(kind, node, location))

        if location is None or node is None:
            act()
        else:
            self._call(kind, location[1], act)

    def _os_rename(self, src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> None:
        self._move("rename", src, dst, src_dir_fd, dst_dir_fd)

    def _os_replace(self, src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None) -> None:
        self._move("replace", src, dst, src_dir_fd, dst_dir_fd)

    def _move(self, kind: str, src: Any, dst: Any, src_dir_fd: Any, dst_dir_fd: Any) -> None:
        source, target = self._location(src, src_dir_fd), self._location(dst, dst_dir_fd)
        node = None if source is None else self._entry(source)
        assert (source is None) == (target is None), f"a rename across the border: {src} -> {dst}"

        def act() -> None:
            _REAL[kind](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            if node is not None and self._entry(target) != node:  # type: ignore[arg-type]
                self._note(Op("rename", node, source, target))

        if node is None:
            act()
        else:
            self._call("rename", f"{source[1]} -> {target[1]}", act)  # type: ignore[index]

    def _os_link(
        self, src: Any, dst: Any, *, src_dir_fd: Any = None, dst_dir_fd: Any = None, follow_symlinks: bool = True
    ) -> None:
        source, target = self._location(src, src_dir_fd), self._location(dst, dst_dir_fd)
        node = None if source is None else self._entry(source)

        def act() -> None:
            _REAL["link"](src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
            if node is not None:
                self._note(Op("link", node, target))

        if node is None:
            act()
        else:
            self._call("link", f"{source[1]} -> {target[1]}", act)  # type: ignore[index]

    def _os_symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: Any = None) -> None:
        assert self._location(dst, dir_fd) is None, "symbolic links are not modelled"
        _REAL["symlink"](src, dst, target_is_directory, dir_fd=dir_fd)

    def _os_chmod(self, path: Any, mode: int, **how: Any) -> None:
        location = self._location(path, how.get("dir_fd"))
        inside = self._node(path) is not None if isinstance(path, int) else location is not None
        if not inside:
            _REAL["chmod"](path, mode, **how)
            return
        self._call("chmod", oct(mode), lambda: (_REAL["chmod"](path, mode, **how), self._note(Op("chmod"))))

    def _os_fchmod(self, fd: int, mode: int) -> None:
        self._os_chmod(fd, mode)
