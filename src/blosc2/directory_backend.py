"""A `.b2d` store: a directory in which each leaf is a file of its own.

A key leads to its file by name, so nothing is walked until somebody lists keys. A leaf is written outside the tree,
made durable and renamed into place; no file of the tree is ever half-written.
"""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from blosc2._core.frame import Frame
from blosc2._core.keytable import KeyTable
from blosc2._core.source import Source
from blosc2.alignment import ALIGNMENT
from blosc2.compaction import Progress
from blosc2.directory_scan import Folder, scan
from blosc2.draft import Draft, write_frame
from blosc2.embedded import Embedded
from blosc2.embedded_changes import EmbeddedChanges
from blosc2.embedded_file import EmbeddedFile
from blosc2.exceptions import FormatError
from blosc2.file_identity import check_same_file, file_identity
from blosc2.new_file import NewFile, remove_leftovers, remove_tree, sync_folder, temporary_name
from blosc2.store_keys import is_path
from blosc2.store_layout import (
    EMBED,
    LEAF_SUFFIXES,
    RESERVED,
    Moved,
    Window,
    missing,
    open_source,
    pieces,
    suffix_of,
    taken,
)
from blosc2.store_lock import WriterLock
from blosc2.sums import with_sums

_RESERVED = "/" + RESERVED
# Dead bytes for which a file is not written anew: so many, or such a part of it.
_SLACK, _SLACK_SHARE = 4096, 50
# From this many files on, one sync of everything is faster than one a file.
_MANY_FILES = 16
# What a file system without hard links answers.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
# Up to here reading a whole file costs less than mapping it.
_SMALL_FILE = 64 << 10
# Whatever lies under the name of a leaf, opening it must not wait.
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class DirectoryBackend:
    """The files of one `.b2d` store.

    Parameters
    ----------
    root : str
        The directory.
    mmap_mode : {None, 'r'}
        How its files are opened.
    """

    suffix = ".b2d"
    #: Whether the keys are known without looking at each file.
    lists_cheaply = False
    #: What files are told when they are opened.
    advice: str | None = None
    #: What keeps other writers out, where the store is open for writing.
    lock: WriterLock | None = None

    def __init__(self, root: str, mmap_mode: str | None) -> None:
        self.root = root
        self._mmap_mode = mmap_mode
        self._table: KeyTable | None = None
        self._files: dict[str, str] = {}
        self._folders: dict[str, dict[str, str]] = {}
        self._inside: set[str] = set()
        self._staging: str | None = None
        self._staged = 0
        self._warned = False
        self._identity: tuple[int, ...] | None = None
        self._embed_source: Source | None = None
        self._embed_file = EmbeddedFile(os.path.join(root, EMBED))
        self._embed_file.beside = os.path.abspath(root)
        # Whether the directory was there before this backend wrote anything, and what it was when it was read.
        self._was_there = False
        self._seen: tuple[int, ...] | None = None

    # ------------------------------------------------------------------ reading
    def exists(self) -> bool:
        """Whether there is a store, or what may be made one; `FormatError` for what is neither."""
        self._was_there = os.path.lexists(self.root)
        if not self._was_there:
            return False
        if not os.path.isdir(self.root):
            raise NotADirectoryError(errno.ENOTDIR, "a .b2d store is a directory, and this is a file", self.root)
        return bool(os.listdir(self.root))

    def check_replaceable(self) -> None:
        """Refuse to replace a directory that is no store."""
        if self.exists() and not os.path.isfile(os.path.join(self.root, EMBED)):
            raise taken(self.root, f"a directory that is not empty and no store (it has no {EMBED}) is not replaced")

    def embed_window(self) -> Window:
        """Where the frame of embedded values lies."""
        path = os.path.join(self.root, EMBED)
        # Before it is read: a change meanwhile is then noticed too.
        self._seen = file_identity(self.root)
        self._identity = file_identity(path)
        self._embed_file.was_read(self._identity)
        self._embed_source = source = self._open(path, self._embed_source)
        if source is None:
            if not os.path.isdir(self.root):
                raise missing(self.root)
            raise FormatError(f"not a store: it has no {EMBED}", path=self.root)
        # What an append to it left unfinished may follow.
        return source, 0, -1

    def locate(self, key: str) -> Window | None:
        """The file of a key, opened; None where there is none."""
        source = None
        if self._table is not None:
            name = self._files.get(key)
            if name is not None:
                source = self._open(os.path.join(self.root, name))
        elif is_path(key) and not key.startswith(_RESERVED):
            stem = self.root + key
            for suffix in LEAF_SUFFIXES:
                source = self._open(stem + suffix)
                if source is not None:
                    break
            else:
                stranger = self._stranger(key)
                source = None if stranger is None else self._open(stranger)
        return None if source is None else (source, 0, source.size)

    def place(self, key: str) -> Window | None:
        """The file of a key, opened but not read; None where there is none."""
        path = self.path_of(key)
        if path is None:
            return None
        source = open_source(path, None)
        return source, 0, source.size

    def open_frame(self, key: str) -> Frame | None:
        """The frame of a key; None where there is none."""
        window = self.locate(key)
        return None if window is None else Frame.open(*window, key)

    def verify(self, key: str) -> None:
        """The files of leaves carry checksums of their own."""

    def _open(self, path: str, old: Source | None = None) -> Source | None:
        """A file as a source; None where there is none, or something else. For `old` see `open_source`."""
        try:
            descriptor = os.open(path, _FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        # A small file is read at once: cheaper than a mapping, and a thousand of them need no descriptors.
        try:
            data = os.read(descriptor, _SMALL_FILE)
            if (not data or len(data) == _SMALL_FILE) and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
        except (IsADirectoryError, BlockingIOError):
            return None
        finally:
            os.close(descriptor)
        if len(data) < _SMALL_FILE:
            return Source.of_buffer(data, path)
        source = open_source(path, self._mmap_mode, old)
        if self.advice is not None:
            source.advise(self.advice)
        return source

    def __contains__(self, key: str) -> bool:
        return self.path_of(key) is not None

    def path_of(self, key: str) -> str | None:
        """The file of a key."""
        if self._table is not None:
            name = self._files.get(key)
            return None if name is None else os.path.join(self.root, name)
        if not is_path(key) or key.startswith(_RESERVED):
            return None
        stem = self.root + key
        for suffix in LEAF_SUFFIXES:
            if os.path.isfile(stem + suffix):
                return stem + suffix
        return self._stranger(key)

    def name_of(self, key: str) -> str | None:
        """The file of a key, relative to the directory."""
        path = self.path_of(key)
        return None if path is None else os.path.relpath(path, self.root).replace(os.sep, "/")

    def window_in_archive(self, key: str) -> None:
        """No leaf of a directory lies inside another file."""

    def archive_table(self) -> KeyTable | None:
        """There is no archive."""
        return None

    def catalog(self) -> None:
        """There is none in a directory."""

    def described(self) -> None:
        """There is none in a directory."""

    def table(self) -> KeyTable:
        """The keys of all files, by one walk of the directory that is then remembered."""
        if self._table is None:
            ranked = scan(self.root)
            files: dict[str, str] = {}
            # From the last to the first, so that of two files for one key the right one stays.
            for group in reversed(ranked):
                files.update(group)
            self._warn(ranked)
            self._files = files
            self._table = KeyTable.of_keys(files)
        return self._table

    def _warn(self, ranked: list[dict[str, str]]) -> None:
        if self._warned:
            return
        self._warned = True
        for key, name in ranked[-1].items():
            warnings.warn(
                f"{self.root}: {name} is a frame under an unusual suffix; it is the leaf {key!r}",
                UserWarning,
                stacklevel=2,
            )
        if sum(map(len, ranked)) > len(set().union(*ranked)):
            warnings.warn(
                f"{self.root}: some keys have more than one file; of these, the suffixes "
                f"{', '.join(LEAF_SUFFIXES)} win in this order",
                UserWarning,
                stacklevel=2,
            )

    def _stranger(self, key: str) -> str | None:
        """The file of a key if it has an unusual suffix. Looks at the folder of the key once."""
        base = key[: key.rindex("/") + 1]
        known = self._folders.get(base)
        if known is None:
            try:
                known = Folder(self.root, base).ranked[-1]
            except (FileNotFoundError, NotADirectoryError):
                return None
            self._folders[base] = known
        name = known.get(key)
        return None if name is None else os.path.join(self.root, name)

    def close(self) -> None:
        """Forget what was read, and remove the staged files."""
        self.discard()
        self._forget()

    def look_again(self) -> Window | None:
        """Look at the files again; where the embedded values are now, if that can be told."""
        self._forget()
        # What somebody else has put there stays refused.
        if self._embed_file.is_behind or file_identity(self._embed_file.path) == self._identity:
            with suppress(OSError, FormatError):
                return self.embed_window()
        return None

    def _forget(self) -> None:
        self._table = None
        self._files = {}
        self._folders = {}
        self._inside = set()

    # ------------------------------------------------------------------ writing
    def stage(self, changes: dict[str, Window]) -> dict[str, Window]:
        """Move frames out of memory into files beside the tree."""
        staged = {key: Source.open(self._write_aside(window)) for key, window in changes.items()}
        return {key: (source, 0, source.size) for key, source in staged.items()}

    def publish(
        self, changes: dict[str, Window | None], embed: EmbeddedChanges | None, *, fresh: bool, durable: bool = True
    ) -> None:
        """Make changes part of the tree.

        Parameters
        ----------
        changes : dict
            New frames, and None for keys whose files go.
        embed : EmbeddedChanges or None
            What becomes of the embedded values, if these change.
        fresh : bool
            The store is made now: leaves of an earlier one in this place go.
        durable : bool
            Whether all of it is on the disk when this returns.
        """
        for key in changes:
            self._check_inside(key)
        if fresh and not (os.path.isdir(self.root) and os.listdir(self.root)):
            self._publish_new(changes, embed, durable)
        else:
            self._publish_into(changes, embed, fresh, durable)
        self.discard()
        self._forget()

    def publish_embedded(self, embed: EmbeddedChanges, *, durable: bool = True) -> None:
        """Change the embedded values alone; what was staged for files stays."""
        self._publish_into({}, embed, fresh=False, durable=durable)

    def _publish_new(self, changes: dict[str, Window | None], embed: EmbeddedChanges | None, durable: bool) -> None:
        """Build a whole tree beside its place and move it there in one step."""
        parent, name = os.path.split(os.path.abspath(self.root))
        os.makedirs(parent, exist_ok=True)
        tree = temporary_name(os.path.join(parent, name))
        os.mkdir(tree)
        try:
            folders = {tree}
            for key, window in changes.items():
                if window is None:
                    continue
                path = tree + key + suffix_of(window)
                folder = os.path.dirname(path)
                if folder not in folders:
                    os.makedirs(folder, exist_ok=True)
                    folders.update(_folders_between(tree, folder))
                staged = self._staged_path(window)
                if staged is None:
                    write_new(path, window)
                else:
                    os.rename(staged, path)
            if embed is not None:
                with open(os.path.join(tree, EMBED), "xb") as file:
                    embed.write(file)
            if durable:
                self._sync([os.path.join(folder, file.name) for folder in folders for file in os.scandir(folder)
                            if file.is_file()], folders)  # fmt: skip
            self._take_over(tree)
        except BaseException:
            remove_tree(tree)
            raise
        self._was_there = True
        if durable:
            sync_folder(self.root)

    def _take_over(self, tree: str) -> None:
        """Give a whole tree the name of the store, where nothing is but perhaps an empty directory."""
        lock = self.lock if os.name == "posix" else None
        if lock is not None:
            descriptor = os.open(tree, os.O_RDONLY)
            try:
                lock.take(descriptor)
            finally:
                os.close(descriptor)
        elif os.path.isdir(self.root):
            os.rmdir(self.root)
        try:
            os.rename(tree, self.root)
        except BaseException as error:
            if lock is not None:
                lock.forget_taken()
            if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise taken(self.root, "somebody else has put something in this place meanwhile") from None
            raise
        if lock is not None:
            lock.settle()

    def _publish_into(
        self, changes: dict[str, Window | None], embed: EmbeddedChanges | None, fresh: bool, durable: bool
    ) -> None:
        """Move new files into the tree that is there, and remove those that go."""
        if fresh and not self._was_there:
            raise taken(self.root, "somebody else has put something in this place meanwhile")
        if not fresh:
            check_same_file(os.path.join(self.root, EMBED), self._identity)
        stale = set(self._leaf_files()) if fresh else set()
        renamed: dict[str, str] = {}
        moves = []
        for key, window in changes.items():
            if isinstance(window, Moved) and window.aside is not None:
                # The file aside stays, in case that this fails and is tried again.
                moves.append((self._link(window.aside), self.root + key + os.path.splitext(window.aside)[1]))
                renamed[key] = window.origin
            elif window is not None:
                moves.append((self._write_aside(window), self.root + key + suffix_of(window)))
        if durable:
            self._sync([path for path, _ in moves])
        for key in changes:
            stale.update(self._files_of(key))
        self._embed_file.was_there = True
        try:
            new_embed = None if embed is None else self._embed_file.prepare(embed, durable=durable)
            try:
                touched = self._prepare([path for _, path in moves])
                steps = in_steps([key for key, window in changes.items() if window is not None], renamed)
                places = dict(zip((key for key, window in changes.items() if window is not None), moves, strict=True))
                for number, step in enumerate(steps):
                    if number and durable:
                        self._sync_folders(touched)
                    for key in step:
                        aside, path = places[key]
                        os.replace(aside, path)
                        stale.discard(path)
                if durable and moves and (new_embed is not None or stale):
                    self._sync_folders(touched)
            except BaseException:
                if new_embed is not None:
                    new_embed.abandon()
                raise
            # A value that changes its tier is in both for a moment, never in none: each step is durable first.
            if new_embed is not None:
                new_embed.commit()
        finally:
            if embed is not None:
                self._identity = self._embed_file.identity
        for path in stale:
            os.unlink(path)
            touched.add(self._remove_empty(os.path.dirname(path)))
        self._mark()
        if durable:
            self._sync_folders(touched)

    def _sync_folders(self, folders: set[str]) -> None:
        for folder in folders:
            if os.path.isdir(folder):
                sync_folder(os.path.join(folder, EMBED))

    def _mark(self) -> None:
        """Let readers tell a new version, whatever files it touched."""
        with suppress(OSError):
            os.utime(self.root)

    def cut_tail(self) -> None:
        """Cut off what an unfinished append left behind the embedded values; nothing is ever written behind a leaf."""
        if self.lock is not None and self.lock.held:
            with suppress(OSError, FormatError):
                self._embed_file.cut_tail(Frame.open(Source.open(self._embed_file.path)))
                self._identity = self._embed_file.identity

    def forget_appended(self) -> None:
        """Frames that were moved out of memory lie in files of their own, under no key."""

    def abandon(self) -> None:
        """Leave what was staged where it is; it is another process's."""
        self._staging = None

    def reload(self) -> bool:
        """Forget what was read; whether there is another version.

        Changes by other programs inside of folders are seen from then on, but may not be told.
        """
        changed = (self._seen, self._identity) != (
            file_identity(self.root), file_identity(os.path.join(self.root, EMBED)),
        )  # fmt: skip
        self._forget()
        return changed

    def size(self) -> int:
        """Bytes of all files."""
        return sum(os.stat(path).st_size for path in self._all_files())

    def _all_files(self) -> list[str]:
        return [os.path.join(self.root, EMBED), *self._leaf_files()]

    def compact(self, progress: Progress | None) -> None:
        """Write the files with dead bytes anew, one after the other."""
        if self.lock is not None and self.lock.held:
            remove_leftovers(self.root)
        paths = self._all_files()
        total = self.size()
        done = 0
        for path in paths:
            size = os.stat(path).st_size
            frame = Frame.open(Source.open(path))
            if path == paths[0]:
                self._compact_embedded()
            elif size - _most_live(frame) > max(_SLACK, size // _SLACK_SHARE):
                with NewFile(path, replace=True, beside=os.path.abspath(self.root)) as file:
                    write_frame(file, Draft(frame))
            done += size
            if progress is not None:
                progress(done, total)
        self._mark()
        self._forget()

    def _compact_embedded(self) -> None:
        embedded = Embedded(self.embed_window())
        if embedded.frame.nbytes:
            self._embed_file.publish(EmbeddedChanges(str(embedded.kind), embedded, {}), anew=True)

    def _check_inside(self, key: str) -> None:
        """Refuse to write through a link that leads out of the tree."""
        folder = os.path.dirname(self.root + key)
        if is_path(key) and folder in self._inside:
            return
        real, root = os.path.realpath(folder), os.path.realpath(self.root)
        if not is_path(key) or (real != root and not real.startswith(root + os.sep)):
            raise ValueError(f"{self.root}: the key {key!r} leads out of the store")
        self._inside.add(folder)

    def discard(self) -> None:
        """Remove what was staged."""
        if self._staging is not None:
            remove_tree(self._staging)
            self._staging = None

    def _files_of(self, key: str) -> Iterator[str]:
        """Every file that stands for a key: each suffix of leaves, and a stranger."""
        for suffix in LEAF_SUFFIXES:
            if os.path.isfile(self.root + key + suffix):
                yield self.root + key + suffix
        stranger = self._stranger(key)
        if stranger is not None:
            yield stranger

    def _leaf_files(self) -> list[str]:
        if not os.path.isdir(self.root):
            return []
        self.table()
        return [path for key in self._files for path in self._files_of(key)]

    def moved(self, key: str) -> Moved:
        """The file of a key that is to get another one: a second name beside the tree keeps it until then."""
        path = self.path_of(key)
        if path is None:
            raise taken(self.root, f"the file of the key {key!r} is gone; open the store again")
        return Moved(None, key, self._link(path))

    def opened(self, moved: Moved) -> Window:
        """Such a file as a window."""
        source = None if moved.aside is None else self._open(moved.aside)
        if source is None:
            raise taken(self.root, f"the file of the key {moved.origin!r} is gone; open the store again")
        return source, 0, source.size

    def _link(self, path: str) -> str:
        """Give a file another name beside the tree."""
        aside = self._new_aside() + os.path.splitext(path)[1]
        try:
            os.link(path, aside)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            import shutil  # as in `remove_tree`

            shutil.copyfile(path, aside)
        return aside

    def _new_aside(self) -> str:
        """A name for a file beside the tree, on the same file system."""
        if self._staging is None:
            parent, name = os.path.split(os.path.abspath(self.root))
            os.makedirs(parent, exist_ok=True)
            staging = temporary_name(os.path.join(parent, name))
            os.mkdir(staging, 0o700)
            self._staging = staging
        self._staged += 1
        return os.path.join(self._staging, f"{self._staged}")

    def _write_aside(self, window: Window) -> str:
        """Write a frame to a file beside the tree; one that is there already stays."""
        path = self._staged_path(window)
        if path is None:
            path = self._new_aside()
            write_new(path, window)
        return path

    def _staged_path(self, window: Window) -> str | None:
        """The file beside the tree that a frame lies in, if it does."""
        path = window[0].path
        if path is not None and os.path.dirname(path) == self._staging and os.path.exists(path):
            return str(path)
        return None

    def _sync(self, paths: list[str], folders: Iterable[str] = ()) -> None:
        if len(paths) >= _MANY_FILES and hasattr(os, "sync"):
            os.sync()
            return
        for folder in folders:
            sync_folder(os.path.join(folder, EMBED))
        for path in paths:
            descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _prepare(self, paths: list[str]) -> set[str]:
        """Make the folders of files, and see that nothing is in the way, before any of the files is moved there.

        The folders that will have changed are returned.
        """
        folders = {os.path.dirname(path) for path in paths}
        touched = set(folders)
        try:
            for folder in folders:
                if not os.path.isdir(folder):
                    touched.update(self._make_folder(folder))
            for path in paths:
                if os.path.isdir(path):
                    raise IsADirectoryError(errno.EISDIR, "a folder is where the file of a leaf should be", path)
        except BaseException:
            for folder in folders:
                self._remove_empty(folder)
            raise
        return touched

    def _make_folder(self, folder: str) -> list[str]:
        """Make a folder; those in which a new name appears are returned."""
        changed = []
        above = folder
        while not os.path.isdir(above):
            above = os.path.dirname(above)
            changed.append(above)
        os.makedirs(folder, exist_ok=True)
        return changed

    def _remove_empty(self, folder: str) -> str:
        """Remove a folder and those above it as far as they are empty; the first that stays is returned."""
        while folder != self.root and folder.startswith(self.root):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                break
            folder = os.path.dirname(folder)
        return folder


def _most_live(frame: Frame) -> int:
    """How large a file of a frame is at most when it has no dead bytes."""
    index = 8 * frame.nchunks + 64
    return int(frame.header_len + frame.stored_nbytes + frame.nchunks * ALIGNMENT + index + frame.trailer_len)


def _with_sums(window: Window) -> Iterable[Any]:
    """The bytes of a leaf with checksums, as files carry them; of what is no sound frame, the bytes as they are."""
    try:
        frame = Frame.open(*window)
        return with_sums(frame)
    except FormatError:
        return pieces(window)


def in_steps(keys: list[str], renamed: dict[str, str]) -> list[list[str]]:
    """In which order new files take their places, so that what gets another name is never under none.

    Parameters
    ----------
    keys : list of str
        Of all new files.
    renamed : dict
        For those that only get another name, the key that they had.

    Returns
    -------
    list of list of str
        Steps: a key comes after the new places of what it held. Keys that change places in a circle come last.
    """
    steps = []
    left = set(keys)
    while left:
        held = {origin: key for key, origin in renamed.items() if key in left}
        step = [key for key in keys if key in left and (key not in held or held[key] == key)]
        if not step:
            step = [key for key in keys if key in left]
        steps.append(step)
        left.difference_update(step)
    return steps


def write_new(path: str, window: Window) -> None:
    """Write a frame to a file that must not exist."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for piece in _with_sums(window):
            view = memoryview(piece)
            while view:
                view = view[file.write(view) :]


def _folders_between(top: str, folder: str) -> Iterator[str]:
    """A folder and those above it, up to another."""
    while folder != top:
        yield folder
        folder = os.path.dirname(folder)
