"""Opening one version of a `.b2z`: its file and its directory, which belong together."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from blosc2._backends import zip as archives
from blosc2._backends.layout import EMBED, open_source
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._files import Retry
from blosc2.exceptions import FormatError

EMBED_NAME: Final = EMBED.encode()
#: Bytes of an end record, without and with a file checksum.
END: Final = 22
END_WITH_CHECKSUM: Final = END + 32
# The end record as writers leave it: without a comment, or with a file checksum.
_ENDS: Final = (END, END_WITH_CHECKSUM)
#: Bytes at the end of a file in which opening looks around: directory and catalog of some hundred leaves lie in them.
USUAL_END: Final = 1 << 16


class Version(NamedTuple):
    """One version of an archive: its file and its directory belong together.

    A reader takes the version once; a writer replaces it as a whole and never changes it.
    """

    source: Source
    archive: Archive
    #: Its last bytes when it was opened: if these differ now, the file has changed.
    record: bytes

    def is_in(self, path: str) -> bool:
        """Whether the end record is unchanged. The time of a file does not tell of every change."""
        size, end = len(self.record), int(self.archive.end)
        source = Source.open(path)
        return bool(source.size >= end and source.read(end - size, size) == self.record)


def open_version(path: str, mmap_mode: str | None, old: Source | None, advice: str | None) -> Version:
    """Open a file, while a writer may be cutting off an unfinished append.

    For `old` see `open_source`; `advice` is given before anything is read.
    """
    retry = Retry()
    while True:
        source = open_source(path, None, old)
        if not source.far:  # else the end came with the first answer
            source.advise("willneed", max(0, source.size - USUAL_END))  # one request, and not one for each piece
        try:
            record = _last_record(source)
            archive = None
            if not record:
                archive = Archive(source)
                archives.unfinished_append.check_tail(source, archive)
            if mmap_mode is not None:
                # Mapped bytes that were cut off must not be touched, not even to look for the end.
                source = source.mapped_to(source.size if archive is None else archive.end, old)
                archive = None
            if advice is not None:
                source.advise(advice)
            if archive is None:
                archive = Archive(source)
                if archive.end < source.size:
                    archives.unfinished_append.check_tail(source, archive)
            if not record or archive.end < source.size:
                start = max(0, archive.end - END_WITH_CHECKSUM)
                record = source.read(start, archive.end - start)
            return Version(source, archive, record)
        except FormatError:
            if not retry.again(source.identity):
                raise


def _last_record(source: Source) -> bytes:
    """The end record at the end of a file. Empty if the file ends in an unfinished append."""
    length = min(source.size, END_WITH_CHECKSUM)
    last = source.read(source.size - length, length)
    for end in _ENDS:
        if last[-end:].startswith(b"PK\5\6") and end <= length:
            count, size, offset, more = struct.unpack_from("<HIIH", last, length - end + 10)
            # In a large archive, or one with many members, they are in another record, right before.
            fits = offset + size == source.size - end or count == 0xFFFF or 0xFFFFFFFF in (offset, size)
            return last if fits and more == end - END else b""
    return b""
