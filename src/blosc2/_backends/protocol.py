"""The contract between a store and its backend: a ZIP file, a directory, or a frame of embedded values.

A backend shows one version of a store, which `load` reads, and publishes the next. Keys are canonical. What not every
backend can do is an attribute of it that may be None: `placing`, `members`, `streaming`,
`unsettled`. A new backend implements all of this, and passes `tests/backend_kit.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from blosc2._backends.layout import ByteRange, Renamed
from blosc2._backends.layout import NewVersion as NewVersion
from blosc2._core.frame.frame import Frame
from blosc2._core.keys.listing import KeyListing
from blosc2._files import Progress

if TYPE_CHECKING:
    from blosc2._backends.directory.placing import Placing
    from blosc2._backends.embedded.frame_map import Embedded
    from blosc2._backends.writer_lock import WriterLock
    from blosc2._backends.zip.members import Members
    from blosc2._backends.zip.streaming import LeafStream


class Settles(Protocol):
    """Published changes that a power cut may still lose."""

    def make_durable(self) -> None:
        """Make it durable."""

    def followed(self) -> None:
        """Others have changed the store since, and may have made their changes durable."""


class Backend(Protocol):
    """Where the leaves of one store lie.

    Attributes
    ----------
    root, named : str or None
        Its path, and the path that users gave, which may be a link to it; None in memory.
    lock : WriterLock or None
        Keeps other writers out; None if the store is open to be read only.
    embedded : Embedded or None
        The values that share a frame, of the version that is shown; None before anything is published.
    lists_cheaply : bool
        Whether the keys are known without looking at each file.
    all_or_none : bool
        Whether a publication that fails leaves all as it was.
    replaces : bool
        Whether the next publication makes a new store, and nothing is shown of the existing one.
    behind : bool
        Whether a newer version than the shown one may have been published. Nothing may build on the shown one then.
    half_done : bool
        Whether the last publication failed, and a part of it could not be taken back: only all of it, published again,
        makes up one version.
    placing : Placing or None
        What publishes leaves one by one.
    members : Members or None
        The members of an archive: what it knows of leaves without opening them.
    streaming : LeafStream or None
        What takes many leaves as they come.
    unsettled : Settles or None
        What was published, and may not be durable yet.
    """

    suffix: str
    lock: WriterLock | None
    embedded: Embedded | None
    lists_cheaply: bool
    all_or_none: bool
    replaces: bool
    half_done: bool

    # Some backends compute these.
    @property
    def root(self) -> str | None: ...
    @property
    def named(self) -> str | None: ...
    @property
    def behind(self) -> bool: ...
    @property
    def placing(self) -> Placing | None: ...
    @property
    def members(self) -> Members | None: ...
    @property
    def can_remove_groups(self) -> bool: ...
    @property
    def streaming(self) -> LeafStream | None: ...
    @property
    def unsettled(self) -> Settles | None: ...

    # ------------------------------------------------------------------ open
    def exists(self) -> bool:
        """Whether something exists that may be a store. Raises an error if it cannot be one."""

    def check_replaceable(self) -> None:
        """Refuse to replace anything but a store."""

    def load(self) -> None:
        """Show the published version. If that fails, the version shown before stays."""

    def reload(self) -> bool:
        """Show the published version. Returns whether it is another one."""

    def shown(self) -> tuple[Any, ...]:
        """The version that is shown, for `show`."""

    def show(self, shown: tuple[Any, ...]) -> None:
        """Show an earlier version again, because the newer one that was read is unusable."""

    def remove_groups(self, groups: tuple[str, ...]) -> bool:
        """Show all leaves but those with files of their own below some groups.

        The next publication removes these. Returns whether others were shown before. Only if `can_remove_groups`, else
        `groups` is empty.
        """

    def forget_shown_keys(self) -> None:
        """Forget the listing of the existing keys."""

    def cut_tail(self) -> None:
        """Cut off the bytes of an unfinished append."""

    def close(self) -> None:
        """Release everything. Leaves keep the sources that they need."""

    def abandon(self) -> None:
        """Forget the file that is being written: it belongs to another process."""

    # ------------------------------------------------------------------ locate
    def locate(self, key: str) -> ByteRange | None:
        """The byte range of the frame of a key. None if there is none."""

    def open_frame(self, key: str) -> Frame | None:
        """The frame of a key, opened with as few reads as possible. None if there is none."""

    def stored_range(self, key: str) -> ByteRange | None:
        """The byte range of a frame, as far as it is known without reading it. None if there is none."""

    def __contains__(self, key: str) -> bool: ...

    def contains_now(self, key: str) -> bool:
        """The same by a single look, which may miss a leaf that a writer is moving."""

    def has_file(self, key: str) -> bool:
        """Whether a key has a file or a member of its own."""

    # ------------------------------------------------------------------ list, describe
    def keys(self) -> list[str]:
        """All keys, in their order."""

    def listing(self) -> KeyListing:
        """A listing of all keys with their groups. It is kept until other keys are published."""

    def forget_listing(self) -> None:
        """Keys were added or removed: list them anew."""

    def name_of(self, key: str) -> str | None:
        """The name of the file or member of a key. None if it has none."""

    def stored_bytes(self, key: str) -> int:
        """The stored bytes of a leaf, as far as they are known without opening it."""

    def size(self) -> int:
        """Bytes of all files."""

    # ------------------------------------------------------------------ verify, advise
    def verify(self, key: str, frame: Frame) -> None:
        """Check a leaf as far as possible without its chunks. Raises `FormatError` if it is not as written."""

    def advise(self, advice: str) -> bool:
        """Give the system advice about all files. Returns False if files of leaves did not get it."""

    # ------------------------------------------------------------------ stage, publish, compact
    def stage(self, changes: dict[str, ByteRange], tiers: Mapping[str, bool]) -> dict[str, ByteRange]:
        """Move unpublished frames out of memory. Returns where they are now."""

    def forget_staged(self) -> None:
        """All staged frames are published and read."""

    def discard(self) -> None:
        """Remove the staged frames."""

    def publish(self, new: NewVersion) -> None:
        """Publish changes. They are not shown before `show_published`."""

    def show_published(self) -> None:
        """Show what was just published. If that fails, the version shown before stays."""

    def begin_rename(self, key: str) -> Renamed:
        """The frame of a key that will get another key."""

    def renamed_range(self, renamed: Renamed) -> ByteRange:
        """The byte range of what `begin_rename` gave."""

    def compact(self, progress: Progress | None) -> None:
        """Rewrite the store without dead bytes. The result is not shown before `load`."""
