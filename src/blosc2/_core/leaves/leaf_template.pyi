from typing import Any, Self

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry

class LeafTemplate:
    def __new__(cls, frame: Frame, geometry: Geometry, dtype: np.dtype[Any]) -> Self: ...
    @property
    def fits(self) -> bool: ...
