from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from blosc2._core.frame.small_frame import RawKinds
from blosc2._core.io.forking import Lock
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._core.leaves.leaf_reader import LeafReader

class SessionState:
    closed: bool
    ending: bool
    streaming: bool
    asks: bool
    transaction: Any

class PendingFrames:
    frames: dict[str, Any]
    tiers: dict[str, bool]
    blocks: dict[int, Any]
    in_memory: int
    revision: int

class HeldLeaves:
    held: dict[str, Any]
    edited: dict[str, Any]
    handles: Any

class GroupCounts:
    def add(self, key: str, change: int) -> None: ...
    def add_all(self, keys: list[str], change: int) -> None: ...
    def take(self, added: dict[str, int]) -> None: ...
    def forget(self) -> None: ...

class LeafSetter:
    def __new__(
        cls,
        session: SessionState,
        pending: PendingFrames,
        contents: Any,
        leaves: HeldLeaves,
        lock: Lock,
        kind: type,
        memory_limit: int,
        process: int,
    ) -> Self: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def wants_kinds(self) -> bool: ...
    @property
    def reader(self) -> LeafReader | None: ...
    def keep(self, names: Any, counts: GroupCounts | None, foreign: Any, tiered: bool, map_bytes: int) -> None: ...
    def read_by(self, reader: LeafReader | None) -> None: ...
    def read(self, key: str) -> np.ndarray[Any, Any] | None: ...
    def show(self, table: KeyTable | None, entries: dict[str, Any], listing: KeyListing | None) -> None: ...
    def use_kinds(
        self, kinds: RawKinds | None, frame_of: Callable[[np.ndarray[Any, Any]], tuple[Any, int, int]] | None
    ) -> None: ...
    def set_many(
        self,
        values: Iterator[tuple[str, Any]],
        progress: Callable[[int, int], Any],
        most: int,
        count: int,
        nbytes: int,
    ) -> tuple[int, int, tuple[str, Any] | None]: ...
    def be_quiet(self, nbytes: int, until: float) -> None: ...
    def learn(self, key: str) -> None: ...
    def key_changed(self, key: str, change: int) -> None: ...
    def keys_removed(self, keys: list[str]) -> None: ...
    def recount(self) -> None: ...
    def begin_version(self) -> None: ...
