from typing import Any, Self

import numpy as np

from blosc2._core.codec import Encoding

class Template:
    def __new__(cls, header: bytes, tail: bytes, zeros: bytes, nbytes: int, encoding: Encoding) -> Self: ...
    def frame(self, items: np.ndarray[Any, Any]) -> bytes | None: ...

def forget_idle() -> None: ...
