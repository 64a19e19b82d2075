# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Members of groups that get another name: their stored bytes are copied behind new headers, and nothing of them is looked at.

The name of a member comes before its data, so that a new name needs a new place.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Contains, PyDict_Size
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from blosc2._core.io.source cimport Source
from blosc2._core.keys.moved_groups cimport MOST_PATH
from blosc2._core.keys.key_text cimport prefix_of, text_of
from blosc2._core.keys.keytable cimport KeyTable, Text
from blosc2._core.keys.moved_keys cimport moved_table, moved_text, positions_below
from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.archive_writer cimport ArchiveWriter
from blosc2._core.zip.file_appender cimport COLLECTED
from blosc2._core.zip.catalog cimport Catalog
from blosc2._core.zip.central_record cimport Member, Record

from blosc2.exceptions import FormatError

cdef enum:
    # Bytes that are copied at a time.
    PIECE = 1 << 20
    # Members between two looks at signals.
    EACH = 4096


def added_keys(KeyTable base not None, list keys not None, KeyTable without=None):
    """A table of some keys, and of those that have another name than in a table, but for some of these."""
    return moved_table(base, keys, without)


def append_moved(ArchiveWriter writer not None, KeyTable table not None, str old not None, str new not None,
                 dict others not None):
    """Append the members of a group under another name, behind `collect`.

    Parameters
    ----------
    table : KeyTable
        All members of the archive that they lie in.
    old, new : str
        The group, and its new name.
    others : dict
        Keys with the new name that are written in another way, or are gone.
    """
    cdef bytes before = prefix_of(old), now = prefix_of(new), description
    cdef uint8_t name[MOST_PATH + 16]
    cdef uint8_t *piece = NULL
    cdef int64_t position, first = 0, stop = 0, offset
    cdef Py_ssize_t length, tail
    cdef Archive archive = table.archive
    cdef Catalog catalog = table.catalog
    cdef Source source = archive.source
    cdef Record record
    cdef Member member
    cdef Text key
    if writer.runs is None:
        raise ValueError("call collect() first")
    table.sort()
    if not positions_below(table, before, &first, &stop):
        raise table._changed()
    piece = <uint8_t *> PyMem_Malloc(PIECE)
    if piece == NULL:
        raise MemoryError
    try:
        for position in range(first, stop):
            if position % EACH == 0:
                PyErr_CheckSignals()
            if not table.leaf_at(position, &record, &key) or not moved_text(&key, before, now, name, &length):
                raise table._changed()
            if PyDict_Size(others) and PyDict_Contains(others, text_of(name + 1, length - 1)):
                continue
            archive.member_at(table.record_offset(position), &member)
            # The suffix is that of the stored name.
            tail = member.name_length - key.length
            if not 0 < tail <= 16:
                raise table._changed()
            memcpy(name + length, member.name + key.length, <size_t> tail)
            offset = archive.locate(&member)
            description = b"" if catalog is None else _described(catalog, position)
            _copy(writer, source, &member, offset, name + 1, <uint32_t> (length - 1 + tail), <uint32_t> (length - 1), description, piece)
            if writer._pending.used >= COLLECTED:
                writer._drain()
    finally:
        PyMem_Free(piece)


cdef bytes _described(Catalog catalog, int64_t position):
    """What the catalog says of a leaf; nothing where it is damaged."""
    try:
        return catalog.description(position)
    except FormatError:
        return b""


cdef int _copy(ArchiveWriter writer, Source source, const Member *member, int64_t offset, const uint8_t *name, uint32_t length,
               uint32_t stem, bytes description, uint8_t *piece) except -1:
    """Append a member under another name, with the checksum that it has: damage is not hidden."""
    cdef int64_t header = writer._written + writer._pending.used, done = 0, size
    writer._begin(name, length, member.size, member.crc)
    while done < member.size:
        size = min(member.size - done, <int64_t> PIECE)
        source.check(source.read_into(offset + done, size, piece), offset + done, size)
        writer._add(piece, size)
        done += size
    return writer.note_leaf(name, length, stem, header, member.size, member.crc, description)
