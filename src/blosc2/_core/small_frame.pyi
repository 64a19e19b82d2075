from typing import Any

import numpy as np

from blosc2._core.codec import Encoding

class Template:
    def __init__(self, header: bytes, tail: bytes, zeros: bytes, nbytes: int, encoding: Encoding) -> None: ...
    def frame(self, items: np.ndarray[Any, Any]) -> bytes | None: ...

def forget_idle() -> None: ...
