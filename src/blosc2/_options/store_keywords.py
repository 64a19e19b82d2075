"""How a store is opened. The options are checked once, in one object that goes down to the backend."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, NamedTuple

from blosc2._options.deserialization import deserialize_mode
from blosc2._options.modes import check_store_locking, check_store_modes


class StoreOptions(NamedTuple):
    """The options of an open store, checked together.

    Attributes
    ----------
    mmap_mode : {None, 'r'}
        Whether files are mapped.
    verify : bool or None
        What is checked against checksums: each read, what is read as a whole (None), or nothing.
    advise : str or None
        What the system is told when files are opened.
    mode : {'r', 'a', 'w', 'x'}
        Read; read and write; start empty; create only.
    deserialize : {'safe', 'full'}
        Whether to refuse active values in the metadata of leaves, or to open them.
    timeout : float or None
        How many seconds to wait for another writer.
    exclusive : bool
        Whether other writers are kept out.
    locking : bool
        Whether handles change the store in turns, and follow each other.
    """

    mmap_mode: str | None = None
    verify: bool | None = None
    advise: str | None = None
    mode: str = "r"
    deserialize: str = "safe"
    timeout: float | None = 0
    exclusive: bool = True
    locking: bool = False


def store_options(
    mode: str,
    mmap_mode: str | None,
    deserialize: str | None = None,
    *,
    verify: bool | None = None,
    advise: str | None = None,
    timeout: float | EllipsisType | None = 0,
    exclusive: bool = True,
    locking: bool = False,
    path: str | None = None,
) -> StoreOptions:
    """Check the options of a store, except for `advise`.

    If `timeout` is `...`, handles with `locking` wait for others as long as it takes, and others do not wait.

    Examples
    --------
    >>> store_options("r", "r", "full").deserialize
    'full'
    """
    if mode != "r" or mmap_mode not in (None, "r"):  # as most are not
        check_store_modes(mode, mmap_mode)
    if deserialize is None:
        deserialize = "safe"
    elif deserialize != "safe":
        deserialize = str(deserialize_mode(deserialize))
    seconds: Any = timeout
    if seconds is ...:
        seconds = None if locking else 0
    if locking:
        check_store_locking(path, mmap_mode, exclusive=exclusive)
        locking = True
    return StoreOptions(mmap_mode, verify, advise, mode, str(deserialize), seconds, exclusive, locking)
