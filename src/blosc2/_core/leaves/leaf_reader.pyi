from collections.abc import Callable
from typing import Any, Self

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.ndim.geometry import Geometry

class LeafReader:
    def __new__(
        cls,
        table: KeyTable,
        hidden: str | None,
        arrays: type,
        handles: type,
        dtype_of: Callable[[str], np.dtype[Any]],
        options: tuple[Any, ...],
        path: str | None,
        check: bool,
    ) -> Self: ...
    def learn(self, frame: Frame, geometry: Geometry, dtype: np.dtype[Any]) -> None: ...
    def read(self, key: object) -> np.ndarray[Any, Any] | None: ...
