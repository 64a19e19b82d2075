"""A file of embedded values, for its one writer: what is known of it, and what is under way. `writing` changes it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from blosc2._backends import embedded
from blosc2._core.frame.frame import Frame
from blosc2._files import (
    Lock,
    Owner,
    Progress,
    check_same_file,
    check_writable_file,
    identity_of,
    sync_descriptor,
    sync_folder,
    through_link,
)
from blosc2._frames import SECTOR, carried, end_of_versions
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._backends.embedded.frame_layout import EmbeddedChanges
    from blosc2._backends.embedded.writing import Append, Replacement


class EmbeddedFile:
    """A file of embedded values, for its one writer. The lock passes to a file that replaces this one."""

    def __init__(self, path: str, lock: Lock | None = None) -> None:
        self.path = path
        self.lock = lock
        #: Identity of the file when it was last read or written here; None if unknown.
        self.identity: tuple[int, ...] | None = None
        #: Whether a new file may replace an existing one; set by its owner.
        self.was_there = False
        #: Where new files are written instead of beside the old one, before they replace it.
        self.beside: str | None = None
        #: Whether an appended version need not be durable when it is published. Its bytes are, so that a power cut
        #: leaves it or the one before.
        self.lazy = False
        #: Bytes written up to now, and whether some of them were appended.
        self.written, self.has_appended = 0, False
        # Whether a power cut may lose the published version.
        self.unsettled = self._doubtful = False
        self.owner = Owner()
        #: Whether the file may have another version than the one that its owner shows: from before it is shown to
        #: others until the owner has read it, or it is certain that the one before shows again.
        self.behind = False
        # The change under way: written, or being made current.
        self.change: Append | Replacement | None = None

    def was_read(self, identity: tuple[int, ...] | None) -> None:
        """Its owner has read the file of this identity, and goes on from there."""
        self.identity = identity
        self.was_there = True
        self.behind = False

    def state(self) -> tuple[Any, ...]:
        """What is known of the file, for `bring_back`."""
        return self.identity, self.was_there, self.behind

    def bring_back(self, state: tuple[Any, ...]) -> None:
        """Restore a `state`: what was read is unusable."""
        self.identity, self.was_there, self.behind = state

    def cut_tail(self, frame: Frame) -> None:
        """Cut off what an unfinished append has left in a file that was just read, and that nobody else writes to."""
        end = frame.frame_len
        if self.identity is None or self.identity[2] <= end or frame.offset:
            return
        # Only where checksums tell that the frame ends where it says.
        with suppress(OSError, FormatError):
            if carried(frame) is None:
                return
            end = end_of_versions(self.path, frame)
            with self.owner.open_raw(self.path, "r+b") as file:
                if self.identity[2] > end and identity_of(os.fstat(file.fileno())) == self.identity:
                    file.truncate(end)
                    self.identity = identity_of(os.fstat(file.fileno()))

    def publish(
        self, new: EmbeddedChanges, *, durable: bool = True, anew: bool = False, progress: Progress | None = None
    ) -> dict[str, dict[str, Any]]:
        """Publish changes, all or none; returns the map that the file then has. See `prepare`."""
        try:
            return self.prepare(new, durable=durable, anew=anew, progress=progress).commit()
        except BaseException:
            self.end_change()
            raise

    def make_durable(self) -> None:
        """Make durable what was published; nothing is left to do if the file was removed since."""
        if not self.unsettled:
            return
        path = through_link(self.path)
        if not os.path.lexists(path):
            self.unsettled = self._doubtful = False
            return
        with self.owner.open_raw(path, "r+b") as file:
            if self._doubtful:
                # After a failure the system counts unwritten bytes as written.
                header = file.read(SECTOR)
                file.seek(0)
                file.write(header)
                self.identity = identity_of(os.fstat(file.fileno()))
            self._doubtful = True
            sync_descriptor(file.fileno())
        sync_folder(path)
        self.unsettled = self._doubtful = False

    def followed(self) -> None:
        """Others have changed the file: nothing depends on what they did."""

    def end_change(self) -> None:
        """Take back an unfinished change, wherever it stopped; without one, do nothing."""
        change, self.change = self.change, None
        if change is not None:
            change.abandon()

    def prepare(
        self, new: EmbeddedChanges, *, durable: bool = True, anew: bool = False, progress: Progress | None = None
    ) -> Append | Replacement:
        """Write all that changes need, where nobody looks; returns the object that makes it current.

        With `durable` this waits until its bytes are on the disk, and `commit` until the version is; with `anew` the
        file is written anew in any case, without dead bytes. What it held stays if this fails.
        """
        self.owner.check(self.path)
        old = new.old
        if old is not None:
            check_same_file(self.path, self.identity, old.frame.header_bytes())
            check_writable_file(self.path)
        return embedded.writing.written(self, new, durable=durable, anew=anew, progress=progress)
