"""Sorted runs against dicts that are sorted by Python."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blosc2._core.zip.archive_writer import SortedRuns

Items = list[tuple[bytes, bytes]]

# Few letters make duplicates, zeros tell a short key from a padded one, and a long start makes keys alike.
short_keys = st.binary(max_size=3) | st.lists(st.sampled_from([b"\0", b"a", b"\xff"]), max_size=20).map(b"".join)
long_keys = st.builds(lambda keep, rest: (b"group/" * 34)[:keep] + rest, st.sampled_from([193, 200, 204]), short_keys)
few_keys = st.integers(0, 300).map(lambda n: b"key%d" % n)
keys = short_keys | long_keys | few_keys
items = st.lists(st.tuples(keys, st.binary(max_size=40)), max_size=200)
many_items = st.integers(0, 2000).flatmap(
    lambda count: st.randoms(use_true_random=False).map(
        lambda random: [
            (b"g%d/" % random.randrange(4) * random.randrange(9) + b"%d" % random.randrange(1000), b"%d" % n)
            for n in range(count)
        ]
    )
)
# None: all stays in memory. One byte: each item is a run.
budgets = st.sampled_from([None, 1, 300, 1_000, 5_000, 20_000, 1 << 20])


def filled(folder: Path, budget: int | None, given: Items) -> SortedRuns:
    runs = SortedRuns() if budget is None else SortedRuns(folder, budget)
    for key, payload in given:
        runs.add_bytes(key, payload)
    return runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@given(items | many_items, budgets)
def test_items_come_sorted_and_the_last_of_equal_keys_wins(folder: Path, given: Items, budget: int | None) -> None:
    runs = filled(folder, budget, given)
    expected = sorted(dict(given).items())
    for _ in range(2):
        assert list(runs) == expected
        assert runs.count == len(given)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("budget", [None, 10_000, 4 << 20])
def test_items_that_are_larger_than_blocks_and_buffers(tmp_path: Path, budget: int | None) -> None:
    sizes = [10, 3_000_000, 0, 70_000, 1 << 20, 300_000, 5]
    given = [(b"k" * size, b"p" * (sizes[-1 - n])) for n, size in enumerate(sizes)] * 2
    assert list(filled(tmp_path, budget, given)) == sorted(dict(given).items())


def run_alone(code: str, *arguments: object) -> str:
    """What a process prints that a limit is set for, or whose memory is measured."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of a file")
@pytest.mark.parametrize("limit", [1, 100_000])
def test_a_full_disk(tmp_path: Path, limit: int) -> None:
    printed = run_alone(
        """
        import os, resource, sys
        from blosc2._core.zip.archive_writer import SortedRuns
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
        runs = SortedRuns(sys.argv[1], 20_000)
        try:
            for n in range(20_000):
                runs.add_bytes(b"%d" % (n * 7919 % 20_000), bytes(100))
        except OSError as error:
            print(error.filename)
        print(os.listdir(sys.argv[1]), len([fd for fd in range(100) if os.path.exists(f"/dev/fd/{fd}")]))
        for call in (lambda: runs.add_bytes(b"", b""), lambda: list(runs)):
            try:
                call()
            except ValueError as error:
                print("given up" in str(error))
        """,
        tmp_path,
        limit,
    )
    merging = ["True"] if limit > 2_500_000 else []
    assert printed.splitlines() == [*merging, str(tmp_path), "[] 3", "True", "True"]
