"""A `.b2d` store: a directory in which each leaf is a file of its own.

A key gives the path of its file, so the directory is walked only to list keys. A leaf is written outside the tree and
renamed into place; no file of the tree is ever half-written.
"""

from __future__ import annotations

import errno
import os
import time
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from blosc2._backends import directory as directories
from blosc2._backends import embedded as frames
from blosc2._backends.directory.leaf_files import (
    Folders,
    LeafFiles,
    has_dead_bytes,
    has_few_names,
    is_empty,
    size_of,
)
from blosc2._backends.directory.placing import FilesAside, Placing, Unsettled
from blosc2._backends.embedded.file import EmbeddedFile
from blosc2._backends.embedded_map import Embedded, read_embedded
from blosc2._backends.layout import (
    EMBED,
    LEAF_SUFFIXES,
    ONLY_A_FRAME,
    ByteRange,
    NewVersion,
    Renamed,
    missing,
    suffix_of_frame,
    taken,
)
from blosc2._backends.tiers import TieredBackend
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._core.leaves.leaf_access import FolderTime
from blosc2._core.on_demand import import_now
from blosc2._files import (
    TICK,
    NewFile,
    Progress,
    begins_with,
    check_same_file,
    file_identity,
)
from blosc2._frames import FrameUpdate, is_directory_frame, write_frame
from blosc2._options import StoreOptions
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._backends.embedded.frame_layout import EmbeddedChanges

# Nanoseconds in which a file system may not tell two changes apart.
_TICK = 3 * 10**9
# How often to look for a leaf that a writer moves; each move waits for the disk.
_TRIES = 50
# After how many keys that were looked for a listing is made, first and where listings do not last; for each of them, it
# may have so many names, and at most so many in all. It holds for so many seconds, as other programs change folders
# without changing the time of the root.
_LOOKS, _MOST_LOOKS = 8, 64
_NAMES = 4
_MOST_NAMES = 1 << 14
_HOLDS = 1.0


class DirectoryBackend(TieredBackend):
    """The files of one `.b2d` store, and the embedded values beside them; see `TieredBackend`."""

    suffix = ".b2d"
    lists_cheaply = all_or_none = False

    def __init__(self, root: str, how: StoreOptions = StoreOptions(), kind: str = "b2dict") -> None:  # noqa: B008 - never changes
        super().__init__(root, how)
        self.kind = kind
        if how.mode != "r":
            import_now("blosc2._backends.directory")
            import_now("blosc2._backends.embedded", "file", "writing")
        self._embed_source: Source | None = None
        self.embed_file = EmbeddedFile(os.path.join(root, EMBED))
        self.owner = self.embed_file.owner
        self.files = LeafFiles(root, how.mmap_mode)
        self.files.advice = self.advice
        self.aside = FilesAside(root, self.owner)
        self.tree = Folders(root, self.owner)
        #: What was published leaf by leaf.
        self._unsettled = Unsettled()
        # Whether the directory was there before this backend wrote anything, and its identity when it was read.
        self.was_there = False
        self.seen: tuple[int, ...] | None = None
        # Identity of the file of embedded values when they were read last, even if not shown.
        self._latest: tuple[int, ...] | None = None
        self._read_at = 0
        # The map of embedded values that were published last and are not shown yet; None if they are as before.
        self.new_entries: dict[str, dict[str, Any]] | None = None
        # How many keys were looked for since keys were listed to look for them, and with how many that is tried next.
        self._looks, self._enough_looks = 0, _LOOKS

    @property
    def placing(self) -> Placing:  # type: ignore[override]  # never assigned
        """Publishes leaves one by one, and knows which it published."""
        return Placing(self, self._unsettled)

    @property
    def unsettled(self) -> Placing | None:  # type: ignore[override]  # never assigned
        """What was published leaf by leaf, or lazily, and may not be durable yet."""
        placing = self.placing
        return placing if placing.unsettled else None

    # ------------------------------------------------------------------ reading
    def exists(self) -> bool:
        self.was_there = os.path.lexists(self.root)
        if not self.was_there:
            return False
        if not os.path.isdir(self.root):
            raise NotADirectoryError(errno.ENOTDIR, "a .b2d store is a directory, and this is a file", self.root)
        return os.path.exists(os.path.join(self.root, EMBED)) or not is_empty(self.root)

    def warn_early(self) -> None:
        self.files.warn_early()

    def check_replaceable(self) -> None:
        if self.exists() and not os.path.isfile(os.path.join(self.root, EMBED)):
            raise taken(self.root, f"a directory that is not empty and no store (it has no {EMBED}) is not replaced")

    def embed_byte_range(self) -> ByteRange:
        # Before it is read: a change meanwhile is then noticed too.
        self.seen, self._read_at = file_identity(self.root), time.time_ns()
        self._latest = file_identity(self.embed_file.path)
        self.embed_file.was_read(self._latest)
        self.new_entries = None
        return self._open_embedded()

    def show_published(self) -> None:
        """Show what was just published: embedded values that changed are known, and others are not read again."""
        entries, embedded = self.new_entries, self.embedded
        if file_identity(self.embed_file.path) != self.identity or (entries is None and embedded is None):
            self.load()  # somebody else has published since
        else:
            self._show_or_stay(self._show_written)

    def _show_written(self) -> None:
        entries, embedded = self.new_entries, self.embedded
        if entries is not None or embedded is None:
            embedded = self._written(self.embed_byte_range(), entries)
        else:
            self.seen, self._read_at, self._latest = file_identity(self.root), time.time_ns(), self.identity
            self.embed_file.behind = self.behind = False
        self.embedded, self._newer, self._listings, self.replaces = embedded, None, [], False

    @property
    def identity(self) -> tuple[int, ...] | None:
        """Identity of the file of embedded values when it was last read or written here."""
        return self.embed_file.identity

    def _open_embedded(self) -> ByteRange:
        byte_range = self.files.open(os.path.join(self.root, EMBED), self._embed_source)
        self._embed_source = None if byte_range is None else byte_range[0]
        if byte_range is None:
            if not os.path.isdir(self.root):
                raise missing(self.root)
            is_frame = is_directory_frame(self.root)
            raise FormatError(ONLY_A_FRAME if is_frame else f"not a store: it has no {EMBED}", path=self.root)
        self.behind = False
        # Bytes of an unfinished append may follow.
        return byte_range[0], 0, -1

    def shown(self) -> tuple[Any, ...]:
        return super().shown(), self.seen, self._embed_source, self.embed_file.state()

    def show(self, shown: tuple[Any, ...]) -> None:
        common, self.seen, self._embed_source, state = shown
        self.embed_file.bring_back(state)
        super().show(common)

    def locate_file(self, key: str) -> ByteRange | None:
        return self.files.locate(key)

    def file_byte_range(self, key: str) -> ByteRange | None:
        return self.files.stored_range(key)

    def open_frame(self, key: str) -> Frame | None:
        byte_range = None if self.replaces else self.files.locate(key)
        if byte_range is None:
            return super().open_frame(key)
        frame = Frame.open(*byte_range, key)
        if not (frame.only_array and str(byte_range[0].path).endswith(".b2nd")):
            self._check_suffix(frame, key)
        return frame

    def _check_suffix(self, frame: Frame, key: str) -> None:
        """Warn of a leaf whose file has a suffix that does not fit its kind."""
        path = str(frame.source.path)
        expected = suffix_of_frame(frame)
        if os.path.splitext(path)[1] in set(LEAF_SUFFIXES) - {expected}:
            warnings.warn(
                f"{path}: the leaf {key!r} has another suffix than its kind, {expected}: if renamed, give it that one",
                UserWarning, stacklevel=2,
            )  # fmt: skip

    def has_file(self, key: str) -> bool:
        return self.files.has(key)

    def table(self) -> KeyTable:
        return self.files.table()

    def advise(self, advice: str) -> bool:
        """Give the system advice about all files; open leaves do not get it."""
        super().advise(advice)
        self.files.advice = self.advice
        return False

    def listing_for_looks(self) -> tuple[KeyListing, FolderTime | None] | None:
        """See `Backend`. Who looks for many keys gets a listing that holds until somebody publishes something.

        It is not that of `listing`, after which keys that came later are not found.
        """
        if self._listings:
            return self._listings[0], None
        self._looks += 1
        if self._looks < self._enough_looks or os.name == "nt":  # where the time of a folder is not looked at
            return None
        if not has_few_names(self.root, min(_NAMES * self._looks, _MOST_NAMES)):
            self._enough_looks *= 4
            return None
        self._looks, self._enough_looks = 0, min(2 * self._enough_looks, _MOST_LOOKS)
        try:
            return self._list_for_a_while()
        except (OSError, FormatError):  # whoever lists the keys is told; single ones are found all the same
            return None

    def _list_for_a_while(self) -> tuple[KeyListing, FolderTime] | None:
        """The keys of all files and embedded values; None if a writer may be moving some."""
        changed, until = os.stat(self.root).st_mtime_ns, time.monotonic() + _HOLDS
        embedded = self.embedded
        # What is changed within a tick of its clock may leave the time of the folder as it is.
        if embedded is None or self.embed_has_changed() or time.time_ns() - changed <= TICK:
            return None
        files = self.files.table_now()
        if self.embed_has_changed():  # a leaf that moved meanwhile may be in neither
            return None
        entries = embedded.entries if self._newer is None else {**self._newer.entries, **embedded.entries}
        values = [key for key in entries if files.find(key) < 0]
        listing = KeyListing(files, KeyTable.of_keys(values) if values else None, path=self.named)
        return listing, FolderTime(os.fsencode(self.root), changed, until)

    # ------------------------------------------------------------------ leaves that a writer moves
    def _find_again(self, key: str) -> ByteRange | None:
        """The byte range of a leaf that was found in neither tier; None if there is no such leaf.

        Once keys are listed, keys that came later do not belong to the store until `refresh`.
        """
        listed = self._listings
        if self._is_alone or (listed and key not in listed[0]):
            return None
        for _ in range(_TRIES):
            # Mostly there is none, and looking for it is cheaper than opening it.
            byte_range = self.files.locate_now(key) if self.files.path_now(key) is not None else None
            if byte_range is not None:
                return byte_range
            newer = self._newer_values()
            if newer is None:
                return None if self._newer is None else self._newer.locate(key)
            # Only for leaves that were missed: the others stay as they were when the store was opened.
            self._newer = newer
            byte_range = newer.locate(key)
            if byte_range is not None:
                return byte_range
        return None

    def _list_tiers(self, embedded: Embedded) -> tuple[KeyTable, dict[str, Any]]:
        """The keys of all files and embedded values, and none is missed that a writer moves."""
        if self._is_alone:
            return super()._list_tiers(embedded)
        newest = self._newer or embedded
        files = self.files.table()
        for _ in range(_TRIES):
            newer = self._newer_values()
            if newer is None:
                break
            newest = newer
            files = self.files.table(again=True)
        if newest is embedded:
            return files, embedded.entries
        self._newer = newest  # as `_find_again` finds them
        return files, {**newest.entries, **embedded.entries}

    def _newer_values(self) -> Embedded | None:
        """The embedded values, if they changed since they were last read."""
        return read_embedded(self._embed_byte_range_now, self.how.verify) if self.embed_has_changed() else None

    def embed_has_changed(self) -> bool:
        """Whether the embedded values changed since they were last read."""
        now = file_identity(self.embed_file.path)
        return now is not None and now != self._latest

    def _embed_byte_range_now(self) -> ByteRange:
        """Where their newest frame lies; the store goes on showing its version."""
        self._latest = file_identity(self.embed_file.path)
        return self._open_embedded()

    def name_of(self, key: str) -> str | None:
        path = self.files.path_of(key)
        return None if path is None else os.path.relpath(path, self.root).replace(os.sep, "/")

    def close(self) -> None:
        self.discard()
        self._forget()
        super().close()

    def forget_shown_keys(self) -> None:
        """Look at the files again, and at the embedded values, if it can be told where they are now."""
        self._forget()
        # What somebody else has put there stays refused.
        if self.embed_file.behind or file_identity(self.embed_file.path) == self.identity:
            with suppress(OSError, FormatError):
                self._show_or_stay(self._read_embedded_again)
        super().forget_shown_keys()  # last: a listing that is made meanwhile is of the embedded values before

    def _read_embedded_again(self) -> None:
        """Show the embedded values that are in the file now, whoever wrote them."""
        byte_range = self.embed_byte_range()
        if self.embedded is not None:
            self.embedded = Embedded(byte_range, verify=self.how.verify)

    def _forget(self) -> None:
        self.files.forget()
        self.tree.forget()

    # ------------------------------------------------------------------ writing
    def _publish_tiers(
        self, files: dict[str, ByteRange | None], values: dict[str, ByteRange | None], new: NewVersion
    ) -> None:
        hidden = {
            key for key in new.hidden
            if self.embedded is not None and key in self.embedded.entries and key not in new.changes
            and self.has_file(key)
        }  # fmt: skip
        if hidden:
            self.placing.make_durable()  # the files that hide them
            values.update(dict.fromkeys(hidden))
        before = {} if self.embedded is None else self.embedded.entries
        kept: dict[str, ByteRange | None] = {}
        try:
            self._keep_moved(files, values, new, kept)
            super()._publish_tiers(files, values, new)
        except BaseException as error:
            if kept and not self.half_done:  # else the files that took their old keys stay, too
                self._take_back_moved(kept, before, error, new)
            raise

    def _keep_moved(
        self, files: dict[str, ByteRange | None], values: dict[str, ByteRange | None], new: NewVersion,
        kept: dict[str, ByteRange | None],
    ) -> None:  # fmt: skip
        """Give embedded values their new keys first, if files will get the old ones.

        A file hides the value at once, which would have no key until the embedded values are published.
        The values of the new keys are put into `kept` first: an interrupt may come after any later step.
        """
        moved: dict[str, ByteRange | None] = {
            key: byte_range
            for key, byte_range in values.items()
            if isinstance(byte_range, Renamed) and files.get(byte_range.origin) is not None
        }
        embedded = self.embedded
        if not moved or embedded is None:
            return
        kept.update((key, embedded.kept(key) if key in embedded.entries else None) for key in moved)
        directories.publishing.into(self, {}, self.changes_of(moved, new.registry), fresh=False, durable=new.durable)
        self.show_published()
        for key in moved:
            del values[key]

    def _take_back_moved(
        self, kept: dict[str, ByteRange | None], before: Mapping[str, Any], error: BaseException, new: NewVersion
    ) -> None:
        """The publication failed after embedded values got new keys: take these keys away again."""
        self.forget_shown_keys()
        now = self.embedded
        if now is None or all(now.entries.get(key) == before.get(key) for key in kept):
            return
        try:
            directories.publishing.into(self, {}, self.changes_of(kept, new.registry), fresh=False, durable=new.durable)
            self.forget_shown_keys()
        except (OSError, FormatError):
            error.add_note(f"{self.named}: renamed values are there under their new keys, too: {list(kept)[:5]}")

    def write(
        self, files: dict[str, ByteRange | None], embed: EmbeddedChanges | None, *, fresh: bool, durable: bool = True,
        lazy: bool = False, progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Publish changes: first the files of leaves, then the embedded values."""
        changes = files
        for key in changes:
            self.tree.check_inside(key)
        self.embed_file.lazy = lazy and not changes
        # Until it is read. Staged files stay that long, for another try.
        before, self.behind = self.behind, not fresh
        try:
            if fresh and not (os.path.isdir(self.root) and (os.listdir(self.root) or self.aside.temporary.is_inside)):
                directories.publishing.anew(self, changes, embed, durable, progress)
            else:
                directories.publishing.into(self, changes, embed, fresh, durable)
            self.behind = True
            if changes or fresh:
                self._forget()
        except BaseException:
            # What somebody else has put there is not shown.
            self.behind = (self.behind if fresh else before) or self.embed_file.behind
            raise
        finally:
            self.embed_file.lazy = False

    def check_unchanged(self, keys: Iterable[str]) -> None:
        """Check that files may get these keys, and that the version shown is still the published one."""
        for key in keys:
            self.tree.check_inside(key)
        self.owner.check(self.root)
        check_same_file(os.path.join(self.root, EMBED), self.identity)
        # A power cut could bring an embedded value back, and a file in its place hide it.
        if self.embed_file.unsettled:
            self.embed_file.make_durable()

    def mark(self) -> None:
        """Change the directory's time, so that readers notice a new version, however coarse times are."""
        with suppress(OSError):
            before = 0 if self.seen is None else self.seen[3]
            self.owner.utime(self.root)
            for later in (1, _TICK // 3, _TICK):
                status = os.stat(self.root)
                if status.st_mtime_ns > before:
                    break
                self.owner.utime(self.root, ns=(status.st_atime_ns, before + later))

    def mark_leaf(self) -> None:
        """Mark it after publishing one leaf: this store goes on showing its version."""
        self.mark()
        self.seen, self._read_at = file_identity(self.root), time.time_ns()

    def cut_tail(self) -> None:
        """Cut off an unfinished append after the embedded values; nothing is ever appended to leaves."""
        if self.lock is not None and self.lock.held:
            with suppress(OSError, FormatError):
                self.embed_file.cut_tail(Frame.open(Source.open(self.embed_file.path)))

    def stage_files(self, changes: dict[str, ByteRange]) -> dict[str, ByteRange]:
        return self.aside.stage(changes)

    def discard(self) -> None:
        self.aside.discard()

    def forget_staged(self) -> None:
        self._waiting = None
        self.discard()

    def abandon(self) -> None:
        self.aside.abandon()

    def reload(self) -> bool:
        """Show the published version; returns whether it is another one.

        Changes by other programs inside of folders are seen from then on, but may not be reported.
        """
        path = self.embed_file.path
        header = b"" if self.embedded is None else self.embedded.frame.header_bytes()
        changed = (
            self.behind
            or (self.seen, self.identity) != (file_identity(self.root), file_identity(path))
            or not begins_with(path, header)
        )
        files = self.files.listed
        self._forget()
        if not changed and files is not None and self.seen is not None and self._read_at - self.seen[3] < _TICK:
            # Read so soon after it was changed that its time would be the same after another change.
            self.files.table()
            changed = self.files.listed != files
        if changed:
            self.load()
        return changed

    def size(self) -> int:
        return sum(map(size_of, self._all_files()))

    def _all_files(self) -> list[str]:
        return [os.path.join(self.root, EMBED), *self.files.all()]

    def compact(self, progress: Progress | None) -> None:
        """Write the files with dead bytes anew, one after the other."""
        self.discard()  # what was moved out of memory, and nobody needs any more
        if self.lock is not None and self.lock.held:
            self.aside.temporary.remove_leftovers()
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
                    self.behind = True
            elif has_dead_bytes(frame, size) and not os.path.islink(path):
                with NewFile(path, replace=True, beside=self.aside.temporary.beside, owner=self.owner) as file:
                    write_frame(file, FrameUpdate(frame))
            done += size
            if progress is not None:
                progress(done, total)
        self.aside.temporary.tidy()
        self.mark()
        self._forget()

    def _compact_embedded(self) -> None:
        embedded = Embedded(self.embed_byte_range())
        self.new_entries = embedded.entries
        if embedded.frame.nbytes:
            self.embed_file.beside = self.beside_embedded()
            changes = frames.frame_layout.EmbeddedChanges(str(embedded.kind), embedded, {})
            self.new_entries = self.embed_file.publish(changes, anew=True)

    def beside_embedded(self) -> str | None:
        """Where a new file of embedded values is written."""
        return None if os.path.islink(self.embed_file.path) else self.aside.temporary.beside

    def begin_rename(self, key: str) -> Renamed:
        """The frame of a key that will get another key; a second name of its file, beside the tree, keeps it."""
        path = self.files.path_of(key)
        return super().begin_rename(key) if path is None else Renamed(None, key, self.aside.link(path))

    def renamed_range(self, renamed: Renamed) -> ByteRange:
        """A `Renamed` as a byte range; an embedded value is one already."""
        if renamed.aside is None:
            return renamed
        byte_range = self.files.open(renamed.aside)
        if byte_range is None:
            raise taken(self.root, f"the file of the key {renamed.origin!r} is gone; open the store again")
        return byte_range
