from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import Buffer

from blosc2._core.codec.codec import Encoding, Plugin
from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry, Operation

class Slots: ...

class StoredChunk(Buffer):
    sum: int | None
    def __len__(self) -> int: ...

class Write(Operation):
    summed: bool
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
    encoding: Encoding
    chunks: dict[int, StoredChunk | int]
    def take_chunks(self) -> dict[int, bytes | int]: ...
    def take_buffers(self) -> dict[int, StoredChunk | int]: ...
    def run(self, threads: int = 1) -> None: ...
