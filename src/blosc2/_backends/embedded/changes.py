"""Changes of embedded values: which stay, which are new, and what the new frame says about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, cast

from blosc2._backends.embedded.frame_layout import Value, metalayers_of, write_frame
from blosc2._backends.embedded_map import Embedded, chunks_of_value
from blosc2._backends.layout import ByteRange, Renamed
from blosc2._core.frame.frame_writer import header_length
from blosc2._core.io.source import Source
from blosc2._files import Progress, TemporaryFile
from blosc2._frames import PADDING, carried, verify_frame
from blosc2.exceptions import FormatError

# Values of more bytes are put together in a temporary file, not in memory.
_IN_MEMORY: Final = 32 << 20


class EmbeddedChanges:
    """What becomes of embedded values.

    Parameters
    ----------
    kind : str
        The metalayer that marks the frame, one of `KINDS`.
    old : Embedded or None
        The present values; None for a store that is new, or replaces another one.
    changes : mapping
        New frames by key, None for a removed key; a `Renamed` frame only gets another key.
    metadata : mapping, optional
        Stored chunks of further metadata entries that are new.
    meta : mapping, optional
        Packed content of further metalayers of a new frame; an old one keeps its own.
    chunksize : int
        The least size of chunks of a frame that is written anew.

    Attributes
    ----------
    entries : dict or None
        The map of all values, after they were written.
    """

    __slots__ = ("changes", "chunksize", "entries", "kind", "meta", "metadata", "old")

    def __init__(
        self,
        kind: str,
        old: Embedded | None,
        changes: Mapping[str, ByteRange | None],
        *,
        metadata: Mapping[str, bytes] | None = None,
        meta: Mapping[str, bytes] | None = None,
        chunksize: int = 0,
    ) -> None:
        self.kind = kind
        self.old = old
        self.changes = changes
        self.chunksize = chunksize
        self.entries: dict[str, dict[str, Any]] | None = None
        self.meta = dict(meta or {})
        self.metadata: dict[str, bytes] = {}
        if old is not None:
            own = {old.kind, PADDING}
            self.meta = {name: content for name, content in old.frame.metalayers().items() if name not in own}
            self.metadata = old.other_metadata()
        self.metadata |= metadata or {}

    def compose(self) -> bytes:
        """All of the new frame, for memory and archives: without checksums of its own."""
        parts: list[bytes] = []
        header = self._write(parts.append)
        return b"".join([header, *parts])

    def byte_range(self, beside: str) -> ByteRange:
        """The same as a byte range: in memory, or where that would take much, in a temporary file."""
        values = values_after(self.old, self.changes).values()
        if sum(value[2] for value in values if not isinstance(value, dict)) <= _IN_MEMORY:
            whole = self.compose()
            return Source.of_buffer(whole), 0, len(whole)
        waiting = TemporaryFile(beside)
        header = self._write(waiting.add)
        source = Source.joined(((Source.of_buffer(header), 0, len(header)), waiting.byte_range(0)), checksums=False)
        return source, 0, source.size

    def write(self, file: BinaryIO, progress: Progress | None = None) -> dict[str, dict[str, Any]]:
        """Write all of the new frame to an empty file; returns its map.

        Raises
        ------
        FormatError
            Values would be copied that are damaged, as their checksums tell.
        """
        if self.old is not None:
            check_whole(self.old, self.changes)
        file.seek(header_length(metalayers_of(self.kind, self.meta)))
        header = self._write(file.write, add_checksums=True, progress=progress)
        file.seek(0)
        file.write(header)
        assert self.entries is not None
        return self.entries

    def _write(self, write: Callable[[Any], Any], **how: Any) -> bytes:
        """Write what follows the header, which is returned."""
        header, self.entries = write_frame(
            write, self.kind, values_after(self.old, self.changes),
            metadata=self.metadata, meta=self.meta, chunksize=self.chunksize, **how,
        )  # fmt: skip
        return header


def values_after(old: Embedded | None, changes: Mapping[str, ByteRange | None]) -> dict[str, Value]:
    """All values with these changes, in order: the byte range of each, or the entry of one without bytes."""
    values: dict[str, Value] = {}
    if old is not None:
        for key in old.entries:
            if key not in changes:
                values[key] = _kept(old, key)
            elif changes[key] is not None:
                values[key] = {}  # keeps its position in the order
    # Also of those that only get another key: their bytes never change.
    values.update(cast("Mapping[str, ByteRange]", changes))
    for key in [key for key, byte_range in changes.items() if byte_range is None]:
        del values[key]
    return values


def _kept(old: Embedded, key: str) -> Value:
    byte_range = old.kept(key)
    return old.entries[key] if byte_range is None else byte_range


def kept_entry(old: Embedded, byte_range: ByteRange) -> dict[str, Any] | None:
    """The entry of a value that only gets another key, if its bytes can stay where they are; else None.

    By now the old key may have another value, and the file may have been replaced.
    """
    if not isinstance(byte_range, Renamed) or byte_range.origin not in old.entries:
        return None
    entry, source, now = old.entries[byte_range.origin], byte_range[0], old.stored_range(byte_range.origin)
    if now is None or now[1:] != byte_range[1:] or source.identity is None or now[0].identity is None:
        return None
    return entry if now[0].identity[:2] == source.identity[:2] else None


def is_damaged(old: Embedded) -> bool:
    """Whether a frame contradicts its checksums; False for one without checksums."""
    try:
        check_whole(old, {})
    except FormatError:
        return True
    return False


def check_whole(old: Embedded, changes: Mapping[str, ByteRange | None]) -> None:
    """Refuse to copy values out of chunks that are damaged: the copies would pass for whole."""
    frame = old.frame
    carried(frame)
    damaged = set()
    for finding in verify_frame(frame):
        if finding.chunk is not None:
            damaged.add(finding.chunk)
        elif finding.offset != frame.offset + frame.header_len:  # dead bytes do not matter
            raise FormatError(finding.what, path=frame.source.path, offset=finding.offset)
    if not damaged:
        return
    moved = {byte_range.origin for byte_range in changes.values() if isinstance(byte_range, Renamed)}
    for key, entry in old.entries.items():
        offset, length = entry.get("offset"), entry.get("length")
        if (key in changes and key not in moved) or type(offset) is not int or type(length) is not int:
            continue
        if not damaged.isdisjoint(chunks_of_value(frame, offset, length)):
            raise FormatError(
                "the bytes around this value are not those that were written, so the store cannot be written anew; "
                "check() tells more, and salvage() saves what is whole",
                path=frame.source.path, key=key,
            )  # fmt: skip
