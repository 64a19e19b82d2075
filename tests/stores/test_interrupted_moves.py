"""An embedded value gets another key, a file comes under its old one: an interrupt between leaves no second copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends import DirectoryBackend, tiers
from blosc2._backends.directory import publishing

SMALL, OTHER, LARGE = np.arange(10), np.arange(20), np.arange(5000)


def published(path: Path) -> dict[str, list[int]]:
    with blosc2.DictStore(path, mode="r") as store:
        return {key: store[key][:].tolist() for key in store}


def once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool, error: BaseException) -> list[int]:
    """Have a function raise the first time that it is called, before or after it did its work."""
    real, calls = getattr(owner, name), []

    def raising(*args: Any, **how: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return real(*args, **how)
        if after:
            real(*args, **how)
        raise error

    monkeypatch.setattr(owner, name, raising)
    return calls


@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [(publishing, "into", False), (publishing, "into", True),
     (tiers, "Embedded", False), (tiers, "Embedded", True), (DirectoryBackend, "publish", False)],
)  # fmt: skip
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(5, "a broken disk")], ids=repr)
def test_a_renamed_value_is_under_one_key(
    owner: Any, name: str, after: bool, taken: bool, error: BaseException, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = tmp_path / "s.b2d"
    with blosc2.DictStore(path, mode="w", threshold=1000) as store:
        store["/a"] = SMALL
        if taken:
            store["/b"] = OTHER
    before = published(path)
    store = blosc2.DictStore(path, mode="a", threshold=1000)
    calls = once(monkeypatch, owner, name, after=after, error=error)
    with pytest.raises(type(error)), store.transaction():
        if taken:
            del store["/b"]
        store.rename("/a", "/b")
        store["/a"] = LARGE
    assert calls
    assert published(path) == before
    assert {key: store[key][:].tolist() for key in store} == before
    store.flush()
    assert published(path) == before
    with store.transaction():
        if taken:
            del store["/b"]
        store.rename("/a", "/b")
        store["/a"] = LARGE
    expected = {"/a": LARGE.tolist(), "/b": SMALL.tolist()}
    assert published(path) == expected
    assert {key: store[key][:].tolist() for key in store} == expected
    store.close()
    assert published(path) == expected
    assert blosc2.check(path).ok
