from typing import Any

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
