"""A `.b2d` store: a directory in which each leaf is a file of its own.

A key gives the path of its file, so the directory is walked only to list keys. A leaf is written outside the tree and
renamed into place; no file of the tree is ever half-written.
"""

from __future__ import annotations

import errno
import os
import stat
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from blosc2._backends.directory_files import folders_between, has_dead_bytes, in_steps, write_in_a_row, write_new
from blosc2._backends.directory_placing import Placing, Unsettled
from blosc2._backends.directory_scan import Folder, scan
from blosc2._backends.embedded.changes import EmbeddedChanges
from blosc2._backends.embedded.file import EmbeddedFile
from blosc2._backends.embedded.frame_map import Embedded
from blosc2._backends.keys import is_path
from blosc2._backends.layout import (
    EMBED,
    LEAF_SUFFIXES,
    LOCK,
    RESERVED,
    Moved,
    Window,
    missing,
    open_source,
    suffix_of,
    taken,
)
from blosc2._backends.temporary_folder import TemporaryPlace
from blosc2._backends.writer_lock import WriterLock
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.header import file_window
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._files import (
    FileMoves,
    NewFile,
    Progress,
    begins_with,
    check_same_file,
    file_identity,
    sync_files,
    sync_folder,
    temporary_name,
    through_link,
)
from blosc2._frames import Draft, verify_frame, write_frame
from blosc2.exceptions import FormatError

_RESERVED = "/" + RESERVED
# What a file system without hard links answers.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
# What it answers where there is no file of a name, or cannot be one.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# Nanoseconds in which a file system may not tell two changes apart.
_TICK = 3 * 10**9
# Up to here reading a whole file costs less than mapping it.
_SMALL_FILE = 64 << 10
# Staged frames from this size on have a file of their own; how the names of files of several end.
_OWN_FILE = 256 << 10
_TOGETHER = ".frames"
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
    #: Whether what is read as a whole is checked; files of leaves are by who opens them.
    checks = True
    #: What keeps other writers out, where the store is open for writing.
    lock: WriterLock | None = None

    def __init__(self, root: str, mmap_mode: str | None) -> None:
        self.root = root
        #: What users call it, which may be a link to it.
        self.named = root
        self._mmap_mode = mmap_mode
        self._table: KeyTable | None = None
        # Whether files came or went since that was made.
        self._table_is_old = False
        self._files: dict[str, str] = {}
        self._folders: dict[str, dict[str, str]] = {}
        self._inside: set[str] = set()
        self._staging: str | None = None
        self._staged = 0
        # Files beside the tree of which a sync failed.
        self._doubtful: set[str] = set()
        self._warned = False
        self._embed_source: Source | None = None
        self._embed_file = EmbeddedFile(os.path.join(root, EMBED))
        self._owner = self._embed_file.owner
        self._temporary = TemporaryPlace(root, self._owner)
        #: What was published leaf by leaf.
        self._unsettled = Unsettled()
        # Whether the directory was there before this backend wrote anything, and what it was when it was read.
        self._was_there = False
        self._seen: tuple[int, ...] | None = None
        # What the file of embedded values was when these were read last, be it for a look.
        self._latest: tuple[int, ...] | None = None
        self._read_at = 0
        # Whether something else was published than what is shown; and whether nothing may be built upon this.
        self.behind = self.must_load = False

    @property
    def placing(self) -> Placing:
        """What publishes leaf by leaf, and knows of what was."""
        return Placing(self, self._unsettled)

    # ------------------------------------------------------------------ reading
    def exists(self) -> bool:
        """Whether there is a store, or what may be made one; `FormatError` for what is neither."""
        self._was_there = os.path.lexists(self.root)
        if not self._was_there:
            return False
        if not os.path.isdir(self.root):
            raise NotADirectoryError(errno.ENOTDIR, "a .b2d store is a directory, and this is a file", self.root)
        # What a writer leaves there before it has published anything does not count.
        return any(name not in (LOCK, RESERVED.rstrip("/")) for name in os.listdir(self.root))

    def check_replaceable(self) -> None:
        """Refuse to replace a directory that is no store."""
        if self.exists() and not os.path.isfile(os.path.join(self.root, EMBED)):
            raise taken(self.root, f"a directory that is not empty and no store (it has no {EMBED}) is not replaced")

    def embed_window(self) -> Window:
        """Where the frame of embedded values lies."""
        path = os.path.join(self.root, EMBED)
        # Before it is read: a change meanwhile is then noticed too.
        self._seen, self._read_at = file_identity(self.root), time.time_ns()
        self._latest = file_identity(path)
        self._embed_file.was_read(self._latest)
        return self._open_embedded()

    @property
    def _identity(self) -> tuple[int, ...] | None:
        """What the file of embedded values was when it was last read or written here."""
        return self._embed_file.identity

    def _open_embedded(self) -> Window:
        window = self._open(os.path.join(self.root, EMBED), self._embed_source)
        self._embed_source = None if window is None else window[0]
        if window is None:
            if not os.path.isdir(self.root):
                raise missing(self.root)
            raise FormatError(f"not a store: it has no {EMBED}", path=self.root)
        self.behind = self.must_load = False
        # What an append to it left unfinished may follow.
        return window[0], 0, -1

    def embed_has_changed(self) -> bool:
        """Whether there are other embedded values than those that were read last."""
        now = file_identity(os.path.join(self.root, EMBED))
        return now is not None and now != self._latest

    def embed_now(self) -> Window:
        """Where the frame of embedded values lies, for a look at them beside the version that the store shows."""
        self._latest = file_identity(os.path.join(self.root, EMBED))
        return self._open_embedded()

    def shown(self) -> tuple[Any, ...]:
        """What is shown, for `show`."""
        return self._seen, self._embed_source, self.behind, self.must_load, self._embed_file.state()

    def show(self, shown: tuple[Any, ...]) -> None:
        """Show again what was shown before something else was read that is of no use."""
        self._seen, self._embed_source, self.behind, self.must_load, state = shown
        self._embed_file.bring_back(state)

    def locate(self, key: str) -> Window | None:
        """The file of a key, opened; None where there is none."""
        if self._table is None:
            return self.locate_now(key)
        name = self._files.get(key)
        return None if name is None else self._open(os.path.join(self.root, name))

    def locate_now(self, key: str) -> Window | None:
        """The same, whatever files there were when they were listed."""
        if not is_path(key) or key.startswith(_RESERVED):
            return None
        stem = self.root + key
        for suffix in LEAF_SUFFIXES:
            window = self._open(stem + suffix)
            if window is not None:
                return window
        stranger = self._stranger(key)
        return None if stranger is None else self._open(stranger)

    def place(self, key: str) -> Window | None:
        """The file of a key, opened but not read; None where there is none."""
        path = self.path_of(key)
        if path is None:
            return None
        with suppress(FileNotFoundError):  # somebody may have removed it since the files were listed
            source = open_source(path, None)
            return source, 0, source.size
        return None

    def check_embedded(self, frame: Frame) -> None:
        """Its checksums are in it."""

    def open_frame(self, key: str) -> Frame | None:
        """The frame of a key; None where there is none."""
        window = self.locate(key)
        if window is None:
            return None
        frame = Frame.open(*window, key)
        if not (frame.only_array and str(window[0].path).endswith(".b2nd")):
            self._check_suffix(frame, key)
        return frame

    def _check_suffix(self, frame: Frame, key: str) -> None:
        """Tell of a leaf whose file was given a name that says something else than what it is."""
        path = str(frame.source.path)
        expected = suffix_of((frame.source, frame.offset, frame.frame_len))
        if os.path.splitext(path)[1] in set(LEAF_SUFFIXES) - {expected}:
            warnings.warn(
                f"{path}: the leaf {key!r} has another suffix than its kind, {expected}: was the file renamed?",
                UserWarning, stacklevel=2,
            )  # fmt: skip

    def verify(self, key: str) -> None:
        """The files of leaves carry checksums of their own."""

    def _open(self, path: str, old: Source | None = None) -> Window | None:
        """The frame in a file; None where there is none, or something else. For `old` see `open_source`."""
        try:
            descriptor = os.open(path, _FLAGS)
        except OSError as error:
            if error.errno in _NO_FILE:
                return None
            raise
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
            return file_window(Source.of_buffer(data, path))
        source = open_source(path, self._mmap_mode, old)
        if self.advice is not None:
            source.advise(self.advice)
        return file_window(source)

    def __contains__(self, key: str) -> bool:
        return self.path_of(key) is not None

    def path_of(self, key: str) -> str | None:
        """The file of a key."""
        if self._table is not None:
            name = self._files.get(key)
            return None if name is None else os.path.join(self.root, name)
        return self.path_now(key)

    def path_now(self, key: str) -> str | None:
        """The same, whatever files there were when they were listed."""
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

    def table(self, *, again: bool = False) -> KeyTable:
        """The keys of all files, by one walk of the directory that is then remembered."""
        if self._table is None or again:
            ranked = scan(self.root)
            files: dict[str, str] = {}
            # From the last to the first, so that of two files for one key the right one stays.
            for group in reversed(ranked):
                files.update(group)
            self._warn(ranked)
            self._files = files
            self._table_is_old = True
        if self._table is None or self._table_is_old:
            self._table = KeyTable.of_keys(self._files)
            self._table_is_old = False
        return self._table

    def note_file(self, key: str, suffix: str | None) -> None:
        """A key was given a file with this suffix, or has none any more."""
        if self._table is not None:
            self._table_is_old = True
            if suffix is None:
                self._files.pop(key, None)
            else:
                self._files[key] = key[1:] + suffix
        strangers = self._folders.get(key[: key.rindex("/") + 1])
        if strangers:
            strangers.pop(key, None)

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
                known = Folder(self.root, base, unusual=True).ranked[-1]
            except OSError as error:
                if error.errno in _NO_FILE:
                    return None
                raise
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
        """Move frames out of memory into files beside the tree: large ones each into its own, which is its file later.

        The others go into one file: a process may have some tens of thousands of mappings, and fewer files open.
        """
        opener = Source.map if os.name == "posix" else Source.open
        staged: dict[str, Window] = {}
        small = {}
        for key, window in changes.items():
            if window[2] < _OWN_FILE:
                small[key] = window
            else:
                source = opener(self._write_aside(window))
                staged[key] = (source, 0, source.size)
        if small:
            path = self._new_aside() + _TOGETHER
            starts = write_in_a_row(path, small.values(), self._owner)
            source = opener(path)
            staged.update((key, (source, at, small[key][2])) for key, at in zip(small, starts, strict=True))
        return staged

    def publish(
        self,
        changes: dict[str, Window | None],
        embed: EmbeddedChanges | None,
        *,
        fresh: bool,
        durable: bool = True,
        lazy: bool = False,
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
        lazy : bool
            Whether embedded values that are changed alone may be certain only when `placing` is settled.
        """
        for key in changes:
            self._check_inside(key)
        self._embed_file.lazy = lazy and not changes
        try:
            if fresh and not (os.path.isdir(self.root) and (os.listdir(self.root) or self._temporary.is_inside)):
                self._publish_new(changes, embed, durable)
            else:
                self._publish_into(changes, embed, fresh, durable)
            # Until it is read; what was staged is there for another try as long.
            self.behind = True
            if changes or fresh:
                self._forget()
        except BaseException:
            self.behind = self.behind or self._embed_file.is_ahead_of(None)
            raise
        finally:
            self._embed_file.lazy = False

    def check_unchanged(self, keys: Iterable[str]) -> None:
        """See that files may get these keys, and that what was published last is, and stays, what is shown."""
        for key in keys:
            self._check_inside(key)
        self._owner.check(self.root)
        check_same_file(os.path.join(self.root, EMBED), self._identity)
        # A power cut could bring an embedded value back, and a file in its place hide it.
        if self._embed_file.unsettled:
            self._embed_file.settle()

    def publish_files(self, changes: dict[str, Window | None]) -> None:
        """Change the files of leaves alone; what is new is durable when `placing` is settled."""
        self._publish_into(changes, None, fresh=False, durable=False, settles=True)

    def publish_embedded(self, embed: EmbeddedChanges, *, durable: bool = True) -> None:
        """Change the embedded values alone; what was staged for files stays."""
        self._publish_into({}, embed, fresh=False, durable=durable)

    def _publish_new(self, changes: dict[str, Window | None], embed: EmbeddedChanges | None, durable: bool) -> None:
        """Build a whole tree beside its place and move it there in one step."""
        parent, name = os.path.split(os.path.abspath(self.root))
        self._owner.makedirs(parent)
        tree = temporary_name(os.path.join(parent, name))
        self._owner.mkdir(tree)
        place = file_identity(tree)
        try:
            folders = {tree}
            for key, window in changes.items():
                if window is None:
                    continue
                path = tree + key + suffix_of(window)
                folder = os.path.dirname(path)
                if folder not in folders:
                    self._owner.makedirs(folder)
                    folders.update(folders_between(tree, folder))
                staged = self._staged_path(window)
                if staged is None:
                    write_new(path, window, self._owner)
                else:
                    self._owner.rename(staged, path)
            if embed is not None:
                with self._owner.open(os.path.join(tree, EMBED), "xb") as file:
                    embed.write(file)
            if durable:
                sync_files([os.path.join(folder, file.name) for folder in folders for file in os.scandir(folder)
                            if file.is_file()], folders)  # fmt: skip
            self._take_over(tree)
            self._was_there = True
        except BaseException:
            now = file_identity(self.root)
            if place is not None and now is not None and now[:2] == place[:2]:  # it has its name
                self._was_there = self.behind = True
            else:
                self._owner.remove_tree(tree)
            raise
        if durable:
            sync_folder(self.root)

    def _take_over(self, tree: str) -> None:
        """Give a whole tree the name of the store, where nothing is but perhaps an empty directory."""
        lock = self.lock if os.name == "posix" else None
        if lock is not None:
            descriptor = os.open(tree, os.O_RDONLY)
            try:
                lock.take(descriptor, tree)
            finally:
                os.close(descriptor)
        elif os.path.isdir(self.root):
            self._owner.rmdir(self.root)
        try:
            self._owner.rename(tree, self.root)
        except BaseException as error:
            if lock is not None:
                lock.settle_if_current()
            if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise taken(self.root, "somebody else has put something in this place meanwhile") from None
            raise
        if lock is not None:
            lock.settle()

    def _publish_into(
        self,
        changes: dict[str, Window | None],
        embed: EmbeddedChanges | None,
        fresh: bool,
        durable: bool,
        settles: bool = False,
    ) -> None:
        """Move new files into the tree that is there, and remove those that go.

        With `settles` this waits for the disk only where something durable could be lost; `placing` knows the rest.
        """
        if fresh and not self._was_there:
            raise taken(self.root, "somebody else has put something in this place meanwhile")
        if not fresh:
            check_same_file(os.path.join(self.root, EMBED), self._identity)
        stale = set(self._leaf_files()) if fresh else set()
        renamed: dict[str, str] = {}
        moves = []
        for key, window in changes.items():
            if isinstance(window, Moved) and window.aside is not None:
                path = self._place_of(key, os.path.splitext(window.aside)[1])
                # The file aside stays, in case that this fails and is tried again.
                moves.append((self._link(window.aside, path), path))
                renamed[key] = window.origin
            elif window is not None:
                path = self._place_of(key, suffix_of(window))
                moves.append((self._write_aside(window), path))
        there = [key for key, window in changes.items() if window is not None]
        placing = self.placing
        lost = {key for key in changes if placing.replaces(key)} if settles else set()
        unsynced = {
            path
            for key, (_, path) in zip(there, moves, strict=True)
            if settles and key not in lost and not isinstance(changes[key], Moved)
        }
        ordered = durable or settles
        if ordered:
            self._sync_aside([aside for aside, path in moves if not os.path.islink(aside) and path not in unsynced])
        for key in changes:
            stale.update(self._files_of(key))
        self._embed_file.was_there = True
        self._embed_file.beside = self._beside_embedded()
        done = FileMoves(self._keep, self._owner)
        try:
            # What a copy replaces is another store, to which nothing can be appended.
            new_embed = None if embed is None else self._embed_file.prepare(embed, durable=durable, anew=fresh)
            touched = self._prepare([path for _, path in moves])
            if settles:  # before anything is: what is not known here counts as durable
                placing.came(unsynced, touched, set(), lost)
            steps = in_steps(there, renamed)
            places = dict(zip(there, moves, strict=True))
            for number, step in enumerate(steps):
                if number and ordered:
                    self._sync_folders(touched)
                done.begin_step()
                for key in step:
                    aside, path = places[key]
                    done.put(aside, path, taken=os.path.lexists(path))
                    stale.difference_update((path, self.root + key + os.path.splitext(path)[1]))
            if ordered and moves and (new_embed is not None or stale):
                self._sync_folders(touched)
            # A value that changes its tier is in both for a moment, never in none: each step is durable first.
            if new_embed is not None:
                new_embed.commit()
                done.forget()
            done.begin_step()
            for path in stale:
                if new_embed is None:
                    done.remove(path)
                else:  # too late to go back
                    self._owner.unlink(path)
                touched.add(self._remove_empty(os.path.dirname(path)))
            if durable:
                self._sync_folders(touched)
            placing.came(set(), touched if settles else set(), stale, set())
            if durable:
                placing.new.difference_update(path for _, path in moves)
        except BaseException as error:
            self._embed_file.end_change()
            if done.is_final:
                error.add_note(f"{self.root}: all values are published, but some files that they replace may be there")
            else:
                self._take_back(done, [path for _, path in moves], error, durable=durable)
            raise
        self._mark()

    def _keep(self, path: str) -> str | None:
        """A second name of a file of the tree, to bring it back by; None where the file system has none."""
        aside = self._new_aside()
        try:
            if os.path.islink(path):
                self._owner.symlink(os.readlink(path), aside)
            else:
                self._owner.link(path, aside)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return None
        return aside

    def _take_back(self, done: FileMoves, paths: list[str], error: BaseException, *, durable: bool) -> None:
        """Bring back the files that were replaced before an error, and remove those that came, with their folders."""

        def sync(paths: list[str]) -> None:
            if durable:
                self._sync_folders({os.path.dirname(path) for path in paths})

        undone, left = done.take_back(sync)
        folders = {self._remove_empty(os.path.dirname(path)) for path in paths + undone}
        with suppress(OSError):  # what is there is whole either way
            self._sync_folders(folders if durable else set())
        if left:
            error.add_note(f"{self.root}: {len(left)} files are new already, and could not be brought back: {left[:5]}")

    def _sync_folders(self, folders: set[str]) -> None:
        sync_files((), [folder for folder in folders if os.path.isdir(folder)])

    def _mark(self) -> None:
        """Let readers tell a new version, whatever files it touched, and however coarse times are here."""
        with suppress(OSError):
            before = 0 if self._seen is None else self._seen[3]
            self._owner.utime(self.root)
            for later in (1, _TICK // 3, _TICK):
                status = os.stat(self.root)
                if status.st_mtime_ns > before:
                    break
                self._owner.utime(self.root, ns=(status.st_atime_ns, before + later))

    def _mark_leaf(self) -> None:
        """The same for one leaf, after which this store goes on with what it shows."""
        self._mark()
        self._seen, self._read_at = file_identity(self.root), time.time_ns()

    def cut_tail(self) -> None:
        """Cut off what an unfinished append left behind the embedded values; nothing is ever written behind a leaf."""
        if self.lock is not None and self.lock.held:
            with suppress(OSError, FormatError):
                self._embed_file.cut_tail(Frame.open(Source.open(self._embed_file.path)))

    def forget_appended(self) -> None:
        """Frames that were moved out of memory lie in files of their own, under no key."""

    def forget_staged(self) -> None:
        """All that was moved out of memory is published and read."""
        self.discard()

    def abandon(self) -> None:
        """Leave what was staged where it is; it is another process's."""
        self._staging = None

    def reload(self, header: bytes) -> bool:
        """Forget what was read; whether there is another version.

        Changes by other programs inside of folders are seen from then on, but may not be told.

        Parameters
        ----------
        header : bytes
            What the embedded values that are shown begin with.
        """
        path = os.path.join(self.root, EMBED)
        changed = (
            self.behind
            or (self._seen, self._identity) != (file_identity(self.root), file_identity(path))
            or not begins_with(path, header)
        )
        listed, files = self._table is not None, self._files
        self._forget()
        if not changed and listed and self._seen is not None and self._read_at - self._seen[3] < _TICK:
            # Read so soon after it was changed that its time would be the same after another change.
            self.table()
            changed = self._files != files
        return changed

    def size(self) -> int:
        """Bytes of all files."""
        return sum(os.stat(path).st_size for path in self._all_files())

    def _all_files(self) -> list[str]:
        return [os.path.join(self.root, EMBED), *self._leaf_files()]

    def compact(self, progress: Progress | None) -> None:
        """Write the files with dead bytes anew, one after the other."""
        self.discard()  # what was moved out of memory, and nobody needs any more
        if self.lock is not None and self.lock.held:
            self._temporary.remove_leftovers()
        paths = self._all_files()
        total = self.size()
        done = 0
        for path in paths:
            size = os.stat(path).st_size
            frame = Frame.open(Source.open(path))
            if path == paths[0]:
                try:
                    self._compact_embedded()
                finally:
                    self.behind = self.must_load = True
            elif has_dead_bytes(frame, size) and not os.path.islink(path):
                with NewFile(path, replace=True, beside=self._temporary.beside, owner=self._owner) as file:
                    write_frame(file, Draft(frame))
            done += size
            if progress is not None:
                progress(done, total)
        self._temporary.tidy()
        self._mark()
        self._forget()

    def _compact_embedded(self) -> None:
        embedded = Embedded(self.embed_window())
        if embedded.frame.nbytes:
            self._embed_file.beside = self._beside_embedded()
            self._embed_file.publish(EmbeddedChanges(str(embedded.kind), embedded, {}), anew=True)

    def _beside_embedded(self) -> str | None:
        """Where a new file of embedded values is written."""
        return None if os.path.islink(self._embed_file.path) else self._temporary.beside

    def _place_of(self, key: str, suffix: str) -> str:
        """The file that a leaf is written to: where a link leads that has its name."""
        path = self.root + key + suffix
        if not os.path.islink(path):
            return path
        target, root = through_link(path), os.path.realpath(self.root)
        if not target.startswith(root + os.sep) or os.path.basename(target) == EMBED:
            raise ValueError(
                f"{path}: the file of the key {key!r} is a link that leads out of the store; delete it first"
            )
        return self.root + target[len(root) :]

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
        staging = self._staging
        try:
            self._remove_staging(staging)
        except BaseException:
            self._remove_staging(staging)  # an interrupt came between
            raise

    def _remove_staging(self, staging: str | None) -> None:
        """Remove the folder of what was staged; it may be done again."""
        self._staging = None
        if staging is not None:
            self._owner.remove_tree(staging)
        self._temporary.tidy()

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
        window = None if moved.aside is None else self._open(moved.aside)
        if window is None:
            raise taken(self.root, f"the file of the key {moved.origin!r} is gone; open the store again")
        return window

    def _link(self, path: str, place: str | None = None) -> str:
        """Give a file another name beside the tree; of a link, make one that leads there, also from its new place."""
        aside = self._new_aside() + os.path.splitext(path)[1]
        if os.path.islink(path):
            target, root = os.path.realpath(path), os.path.realpath(self.root)
            if place is not None and target.startswith(root + os.sep):
                # The store may be moved as a whole.
                target = os.path.relpath(target, os.path.realpath(os.path.dirname(place)))
            self._owner.symlink(target, aside)
            return aside
        try:
            self._owner.link(path, aside)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._owner.copy(path, aside)
        return aside

    def _new_aside(self) -> str:
        """A name for a file beside the tree, on the same file system."""
        if self._staging is None:
            self._staging = self._temporary.new_folder()
        self._staged += 1
        return os.path.join(self._staging, f"{self._staged}")

    def _write_aside(self, window: Window) -> str:
        """Write a frame to a file beside the tree; one that is there already stays."""
        path = self._staged_path(window)
        if path is None:
            path = self._new_aside()
            write_new(path, window, self._owner)
        return path

    def _staged_path(self, window: Window) -> str | None:
        """The file beside the tree that a frame lies in, if it does, and if it can be taken for the leaf's own."""
        path = window[0].path
        if path is None or os.path.dirname(path) != self._staging or path.endswith(_TOGETHER):
            return None
        if path not in self._doubtful and os.path.exists(path):
            return str(path)
        # It is written once more, from what the system still has of it.
        for finding in verify_frame(Frame.open(*window)):
            raise FormatError(f"a leaf that was not published yet could not be written: {finding.what}", path=path)
        return None

    def _sync_aside(self, paths: list[str]) -> None:
        """Make files beside the tree durable."""
        try:
            sync_files(paths)
        except BaseException:
            # After a failure the system takes what it could not write for written: another sync would tell nothing.
            self._doubtful.update(paths)
            raise

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
        self._owner.makedirs(folder)
        return changed

    def _remove_empty(self, folder: str) -> str:
        """Remove a folder and those above it as far as they are empty; the first that stays is returned."""
        while folder != self.root and folder.startswith(self.root):
            try:
                self._owner.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                break
            folder = os.path.dirname(folder)
        return folder
