"""What is counted, and told to the logger "blosc2": by what happens rarely, and by nothing else."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from remote_kit import reply, running

import blosc2
from blosc2._frames import changeable
from blosc2._options import events


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Any:
    """What is told from now on, as level and text."""
    caplog.set_level(logging.DEBUG, "blosc2")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "blosc2"]


@pytest.fixture(autouse=True)
def earlier_handles_ended() -> None:
    """A handle that an earlier test left in a cycle writes its file when it is collected: not while others count."""
    gc.collect()
    last = time.monotonic() + 20
    while changeable._left and time.monotonic() < last:  # which a thread ends
        time.sleep(0.001)


def since(before: blosc2.Metrics) -> dict[str, Any]:
    """What was counted since then."""
    pairs = zip(before._fields, before, blosc2.metrics(), strict=True)
    return {name: new - old for name, old, new in pairs if new != old}


def test_commits(tmp_path: Path, told: Any) -> None:
    before = blosc2.metrics()
    memory = blosc2.zeros(10)
    memory[0] = 1
    assert since(before) == {}
    array = blosc2.zeros(10, urlpath=str(tmp_path / "a.b2nd"))
    array[0] = 1
    array.attrs["unit"] = "mm"
    array.flush()  # which publishes it if it waits
    assert since(before) == {"commits": 2}
    with array.transaction():
        array[1] = 1
        array[2] = 1
    assert since(before) == {"commits": 3}
    for suffix in ("b2z", "b2d", "b2e"):
        path = str(tmp_path / f"s.{suffix}")
        kind = blosc2.EmbedStore if suffix == "b2e" else blosc2.TreeStore
        with kind(path, mode="w") as store:
            now = blosc2.metrics()
            with store.transaction():
                store["/a"] = [1]
                store["/b"] = [2]
            assert since(now) == {"commits": 1}
        assert ("DEBUG", f"{path}: a version was published") in told()


def test_files_written_anew(tmp_path: Path, told: Any) -> None:
    path = str(tmp_path / "a.b2nd")
    rng = np.random.default_rng(0)
    array = blosc2.asarray(rng.random(1 << 18), urlpath=path, chunks=(1 << 15,))
    for _ in range(40):
        array[:] = rng.random(1 << 18)
    found = blosc2.metrics()
    assert found.rewrites > 0
    texts = [text for level, text in told() if level == "INFO"]
    assert any(text.startswith(f"{path}: written anew, ") for text in texts)
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        for _ in range(2):
            store["/a"] = rng.random(1 << 17)
            store.flush()
        before = blosc2.metrics()
        done = store.compact()
        assert since(before)["rewrites"] == 1
        assert ("INFO", f"{tmp_path / 's.b2z'}: written anew, {done.after} bytes instead of {done.before}") in told()
        assert store.compact().before == done.after
    assert ("INFO", f"{tmp_path / 's.b2z'}: written anew, {done.after} bytes") in told()


def test_dead_bytes_that_stay(tmp_path: Path, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a new file cannot be written, that is told once for each time it was tried."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("blosc2._frames.append.Growth._write_anew", full)
    rng = np.random.default_rng(0)
    array = blosc2.asarray(rng.random(1 << 18), urlpath=str(tmp_path / "a.b2nd"), chunks=(1 << 15,))
    for _ in range(40):
        array[:] = rng.random(1 << 18)
    warnings = [text for level, text in told() if level == "WARNING"]
    assert 1 <= len(warnings) < 40
    assert all("bytes are dead, and it cannot be written anew: [Errno 28]" in text for text in warnings)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Have another opening of a file hold its lock, until somebody has waited for it for a while."""
    import fcntl  # which Windows does not have

    flock = fcntl.flock
    with path.open("r+b") as file:
        flock(file, fcntl.LOCK_EX)
        timer, times = threading.Timer(0.2, flock, (file, fcntl.LOCK_UN)), []

        def asked(number: int, operation: int) -> None:
            times.append(operation)
            if len(times) == 2:  # the first one does not wait
                timer.start()
            flock(number, operation)

        with mock.patch.object(fcntl, "flock", asked):
            yield
        timer.join()


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
@pytest.mark.usefixtures("publishes_at_once")
def test_waits_for_locks(tmp_path: Path, told: Any) -> None:
    path, root = tmp_path / "a.b2nd", tmp_path / "s.b2z"
    array = blosc2.zeros(10, urlpath=str(path))
    with blosc2.TreeStore(str(root), mode="w") as store:
        store["/a"] = [1]
    before = blosc2.metrics()
    array[0] = 1
    blosc2.TreeStore(str(root), mode="a").close()
    assert "lock_waits" not in since(before)
    with held(path):
        array[1] = 1
    found = since(before)
    assert found["lock_waits"] == 1
    assert 0.05 < found["lock_seconds"] < 30
    with held(root):
        blosc2.TreeStore(str(root), mode="a", timeout=30).close()
    assert since(before)["lock_waits"] == 2
    waits = [text.split(" waited ")[0] for level, text in told() if level == "INFO"]
    assert waits == [f"{path}:", f"{root}:"]


def test_requests(tmp_path: Path, told: Any) -> None:
    pytest.importorskip("aiohttp", reason="an extra")
    path = tmp_path / "a.b2nd"
    blosc2.asarray(np.random.default_rng(0).random(100_000), urlpath=str(path))
    broken = [2]

    def spoil(handler: Any, _: bytes, __: slice) -> bool:
        broken[0] -= 1
        if broken[0] >= 0:
            reply(handler, 503, b"")
        return broken[0] >= 0

    with running() as server:
        url = server.put("a.b2nd", path)
        server.spoil = spoil
        before = blosc2.metrics()
        assert blosc2.open(url, remote={"disk": str(tmp_path / "disk")})[...].shape == (100_000,)
        found = since(before)
        assert found["retries"] == 2
        assert found["requests"] == len(server.requests) - 2
        assert found["received"] == server.sent - sum(request.sent for request in server.requests[:2])
        again = blosc2.metrics()
        assert blosc2.open(url, remote={"disk": str(tmp_path / "disk")})[...].shape == (100_000,)
        assert since(again)["disk_hits"] > 0
    levels = [level for level, text in told() if url in text]
    assert levels.count("WARNING") == 2
    assert levels.count("DEBUG") >= found["requests"]


def test_the_block_cache() -> None:
    found = blosc2.metrics()
    assert (found.block_hits, found.block_misses) == blosc2.block_cache_stats()[3:5]


def test_reads_count_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store["/a"] = np.arange(1000)
    blosc2.arange(1000, urlpath=str(tmp_path / "a.b2nd"))
    monkeypatch.setattr(events, "tell", None)
    monkeypatch.setattr(events, "count", None)
    for mapped in (None, "r"):
        with blosc2.open(str(tmp_path / "s.b2z"), mode="r", mmap_mode=mapped) as store:
            assert store["/a"][5] == 5
        assert blosc2.open(str(tmp_path / "a.b2nd"), mmap_mode=mapped).sum() == 499500


def test_levels() -> None:
    logger = logging.getLogger("blosc2")
    logger.setLevel(logging.ERROR)
    try:
        events.tell("WARNING", "%s %s", 1)  # which would not be formatted
    finally:
        logger.setLevel(logging.NOTSET)


PROGRAM = """
import sys
{imports}
import blosc2
from blosc2._options import tell
tell("WARNING", "told to nobody")
array = blosc2.zeros(10, urlpath=sys.argv[1])
array[0] = 1
print("logging" in sys.modules)
"""


@pytest.mark.parametrize("imports", ["", "import logging"])
def test_nothing_where_nobody_listens(imports: str, tmp_path: Path) -> None:
    """No import of `logging`, and nothing on stderr where it is imported and not configured."""
    program = [sys.executable, "-c", PROGRAM.format(imports=imports), str(tmp_path / "a.b2nd")]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(bool(imports))]
    assert done.stderr == ""


def test_counts_of_threads() -> None:
    """None is lost."""
    before = blosc2.metrics()
    threads = [threading.Thread(target=lambda: [events.count("commits") for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert since(before) == {"commits": 8000}
