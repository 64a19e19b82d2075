"""What the tests of `DictStore` share."""

from __future__ import annotations

from typing import Any

import blosc2


def values_of(store: Any) -> dict[str, list[Any]]:
    return {key: leaf[()].tolist() for key, leaf in store.items() if isinstance(leaf, blosc2.NDArray)}
