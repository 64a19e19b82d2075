"""Writers that are killed at random moments; see `faults.kills`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from fixture_kit.isolated import environment

from faults import KILLS


def test_killed_writers_lose_nothing() -> None:
    """In a process of its own, which forks before it has any threads."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "faults.kills", str(KILLS), "20261121"], env=environment(),
        capture_output=True, text=True, timeout=60 + KILLS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    print(done.stdout)
    counts = json.loads(done.stdout.splitlines()[0])
    assert counts["kills"] == KILLS
    assert counts["commits"] > KILLS


_CAREFUL = """
import sys, tempfile
import numpy as np
import blosc2
from faults.kills import kill_once
from faults.store_stories import StoreKind
from faults.scenarios import IllegalStateError, value_of

def changes(value):
    # A version is three values at once; the careless writer flushes after each.
    version = {key: value_of(np.full(50, value)) for key in "/a /b /c".split()}
    def change(store):
        for key in "/a /b /c".split():
            store[key] = np.full(50, value)
            if careless:
                store.flush()
        store.flush()
    return change, version

def make():
    for number in range(1, 100_000):
        yield changes(number)

careless = sys.argv[1] == "careless"
kind = StoreKind("store.b2z", True, blosc2.DictStore)
with tempfile.TemporaryDirectory() as folder:
    kind.open(f"{folder}/store.b2z", "w").close()
    version = {}
    for seconds in [0.01 + n / 3000 for n in range(40)]:
        try:
            version = kill_once(kind, folder, make, version, seconds).version
        except IllegalStateError:
            print("found")
            break
"""


@pytest.mark.parametrize(("how", "said"), [("careful", ""), ("careless", "found")])
def test_a_writer_that_commits_in_parts_is_found_out(how: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _CAREFUL, how],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout.strip()) == (0, said), done.stderr[-4000:]
