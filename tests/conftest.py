"""Fixtures for all tests: both ways to read a file, and a fixed seed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import settings

# its assertions are those of the tests, and are to say as much
pytest.register_assert_rewrite("fixture_kit.manifest")

if os.environ.get("CI"):
    # There all tests run for each change; by hand, those of what was changed run with twice as many examples.
    settings.register_profile("fewer", parent=settings.default, max_examples=50)
    settings.load_profile("fewer")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the interoperability tests out unless they are asked for: they install a package."""
    asked = "interop" in config.getoption("markexpr") or any("interop" in arg for arg in config.args)
    if asked:
        return
    out = [item for item in items if item.get_closest_marker("interop")]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if not item.get_closest_marker("interop")]


@pytest.fixture(params=[None, "r"], ids=["pread", "mmap"])
def source(request: pytest.FixtureRequest) -> str | None:
    """The `mmap_mode` that a file is opened with: positional reads, or one mapping."""
    value: str | None = request.param
    return value


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Read with one thread."""
    import blosc2

    old = blosc2.set_nthreads(1)
    yield
    blosc2.set_nthreads(old)


@pytest.fixture
def changes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores publish nothing by themselves, as a large one does not with each assignment: changes wait for `flush`."""
    monkeypatch.setattr("blosc2._backends.publish_pace.Pace.is_due", lambda self, waiting, values: False)
    for name in ("put", "remove", "is_due"):  # leaves with files of their own
        monkeypatch.setattr(f"blosc2._stores.leaf_publishing.LeafPublishing.{name}", lambda *given: False)
