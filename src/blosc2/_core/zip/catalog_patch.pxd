from libc.stdint cimport int64_t

from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.zip.archive_writer cimport ArchiveWriter
from blosc2._core.zip.external_sort cimport SortedRuns


cdef int64_t write_patched(ArchiveWriter writer, KeyTable old, SortedRuns runs, bytes others, int64_t others_count,
                           int64_t embed, int64_t budget) except -2
