"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from types import TracebackType
from typing import BinaryIO


class NewFile:
    """A file that takes its name only when it is complete: written beside it, synced, renamed.

    As a context manager it gives the file to write to, and commits unless the block raises.

    Parameters
    ----------
    path : str
        The name it will have.
    replace : bool
        Whether a file of that name may be there; otherwise `FileExistsError` when it is.
    """

    def __init__(self, path: str, *, replace: bool) -> None:
        self.path = path
        self._replace = replace
        folder, name = os.path.split(path)
        self._temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")
        try:
            self.file: BinaryIO = open(self._temporary, "xb+")  # noqa: SIM115 - closed by commit and abandon
        except OSError as error:
            # The temporary name would tell a caller nothing.
            raise type(error)(error.errno, f"cannot write here: {error.strerror}", path) from None

    def __enter__(self) -> BinaryIO:
        return self.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.abandon()

    def commit(self) -> None:
        """Make the file durable and give it its name."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            if self._replace:
                if os.path.exists(self.path):
                    os.chmod(self._temporary, os.stat(self.path).st_mode & 0o7777)
                os.replace(self._temporary, self.path)
            else:
                publish_new(self._temporary, self.path)
        except BaseException:
            self.abandon()
            raise
        sync_folder(self.path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        try:
            self.file.close()
        except OSError:  # what could not be written is not wanted any more
            pass
        if os.path.exists(self._temporary):
            os.unlink(self._temporary)


def publish_new(temporary: str, path: str) -> None:
    """Rename, unless something of that name exists."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.exists(path):
            raise FileExistsError(f"{path} exists") from None
        os.rename(temporary, path)
    else:
        os.unlink(temporary)


def sync_folder(path: str) -> None:
    """Make a rename or a removal durable, where the system lets a folder be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
