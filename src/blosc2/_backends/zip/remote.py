"""A `.b2z` on a server, which is only read."""

from __future__ import annotations

from typing import Final

from blosc2 import _files
from blosc2._backends.layout import ByteRange
from blosc2._backends.zip.backend import ZipBackend
from blosc2._options import RemotePath

# Bytes of a catalog and a directory that come as a whole when an archive is opened.
_SMALL: Final = 1 << 18


class RemoteZipBackend(ZipBackend):
    """The members of a `.b2z` on a server."""

    root: RemotePath

    def embed_byte_range(self) -> ByteRange:
        """See `ZipBackend`. Asks for all of a small catalog and directory, which are needed next."""
        byte_range = super().embed_byte_range()
        assert self.members is not None
        archive = self.members.archive
        start = archive.directory_offset if archive.catalog is None else archive.catalog.start
        if archive.source.size - start <= _SMALL:
            archive.source.advise("willneed", start)
        return byte_range

    def exists(self) -> bool:
        """Opening it tells whether there is something."""
        return True

    def _check_no_directory(self) -> None:
        """Servers have none."""

    def reload(self) -> bool:
        """Show the version that is there now. Returns whether it is another one."""
        if not _files.renewed_source(self.root):
            return False
        self._told.clear()
        self.load()
        return True

    def size(self) -> int:
        """Bytes of the object."""
        return _files.remote_source(self.root).size
