"""Files beside the tree of a `.b2d`, on the same file system: frames are written there before they get their names."""

from __future__ import annotations

import errno
import os
from typing import Final

from blosc2._backends.directory.files import write_in_a_row, write_new
from blosc2._backends.layout import ByteRange
from blosc2._backends.temporary_folder import TemporaryFolder
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._files import Owner, sync_files, temporary_name
from blosc2._frames import verify_frame
from blosc2.exceptions import FormatError

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
