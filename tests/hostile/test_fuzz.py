"""The fuzzer's committed cases, and some fresh ones that are the same each time (tests/fuzz/README.md).

Each case is played with positional reads and with a mapping, and fresh memory filled with two different patterns.
Equal results mean that both sources check alike and that no byte of a result comes from memory that was never written.

Set BLOSC2_FUZZ_CASES for more cases, and BLOSC2_FUZZ_SEED for others; tests/fuzz/run.py makes them without end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fixture_kit.isolated import environment

CASES = os.environ.get("BLOSC2_FUZZ_CASES", "300")
SEED = os.environ.get("BLOSC2_FUZZ_SEED", "20261121")
RUN = Path(__file__).parents[1] / "fuzz" / "run.py"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the fuzzer plays its cases in forked children")


def fuzz(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(RUN), "--keep", str(tmp_path), *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=280)


def test_what_failed_once(tmp_path: Path) -> None:
    done = fuzz(tmp_path, "--replay", *map(str, sorted((RUN.parent / "corpus").glob("*.case"))))
    assert done.returncode == 0, done.stdout + done.stderr


def test_corpus(tmp_path: Path) -> None:
    """What failed once, and what guided fuzzing left."""
    done = fuzz(tmp_path, "--corpus", "--seconds", "0")
    assert done.returncode == 0, done.stdout + done.stderr


def test_damage(tmp_path: Path) -> None:
    done = fuzz(tmp_path, "--seed", SEED, "--cases", CASES, "--seconds", "200")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_finds_what_is_wrong(tmp_path: Path) -> None:
    """A fuzzer that finds nothing must be one that could."""
    case = tmp_path / "planted.case"
    case.write_bytes(
        b'{"name": "planted", "suffix": ".b2nd", "files": {"": 4}, "play": "cut", "seed": 1, "what": "planted"}\nDATA'
    )
    assert fuzz(tmp_path, "--replay", str(case)).returncode == 0  # no frame at all: it is refused, as it should be
    sound = Path(__file__).parents[1] / "data" / "fixtures" / "shapes" / "1d_one.b2nd"
    data = sound.read_bytes()
    head = b'{"name": "planted", "suffix": ".b2nd", "files": {"": %d}, "play": "cut", "seed": 1, "what": "planted"}\n'
    case.write_bytes(head % len(data) + data)
    found = fuzz(tmp_path, "--small", "0", "--replay", str(case))
    assert found.returncode == 1, found.stdout + found.stderr
    assert "a frame that is cut to" in found.stdout
    assert "again with: python tests/fuzz/run.py --replay" in found.stdout


@pytest.mark.parametrize(
    "how", ["os.abort()", "bytearray(1 << 29)", "raise RuntimeError('plain')", "exec('while 1: pass')"]
)
def test_it_sees_deaths_hangs_memory_and_other_errors(tmp_path: Path, how: str) -> None:
    """The package is replaced by one that misbehaves as soon as something is opened."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import os\nimport blosc2\ndef open(*args, **kwargs):\n    {how}\nblosc2.open = open\n"
    )
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env["PYTHONPATH"]])
    one = Path(__file__).parents[1] / "data" / "fixtures" / "shapes" / "1d_one.b2nd"
    case = tmp_path / "x.case"
    head = b'{"name": "x", "suffix": ".b2nd", "files": {"": %d}, "play": "read", "seed": 1, "what": "x"}\n'
    data = one.read_bytes()
    case.write_bytes(head % len(data) + data)
    command = [sys.executable, str(RUN), "--keep", str(tmp_path / "kept"), "--hang", "0.3"]
    command += ["--small", "0", "--replay", str(case)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1, done.stdout + done.stderr
    kind = {"os.": "killed by SIGABRT", "byt": "memory", "rai": "undocumented error", "exe": "hang"}[how[:3]]
    assert "FAILED: case 0 of seed" in done.stdout
    assert kind in done.stdout
