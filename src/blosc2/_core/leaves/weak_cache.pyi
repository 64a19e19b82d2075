import weakref
from types import TracebackType
from typing import Any

def hold(held: dict[str, weakref.ref[Any]], key: str, leaf: Any) -> Any: ...

class Block:
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

def sweep(held: dict[str, weakref.ref[Any]]) -> None: ...
