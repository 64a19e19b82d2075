"""Handles that publish changes, of frames in memory and in files; transactions, and changes that wait."""

from __future__ import annotations

import gc
import os
import stat
import sys
import threading
import time
import warnings
import weakref
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Self

from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import (
    Block,
    Lock,
    before_fork,
    each,
    has_locks,
    in_child,
    is_collecting,
    item_of,
    note_collection,
)
from blosc2._core.io.source import Source
from blosc2._core.on_demand import import_now
from blosc2._files import (
    ByteRange,
    Compaction,
    LockedFile,
    NewFile,
    Owner,
    Spool,
    TemporaryFile,
    as_block,
    refusal,
    superseded,
    sync_file,
    sync_folder,
    unfinished_transaction,
)
from blosc2._frames.append import Growth
from blosc2._frames.handle import (
    IN_MEMORY,
    SECTOR,
    FrameHandle,
    HandleOptions,
    array_of,
    change_entries,
    open_frame,
    vlmeta_chunk,
)
from blosc2._frames.header_fields import FRAME_HEADER
from blosc2._frames.update import SMALL_FRAME, EditedChunks, FrameUpdate, in_large_pages, is_without_dead, write_frame
from blosc2._options import absolute_path, tell, told_commit, told_rewrite
from blosc2.exceptions import FormatError, StaleHandleError, explain, name_file

if TYPE_CHECKING:
    from blosc2._core.ndim.geometry import Geometry

# Each handle that can be changed is one of those below. What changes need of these packages is imported now.
import_now("blosc2._frames", "VLMeta", "check_declared", "encode")
import_now("blosc2._frames", "splice")


def stale(what: str, path: str | None) -> StaleHandleError:
    """The error for a change of a version that is no longer the one on disk."""
    return StaleHandleError(
        f"another handle or process changed this {what} since it was opened: open it again, or call refresh(), before "
        "writing; with locking=True handles wait for each other and follow",
        path=path,
    )


class MemoryHandle(FrameHandle):
    """A frame in memory that nobody else sees; `EditedChunks` says where its chunks are."""

    __slots__ = ("_chunks", "_contiguous", "_lock")

    writable = True

    def __init__(
        self,
        frame: Frame,
        options: HandleOptions = IN_MEMORY,
        urlpath: str | None = None,
        key: str | None = None,
        *,
        contiguous: bool | None = None,
    ) -> None:
        super().__init__(frame, options, urlpath, key)
        # As asked for, or else as the frame came. In memory it makes no difference.
        self._contiguous = bool(frame.serialised) if contiguous is None else contiguous
        self._chunks: EditedChunks | None = None
        self._lock = Lock()

    def editing(self) -> AbstractContextManager[Any]:
        return self._lock

    @property
    def contiguous(self) -> bool:
        return self._contiguous

    @property
    def cbytes(self) -> int:
        return int(self.frame.cbytes if self._chunks is None else self.frame.stored_nbytes)

    def detach(self) -> None:
        """Copy the frame to memory, so that it no longer depends on its file."""
        frame = self.frame
        if not frame.serialised or frame.plain_len <= SMALL_FRAME:
            self.frame = Frame.open(Source.of_buffer(self.to_cframe()))
            return
        room = in_large_pages(frame.plain_len)
        self._plain(frame, room)
        self.frame = Frame.open(Source.of_buffer(room))

    @as_block
    def transaction(self) -> Iterator[None]:
        """See `Stored.transaction`. Changes are made at once, and taken back if the block raises."""
        with self.editing():
            if self.key is not None:
                raise RuntimeError(
                    "the changes of a leaf are published with its store: use the transaction() of the store"
                )
            with _TakenBack(self):
                yield

    def publish(self, update: FrameUpdate, *, fresh: bool = False) -> None:  # noqa: ARG002
        with self._lock:
            if update.frame is not self.frame:
                raise superseded()
            self._adopt(self._edited_chunks().after(update))

    def spliced(self, number: Any, removed: int, added: list[Any]) -> int:
        chunks, frame = self._chunks, self.frame
        if chunks is None or chunks.buffer is None:
            return 0
        made = chunks.buffer.spliced(frame, number, removed, added)
        if made is None:
            return 0
        self._show_after(frame, made)
        return made.nchunks

    def has_reordered(self, order: Any) -> bool:
        frame = self.frame
        made = frame.reordered(order)
        if made is not None:
            self._show_after(frame, made)
        return made is not None

    def _show_after(self, frame: Frame, made: Frame) -> None:
        """Show the version that was made after one, whose chunks lie where those of that do."""
        if self.frame is not frame:
            raise superseded()
        self._adopt(made)
        if self._chunks is not None:
            self._chunks.follow(frame, made)

    def _edited_chunks(self) -> EditedChunks:
        """Where the chunks are since the first change: most frames have none."""
        with self._lock:
            if self._chunks is None:
                self._chunks = EditedChunks(self._waiting_file())
            return self._chunks

    def _waiting_file(self) -> TemporaryFile | None:
        """Where new chunks are kept that are too many for memory."""
        return None

    def set_vlmeta(self, changes: dict[str, bytes | None]) -> None:
        with self.editing():
            frame = self.frame
            if frame.serialised:
                super().set_vlmeta(changes)
                return
            stored = frame.vlmeta_chunks()
            change_entries(stored, changes)
            self._show_after(frame, frame.with_vlmeta(stored))

    def byte_range(self) -> ByteRange:
        chunks = self._chunks
        return (None if chunks is None else chunks.byte_range(self.frame)) or super().byte_range()


class _TakenBack(Block):
    """Has a frame in memory show again what it showed, if the block raises."""

    __slots__ = ("_before", "_handle")

    def __init__(self, handle: MemoryHandle) -> None:
        self._handle = handle
        self._before = handle.frame, handle.array

    def __enter__(self) -> None:
        pass

    def _leave(self, failed: bool) -> None:
        handle = self._handle
        if failed and not handle._lock.inherited:
            handle.frame, handle.array = self._before
            handle.version += 1


class Draft(Block):
    """A transaction of a frame on disk, and the version that it makes: old chunks stay there, new ones wait beside it.

    At its end the handle shows what is on disk again, and `changes` has all that is to be published together: as one
    update of that, and whether it has to be written anew. It is None if there is nothing.
    """

    __slots__ = ("_array", "_broken", "_chunks", "_edits_chunks", "_fresh", "_handle", "base", "changes", "frame",
                 "owner")  # fmt: skip

    def __init__(self, handle: Drafting) -> None:
        self._handle = handle
        self.base = self.frame = handle.frame
        self._array = handle.array
        self._chunks = EditedChunks(TemporaryFile(str(handle.urlpath)), joins=True)
        self._broken = self._edits_chunks = self._fresh = False
        self.changes: tuple[FrameUpdate, bool] | None = None
        self.owner = Owner()

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Have the handle make changes here from now on."""
        handle = self._handle
        with handle._busy:
            # A handler of signals may have come before.
            if handle.waiting is not None or handle.frame is not self.base or handle.array is not self._array:
                raise superseded()
            handle._draft = self  # type: ignore[misc]

    def after(self, update: FrameUpdate, *, fresh: bool) -> Frame:
        """The frame after a change."""
        try:
            self.frame = self._chunks.after(update)
        except BaseException:
            # If it was interrupted in its middle, it is not known any more where the new chunks are.
            self._broken = self._broken or (self._chunks.frame is not self.frame is not self.base)
            raise
        self._edits_chunks |= update.table is not None
        self._fresh |= fresh
        return self.frame

    def _leave(self, failed: bool) -> None:
        handle = self._handle
        if not failed and self.owner.is_here:
            self._collect()
        if handle._draft is not self:  # it has not begun
            return
        # The draft last: what is left out by an interrupt is done again.
        if (handle.frame, handle.array) != (self.base, self._array):
            handle.frame, handle.array = self.base, self._array
            handle.version += 1
        handle._draft = None  # type: ignore[misc]

    def _collect(self) -> None:
        if self._broken:
            raise RuntimeError("a change in this transaction ended in its middle: none of its changes is published")
        if self.frame is self.base:
            return
        update, now = FrameUpdate(self.base), FrameUpdate(self.frame)
        update.metalayers, update.vlmeta = now.metalayers, now.vlmeta
        if self._edits_chunks:
            update.offsets, update.sizes = now.offsets, now.sizes
            update.chunksize, update.vlblocks = now.chunksize, now.vlblocks
            update.new = self._chunks.newer(update.offsets)
        self.changes = update, self._fresh


class Drafting(FrameHandle):
    """What handles of frames on disk share: transactions, and looking at the disk after a change that failed."""

    __slots__ = ()
    _draft: Draft | None  # each kind has slots for these
    _path: str
    # Whose it is: a forked child changes nothing through it. With `locking=True` it may, as it waits for its turn.
    _owner: Owner
    # Whether the last change failed, so that another version may be on disk than the one shown.
    _behind: bool
    # Of the thread that publishes something, or changes what waits. Who has it came in the middle of that: a handler of
    # signals, or of log records. A lock, as no interrupt comes between the end of a ``with`` block and its release.
    _busy: Lock

    def check_between(self) -> None:
        """Raise in the middle of a publication of this thread: what is changed then would be lost, or wait for it."""
        if self._busy.is_own:
            raise superseded()

    def editing(self) -> AbstractContextManager[Any]:
        """See `FrameHandle.editing`. If the last change failed, the file is read again first."""
        self.check_between()
        if self._owner.pid != os.getpid():
            raise refusal(self.urlpath, self._owner.pid)
        if self._behind or (self._draft is not None and not self.in_transaction()):
            self.refresh()
        return self._lock

    def refresh(self) -> bool:
        with self._lock:
            # A transaction, or a publication in whose middle this comes, has its own version until it ends.
            if self.in_transaction() or self._busy.is_own:
                return False
            while True:
                self.settle()
                with self._busy:
                    if self.waiting is None:  # else a handler of signals came, whose changes wait
                        return self._take_up()

    def _take_up(self) -> bool:
        """What `refresh` does where nothing waits, and in the middle of a publication."""
        changed = super().refresh()
        self._behind = False  # type: ignore[misc]
        return changed

    def _version(self) -> bytes:
        """Bytes that tell the version shown from others."""
        raise NotImplementedError

    def _look_again(self, error: BaseException) -> None:
        """After a failed change, show what is on disk, and say so in the error."""
        before = self._version()
        try:
            self._take_up()
        except (OSError, FormatError, MemoryError):
            what = "the change may be in the file: refresh() tells"
        else:
            shows = self._version() != before
            what = "the change is in the file all the same, and shows" if shows else "the file is what it was"
        explain(error, what)
        name_file(error, self._path)

    @as_block
    def transaction(self) -> Iterator[None]:
        with self.editing():
            if self._draft is not None:
                raise RuntimeError("transactions do not nest: the changes belong to the one that began before")
            with Draft(self) as draft:
                draft.begin()
                yield
            if draft.changes is not None:
                update, fresh = draft.changes
                self.publish(update, fresh=fresh, durable=True)

    @property
    def published(self) -> Frame:
        return self.frame if self._draft is None else self._draft.base

    def publish(self, update: FrameUpdate, *, fresh: bool = False, durable: bool = False) -> None:
        with self._lock:
            if self._lock.inherited:  # the change began before this process was forked
                raise refusal(self.urlpath, self._lock.holder)
            draft = self._draft if self._draft is not None and self.in_transaction() else None
            self.check_between()
            if update.frame is not self.frame:
                raise superseded()
            with self._busy:
                if self.waiting is not None or update.frame is not self.frame:  # a handler of signals came before
                    raise superseded()
                if draft is not None:
                    self._adopt(draft.after(update, fresh=fresh))
                    return
                update.settle()
                self._publish(update, fresh=fresh, durable=durable)
        told_commit(self.urlpath)

    def _publish(self, update: FrameUpdate, *, fresh: bool, durable: bool) -> None:
        """Publish a change on disk, and wait for the disk if it is to be `durable`."""
        raise NotImplementedError

    def in_transaction(self) -> bool:
        """Whether a transaction has begun. That of a parent process, in another thread, is none."""
        draft = self._draft
        if draft is not None and not draft.owner.is_here and not self._lock.inherited:
            self._draft = None  # type: ignore[misc]
            if self.array is not None:
                self.array = array_of(draft.base)
            self.frame = draft.base
        return self._draft is not None


# ------------------------------------------------------------------ small changes of files wait
# A handle publishes a small change at once as long as that is cheap. What comes faster waits, and is published
# together: when it is much, with the first change after a second, and before anybody looks at the frame. So whoever
# reads, copies or changes it in another way finds all that was changed before. What cannot be published, as the disk is
# full, readers of this handle see in memory, and changes of other kinds raise the error. A thread publishes what nobody
# has published by then.

#: Seconds. A change that waits longer is published with the next one, however small, or by a thread soon after.
LONGEST_WAIT: Final = 1.0


class Costs:
    """The publications that one handle makes by itself. As a context manager it measures one."""

    __slots__ = ("_began", "_ended", "_spent", "_took", "count")
    #: Beyond an allowance, publications may take one in so many seconds.
    part: ClassVar[float] = 20

    def __init__(self) -> None:
        self._ended = time.monotonic()
        self._began = self._spent = self._took = 0.0
        self.count = 0

    @property
    def since(self) -> float:
        """Seconds since the last one ended."""
        return time.monotonic() - self._ended

    def is_cheap(self, allowance: float) -> bool:
        """Whether publications took few seconds in all, or only a small part of the time since the last one."""
        return self._spent < allowance or self.since >= self.part * self._took

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._ended = time.monotonic()
        self._took = self._ended - self._began
        self._spent += self._took
        self.count += 1


#: Seconds that the publications of small changes may take in total; beyond that they may take a part of the time.
ALLOWANCE: Final = 0.1
# Packed bytes of metadata that may wait with one change, and in all; and changes of metadata.
_MOST_AT_ONCE: Final = 4096
_MOST_PACKED: Final = 1 << 20
_MOST_CHANGES: Final = 1 << 15
# Bytes that may wait in all handles of a process, of which each has an equal share.
_MOST_IN_ALL: Final = 64 << 20


#: What an error says of the change that it befell.
NOT_MADE: Final = "this change was not made: make it again when the reason is gone"
#: What it says of changes that wait on after it.
STILL_WAITS: Final = (
    "what waits to be published is still in memory, where reads and save() find it: call flush() when the reason is "
    "gone (free space, for example), or save it elsewhere"
)


def is_lost(error: BaseException) -> bool:
    """Whether changes that wait can never be published after an error: the file is another one."""
    return isinstance(error, (StaleHandleError, FormatError))


class Waiting:
    """Changes of the frame of one handle that wait; each kind says what they are.

    Attributes
    ----------
    array, frame, version
        What the handle showed before them; the array of a super-chunk is None.
    nbytes : int
        About how much memory they take.
    was_tried : bool
        Whether they may have been published: an interrupt came before it was noted whether they were.
    was_told : bool
        Whether the user of the handle has heard, at its end, that they cannot be published.
    """

    __slots__ = ("_pieces", "_shown", "array", "frame", "nbytes", "owner", "version", "was_told", "was_tried")

    #: The part of the time since the last publication that one may have taken for the next one to come at once.
    allowance = ALLOWANCE

    def __init__(self, handle: FileHandle) -> None:
        self.version = handle.version  # before the others: a handler of signals may change the array
        array: Any = handle.array
        self.array, self.frame = array, handle.frame if array is None else array[2]
        self.owner = Owner()
        self.was_tried = self.was_told = False
        # What waits: the last item is changed, added or removed in one step, so an interrupt leaves a change whole or
        # leaves it out.
        self._pieces: list[Any] = []
        self.nbytes = 0
        # What is shown while they cannot be published, after the last change of which that knows: array and frame.
        self._shown: tuple[Any, Any, Frame] | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def last(self) -> Any:
        """The last piece, an object that is another one after each change; None if nothing waits."""
        return self._pieces[-1] if self._pieces else None

    @property
    def is_much(self) -> bool:
        """Whether it is time to publish them, however fast they came."""
        raise NotImplementedError

    def put(self, *change: Any) -> Any:
        """Keep a change. Returns what `take_back` needs."""
        raise NotImplementedError

    def take_back(self, before: Any) -> None:
        """Leave out what was put last."""
        raise NotImplementedError

    @property
    def described(self) -> str:
        """What they are, for messages."""
        raise NotImplementedError

    @property
    def geometry(self) -> Geometry:
        """Of the array after them."""
        return self.array[0]  # type: ignore[no-any-return]

    def update(self, handle: FileHandle) -> FrameUpdate:
        """All of them as one update."""
        raise NotImplementedError

    @property
    def is_shown_here(self) -> bool:
        """Whether readers of this process have seen all of them in memory."""
        return self._shown is not None and self._shown[0] is self.last and self.owner.is_here

    def shows(self, frame: Frame) -> bool:
        """Whether a frame is what `in_memory` gave last."""
        return self._shown is not None and self._shown[2] is frame

    def in_memory(self, handle: FileHandle) -> tuple[Any, Frame]:
        """The array and the frame with them as a transaction would show these, whose new chunks are in memory."""
        if not self.is_shown_here:
            last = self.last
            with handle._busy:  # the draft begins with what was shown before them
                frame = Draft(handle).after(self.update(handle), fresh=False)
                self._shown = last, handle._checked(frame), frame
        assert self._shown is not None
        return self._shown[1:]


class Entries:
    """The metadata entries of a frame, after changes that wait. As those of a `Frame` they never change.

    Parameters
    ----------
    changed : dict
        The packed values of those that are new, or have another value than in the frame.
    count : int
        How many changes there were.
    """

    __slots__ = ("changed", "count", "file_size", "frame", "key", "names")

    def __init__(self, frame: Frame, names: list[str], changed: dict[str, bytes], count: int) -> None:
        self.frame, self.names, self.changed, self.count = frame, names, changed, count
        self.file_size, self.key = frame.file_size, frame.key

    def vlmeta_names(self) -> list[str]:
        """The names of all entries, in their order."""
        return self.names.copy()

    def vlmeta(self, name: str) -> bytes | None:
        """The packed value of an entry; None if there is none of this name."""
        content: bytes | None = self.changed.get(name)
        if content is None and name in self.names:
            content = self.frame.vlmeta(name)
        return content

    def after(self, changes: dict[str, bytes | None]) -> Entries:
        """The entries with other values; None removes one."""
        names, changed = self.names.copy(), self.changed.copy()
        for name, packed in changes.items():
            if packed is not None:
                if name not in names:
                    names.append(name)
                changed[name] = packed
            elif name in names:
                names.remove(name)
                changed.pop(name, None)
        return Entries(self.frame, names, changed, self.count + 1)


class WaitingEntries(Waiting):
    """Metadata entries that wait, of which the last `Entries` tell all."""

    __slots__ = ()

    # To keep a change costs so little beside publishing it that there is no allowance.
    allowance = 0.0

    @property
    def entries(self) -> Entries:
        """The entries after the changes."""
        return self._pieces[-1] if self._pieces else Entries(self.frame, self.frame.vlmeta_names(), {}, 0)

    @property
    def described(self) -> str:
        count = self.entries.count
        return "1 change of metadata" if count == 1 else f"{count} changes of metadata"

    @property
    def is_much(self) -> bool:
        return self._pieces[-1].count >= _MOST_CHANGES or self.nbytes >= _MOST_PACKED

    def put(self, changes: dict[str, bytes | None]) -> list[Entries]:
        before = self._pieces.copy()
        self.nbytes += sum(map(len, filter(None, changes.values())))
        self._pieces[:] = [self.entries.after(changes)]
        return before

    def take_back(self, before: list[Entries]) -> None:
        self._pieces[:] = before

    def update(self, handle: FileHandle) -> FrameUpdate:  # noqa: ARG002
        names, changed = self.entries.names, self.entries.changed
        update = FrameUpdate(self.frame)
        stored = update.vlmeta
        update.vlmeta = {n: vlmeta_chunk(changed[n]) if n in changed else stored[n] for n in names}
        return update


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
    _clock.begin()


def note_published(handle: FileHandle) -> None:
    """Nothing waits any more."""
    _waiting.pop(id(handle), None)


def note_changed(handle: FileHandle) -> None:
    """A handle has changed its file."""
    _changed[id(handle)] = handle
    if note_collection not in gc.callbacks:
        gc.callbacks.append(note_collection)
    util = item_of(sys.modules, "multiprocessing.util")
    parent = getattr(item_of(sys.modules, "multiprocessing.process"), "parent_process", None)
    if util is not None and parent is not None and parent() is not None:
        global _child
        if _child != os.getpid():  # children forget the finalizers of their parents, and run no `atexit` functions
            _child = os.getpid()
            util.Finalize(None, end_all, exitpriority=0)


def _waiting_at(path: str) -> list[FileHandle]:
    """The handles in which something waits for the file at a path, or for files in a folder."""
    if not _waiting and not _left:
        return []
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # whoever opens or changes it says what is wrong
        return []
    real = os.path.realpath(path)
    return [handle for handle in [*_left, *_alive(_waiting)] if handle.waits_for(status, real)]


def publish_at(path: str) -> bool:
    """Publish what waits in this process for the file at a path, or for files in a folder, which is about to be read.

    Returns whether anything waited.
    """
    found = _waiting_at(path)
    for handle in found:
        try:
            handle.settle()
        except Exception as error:  # noqa: BLE001 - who opens the file has nothing to do with it
            _tell_of(handle, error)
    return bool(found)


def publish_beside(changing: FileHandle) -> None:
    """Publish what waits in other handles for the file at the path of one, which is about to be changed.

    What is lost in any case waits on, so that whoever uses the handle gets the error. Any other error is raised: the
    change that is about to be made would be the one that loses it.
    """
    for handle in _waiting_at(changing._path):
        if handle is changing or handle._behind:
            continue
        handle.check_between()
        try:
            handle.settle(forget=False)
        except FileNotFoundError:
            pass
        except Exception as error:
            if not is_lost(error):
                raise


def _tell_of(handle: FileHandle, error: Exception) -> None:
    """Say what went wrong to somebody else than its user, to whom the error is raised again if anything still waits."""
    if handle.waiting is None:
        told = " ".join([str(error), *getattr(error, "__notes__", [])])
        warnings.warn(told, RuntimeWarning, stacklevel=5)
    else:
        tell("WARNING", "%s: what waits cannot be published: %s", handle.urlpath, error)


# Handles that nobody holds any more, which the clock is to end.
_left: list[FileHandle] = []


in_child(_left.clear)  # they are the parent's


def _leave_to_clock(handle: FileHandle) -> None:
    """Have a handle ended soon that nobody holds any more.

    Called by finalizers, so in the middle of anything: it waits for no lock, not even for one of a Python module.
    """
    _left.append(handle)
    _clock.ring()


def _end_left(handle: FileHandle) -> None:
    """End a handle that nobody holds any more, unless its file is locked: then it stays."""
    has_ended = True
    try:
        has_ended = handle.has_ended()
    finally:
        if has_ended:
            with suppress(ValueError):  # another thread did the same
                _left.remove(handle)


def end_all() -> None:
    """The interpreter ends: what waits is published, and files are left compact. What fails is told in one line."""
    _clock.end()  # it may be telling of a loss
    for handle in [*_left, *_alive(_changed)]:
        waiting = handle.waiting
        try:
            handle.end_quietly(forget=False)
        except Exception as error:  # noqa: BLE001 - the others are published all the same
            if waiting is None or not waiting.was_told:
                print(
                    f"blosc2: changes of {handle.urlpath} are lost at the end of the program: {error}", file=sys.stderr
                )


def _tell_loss(handle: FileHandle, waiting: Waiting | None, error: Exception) -> None:
    """Tell in one line that changes are lost with a handle that nobody holds any more, unless its user knows."""
    what = "changes" if waiting is None else waiting.described
    told = (
        f"{handle.urlpath}: lost with its last handle: {what} that waited to be published: {error}; flush(), or a with "
        "block around the changes, raises the error while they can be saved elsewhere"
    )
    if waiting is not None and waiting.was_told:
        tell("WARNING", "%s", told)
        return
    if waiting is not None:
        waiting.was_told = True
    warnings.warn(told, RuntimeWarning, stacklevel=4)


class _Clock:
    """A thread that publishes what has waited for a second, as a program may do something else than changing arrays.

    It also ends handles that finalizers leave to it. It lives while there is anything to do. What it cannot publish
    waits on, so that whoever uses the handle gets the error.
    """

    __slots__ = ("_bell", "_lock", "_stopped", "_thread")

    def __init__(self) -> None:
        self._lock = Lock()
        self._bell = allocate_lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def begin(self) -> None:
        with self._lock:
            if self._is_alive:
                return
            self._stopped = threading.Event()
            self._thread = thread = threading.Thread(
                target=self._run, args=(self._stopped,), name="blosc2-publishing", daemon=True
            )
            with suppress(RuntimeError):  # there can be no more threads, or the interpreter ends: then it waits longer
                thread.start()

    @property
    def _is_alive(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def ring(self) -> None:
        """Have it look at what there is to do at once. To be called by finalizers, too."""
        with suppress(RuntimeError):  # it was rung before
            self._bell.release()
        if not self._is_alive:
            # To begin it takes locks of `threading`, in whose middle the thread that is here may be.
            with suppress(RuntimeError):
                start_new_thread(self.begin, ())

    def end(self) -> None:
        """Have it end before a fork, after which threads are counted."""
        thread = self._thread
        if thread is not None and thread.is_alive() and thread.ident != get_ident():
            self._stopped.set()
            with suppress(RuntimeError):
                self._bell.release()
            thread.join(LONGEST_WAIT)  # it may wait for a lock of this thread
        self._thread = None

    def _run(self, stopped: threading.Event) -> None:
        while self._has_work():
            self._bell.acquire(timeout=LONGEST_WAIT / 4)
            if stopped.is_set():
                return
            each(_end_left, _left.copy())
            each(_settle_late, _alive(_waiting))

    def _has_work(self) -> bool:
        """Whether its thread is to go on. If not, whoever comes now begins another one."""
        if _waiting or _left:
            return True
        thread, self._thread = self._thread, None
        if not (_waiting or _left):
            return False
        with self._lock:
            if self._thread is None:
                self._thread = thread
            return self._thread is thread


def _settle_late(handle: FileHandle) -> None:
    if handle.is_late:
        _settle_now(handle)


def _settle_now(handle: FileHandle) -> bool:
    """Publish what waits in a handle unless that has to wait for anybody; whether it was published."""
    try:
        return handle.settle_now()
    except Exception as error:  # noqa: BLE001 - whoever uses the handle gets it
        tell("WARNING", "%s: what waits cannot be published: %s", handle.urlpath, error)
        return False


_clock: Final = _Clock()


def _publish_all() -> None:
    """Before a fork, so that the child sees what was changed until then. It publishes nothing of this process."""
    # A thread that has locks waits for nobody: a handler of signals may fork in the middle of a publication.
    each(_settle_now if has_locks() else _settle_soon, [*_left, *_alive(_waiting)])
    _clock.end()  # last: what cannot be published would begin it anew


def _settle_soon(handle: FileHandle) -> None:
    """Publish what waits in a handle; threads of this process are waited for a moment, other programs are not."""
    last = time.monotonic() + LONGEST_WAIT / 4
    while not _settle_now(handle) and handle._lock.is_elsewhere and time.monotonic() < last:
        time.sleep(0.001)


def _go_on() -> None:
    """After a fork, in the parent: what could not be published is tried again."""
    if _waiting or _left:
        _clock.begin()


before_fork(_publish_all, _go_on)


# ------------------------------------------------------------------ frames that are files
_MOST_FILES: Final = 10_000

#: Device and inode of a file; more may follow.
Identity = tuple[int, ...] | None


class _Flushes:
    """Which files this process has flushed, and when, so that other handles of the same file know."""

    __slots__ = ("_files", "_least", "count")

    def __init__(self) -> None:
        #: How many flushes there were.
        self.count = 0
        self._files: dict[tuple[int, ...], int] = {}
        self._least = 0  # of files that are not noted

    def note(self, file: tuple[int, ...]) -> None:
        """Note a flush of the file with this device and inode."""
        if len(self._files) >= _MOST_FILES:
            self._files, self._least = {}, self.count
        self.count += 1
        self._files[file] = self.count

    def last(self, file: tuple[int, ...]) -> int:
        """The number of the last flush of a file, or a later one."""
        return self._files.get(file, self._least)


_flushes = _Flushes()


class Durability:
    """What a power cut would leave of one file, as far as a handle that changes it knows.

    Attributes
    ----------
    has_version : bool
        Whether a version that a power cut must leave may be in the file: not while a new one was never flushed.
    keeps_header : bool
        Whether that may be one of the shape and chunk size that the header says now.
    is_named : bool
        Whether the name is durable, as far as the handle has seen to it.
    is_doubtful : bool
        Whether making something durable failed: what the system could not write then, it may not try to write again.
    """

    __slots__ = ("_is_settled", "_seen", "has_version", "is_doubtful", "is_named", "keeps_header")

    def __init__(self, *, new: bool, durable: bool) -> None:
        self.has_version = self.keeps_header = not new or durable
        self.is_named = new and durable
        self.is_doubtful = False
        self._is_settled = self.has_version  # whether all that the handle has published is durable
        self._seen = _flushes.count  # flushes of this process that were taken note of

    def begin(self, identity: Identity) -> None:
        """A change begins: other handles of this process may have flushed the file."""
        if self._seen != _flushes.count:
            if identity is None or _flushes.last(identity[:2]) > self._seen:
                self.has_version = self.keeps_header = True
            self._seen = _flushes.count

    def note_change(self, *, durable: bool, keeps_header: bool) -> None:
        """A version was published; `keeps_header` says whether a durable one may have the header that is there now."""
        self._is_settled = durable
        self.is_doubtful = self.is_doubtful and not durable
        self.has_version = self.has_version or durable
        self.keeps_header = keeps_header and self.has_version

    def note_failure(self, *, durable: bool) -> None:
        """A change that was to be `durable` failed, and with it perhaps the writing of earlier ones."""
        self.is_doubtful = self.is_doubtful or (durable and not self._is_settled)

    def note_others(self) -> None:
        """Somebody else made the version that is shown now, and may have waited for the disk."""
        self.has_version = self.keeps_header = True
        self.is_named = False

    def begin_flush(self) -> None:
        """All is about to be made durable, which may fail."""
        self.is_doubtful = not self._is_settled

    def note_flush(self, identity: Identity) -> None:
        """All is durable."""
        self._is_settled = self.has_version = self.keeps_header = self.is_named = True
        self.is_doubtful = False
        if identity is not None:
            _flushes.note(identity[:2])


# The slots of what a handle shows. They are empty while changes wait: whoever looks there comes to `__getattr__`.
_FRAME: Final[Any] = FrameHandle.__dict__["frame"]
_ARRAY: Final[Any] = FrameHandle.__dict__["array"]


class FileHandle(Drafting):
    """A frame that is a file of its own, changed by "append, then publish" (FORMATS 8.1).

    Small changes may wait: see `Waiting`.
    """

    __slots__ = ("_behind", "_busy", "_costs", "_disk", "_draft", "_durable", "_exclusive", "_growth", "_lock",
                 "_owner", "_path", "_real", "waiting")  # fmt: skip

    writable = True

    def __init__(self, frame: Frame, options: HandleOptions, path: str, *, new: bool = False) -> None:
        self.waiting: Waiting | None = None
        self._costs = Costs()
        super().__init__(frame, options, path)
        self._behind = False
        self._draft: Draft | None = None
        # Whether a change waits for the lock of the file. If not, nobody else may change the file.
        self._exclusive = options.exclusive
        self._durable = options.durable
        self._disk = Durability(new=new, durable=options.durable)
        # Of a file that was opened it is made for the first change.
        self._growth: Growth | None = Growth(frame.source.size) if new else None
        self._lock, self._busy = Lock(), Lock()
        self._owner = Owner()
        self._path = absolute_path(path)  # stays right when the process changes its working directory
        self._real = ""  # without links, once it was needed

    def spool(self) -> Spool:
        return Spool(self._path)

    def editing(self) -> AbstractContextManager[Any]:
        """See `Drafting.editing`. What waits in this process for the same file came first."""
        if self.waiting is None:  # otherwise it was published before, or there is none
            publish_beside(self)
        return super().editing()

    @property
    def cbytes(self) -> int:
        return int(self.frame.cbytes if self._growth is None else self.frame.stored_nbytes)

    # ------------------------------------------------------------ changes that wait
    def __getattr__(self, name: str) -> Any:
        # Called for slots without a value.
        if name not in ("frame", "array"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        slot = _FRAME if name == "frame" else _ARRAY
        # Who has the lock is about to change what is published; all others read.
        is_changing = self._lock.is_own
        with self._lock:
            waiting = self.waiting
            if waiting is not None and self._busy.is_own:
                return getattr(waiting, name)  # this thread is publishing it
            while True:
                try:
                    if is_changing or waiting is None or not waiting.is_shown_here or self._costs.is_cheap(ALLOWANCE):
                        self.settle(of_change=is_changing)
                except (OSError, MemoryError) as error:
                    if is_changing or self.waiting is None:
                        raise
                    tell("WARNING", "%s: what waits cannot be published: %s", self.urlpath, error)
                waiting = self.waiting
                if waiting is not None and not is_changing:
                    array, frame = waiting.in_memory(self)
                    return frame if name == "frame" else array
                try:
                    return slot.__get__(self)
                except AttributeError:
                    if self.waiting is None:
                        raise
                    # A handler of signals came in between, whose changes wait.

    @property
    def published(self) -> Frame:
        waiting = self.waiting
        return super().published if waiting is None or self._draft is not None else waiting.frame

    @property
    def is_in_memory(self) -> bool:
        waiting = self.waiting
        return waiting is not None and waiting.shows(self.frame)  # which publishes them, if it can

    @property
    def layout(self) -> Any:
        waiting = self.waiting
        if waiting is None or not waiting or not waiting.owner.is_here:
            return self.array
        return waiting.geometry, *waiting.array[1:]

    @property
    def may_wait(self) -> bool:
        return not (self._durable or self.locking or self._draft is not None)

    @property
    def is_due(self) -> bool:
        """Whether what waits is to be published with the change that was just made."""
        waiting = self.waiting
        return waiting is None or self._costs.is_cheap(waiting.allowance) or self._costs.since >= LONGEST_WAIT

    @property
    def is_late(self) -> bool:
        """Whether something has waited for long, and no other thread is about to change the array."""
        return self.waiting is not None and self._costs.since >= LONGEST_WAIT and not self._lock.is_elsewhere

    @property
    def entries(self) -> Any:
        waiting = self.waiting
        if waiting is None or type(waiting) is not WaitingEntries or not waiting.owner.is_here:
            return self.frame
        return waiting.entries

    def set_vlmeta(self, changes: dict[str, bytes | None]) -> None:
        with self.editing():
            if not self.may_wait or sum(map(len, filter(None, changes.values()))) > _MOST_AT_ONCE:
                super().set_vlmeta(changes)
            elif self.waiting is None and self._costs.is_cheap(0):
                with self._costs:
                    super().set_vlmeta(changes)
            else:
                self._keep_entries(changes)

    def _keep_entries(self, changes: dict[str, bytes | None]) -> None:
        """Let changes of metadata wait; or publish them, if little time went into that."""
        waiting = self.waiting
        # One that is empty is there since an interrupt, and may be of an older version.
        if not waiting or type(waiting) is not WaitingEntries or waiting.was_tried or not waiting.owner.is_here:
            self.settle(of_change=True)
            waiting = WaitingEntries(self)
            self.wait(waiting)
        self.keep(waiting, changes)

    def keep(self, waiting: Waiting, *change: Any) -> None:
        """Let a change wait with others; or publish all, if it is time. If that fails, this change is taken back."""
        self.check_between()
        with self._busy:  # to the end: what a handler of signals changed meanwhile would be taken back, too
            if self.waiting is not waiting:
                raise superseded()
            before = waiting.put(*change)
            self.version += 1
            if waiting.is_much or self.is_due or waiting.nbytes * len(_waiting) > _MOST_IN_ALL:
                try:
                    self._settle(waiting, forget=True)
                except BaseException as error:
                    # After an interrupt they may be in the file.
                    is_taken_back = self.waiting is waiting and not waiting.was_tried
                    if is_taken_back:
                        waiting.take_back(before)
                        if not waiting:
                            self.show_again()
                    self._explain(error, of_change=is_taken_back, of_others=bool(before))
                    raise

    def waits_for(self, file: os.stat_result, real: str) -> bool:
        """Whether changes wait for a file, also where it has got the place of the one that was changed; or in a folder.

        Without a call of the system, as thousands of handles may be asked with each file that is opened.
        """
        waiting = self.waiting
        if waiting is None or not waiting.owner.is_here:
            return False
        identity = waiting.frame.source.identity
        if identity is not None and identity[:2] == (file.st_dev, file.st_ino):
            return True
        self._real = self._real or os.path.realpath(self._path)
        return self._real == real or (stat.S_ISDIR(file.st_mode) and self._real.startswith(os.path.join(real, "")))

    def wait(self, waiting: Waiting) -> None:
        """Let changes wait from now on: what was shown before is not shown any more."""
        with self._busy:  # what a handler of signals published meanwhile would be hidden
            # It may have come before.
            if self.waiting is not waiting and (self.waiting is not None or self.version != waiting.version):
                raise superseded()
            self.waiting = waiting
            note_waiting(self)
            for slot in (_ARRAY, _FRAME):
                try:
                    slot.__delete__(self)
                except AttributeError:  # an interrupt came the last time
                    pass

    def show_again(self) -> None:
        """Nothing waits any more, and nothing was published: show what was shown before."""
        waiting = self.waiting
        if waiting is not None:
            if not self._shows_other(waiting):
                self.array, self.frame = waiting.array, waiting.frame
            note_published(self)
            self.waiting = None

    def _shows_other(self, waiting: Waiting) -> bool:
        """Whether another version is shown than before the changes that wait: one that has them, or somebody else's."""
        try:
            shown: Frame = _FRAME.__get__(self)
        except AttributeError:
            return False
        before = waiting.frame
        if shown is before:
            return False
        # The file may have been looked at again, to find what it was.
        old, new = before.source.identity, shown.source.identity
        return old is None or new is None or old[:2] != new[:2] or shown.header_bytes() != before.header_bytes()

    def settle(self, *, forget: bool = True, of_change: bool = False) -> None:
        """Publish what waits, if anything does. After an error it waits on, unless the error says that it is lost.

        `forget` is for the user of the handle, whose error says what becomes of it, and of the change that needs this.
        Otherwise it waits on even where it is lost. In the middle of a publication of this thread nothing is done.
        """
        with self._lock:
            waiting = self.waiting
            if waiting is not None and not self._busy.is_own:
                with self._busy:
                    try:
                        self._settle(waiting, forget=forget)
                    except (OSError, MemoryError, FormatError) as error:
                        if forget:
                            self._explain(error, of_change=of_change)
                        raise

    def _explain(self, error: BaseException, *, of_change: bool, of_others: bool = True) -> None:
        """Say what becomes of a change that could not be published, and of others that waited before it."""
        if is_lost(error):
            if of_others and self.waiting is None:
                explain(error, "changes that waited to be published are lost")
        elif isinstance(error, (OSError, MemoryError)):
            if of_change:
                explain(error, NOT_MADE)
            if of_others and self.waiting is not None:
                explain(error, STILL_WAITS)

    def _settle(self, waiting: Waiting, *, forget: bool) -> None:
        if not waiting.owner.is_here:
            self.show_again()  # a forked child publishes nothing of its parent
            return
        try:
            # Where it was published, an interrupt came before that was noted.
            if waiting and not self._shows_other(waiting):
                waiting.was_tried = True
                self._publish_waiting(waiting, forget=forget)
        finally:
            if not waiting or self._shows_other(waiting):
                self.show_again()
            elif self.waiting is waiting:
                self.wait(waiting)
                waiting.was_tried = False

    def _publish_waiting(self, waiting: Waiting, *, forget: bool) -> None:
        try:
            if self._behind:
                self._take_up()
                if self._shows_other(waiting):
                    raise stale("file", self.urlpath)
                self.wait(waiting)
            if self._lock.inherited:  # a handler of signals has forked
                raise refusal(self.urlpath, self._lock.holder)
            with self._costs:
                update = waiting.update(self)
                update.settle()
                self._publish(update, fresh=False, durable=False)
            told_commit(self.urlpath)
        except FormatError:
            if forget:
                self.show_again()  # to try again would be of no use
            raise

    def settle_now(self) -> bool:
        """Publish what waits unless another thread has the handle, or the file is locked; whether it was published."""
        with self._lock.now() as is_taken:
            if not is_taken:
                return False
            try:
                self.settle(forget=False)
            except BlockingIOError:
                return False
            return self.waiting is None

    def has_ended(self) -> bool:
        """End it, as nobody holds it any more, unless its file is locked; whether it has ended. What fails is told."""
        waiting = self.waiting
        with self._lock.now() as is_taken:
            if not is_taken:
                return False
            try:
                self.end_quietly(forget=False)
            except BlockingIOError:
                return False
            except FileNotFoundError as error:  # there is nothing left to be changed, or it was moved
                tell("WARNING", "%s: what waited to be published is lost with its last handle: %s", self.urlpath, error)
            except Exception as error:  # noqa: BLE001 - there is nobody to whom it could be raised
                _tell_loss(self, waiting, error)
        return True

    def end(self) -> None:
        self.check_between()
        waiting = self.waiting
        try:
            self.end_quietly()
        except BaseException:
            if waiting is not None:
                waiting.was_told = True
            raise

    def end_quietly(self, *, forget: bool = True) -> None:
        """Publish what waits, and leave the file compact, as far as that costs no more than what was written to it."""
        if self.waiting is None and self._lock.is_elsewhere:
            return  # its thread may keep it for ever, as one in a transaction does: a program has to end all the same
        self.settle(forget=forget)
        with self._lock:
            growth = self._growth
            if growth is None or self._draft is not None or self._behind or self.locking:
                return
            if not growth.may_be_compacted(int(self.frame.frame_len)) or self._lock.inherited:
                return
            try:
                with self._busy:
                    self._leave_compact(growth)
            except BlockingIOError:  # somebody else changes it
                pass
            except (OSError, ValueError, MemoryError) as error:  # the file is what it was
                tell("WARNING", "%s: it cannot be written anew: %s", self.urlpath, error)

    def _leave_compact(self, growth: Growth) -> None:
        owner = Owner()
        file = owner.open(self._path, "r+b", buffered=False)
        with file, self._locked(file, owner):
            if self._is_current(file, os.fstat(file.fileno())):
                durable = self._durable or self._disk.has_version
                # What is shown goes on to be what it was, in the old file; the next change takes up the new one.
                growth.leave_compact(file, self._path, self.frame, owner, durable=durable)

    def _take_up_rewritten(self, update: FrameUpdate) -> None:
        """Go on from a file without dead bytes that another handle has left in the place of this one.

        Raises `StaleHandleError` if something else was changed.
        """
        frame = self.frame
        try:
            now = open_frame(self._path, self.options.mmap_mode, old=frame.source)
            is_changed = not is_without_dead(frame, now)
        except FormatError:
            is_changed = True
        if is_changed:
            raise stale("file", self.urlpath)
        update.rebase(now)
        self._disk.note_others()
        waiting = self.waiting
        if waiting is None:
            self._adopt(now)
        else:
            waiting.array, waiting.frame = self._checked(now), now

    def _is_current(self, file: BinaryIO, opened: os.stat_result) -> bool:
        """Whether a file that was just opened, of this status, has this path and shows this version."""
        frame = self.frame
        now, identity, fixed = os.stat(self._path), frame.source.identity, frame.header_bytes()[:FRAME_HEADER]
        return (
            identity is not None
            and (opened.st_dev, opened.st_ino) == identity[:2] == (now.st_dev, now.st_ino)
            and file.read(len(fixed)) == fixed
        )

    def __del__(self) -> None:
        try:
            growth = self._growth
        except AttributeError:  # it was never made
            return
        if growth is None and self.waiting is None:
            return
        if sys.is_finalizing():  # all was done already
            return
        # In the middle of anything, as the collector comes, the thread may have a lock that is needed to publish and
        # cannot be taken twice; elsewhere one for which another thread waits that has the lock of the file.
        has_ended = False
        try:
            has_ended = not is_collecting() and self.has_ended()
        finally:
            if not has_ended:
                _leave_to_clock(self)

    def _locked(self, file: BinaryIO, owner: Owner) -> LockedFile:
        """The file, locked. Who has taken the lock of the handle by `now` does not wait, but gets `BlockingIOError`."""
        return LockedFile(
            file, self._path, owner, exclusive=self._exclusive, waits=not self._lock.is_hurried,
            timeout=self.options.timeout,
        )  # fmt: skip

    def _publish(self, update: FrameUpdate, *, fresh: bool, durable: bool) -> None:
        durable = durable or self._durable
        disk = self._disk
        disk.begin(self.frame.source.identity)
        # The trailer of a frame without data must follow the header: metadata alone cannot be appended,
        # nor can the last chunk go.
        fresh = fresh or update.nbytes == 0 or len(self.frame.header_bytes()) > SECTOR
        fresh = fresh or (durable and disk.is_doubtful)
        # The lock is taken for each change. It also excludes other handles of the file, in any process.
        owner = Owner()
        growth = self._growth = self._growth or Growth()
        note_changed(self)
        while not self._publish_there(update, growth, owner, fresh=fresh, durable=durable):
            pass

    def _publish_there(self, update: FrameUpdate, growth: Growth, owner: Owner, *, fresh: bool, durable: bool) -> bool:
        """Publish a change in the file that has the path now; False if another one got it meanwhile."""
        disk = self._disk
        file = owner.open(self._path, "r+b", buffered=False)
        # Closed by itself as well, which lets the lock go: an interrupt may keep the other from ending.
        with file, self._locked(file, owner):
            opened = os.fstat(file.fileno())
            if not self._is_current(file, opened):
                if not os.path.samestat(opened, os.stat(self._path)):
                    return False  # it was renamed over this one while the lock was waited for
                self._take_up_rewritten(update)
            self._behind = True
            try:
                if fresh:
                    with NewFile(self._path, replace=True, owner=owner, durable=durable or disk.has_version) as new:
                        write_frame(new, update)
                    told_rewrite(self.urlpath, opened.st_size, os.stat(self._path).st_size)
                    frame = open_frame(self._path, self.options.mmap_mode, old=self.frame.source)
                else:
                    frame = growth.append_version(
                        file, self._path, update, owner, durable=durable, has_durable=disk.has_version,
                        keeps_header=disk.keeps_header, verify=self.verify,
                    )  # fmt: skip
                if durable and not disk.is_named:
                    sync_folder(os.path.realpath(self._path))
                    disk.is_named = True
                self._adopt(frame)
            except BaseException as error:
                disk.note_failure(durable=durable)
                self._look_again(error)
                raise
            self._behind = False
            # One that is durable may have this header now: it is this one, one of others, or one in a new file.
            renewed = durable or self.locking or os.stat(self._path).st_ino != opened.st_ino
            disk.note_change(durable=durable, keeps_header=renewed or (disk.keeps_header and not growth.kept_header))
        return True

    def _version(self) -> bytes:
        header: bytes = self.frame.header_bytes()
        return header

    def _take_up(self) -> bool:
        changed = super()._take_up()
        if changed:
            self._disk.note_others()
        return changed

    def flush(self) -> None:
        with self._lock:
            self.check_between()
            if self.in_transaction():
                raise unfinished_transaction()
            self.settle()
            disk = self._disk
            if disk.is_doubtful:
                self.publish(FrameUpdate(self.frame), fresh=True, durable=True)
            disk.begin_flush()
            sync_file(self._path)
            sync_folder(os.path.realpath(self._path))
            disk.note_flush(self.frame.source.identity)

    def compact(self) -> Compaction:
        with self.editing():
            if self.in_transaction():
                raise RuntimeError("compact() is not possible in a transaction")
            before = self.frame.source.size
            self.publish(FrameUpdate(self.frame), fresh=True)
            return Compaction(before, self.frame.source.size)
