from collections.abc import Callable
from typing import Any, Final, Self, final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.zip.archive import Archive

@final
class LeafMaker:
    def __new__(
        cls,
        arrays: type,
        handles: type,
        dtype_of: Callable[[str], np.dtype[Any]],
        options: tuple[Any, ...],
        path: str | None,
        more: dict[str, Any] | None = ...,
    ) -> Self: ...
    def handle_of(self, frame: Frame, key: str | None) -> Any: ...
    def leaf_of(self, frame: Frame, key: str | None) -> Any | None: ...

class LeafReader:
    def __new__(
        cls,
        maker: LeafMaker,
        hidden: str | None,
        check: bool,
        table: KeyTable | None = ...,
        values: Frame | None = ...,
        entries: dict[str, Any] | None = ...,
    ) -> Self: ...
    maker: Final[LeafMaker]
    def finds(self, key: str) -> bool: ...
    def learn(self, frame: Frame, geometry: Geometry, dtype: np.dtype[Any]) -> None: ...
    def read(self, key: object) -> np.ndarray[Any, Any] | None: ...

class LeafBatch:
    def __new__(
        cls, table: KeyTable, keys: list[Any], threads: int = 1, hidden: str | None = None, check: bool = False
    ) -> Self: ...
    archive: Final[Archive]
    check: Final[bool]
    missing: Final[int]
    def __len__(self) -> int: ...
    def record_offset(self, position: int) -> int: ...
    def left(self) -> list[int]: ...
    def unlike(self) -> list[int]: ...
    def ask(self, heads: bool) -> None: ...
    def compare(self, frame: Frame, geometry: Geometry, dtype: np.dtype[Any]) -> bool: ...
    def decode(self, out: np.ndarray[Any, Any]) -> None: ...
