"""Whether active values in metadata are refused or opened."""

from __future__ import annotations

from enum import StrEnum


class DeserializeMode(StrEnum):
    """Whether to refuse active values, which stand for an object to be opened or rebuilt."""

    SAFE = "safe"
    FULL = "full"


def deserialize_mode(value: object) -> DeserializeMode:
    """Check a `deserialize` argument.

    Raises
    ------
    TypeError
        A boolean, of which nobody could say what it means.
    ValueError
        Neither 'safe' nor 'full'.

    Examples
    --------
    >>> deserialize_mode("full")
    <DeserializeMode.FULL: 'full'>
    """
    if isinstance(value, bool):
        raise TypeError("deserialize must be 'safe' or 'full', not a boolean")
    if not isinstance(value, str) or value not in ("safe", "full"):
        raise ValueError(f"deserialize must be 'safe' or 'full', not {value!r}")
    return DeserializeMode(value)
