"""The parameters of frame handles: how one is opened, and what a new frame holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from blosc2._core.io.sharing import never_freed
from blosc2.storage import CParams, DParams

if TYPE_CHECKING:
    from blosc2._frames import Stored


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


class FrameContent(NamedTuple):
    """What a new frame holds.

    Attributes
    ----------
    chunks : iterable
        Stored chunks, or negative offsets that stand for special ones.
    nchunks : int
        How many chunks these are.
    nbytes : int
        Uncompressed bytes of all.
    chunksize : int
        Uncompressed bytes of a chunk; 0 where they differ, -1 where the first one will decide.
    metalayers : dict
        Fixed metadata, packed.
    vlmeta : dict, optional
        Variable metadata, as it is stored.
    variable : bool
        Whether chunks differ in size.
    """

    chunks: Iterable[Stored]
    nchunks: int
    nbytes: int
    chunksize: int
    metalayers: dict[str, bytes]
    vlmeta: dict[str, bytes] | None = None
    variable: bool = False
