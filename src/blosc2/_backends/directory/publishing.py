"""Files beside the tree of a `.b2d`, on the same file system: frames are written there before they get their names."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from blosc2._backends.directory.scan import folders_between, in_steps, write_in_a_row, write_new
from blosc2._backends.embedded.changes import EmbeddedChanges
from blosc2._backends.layout import EMBED, LEAF_SUFFIXES, ByteRange, Renamed, suffix_of, taken
from blosc2._backends.temporary_folder import TemporaryFolder
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._files import (
    FileMoves,
    Owner,
    check_same_file,
    file_identity,
    sync_file,
    sync_files,
    sync_folder,
    temporary_name,
)
from blosc2._frames import verify_frame
from blosc2._options import absolute_path
from blosc2.exceptions import FormatError, name_file

if TYPE_CHECKING:
    from blosc2._backends.directory.backend import DirectoryBackend


# What a file system without hard links answers.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
# The least size of a staged frame with a file of its own; the suffix of files of several frames.
_OWN_FILE: Final = 256 << 10
_TOGETHER: Final = ".frames"


class FilesAside:
    """The temporary files of one store that is open for writing.

    Parameters
    ----------
    root : str
        The directory.
    owner : Owner
        The process that has it open.

    Attributes
    ----------
    temporary : TemporaryFolder
        Where they lie.
    """

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
        return os.path.join(self._staging, f"{self._staged}")

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
        if path is None or os.path.dirname(path) != self._staging or path.endswith(_TOGETHER):
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
        staging = self._staging
        try:
            self._remove_staging(staging)
        except BaseException:
            self._remove_staging(staging)  # an interrupt came between
            raise

    def _remove_staging(self, staging: str | None) -> None:
        """Remove the folder of staged files; it may be called again."""
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

    It is made when it is needed: its state is in the backend, and has no reference back. A store that
    is dropped together with others still has all of it when it ends.

    Parameters
    ----------
    backend : DirectoryBackend
        The files of the store.
    known : Unsettled
        Of this store; the sets are shared, not copied.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: DirectoryBackend, known: Unsettled) -> None:
        self._backend = backend
        self.new, self.folders, self.removed, self.doubtful = known.new, known.folders, known.removed, known.doubtful
        self.earlier = known.earlier

    @property
    def unsettled(self) -> bool:
        """Whether something was published that a power cut may take."""
        return bool(self.new or self.folders or self.earlier) or self._backend._embed_file.unsettled

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
        owner = backend._owner
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
            owner.replace(aside, path)
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
        backend._mark_leaf()
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
            backend._owner.unlink(path)
        except BaseException as error:
            if os.path.lexists(path) or not isinstance(error, OSError):
                raise
        self.new.discard(path)
        backend.files.note_file(key, None)
        self.folders.add(backend.tree.remove_empty(folder))
        backend._mark_leaf()
        return True

    def publish(self, changes: dict[str, ByteRange | None]) -> None:
        """Give several leaves their files, or remove them; if one of these fails, all are as they were."""
        backend = self._backend
        backend.check_unchanged(changes)
        suffixes = backend.publish_files(changes)
        for key in changes:
            backend.files.note_file(key, suffixes.get(key))
        backend._mark_leaf()

    def forget_aside(self, changes: dict[str, ByteRange | None]) -> None:
        """These changes are published: remove the second names that files had meanwhile."""
        for byte_range in changes.values():
            if isinstance(byte_range, Renamed) and byte_range.aside is not None:
                with suppress(OSError):
                    self._backend._owner.unlink(byte_range.aside)

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
        backend._embed_file.make_durable()
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
        write_new(aside, byte_range, backend._owner)
        sync_file(aside)
        backend._owner.replace(aside, path)
        self.doubtful.discard(path)


def in_the_way(backend: DirectoryBackend, changes: dict[str, ByteRange | None], paths: list[str]) -> list[str]:
    """Files of removed keys where new paths need a folder, or their folder lies: of "/b", for "/b.b2nd/x"."""
    if not any(suffix + "/" in key for key in changes for suffix in LEAF_SUFFIXES):
        return []  # no folder has the name of a file
    wanted = set(paths)
    folders = {folder for path in paths for folder in folders_between(backend.root, os.path.dirname(path))}
    removed = {path for key, new in changes.items() if new is None for path in backend.files.files_of(key)}
    return sorted(
        path
        for path in removed
        if path in folders or not wanted.isdisjoint(folders_between(backend.root, os.path.dirname(path)))
    )


def _files_in(folders: set[str]) -> list[str]:
    return [entry.path for folder in folders for entry in list(os.scandir(folder)) if entry.is_file()]


class Publishing:
    """Publishes changes of one `.b2d`; made for each publication, as it refers to the backend.

    Parameters
    ----------
    backend : DirectoryBackend
        The files of the store.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: DirectoryBackend) -> None:
        self._backend = backend

    def anew(self, changes: dict[str, ByteRange | None], embed: EmbeddedChanges | None, durable: bool) -> None:
        """Build a whole tree beside its place and move it there in one step."""
        backend = self._backend
        parent, name = os.path.split(absolute_path(backend.root))
        backend._owner.makedirs(parent)
        tree = temporary_name(os.path.join(parent, name))
        identity = None
        try:
            backend._owner.mkdir(tree)
            identity = file_identity(tree)
            folders = {tree}
            for key, byte_range in changes.items():
                if byte_range is None:
                    continue
                path = tree + key + suffix_of(byte_range)
                folder = os.path.dirname(path)
                if folder not in folders:
                    backend._owner.makedirs(folder)
                    folders.update(folders_between(tree, folder))
                staged = backend.aside.staged_path(byte_range)
                if staged is None:
                    write_new(path, byte_range, backend._owner)
                else:
                    backend._owner.rename(staged, path)
            if embed is not None:
                with backend._owner.open(os.path.join(tree, EMBED), "xb") as file:
                    embed.write(file)
            if durable:
                sync_files(_files_in(folders), folders)
            self._take_over(tree)
            backend._was_there = backend.behind = True
        except BaseException:
            now = file_identity(backend.root)
            if identity is not None and now is not None and now[:2] == identity[:2]:  # it has its name
                backend._was_there = backend.behind = True
            else:
                backend._owner.remove_tree(tree)
            raise
        if durable:
            sync_folder(backend.root)

    def _take_over(self, tree: str) -> None:
        """Give a whole tree the path of the store, where at most an empty directory lies."""
        backend = self._backend
        lock = backend.lock if os.name == "posix" else None
        if lock is not None:
            descriptor = os.open(tree, os.O_RDONLY)
            try:
                lock.take(descriptor, tree)
            finally:
                os.close(descriptor)
        elif os.path.isdir(backend.root):
            backend._owner.rmdir(backend.root)
        try:
            backend._owner.rename(tree, backend.root)
        except BaseException as error:
            if lock is not None:
                lock.adopt_if_current()
            if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise taken(backend.root, "somebody else has created something at this path meanwhile") from None
            raise
        if lock is not None:
            lock.adopt()

    def into(
        self,
        changes: dict[str, ByteRange | None],
        embed: EmbeddedChanges | None,
        fresh: bool,
        durable: bool,
        settles: bool = False,
    ) -> dict[str, str]:
        """Move new files into the existing tree, and remove old ones; returns the suffix of each key's new file.

        With `settles` this waits for the disk only where something durable could be lost; `placing` knows the rest.
        """
        backend = self._backend
        backend.half_done = False
        if fresh and not backend._was_there:
            raise taken(backend.root, "somebody else has created something at this path meanwhile")
        if not fresh:
            check_same_file(os.path.join(backend.root, EMBED), backend._identity)
        stale = set(backend.files.all()) if fresh else set()
        files = self._new_files(changes)
        renamed = {
            key: new.origin for key, new in changes.items() if isinstance(new, Renamed) and new.aside is not None
        }
        paths = [path for _, path in files.values()]
        placing = backend.placing
        lost = {key for key in changes if placing.replaces(key)} if settles else set()
        unsynced = {
            path
            for key, (_, path) in files.items()
            if settles and key not in lost and not isinstance(changes[key], Renamed)
        }
        ordered = durable or settles
        if ordered:
            backend.aside.sync([
                aside
                for key, (aside, path) in files.items()
                # Only what is moved may be a link.
                if path not in unsynced and not (isinstance(changes[key], Renamed) and os.path.islink(aside))
            ])  # fmt: skip
        backend._embed_file.was_there = True
        backend._embed_file.beside = backend._beside_embedded()
        done = FileMoves(backend.aside.keep, backend._owner)
        gone: set[str] = set()
        try:
            # A fresh store replaces another one, to which nothing can be appended.
            new_embed = None if embed is None else backend._embed_file.prepare(embed, durable=durable, anew=fresh)
            for path in in_the_way(backend, changes, paths):
                done.remove(path)
                gone.add(path)
                backend.tree.remove_empty(os.path.dirname(path))
            touched, occupied = backend.tree.prepare(paths)
            touched.update(folder for folder in map(os.path.dirname, gone) if os.path.isdir(folder))
            for key in changes:
                known = files[key][1] if key in files and files[key][1] in occupied else None
                stale.update(backend.files.files_of(key, known))
            if settles:  # first of all: what is not noted counts as durable
                placing.came(unsynced, touched, set(), lost)
            for number, step in enumerate(in_steps(list(files), renamed)):
                if number and ordered:
                    backend.tree.sync(touched)
                self._put(done, {key: files[key] for key in step}, occupied, stale)
            if ordered and files and (new_embed is not None or stale):
                backend.tree.sync(touched)
            # A value that changes its tier is in both for a moment, never in neither: each step is durable first.
            if new_embed is not None:
                new_embed.commit()
                done.forget()
            self._remove(done, stale, touched, final=new_embed is not None)
            if durable:
                backend.tree.sync(touched)
            placing.came(set(), touched if settles else set(), stale | gone, set())
            if durable:
                placing.new.difference_update(paths)
        except BaseException as error:
            backend._embed_file.end_change()
            if done.is_final:
                backend.half_done = True
                error.add_note(
                    f"{backend.root}: all values are published, but some files that they replace may be there"
                )
            else:
                self._take_back(done, paths, error, durable=durable)
            raise
        backend._mark()
        return {key: os.path.splitext(path)[1] for key, (_, path) in files.items()}

    def _new_files(self, changes: dict[str, ByteRange | None]) -> dict[str, tuple[str, str]]:
        """Write or link a file aside for each new frame; it, and the path where it belongs, by key."""
        backend = self._backend
        files = {}
        for key, byte_range in changes.items():
            if isinstance(byte_range, Renamed) and byte_range.aside is not None:
                path = backend.tree.path_for(key, os.path.splitext(byte_range.aside)[1])
                # The file aside stays, in case that this fails and is tried again.
                files[key] = (backend.aside.link(byte_range.aside, path), path)
            elif byte_range is not None:
                path = backend.tree.path_for(key, suffix_of(byte_range))
                files[key] = (backend.aside.write(byte_range), path)
        return files

    def _put(self, done: FileMoves, files: dict[str, tuple[str, str]], occupied: set[str], stale: set[str]) -> None:
        """Move some new files to where they belong; they are not stale."""
        done.begin_step()
        for key, (aside, path) in files.items():
            done.put(aside, path, taken=path in occupied)
            occupied.add(path)
            stale.difference_update((path, self._backend.root + key + os.path.splitext(path)[1]))

    def _remove(self, done: FileMoves, stale: set[str], touched: set[str], *, final: bool) -> None:
        """Remove files that are not needed any more; with `final` they could not be brought back."""
        backend = self._backend
        done.begin_step()
        for path in sorted(stale):
            if final:
                backend._owner.unlink(path)
            else:
                done.remove(path)
            touched.add(backend.tree.remove_empty(os.path.dirname(path)))

    def _take_back(self, done: FileMoves, paths: list[str], error: BaseException, *, durable: bool) -> None:
        """Bring back the files that were replaced before an error, and remove those that came, with their folders."""
        backend = self._backend

        def sync(paths: list[str]) -> None:
            if durable:
                backend.tree.sync({os.path.dirname(path) for path in paths})

        undone, left = done.take_back(sync)
        folders = {backend.tree.remove_empty(os.path.dirname(path)) for path in paths + undone}
        with suppress(OSError):  # what is there is whole either way
            backend.tree.sync(folders if durable else set())
        if left or backend._embed_file.behind:
            backend.half_done = True
        if left:
            error.add_note(
                f"{backend.root}: {len(left)} files are new already, and could not be brought back: {left[:5]}"
            )
