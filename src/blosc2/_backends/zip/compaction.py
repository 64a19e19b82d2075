"""Copying the members of one version of a `.b2z` to a new archive, without unused bytes."""

from __future__ import annotations

from typing import Final

from blosc2._backends.layout import EMBED, described, pieces
from blosc2._core.catalog_writing.catalog_writer import write_cataloged
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2._core.zip.catalog import NAME as CATALOG
from blosc2._files import Progress

# Leaves whose record offsets are looked up at a time.
_TOGETHER: Final = 4096
_CATALOG: Final = CATALOG.encode()
_EMBED: Final = EMBED.encode()


def copy_members(source: Source, archive: Archive, writer: ArchiveWriter, progress: Progress | None) -> None:
    """Copy the members of some version, and write their directory."""
    # If names are equal, the last one counts.
    live = {name: number for number, name in enumerate(archive.names()) if not archive.is_folder(number)}
    live.pop(CATALOG, None)
    total = sum(archive.byte_range(number)[1] for number in live.values())
    done = 0
    for name, number in live.items():
        offset, length = archive.byte_range(number)
        writer.append_pieces(name.encode(), pieces((source, offset, length)), length, archive.crc(number))
        done += length
        if progress is not None:
            progress(done, total)
    writer.write_directory()


def copy_cataloged(
    source: Source, archive: Archive, keys: KeyTable, writer: ArchiveWriter, folder: str, progress: Progress | None
) -> None:
    """The same for many leaves, in the order of their keys; nothing is held for each of them.

    Records that memory should not hold go to files in `folder`.
    """
    total = source.size
    done = 0

    def copy(record: int, *, leaf: bool) -> None:
        nonlocal done
        offset, length = archive.byte_range_at(record)
        byte_range = source, offset, length
        # From the leaf itself: the old catalog may be incomplete or wrong.
        description = described(byte_range) if leaf else None
        writer.append_pieces(
            archive.name_at(record).encode(),
            pieces(byte_range),
            length,
            archive.crc_at(record),
            description=description,
        )
        done += length
        if progress is not None:
            progress(done, total)

    writer.collect(folder)
    for record in {archive.name_at(record): record for record in keys.other_offsets((_CATALOG,))}.values():
        if not archive.name_at(record).endswith("/"):
            copy(record, leaf=False)
    for start in range(0, len(keys), _TOGETHER):
        for record in keys.record_offsets(start, start + _TOGETHER):
            copy(record, leaf=True)
    runs, others = writer.collect()
    write_cataloged(writer, None, runs, others, _EMBED)
    if progress is not None:
        progress(total, total)
