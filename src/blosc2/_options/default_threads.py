"""How many threads new objects use, kept in one place.

The number can change at any time, also by assigning ``blosc2.nthreads``. So no code keeps a copy of it: call
`get_nthreads` at the moment of use.
"""

from __future__ import annotations

import operator
import os
from typing import Any

_MAX_NTHREADS = 2**31 - 1


def detect_number_of_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except AttributeError:  # macOS and Windows do not tell
        return os.cpu_count() or 1


ncores = detect_number_of_cores()
_nthreads = ncores
_followers: list[dict[str, Any]] = []


def get_nthreads() -> int:
    """Give the number of threads that objects use unless told otherwise."""
    return _nthreads


def set_nthreads(nthreads: int) -> int:
    """Set the default number of threads for objects made from now on.

    Parameters
    ----------
    nthreads : int
        At least 1.

    Returns
    -------
    int
        The previous number.

    Raises
    ------
    TypeError
        Not an integer.
    ValueError
        Out of range.

    Examples
    --------
    >>> old = set_nthreads(2)
    >>> set_nthreads(old)
    2
    """
    global _nthreads
    number = check_nthreads(nthreads)
    old, _nthreads = _nthreads, number
    for defaults in _followers:
        defaults["nthreads"] = number
    return old


def check_nthreads(nthreads: object) -> int:
    """Give a number of threads as a plain int, or raise TypeError or ValueError."""
    if isinstance(nthreads, bool) or not hasattr(nthreads, "__index__"):
        raise TypeError(f"nthreads must be a positive integer, not {nthreads!r}")
    number = operator.index(nthreads)
    if number < 1:
        raise ValueError(f"nthreads must be a positive integer, not {number}")
    if number > _MAX_NTHREADS:
        raise ValueError(f"nthreads must be less or equal than 2^31 - 1, not {number}")
    return number


def keep_in_step(defaults: dict[str, Any]) -> None:
    """Have `set_nthreads` write the number into this dictionary too, under "nthreads"."""
    defaults["nthreads"] = _nthreads
    _followers.append(defaults)
