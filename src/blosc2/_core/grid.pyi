from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Buffer

from blosc2._core.codec import Encoding, Plugin
from blosc2._core.frame import Frame
from blosc2._core.geometry import Geometry

class Slots: ...

class StoredChunk(Buffer):
    def __len__(self) -> int: ...

class Operation:
    @property
    def tasks(self) -> int: ...
    def limit(self, first: int, stop: int) -> None: ...
    def run(self, threads: int = 1) -> None: ...
    def finish(self) -> None: ...

class Read(Operation):
    def __init__(
        self,
        frame: Frame,
        geometry: Geometry,
        start: Sequence[int],
        step: Sequence[int],
        count: Sequence[int],
        out: np.ndarray[Any, Any],
        points: Any = None,
    ) -> None: ...

class Write(Operation):
    def __init__(
        self,
        frame: Frame | None,
        geometry: Geometry,
        start: Sequence[int],
        step: Sequence[int],
        count: Sequence[int],
        source: np.ndarray[Any, Any],
        encoding: Encoding,
        plugin: Plugin | None = None,
        points: Any = None,
    ) -> None: ...
    @property
    def chunks(self) -> dict[int, StoredChunk | int]: ...
    def take_chunks(self) -> dict[int, bytes | int]: ...
    def take_buffers(self) -> dict[int, StoredChunk | int]: ...
    def run(self, threads: int = 1) -> None: ...

def read_all(frame: Frame, geometry: Geometry, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]: ...
