"""The directory of the next version of a `.b2z`: which old records it keeps, and in which order."""

from __future__ import annotations

from typing import Final

from blosc2._backends.layout import ByteRange
from blosc2._backends.zip.members import EMBED_NAME, Members, OwnCatalog
from blosc2._core.catalog_writing.catalog_writer import write_cataloged
from blosc2._core.keys.listing import KeyListing
from blosc2._core.leaves.leaf_stream import hide_removed
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2._core.zip.catalog import NAME

CATALOG_NAME: Final = NAME.encode()
#: Archives of at least this many leaves carry a catalog.
CATALOG_LEAST = 256


def write_directory(
    writer: ArchiveWriter,
    changes: dict[str, ByteRange | None],
    members: Members | None,
    folder: str,
    *,
    embedded: bool,
    own: OwnCatalog | None = None,
) -> None:
    """Write the directory of the next version; nothing shows it yet.

    For many leaves it is written in the order of their keys, with a catalog before it.

    Parameters
    ----------
    changes : dict
        Keys that have new members, and None for removed keys.
    members : Members or None
        Those of the version before.
    folder : str
        Where temporary files for sorting many records may lie.
    embedded : bool
        Whether there are new embedded values.
    own : tuple, optional
        What tells the catalog that this process wrote last.
    """
    keys = None if members is None else members.whole_table()
    most = len(changes) + writer.collected + (0 if keys is None else len(keys))
    # Streamed records are sorted already, even if they are few.
    if not writer.collected and (most < CATALOG_LEAST or (keys is not None and not keys.regular)):
        if members is None:
            writer.write_directory()
        else:
            writer.write_directory(*members.archive.records(_outdated(members, changes, embedded)))
        return
    runs, others = writer.collect(folder)
    hide_removed(writer, changes)
    if members is not None:
        keys = members.sound_table(own)
        others = keys.others((CATALOG_NAME, EMBED_NAME) if embedded else (CATALOG_NAME,)) + others
    write_cataloged(writer, keys, runs, others, EMBED_NAME, () if members is None else members.removed_groups)


def _outdated(members: Members, changes: dict[str, ByteRange | None], embedded: bool) -> set[int]:
    """Offsets of the records that the new directory leaves out."""
    archive = members.archive
    gone: set[int] = set()
    keys = members.whole_table()
    shadowed = keys.shadowed
    for group in members.removed_groups:
        gone.update(keys.record_offsets(*KeyListing(keys).positions(group or "/")))
    for key in changes:
        record = keys.find(key)
        if record >= 0:
            gone.add(record)
            gone.update(shadowed.get(key, ()))
        gone.update(keys.packed.get(key, ()))
    if embedded:
        gone.update(archive.find_offsets(EMBED_NAME))
    gone.update(archive.find_offsets(CATALOG_NAME))  # it would not fit any more
    return gone
