from typing import Any, Self

from blosc2._core.io.source import Source

class RemoteSource(Source):
    def __new__(cls, remote: Any, path: str | None = None) -> Self: ...
    @property
    def remote(self) -> Any: ...
