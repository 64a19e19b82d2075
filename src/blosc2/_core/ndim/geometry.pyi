from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blosc2._core.frame.frame import Frame

class Geometry:
    def __init__(self, shape: Sequence[int], chunks: Sequence[int], blocks: Sequence[int], itemsize: int) -> None: ...
    ndim: int
    itemsize: int
    size: int
    nchunks: int
    block_nbytes: int
    chunk_nbytes: int
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    blocks: tuple[int, ...]
    ext_shape: tuple[int, ...]
    ext_chunks: tuple[int, ...]
    grid: tuple[int, ...]
    def metalayer(self, dtype: str) -> bytes: ...

def parse_b2nd(frame: Frame, dtype_of: Callable[[str], np.dtype[Any]]) -> tuple[Geometry, np.dtype[Any]]: ...

class Operation:
    tasks: int
    def limit(self, first: int, stop: int) -> None: ...
    def run(self, threads: int = 1) -> None: ...
    def finish(self) -> None: ...

#: What stands for the attributes of a group, whatever they are.
LEAF_OF_ATTRIBUTES: bytes

def describe(frame: Frame, dtype_of: Callable[[str], Any]) -> bytes: ...
