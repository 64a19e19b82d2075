from collections.abc import Callable
from typing import Any, Self

import numpy as np

from blosc2._core.codec.codec import Encoding

class Template:
    def __init__(self, header: bytes, tail: bytes, zeros: bytes, nbytes: int, encoding: Encoding) -> None: ...
    def raw_frame(self, items: np.ndarray[Any, Any]) -> bytes | None: ...
    def frame(self, items: np.ndarray[Any, Any]) -> bytes | None: ...

class RawKind: ...

class RawKinds:
    def __new__(
        cls,
        learn: Callable[[np.ndarray[Any, Any]], tuple[Template, bytes] | None],
        now: dict[str, Any],
        made_from: dict[str, Any],
    ) -> Self: ...

def forget_idle() -> None: ...
