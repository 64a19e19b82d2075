from typing import Self

from blosc2._core.zip.archive_writer import ArchiveWriter

class Pages:
    def __new__(cls, writer: ArchiveWriter | None) -> Self: ...
