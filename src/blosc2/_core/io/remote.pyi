from typing import Any

from blosc2._core.io.source import Source

class RemoteSource(Source):
    def __init__(self, remote: Any, path: str | None = None) -> None: ...
    @property
    def remote(self) -> Any: ...
