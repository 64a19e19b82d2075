from collections.abc import Sequence
from typing import Any

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid import Operation

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

def work_of(nbytes: int, frame: Frame) -> int: ...
def read_at_once(
    version: tuple[Geometry, np.dtype[Any], Frame] | None, key: object, most: int
) -> np.ndarray[Any, Any] | None: ...
def read_all(frame: Frame, geometry: Geometry, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]: ...
