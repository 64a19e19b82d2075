"""Making files and folders durable, with every error that the system reports.

Each file is synced separately: ``sync()`` reports no errors, and not every file system supports ``syncfs``. A journal
combines syncs that come from several threads.
"""

from __future__ import annotations

import _thread
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Final

#: Syncs that wait for the disk at the same time; more are hardly quicker.
THREADS: Final = 8
#: What file systems answer that have no syncs of folders: they keep the order of changes by themselves, or not at all.
_NO_FOLDER_SYNC: Final = (errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def sync_files(paths: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Make files durable, and the names in folders."""
    work: list[tuple[Callable[[str], None], str]] = [(sync_file, path) for path in paths]
    work += [(sync_names, folder) for folder in folders]
    if len(work) < 2 or THREADS < 2:
        for sync, path in work:
            sync(path)
        return
    _sync_together(deque(work))


def _sync_together(work: deque[tuple[Callable[[str], None], str]]) -> None:
    """Do all of it, in several threads.

    Plain ones: a store that the collector of garbage drops is made durable wherever the program was at that moment, be
    it in the locks of a `ThreadPoolExecutor`.
    """
    failed: list[BaseException] = []
    ended: SimpleQueue[None] = SimpleQueue()

    def run() -> None:
        try:
            while work:
                try:
                    sync, path = work.popleft()
                except IndexError:  # another one was quicker
                    break
                sync(path)
        except BaseException as error:  # noqa: BLE001 - for the thread that waits
            failed.append(error)
        finally:
            ended.put(None)

    count = 1
    try:
        for _ in range(min(THREADS, len(work)) - 1):
            _thread.start_new_thread(run, ())
            count += 1
    except RuntimeError:  # no thread is to be had, as when the interpreter ends
        pass
    run()
    for _ in range(count):
        ended.get()
    while work and not failed:
        sync, path = work.popleft()
        sync(path)
    if failed:
        error = failed[0]
        failed.clear()  # or it would hold itself, by its frames
        try:
            raise error
        finally:
            del error


def sync_file(path: str) -> None:
    """Make a file durable."""
    # Only some systems want a descriptor that could write, and a leaf that got another name may be read-only.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_names(folder: str) -> None:
    """Make what was created, renamed or removed in a folder durable, where the system lets a folder be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Make the name of a file durable: see `sync_names`."""
    sync_names(os.path.dirname(os.path.abspath(path)))
