"""Small changes of a file that wait in memory, and who publishes them when its handle does not.

A handle publishes a small change at once as long as that is cheap. What comes faster waits, and is published together:
when it is much, with the first change after a second, and before anybody looks at the frame. So what a handle shows is
always published, and whoever reads, copies or changes it in another way finds all that was changed before.
"""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from _thread import get_ident
from typing import TYPE_CHECKING, Any, Final

from blosc2._core.io.sharing import Block, before_fork, each, in_child, item_of
from blosc2._files import Owner
from blosc2._options import tell

if TYPE_CHECKING:
    from blosc2._core.frame.frame import Frame
    from blosc2._core.ndim.geometry import Geometry
    from blosc2._frames.changeable import FileHandle
    from blosc2._frames.update import FrameUpdate

#: Seconds that the publications of small changes may take in total; beyond that they may take a part of the time.
ALLOWANCE: Final = 0.1


class Waiting:
    """Changes of the frame of one handle that wait; each kind says what they are.

    Attributes
    ----------
    array, frame
        What the handle showed before them.
    owner : Owner
        Whose changes they are.
    is_settling : bool
        Whether they are being published, or something of them is being changed.
    """

    __slots__ = ("array", "frame", "is_settling", "owner")

    def __init__(self, handle: FileHandle) -> None:
        self.array: Any = handle.array
        self.frame: Frame = handle.frame
        self.owner = Owner()
        self.is_settling = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        raise NotImplementedError

    @property
    def geometry(self) -> Geometry:
        """Of the array after them."""
        raise NotImplementedError

    def update(self, handle: FileHandle) -> FrameUpdate:
        """All of them as one update."""
        raise NotImplementedError


# Handles, by id, with changes that wait; and those that have changed their files, which are left compact in the end.
_waiting: weakref.WeakValueDictionary[int, FileHandle] = weakref.WeakValueDictionary()
_changed: weakref.WeakValueDictionary[int, FileHandle] = weakref.WeakValueDictionary()
# Id of the `multiprocessing` child process that ends its handles at exit.
_child = 0


def _alive(table: weakref.WeakValueDictionary[int, FileHandle]) -> list[FileHandle]:
    """The handles of a table, which other threads may be changing: its iterators would raise."""
    data: dict[int, Any] = table.data.copy()  # type: ignore[attr-defined]  # the stubs lack it
    return [handle for reference in data.values() if (handle := reference()) is not None]


def note_waiting(handle: FileHandle) -> None:
    """Something waits from now on."""
    _waiting[id(handle)] = handle
    note_changed(handle)


def note_published(handle: FileHandle) -> None:
    """Nothing waits any more."""
    _waiting.pop(id(handle), None)


def note_changed(handle: FileHandle) -> None:
    """A handle has changed its file."""
    _changed[id(handle)] = handle
    util = item_of(sys.modules, "multiprocessing.util")
    parent = getattr(item_of(sys.modules, "multiprocessing.process"), "parent_process", None)
    if util is not None and parent is not None and parent() is not None:
        global _child
        if _child != os.getpid():  # children forget the finalizers of their parents, and run no `atexit` functions
            _child = os.getpid()
            util.Finalize(None, end_all, exitpriority=0)


def publish_at(path: str) -> bool:
    """Publish what waits in this process for the file at a path, which is about to be opened; whether anything did."""
    if not _waiting:
        return False
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # whoever opens it says what is wrong
        return False
    found = False
    for handle in _alive(_waiting):
        if handle.waits_for(status):
            try:
                handle.settle()
            except Exception as error:  # noqa: BLE001 - who opens the file has nothing to do with it
                _tell_of(handle, error)
            found = True
    return found


def _tell_of(handle: FileHandle, error: Exception) -> None:
    """Say what went wrong to somebody else than its user, to whom the error is raised again if anything still waits."""
    if handle.waiting is None:
        told = " ".join([str(error), *getattr(error, "__notes__", [])])
        warnings.warn(told, RuntimeWarning, stacklevel=5)
    else:
        tell("WARNING", "%s: what waits cannot be published: %s", handle.urlpath, error)


class Publishing(Block):
    """A publication by this thread, which has the lock of a file.

    The collector may find a handle meanwhile that nobody holds any more. To end it may take the same lock, or one that
    waits for this one in another thread: so it is kept until the publication is over.
    """

    __slots__ = ("_is_inner",)

    def __init__(self) -> None:
        self._is_inner = get_ident() in _publishing
        _publishing.add(get_ident())

    def __enter__(self) -> None:
        pass

    def _leave(self, failed: bool) -> None:  # noqa: ARG002
        if not self._is_inner:
            _publishing.discard(get_ident())
            while _left:
                each(_end, [_left.pop()])

    @staticmethod
    def keeps(handle: FileHandle) -> bool:
        """Whether this thread is in the middle of one, after which the handle is ended."""
        if get_ident() not in _publishing:
            return False
        _left.append(handle)
        return True


# Threads that publish, and handles that end when they have done so.
_publishing: set[int] = set()
_left: list[FileHandle] = []


def _begin_child() -> None:
    """The other threads, and what they were doing, stayed with the parent."""
    _publishing.clear()
    _left.clear()


in_child(_begin_child)


def _end(handle: FileHandle) -> None:
    handle.end()


def end_all() -> None:
    """The interpreter ends: what waits is published, and files are left compact. What fails is told in one line."""
    for handle in [*_left, *_alive(_changed)]:
        try:
            handle.end()
        except Exception as error:  # noqa: BLE001 - the others are published all the same
            print(f"blosc2: changes of {handle.urlpath} are lost at the end of the program: {error}", file=sys.stderr)


def _publish_all() -> None:
    """Before a fork, so that the child sees what was changed until then. It publishes nothing of this process."""
    if get_ident() in _publishing:  # a handler of signals forks
        return
    each(_settle, [*_left, *_alive(_waiting)])


def _settle(handle: FileHandle) -> None:
    handle.settle()


before_fork(_publish_all)
