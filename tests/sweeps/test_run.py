"""The command that plays sweeps finds what goes wrong: an error, a crash, a hang, a case that fails by itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeps import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def misbehave(case: str, at: int, folder: Path) -> None:
    (folder / "made").write_text("nothing is left of this")
    if at == 1 and case == "error":
        raise AssertionError("wrong at one")
    if at == 2 and case == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if at == 0 and case == "hang":
        time.sleep(60)


def positions(case: str, folder: Path) -> int:
    assert case != "impossible", "does not even work by itself"
    return 3


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = SimpleNamespace(
        cases=lambda: ["error", "crash", "hang", "well", "impossible"], count=positions, play=misbehave
    )
    monkeypatch.setattr(run, "module_of", {"fake": fake}.__getitem__)
    monkeypatch.setattr(run, "FAST", str(tmp_path))
    monkeypatch.setattr(run, "STUCK", 1)


def test_all_positions(kind: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = SimpleNamespace(kinds=["fake"], cases=None, seconds=None, once=False, seed=1, processes=1)
    assert run.be_process(arguments, 0) == 4
    said = capsys.readouterr().out
    assert "FAILED fake/error/1\n" in said
    assert "wrong at one" in said
    assert "FAILED fake/crash/2\nkilled by SIGSEGV" in said
    assert "FAILED fake/hang/0\nkilled by SIGALRM" in said
    assert "sleep" not in said.split("killed by SIGALRM")[0]
    assert "misbehave" in said.split("killed by SIGALRM")[1]  # where it hung
    assert "FAILED fake/impossible: with nothing that goes wrong" in said
    assert "played: fake 12" in said
    assert not os.listdir(tmp_path)


def test_each_way_once(kind: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run.module_of("fake"), "count", lambda case, folder: [7, 7, 8] if case != "error" else [7, 9])
    arguments = SimpleNamespace(kinds=["fake"], cases=["error", "crash"], seconds=None, once=True, seed=1, processes=1)
    assert run.be_process(arguments, 0) == 2
    said = capsys.readouterr().out
    assert "FAILED fake/error/1\n" in said
    assert "FAILED fake/crash/2\n" in said
    assert "played: fake 3" in said


def test_some_by_a_seed(kind: None, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = SimpleNamespace(kinds=["fake"], cases=["w*"], seconds=0.2, once=False, seed=1, processes=1)
    assert run.be_process(arguments, 0) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_one_again(kind: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.replay("fake/error/1")
    assert "wrong at one" in capsys.readouterr().out
    assert not run.replay("fake/error/0")
