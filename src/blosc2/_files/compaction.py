"""What all operations that remove unused bytes (`compact`) share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

#: Called with the bytes that are done and those in all.
Progress: TypeAlias = Callable[[int, int], Any]


class Compaction(NamedTuple):
    """The bytes of a file or store before and after `compact`."""

    before: int
    after: int
