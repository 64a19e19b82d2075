from types import TracebackType
from typing import Any, final

class SessionState:
    closed: bool
    ending: bool
    streaming: bool
    asks: bool
    transaction: Any
    @property
    def is_changing(self) -> bool: ...
    @property
    def begun(self) -> int: ...
    def forget_change(self) -> None: ...

@final
class Change:
    def __new__(cls, session: SessionState) -> Change: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

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
