"""Objects of other packages that are stored as several leaves, for instance tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Never

from blosc2.exceptions import UnsupportedKindError


class ForeignObject:
    """An object that this package can list, describe and copy with its store, but not compute with.

    Attributes
    ----------
    key : str
        Its key.
    kind : str
        What it is, as the package that wrote it calls it.
    description : dict
        What its store says about it.
    """

    __slots__ = ("_path", "description", "key", "kind")

    def __init__(self, path: str | None, key: str, description: Mapping[str, Any]) -> None:
        self._path = path
        self.key = key
        self.description = dict(description)
        self.kind = str(description.get("kind", "object"))

    def _refuse(self) -> Never:
        raise UnsupportedKindError(
            f"an object of kind {self.kind!r} can be listed and copied with its store, but not read or changed; "
            "use the package that wrote it",
            path=self._path,
            key=self.key,
        )

    def __getitem__(self, key: Any) -> Never:
        self._refuse()

    def __setitem__(self, key: Any, value: Any) -> Never:
        self._refuse()

    def __len__(self) -> Never:  # noqa: PLE0303 - it has no length to give
        self._refuse()

    def __iter__(self) -> Never:
        self._refuse()

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<ForeignObject {self.key!r} of kind {self.kind!r}>"
