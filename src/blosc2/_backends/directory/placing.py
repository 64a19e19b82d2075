"""Files of leaves on their way: written beside the tree, and renamed to their places in it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from blosc2._backends import directory as directories
from blosc2._backends.directory.leaf_files import write_in_a_row, write_new
from blosc2._backends.layout import ByteRange, Renamed, suffix_of
from blosc2._backends.temporary import TemporaryFolder
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._files import Owner, sync_file, sync_files, temporary_name, to_the_end
from blosc2._frames import verify_frame
from blosc2.exceptions import FormatError, name_file

if TYPE_CHECKING:
    from blosc2._backends.directory.backend import DirectoryBackend


# What a file system without hard links answers.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
# The least size of a staged frame with a file of its own; the suffix of files of several frames.
_OWN_FILE: Final = 256 << 10
_TOGETHER: Final = ".frames"


class FilesAside:
    """The temporary files of one store that is open for writing."""

    __slots__ = ("_doubtful", "_owner", "_root", "_staged", "_staging", "temporary")

    def __init__(self, root: str, owner: Owner) -> None:
        self._root = root
        self._owner = owner
        self.temporary = TemporaryFolder(root, owner)
        self._staging: str | None = None
        self._staged = 0
        # Files whose sync failed.
        self._doubtful: set[str] = set()

    def stage(self, changes: dict[str, ByteRange]) -> dict[str, ByteRange]:
        """Move frames out of memory into files beside the tree: each large one into one that is renamed later.

        The others go into one file: a process may have some tens of thousands of mappings, and fewer files open.
        """
        opener = Source.map if os.name == "posix" else Source.open
        staged: dict[str, ByteRange] = {}
        small = {}
        for key, byte_range in changes.items():
            if byte_range[2] < _OWN_FILE:
                small[key] = byte_range
            else:
                source = opener(self.write(byte_range))
                staged[key] = (source, 0, source.size)
        if small:
            path = self.new() + _TOGETHER
            starts = write_in_a_row(path, small.values(), self._owner)
            source = opener(path)
            staged.update((key, (source, at, small[key][2])) for key, at in zip(small, starts, strict=True))
        return staged

    def new(self) -> str:
        """A name for a file beside the tree, on the same file system."""
        if self._staging is None:
            staging = temporary_name(self.temporary.beside)
            try:
                self.temporary.make(staging)
                self._staging = staging
            except BaseException:
                self._owner.remove_tree(staging)  # else an interrupt would leave it behind
                raise
        self._staged += 1
        return f"{self._staging}{os.sep}{self._staged}"

    def write(self, byte_range: ByteRange) -> str:
        """Write a frame to a file beside the tree, unless it lies in one already."""
        path = self.staged_path(byte_range)
        if path is None:
            path = self.new()
            write_new(path, byte_range, self._owner)
        return path

    def staged_path(self, byte_range: ByteRange) -> str | None:
        """The file beside the tree that holds this frame alone, ready to be renamed; None if there is none."""
        path = byte_range[0].path
        if path is None or self._staging is None or not path.startswith(self._staging):
            return None
        if os.path.dirname(path) != self._staging or path.endswith(_TOGETHER):
            return None
        if path not in self._doubtful and os.path.exists(path):
            return str(path)
        # The caller writes it again, from what the system still has of it.
        for finding in verify_frame(Frame.open(*byte_range)):
            raise FormatError(f"a leaf that was not published yet could not be written: {finding.what}", path=path)
        return None

    def sync(self, paths: list[str]) -> None:
        """Make files beside the tree durable."""
        try:
            sync_files(paths)
        except BaseException:
            # After a failure the system counts unwritten bytes as written: another sync would report nothing.
            self._doubtful.update(paths)
            raise

    def keep(self, path: str) -> str | None:
        """Give a file of the tree a second name, to restore it by; None if the file system has no links."""
        aside = self.new()
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

    def link(self, path: str, path_there: str | None = None) -> str:
        """Give a file another name beside the tree; for a symbolic link, make one that works at `path_there`."""
        aside = self.new() + os.path.splitext(path)[1]
        if os.path.islink(path):
            target, root = os.path.realpath(path), os.path.realpath(self._root)
            if path_there is not None and target.startswith(root + os.sep):
                # The store may be moved as a whole.
                target = os.path.relpath(target, os.path.realpath(os.path.dirname(path_there)))
            self._owner.symlink(target, aside)
            return aside
        try:
            self._owner.link(path, aside)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._owner.copy(path, aside)
        return aside

    def abandon(self) -> None:
        """Leave staged files alone: they belong to another process."""
        self._staging = None

    def discard(self) -> None:
        """Remove what was staged."""
        self._remove_staging(self._staging)

    @to_the_end
    def _remove_staging(self, staging: str | None) -> None:
        """Remove the folder of staged files."""
        self._staging = None
        if staging is not None:
            self._owner.remove_tree(staging)
        self.temporary.tidy()


class Unsettled:
    """What was published in one `.b2d` by its writer, and may not be durable."""

    __slots__ = ("doubtful", "earlier", "folders", "new", "removed")

    def __init__(self) -> None:
        # Files whose bytes may not be durable, each of a leaf that was not there before.
        self.new: set[str] = set()
        # The same, but others may have replaced them since by durable ones.
        self.earlier: set[str] = set()
        # Folders in which names were changed.
        self.folders: set[str] = set()
        # Keys whose durable files were removed, or whose embedded values are to be hidden by files.
        self.removed: set[str] = set()
        # Files of which a sync failed.
        self.doubtful: set[str] = set()


class Placing(Unsettled):
    """Publishes leaves of one `.b2d` one by one, and makes them durable later.

    It is made when it is needed: its state is in the backend, which it shares, and has no reference back. A store that
    is dropped together with others still has all of it when it ends.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: DirectoryBackend, known: Unsettled) -> None:
        self._backend = backend
        self.new, self.folders, self.removed, self.doubtful = known.new, known.folders, known.removed, known.doubtful
        self.earlier = known.earlier

    @property
    def unsettled(self) -> bool:
        """Whether something was published that a power cut may take."""
        return bool(self.new or self.folders or self.earlier) or self._backend.embed_file.unsettled

    def replaces(self, key: str) -> bool:
        """Whether a key has a durable file, or had one when all was durable last."""
        if key in self.removed:
            return True
        files = self._backend.files
        path = files.path_of(key)
        if path is None:
            return False
        # If it is new, a durable file with another suffix may exist.
        return path not in self.new or any(path not in self.new for path in files.files_of(key, path))

    def put(self, key: str, byte_range: ByteRange, *, there: bool, synced: bool) -> bool:
        """Give a leaf its file; `there` says whether it has one; `synced` makes the new one durable first.

        False where the key has a file of another name, for which `publish` has to be called.
        """
        backend = self._backend
        owner = backend.owner
        backend.check_unchanged([key])
        suffix = suffix_of(byte_range)
        if there and any(path != backend.root + key + suffix for path in backend.files.files_of(key)):
            return False
        path = backend.tree.path_for(key, suffix)
        folder = os.path.dirname(path)
        replacing = False
        # By itself, not in a folder: a writer may be killed, or lose its rights, at any time.
        aside = temporary_name(backend.aside.temporary.beside)
        try:
            write_new(aside, byte_range, owner)
            if synced or (path not in self.new and os.path.lexists(path)):
                sync_file(aside)
            else:
                self.new.add(path)
            self.folders.add(folder)
            self.folders.update(backend.tree.make(folder))
            replacing = True
            owner.replace(aside, path, keeps_access=there)
        except BaseException as error:
            if replacing and not os.path.lexists(aside):  # it is in place: the error came after the rename
                backend.files.note_file(key, suffix)
                if not isinstance(error, OSError):
                    raise
            else:
                name_file(error, path)
                with suppress(OSError):
                    owner.unlink(aside)
                backend.tree.remove_empty(folder)
                raise
        finally:
            backend.aside.temporary.tidy()
        backend.files.note_file(key, suffix)
        backend.mark_leaf()
        return True

    def remove(self, key: str) -> bool:
        """Remove the file of a leaf; False where there are more than one, for which `publish` has to be called."""
        backend = self._backend
        backend.check_unchanged([key])
        paths = list(backend.files.files_of(key))
        if len(paths) != 1:
            return False
        (path,) = paths
        if path not in self.new:
            self.removed.add(key)
        folder = os.path.dirname(path)
        self.folders.add(folder)
        try:
            backend.owner.unlink(path)
        except BaseException as error:
            if os.path.lexists(path) or not isinstance(error, OSError):
                raise
        self.new.discard(path)
        backend.files.note_file(key, None)
        self.folders.add(backend.tree.remove_empty(folder))
        backend.mark_leaf()
        return True

    def publish(self, changes: dict[str, ByteRange | None]) -> None:
        """Give several leaves their files, or remove them; if one of these fails, all are as they were."""
        backend = self._backend
        backend.check_unchanged(changes)
        suffixes = directories.publishing.into(backend, changes, None, fresh=False, durable=False, settles=True)
        for key in changes:
            backend.files.note_file(key, suffixes.get(key))
        backend.mark_leaf()

    def forget_aside(self, changes: dict[str, ByteRange | None]) -> None:
        """These changes are published: remove the second names that files had meanwhile."""
        for byte_range in changes.values():
            if isinstance(byte_range, Renamed) and byte_range.aside is not None:
                with suppress(OSError):
                    self._backend.owner.unlink(byte_range.aside)

    def came(self, unsynced: set[str], touched: set[str], gone: set[str], keys: set[str]) -> None:
        """Note files that came without a sync, or went; their folders; and keys that had durable files."""
        self.new.difference_update(gone)
        self.new.update(unsynced)
        self.folders.update(touched)
        self.removed.update(keys)

    def make_durable(self) -> None:
        """Make durable what was published."""
        backend = self._backend
        if not self.unsettled:
            return
        backend.embed_file.make_durable()
        for path in self.doubtful & (self.new | self.earlier):
            self._write_again(path)
        new = [path for path in (*self.new, *self.earlier) if os.path.lexists(path)]
        folders = [folder for folder in self.folders if os.path.isdir(folder)]
        try:
            sync_files(new, folders)
        except OSError:
            # After a failure the system counts unwritten bytes as written: another sync would report nothing.
            self.doubtful.update(new)
            raise
        for names in (self.new, self.earlier, self.folders, self.removed, self.doubtful):
            names.clear()

    def followed(self) -> None:
        """Others have changed the store since: what they put in the place of new files may be durable."""
        self.earlier |= self.new
        self.new.clear()

    def _write_again(self, path: str) -> None:
        """Write a file once more, from what the system still has of it."""
        backend = self._backend
        byte_range = backend.files.open(path)
        if byte_range is None:
            return
        for finding in verify_frame(Frame.open(*byte_range)):
            raise FormatError(f"a leaf could not be made durable, and is damaged by now: {finding.what}", path=path)
        aside = backend.aside.new()
        write_new(aside, byte_range, backend.owner)
        sync_file(aside)
        backend.owner.replace(aside, path)
        self.doubtful.discard(path)
