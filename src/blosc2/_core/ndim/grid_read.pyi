from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid import Operation

class _HasThreads(Protocol):
    @property
    def nthreads(self) -> int: ...

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
def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None: ...
def read_basic(
    version: tuple[Geometry, np.dtype[Any], Frame], key: object, handle: _HasThreads
) -> np.ndarray[Any, Any] | None: ...
def read_basic_into(
    version: tuple[Geometry, np.dtype[Any], Frame], key: object, nthreads: int, out: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any] | None: ...
