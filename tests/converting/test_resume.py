"""A conversion that is killed goes on where it stopped, and nothing half-made has the target's name."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import blosc2

MAIN = "import sys, blosc2; blosc2.convert(sys.argv[1], sys.argv[2]); print('done')"
# So that there is something to resume, and time to kill: published after each array, slowly.
SLOW = (
    "import time\nfrom blosc2._tools.converting import stores\nstores._PUBLISH_SECONDS = 0.0\n"
    "real = stores.new_array\nstores.new_array = lambda *a: (time.sleep(0.01), real(*a))[1]\n"
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", **{f"g{i % 3}/x{i:02}": rng.random(1000 + i) for i in range(60)})
    return tmp_path / "a.npz"


def run(source: Path, target: Path, wait: float | None) -> int:
    process = subprocess.Popen([sys.executable, "-c", SLOW + MAIN, str(source), str(target)], stdout=subprocess.PIPE)
    try:
        process.communicate(timeout=wait)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return process.returncode


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL does not exist on every platform")
@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_killed_and_resumed(tmp_path: Path, source: Path, suffix: str) -> None:
    """`BLOSC2_KILLS` says how often it is killed, 4 times by default."""
    target = tmp_path / f"a{suffix}"
    rng = random.Random(1)

    def check_complete() -> None:
        assert blosc2.check(str(target)).ok
        with np.load(source) as wanted, blosc2.open(str(target)) as found:
            assert sorted(key for key, _, _ in found.walk()) == ["/", "/g0", "/g1", "/g2"]
            assert len(wanted.files) == sum(len(leaves) for _, _, leaves in found.walk()) == 60
            for name in wanted.files:
                np.testing.assert_array_equal(found[f"/{name}"][...], wanted[name])
            assert found.attrs[:] == {}

    for _ in range(int(os.environ.get("BLOSC2_KILLS", "4"))):
        run(source, target, rng.uniform(0.3, 0.9))
        if target.exists():  # it was fast enough, or killed after its last step
            check_complete()
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    report = blosc2.convert(source, target, verify=True)
    assert report.arrays == 60
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz", target.name}
    check_complete()


def test_what_was_published_is_not_read_again(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting import stores

    monkeypatch.setattr(stores, "_PUBLISH_SECONDS", 0.0)
    real, made = stores.new_array, 0

    def stop(*arguments: object) -> object:
        nonlocal made
        made += 1
        if made == 30:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(stores, "new_array", stop)
    with pytest.raises(KeyboardInterrupt):
        blosc2.convert(source, tmp_path / "a.b2z")
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "a.partial.b2z"]
    report = blosc2.convert(source, tmp_path / "a.b2z", verify=True)
    assert (report.resumed, report.arrays, made) == (29, 60, 30 + 31)
    assert sorted(os.listdir(tmp_path)) == ["a.b2z", "a.npz"]


@pytest.mark.parametrize("change", ["source", "options", "resume", "garbage"])
def test_another_source_begins_anew(tmp_path: Path, source: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting import stores

    with monkeypatch.context() as patched:
        patched.setattr(stores, "_PUBLISH_SECONDS", 0.0)
        calls = iter(range(5))
        real = stores.new_array
        patched.setattr(stores, "new_array", lambda *a: (next(calls), real(*a))[1])
        with pytest.raises(RuntimeError):  # of an iterator that ends in a generator
            blosc2.convert(source, tmp_path / "a.b2z")
    if change == "source":
        np.savez(source, **{"g0/x00": np.arange(3), "other": np.arange(4)})
    if change == "garbage":
        (tmp_path / "a.partial.b2z").write_bytes(b"no store")
    report = blosc2.convert(
        source, tmp_path / "a.b2z", verify=True, chunks="new" if change == "options" else "auto",
        resume=change != "resume",
    )  # fmt: skip
    assert (report.resumed, report.arrays) == (0, 2 if change == "source" else 60)
    old = ["a.partial.b2z"] if change == "resume" else []
    assert sorted(os.listdir(tmp_path)) == ["a.b2z", "a.npz", *old]
