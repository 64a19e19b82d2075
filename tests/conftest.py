"""Fixtures for all tests: both ways to read a file, and a fixed seed."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# their assertions are those of the tests, and are to say as much
pytest.register_assert_rewrite("fixture_kit", "store_kit", "file_store_kit", "store_makers", "cli_kit", "remote_kit")

import remote_kit  # noqa: E402 - now that its assertions are
from fixture_kit import slow  # noqa: E402

from blosc2 import _backends  # noqa: E402
from blosc2._backends.zip import publishing  # noqa: E402

with suppress(ImportError):
    import fcntl

    # Tests count syncs, and let them fail, by `os.fsync`, which macOS calls only where it has no other. Programs that
    # tests start have it as it is.
    vars(fcntl).pop("F_FULLFSYNC", None)

# Who sets one of these asks for more than is run each time.
MORE = {"BLOSC2_FAULTS", "BLOSC2_FUZZ_CASES", "BLOSC2_LARGE"}

# Of the tests that can read a copy on a server, one of so many does so each time; of the others that case is slow.
REMOTE_STRIDE = 8

# Nothing here measures time, and a machine that does something else, too, fails no test.
settings.register_profile("ours", parent=settings.default, deadline=None)
settings.register_profile("fewer", parent=settings.get_profile("ours"), max_examples=50)
# Where all tests run, they run often; by hand, those of what was changed run with twice as many examples.
settings.load_profile("fewer" if os.environ.get("CI") or "PYTEST_XDIST_WORKER" in os.environ else "ours")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--contract", action="store_true", help="run the tests that tests/contract.txt lists")


def pytest_configure(config: pytest.Config) -> None:
    """`--contract` stands for the folders and files of the list that have tests."""
    # So that some hundred leaves have a catalog: many tests are about what it does, and more would take them long.
    publishing.CATALOG_LEAST = _backends.CATALOG_LEAST = 256
    if not config.getoption("--contract"):
        return
    here = Path(__file__).resolve().parent
    names = [
        line.split(" | ")[0]
        for line in (here / "contract.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    listed = [here.parent / name for name in names]
    config.args = [str(path) for path in listed if path.name.startswith("test_") or any(path.glob("test_*.py"))]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not asked for: slow tests (`-m slow`, or one by its name), and those that install a package."""
    slow.mark(items, slow.listed(slow.LIST.read_text(encoding="utf-8")))
    asked = config.getoption("markexpr")
    left_out = set()
    if not _wants_slow(config):
        left_out.add("slow")
    if "interop" not in asked and not any("interop" in arg for arg in config.args):
        left_out.add("interop")
    out = [item for item in items if any(mark.name in left_out for mark in item.iter_markers())]
    if out:
        config.hook.pytest_deselected(items=out)
        gone = set(out)
        items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Eighteen thousand tests are many objects: a collection of garbage is not to go through them each time, and while
    they are made there is no garbage that is worth it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Neither is it to go through the reports of all tests before, and the modules that they have loaded: many tests
    collect garbage, and after some thousand others that would take each of them tenths of a second."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def _wants_slow(config: pytest.Config) -> bool:
    asked = config.getoption("markexpr")
    return "slow" in asked or any("::" in arg for arg in config.args) or bool(MORE & set(os.environ))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run read tests over each source. Of those that are not marked `local`, some read a copy on a server each time."""
    if "source_kind" not in metafunc.fixturenames:
        return
    kinds = [pytest.param(None, id="pread"), pytest.param("r", id="mmap")]
    if metafunc.definition.get_closest_marker("local") is None:
        runs_each_time = zlib.crc32(metafunc.definition.nodeid.encode()) % REMOTE_STRIDE == 0
        if runs_each_time or _wants_slow(metafunc.config):  # else collecting them would take seconds
            marks = [] if runs_each_time else [pytest.mark.slow]
            kinds.append(pytest.param("remote", id="remote", marks=marks))
    metafunc.parametrize("source_kind", kinds, indirect=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: no more than four processes, each of which collects all tests, and some of which fill their memory."""
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 4)


@pytest.fixture
def source_kind(request: pytest.FixtureRequest) -> str | None:
    value: str | None = request.param
    return value


@pytest.fixture
def source(source_kind: str | None, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """The `mmap_mode` that a file is opened with: positional reads, or one mapping.

    A third time, what is opened to be read by position is a copy of the file on a server, fsspec's in memory.
    """
    if source_kind == "remote":
        pytest.importorskip("fsspec")
        remote_kit.read_remotely(monkeypatch)
        return None
    return source_kind


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(list(request.node.name.encode()))


@pytest.fixture
def server() -> Iterator[remote_kit.RangeServer]:
    """A server of HTTP on this machine, which has nothing yet."""
    with remote_kit.running() as server:
        yield server


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced: for tests that write thousands of small files and say nothing about durability."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


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
        monkeypatch.setattr(f"blosc2._stores.automatic_publishing.LeafPublishing.{name}", lambda *given: False)


@pytest.fixture
def ends_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are not compacted when they are closed, whatever they have written."""
    monkeypatch.setattr("blosc2._backends.layout._BLOCK", 1 << 50)


@pytest.fixture
def publishes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores and arrays publish each change, as they do as long as that is cheap: on a slow machine, too."""
    monkeypatch.setattr("blosc2._frames.changeable.Costs.is_cheap", lambda *_: True)
