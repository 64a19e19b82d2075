"""The parameters of frame handles: how one is opened."""

from __future__ import annotations

from typing import Final, NamedTuple

from blosc2._core.io.sharing import never_freed
from blosc2.storage import CParams, DParams


@never_freed
class HandleOptions(NamedTuple):
    """How a handle is opened; all of it was checked by whoever took it from the user.

    Attributes
    ----------
    mode : {"r", "a", "w", "x"}
        What may be done through the handle.
    mmap_mode : {None, "r", "r+", "w+", "c"}
        How the file is mapped, if it is.
    deserialize : {"safe", "full"}
        What happens to active values in the metadata.
    dparams, cparams : DParams, CParams, optional
        What chunks are read and made with; the frame says it where this is None.
    verify : bool, optional
        What is checked against checksums: each read, what is read as a whole (None), or nothing.
    exclusive : bool
        Whether a change takes the lock of the file.
    durable : bool
        Whether a change waits for the disk.
    locking : bool
        Whether several programs change the file together: handles then follow each other's changes.
    """

    mode: str = "r"
    mmap_mode: str | None = None
    deserialize: str = "safe"
    dparams: DParams | None = None
    cparams: CParams | None = None
    verify: bool | None = None
    exclusive: bool = True
    locking: bool = False
    durable: bool = True


#: How a frame is opened that is only read.
READ_ONLY: Final = HandleOptions()
#: How a frame in memory is opened, which this process made itself.
IN_MEMORY: Final = HandleOptions("a", deserialize="full")
