"""Files of embedded values: damage, readers beside a writer, kills, and any changes beside a dictionary."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.embedded_files import (
    CHANGEABLE,
    apply,
    check_layout,
    filled,
    frame_of,
    overwrite,
    values_of,
)
from fixture_kit.isolated import environment
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import blosc2
from blosc2._backends.embedded.file import EmbeddedFile
from blosc2._backends.embedded.frame_layout import EmbeddedChanges, raw_header
from blosc2._backends.embedded_map import Embedded, open_embedded
from blosc2._core.io.source import Source
from blosc2._frames.checksums import carried, verify_frame
from blosc2.exceptions import FormatError

# What is looked at is one publication of several changes.
pytestmark = pytest.mark.usefixtures("changes_wait")


# ------------------------------------------------------------------ damage
def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_damage_in_the_last_chunk_is_still_found_after_an_append(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    filled(path, 5)
    embedded = open_embedded(str(path), None)
    byte_range = embedded.locate("/g1/v4")
    assert byte_range is not None
    flip(path, byte_range[1] + 300)
    assert [finding.chunk for finding in verify_frame(frame_of(path))] == [0]
    apply(overwrite, path, verify=False)
    frame = frame_of(path)
    assert carried(frame) is not None
    assert [finding.chunk for finding in verify_frame(frame)] == [0]


def test_damaged_values_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        rng = np.random.default_rng(1)
        store.update({f"/v{n}": rng.random(3000) for n in range(20)})
    embedded = open_embedded(str(path), None)
    byte_range = embedded.locate("/v0")
    assert byte_range is not None
    flip(path, byte_range[1] + 1000)
    before = path.read_bytes()
    with blosc2.EmbedStore(path) as store:
        with pytest.raises(FormatError, match="not those that were written"):
            store.compact()
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["x.b2e"]
        for _ in range(40):  # far more dead bytes than would otherwise be left
            store["/v19"] = rng.random(15_000)
            store.flush(durable=False)
    assert [finding.chunk for finding in verify_frame(frame_of(path))] == [0]
    with blosc2.EmbedStore(path, mode="r", verify=False) as store:
        assert len([leaf[()] for leaf in store.values()]) == 20
    # Without the values around the damage there is nothing left to be afraid of.
    with blosc2.EmbedStore(path) as store:
        for n in range(10):
            del store[f"/v{n}"]
        store.compact()
    check_layout(path)


def test_a_damaged_map_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    filled(path)
    store = blosc2.EmbedStore(path)
    store["/a"] = [1]
    frame = frame_of(path)
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[frame.frame_len - 60] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(FormatError):
        store.flush()
    assert path.read_bytes() == data
    store.discard()
    store.close()


@pytest.mark.local
# ------------------------------------------------------------------ readers beside a writer
def test_a_reader_beside_a_writer(tmp_path: Path, source: str | None) -> None:
    """A reader opens and refreshes all the time: it sees whole versions only, and none goes back."""
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path, mode="w") as store:
        for n in range(5):
            store[f"/v{n}"] = np.full(200, 0)
    stop = threading.Event()
    errors: list[BaseException] = []
    versions = []

    def read() -> None:
        try:
            last = 0
            held: list[tuple[Any, int]] = []
            with blosc2.EmbedStore(path, mode="r", mmap_mode=source) as follower:
                while not stop.is_set():
                    with blosc2.EmbedStore(path, mode="r", mmap_mode=source) as reader:
                        seen = {int(reader[f"/v{n}"][50]) for n in range(5)}
                        held.append((reader["/v3"], min(seen)))
                    assert len(seen) == 1
                    assert min(seen) >= last
                    last = min(seen)
                    follower.refresh()
                    now = {int(follower[f"/v{n}"][-1]) for n in range(5)}
                    assert len(now) == 1
                    assert min(now) >= last
                    versions.append(last)
                    for leaf, value in held[-20:]:
                        assert (leaf[:] == value).all()
        except BaseException as error:  # noqa: BLE001 - a thread must report whatever goes wrong
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        with blosc2.EmbedStore(path) as store:
            until = time.monotonic() + 1.0
            number = 0
            while time.monotonic() < until or len(set(versions)) < 3:
                number += 1
                for n in range(5):
                    store[f"/v{n}"] = np.full(200, number)
                store.flush(durable=False)
                if number % 40 == 0:
                    store.compact()
                if errors:
                    break
    finally:
        stop.set()
        thread.join()
    assert errors == []


WRITER = """
import sys
import numpy as np
import blosc2

store = blosc2.EmbedStore(sys.argv[1])
version = int(store["/v0"][0])
while True:
    version += 1
    with store.transaction():
        for n in range(4):
            store[f"/v{n}"] = np.full(50 + 700 * n, version)
        store[f"/new{version % 50}"] = np.full(10, version)
        if version % 3 == 0:
            store.rename(f"/new{version % 50}", f"/moved{version}")
    if version % 11 == 0:
        store.compact()
    print(version, flush=True)
"""


def test_a_killed_writer_leaves_a_whole_version(tmp_path: Path) -> None:
    rng = random.Random(20261121)
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        for n in range(4):
            store[f"/v{n}"] = np.full(50 + 700 * n, 0)
    last = 0
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert int(writer.stdout.readline()) > last  # it is under way
            time.sleep(rng.uniform(0, 0.1))
            writer.kill()
            written = writer.stdout.read().split()
        with blosc2.EmbedStore(path, mode="r", mmap_mode="r") as store:
            now = {int(value) for n in range(4) for value in store[f"/v{n}"][:]}
            assert len(now) == 1
            (version,) = now
            assert version >= (int(written[-1]) if written else last + 1)
            assert len(store) >= 4 + (version - last) // 50
            for key, leaf in store.items():
                assert len(set(leaf[:].tolist())) == 1, key
        frame = frame_of(path)
        assert carried(frame) is not None
        assert list(verify_frame(frame)) == []
        last = version
    with blosc2.EmbedStore(path) as store:
        store.compact()
    check_layout(path)
    for leftover in tmp_path.iterdir():  # a kill in the middle of `compact` leaves its file
        assert leftover == path or leftover.name.endswith(".tmp")


# ------------------------------------------------------------------ in a directory
def test_embedded_values_of_a_directory_are_appended(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.TreeStore(path, mode="w", threshold=1 << 20) as store:
        for n in range(50):
            store[f"/g/v{n}"] = np.full(20, n)
        store["/g"].vlmeta["unit"] = "mm"
    embed = path / "embed.b2e"
    before = embed.read_bytes()
    inode = embed.stat().st_ino
    reader = blosc2.TreeStore(path, mode="r", mmap_mode=source)
    with blosc2.TreeStore(path, threshold=1 << 20) as store:
        store["/g/new"] = [1]
        del store["/g/v3"]
        store["/g/v4"][0] = 99
        store.rename("/g/v5", "/h/v5")
        store["/g"].vlmeta["count"] = 3
    after = embed.read_bytes()
    assert embed.stat().st_ino == inode
    assert {n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b} <= CHANGEABLE
    check_layout(embed)
    assert Embedded((Source.open(str(embed)), 0, -1)).kind == "b2tree"
    assert reader["/g/v3"][0] == 3
    reader.close()
    for turn in range(2):
        with blosc2.TreeStore(path, mode="r", mmap_mode=source) as store:
            assert "/g/v3" not in store
            assert store["/g/v4"][:2].tolist() == [99, 4]
            assert store["/h/v5"][0] == 5
            assert store["/g"].vlmeta[:] == {"unit": "mm", "count": 3}
            assert len(store["/g"]) == 49
        if turn == 0:
            with blosc2.TreeStore(path, threshold=1 << 20) as store:
                before_size, after_size = store.compact()
                assert after_size < before_size
    assert embed.stat().st_size < len(after)
    check_layout(embed)


def test_a_directory_of_many_changes_is_compact(tmp_path: Path) -> None:
    path, fresh = tmp_path / "x.b2d", tmp_path / "fresh.b2d"
    rng = random.Random(2)
    model: dict[str, Any] = {}
    with blosc2.DictStore(path, threshold=1 << 20) as store:
        for _ in range(40):
            for _ in range(20):
                key = f"/k{rng.randrange(60)}"
                if key in model and rng.random() < 0.4:
                    del store[key], model[key]
                else:
                    store[key] = model[key] = np.arange(rng.randrange(1, 50))
            store.flush(durable=False)
        store.compact()
    with blosc2.DictStore(fresh, threshold=1 << 20) as store:
        store.update(model)
    with blosc2.DictStore(path, mode="r") as store:
        assert {key: leaf[:].tolist() for key, leaf in store.items()} == {k: v.tolist() for k, v in model.items()}
    assert (path / "embed.b2e").stat().st_size <= 1.05 * (fresh / "embed.b2e").stat().st_size


def test_a_failed_append_in_a_directory_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.DictStore(path, threshold=1 << 20) as store:
        store["/a"] = [1]
        store["/c"] = [3]
    import blosc2._frames.append as module

    for n in range(2):
        store = blosc2.DictStore(path, threshold=1 << 20)
        store["/b"] = [2 + n]
        del store["/c"]
        with monkeypatch.context() as patched:
            plain_write, calls = module._write_at, iter(range(100))

            def failing(*args: Any) -> None:
                if next(calls) == n:  # noqa: B023 - it is used up in this turn
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                plain_write(*args)  # noqa: B023

            patched.setattr(module, "_write_at", failing)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                store.flush()
        with blosc2.DictStore(path, mode="r") as reader:
            assert sorted(reader) == ["/a", "/c"] if n == 0 else ["/a", "/b", "/c"]
        store.close()
        with blosc2.DictStore(path, threshold=1 << 20) as store:
            assert sorted(store) == ["/a", "/b"]
            assert store["/b"][0] == 2 + n
            store["/c"] = [3]


# ------------------------------------------------------------------ against a dictionary
@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limits so small that every road is taken by small stores."""
    monkeypatch.setattr("blosc2._backends.embedded.frame_layout._LEAST_CHUNK", 1 << 10)
    monkeypatch.setattr("blosc2._backends.embedded.frame_layout.LARGEST_CHUNK", 1 << 13)
    monkeypatch.setattr("blosc2._backends.embedded.frame_layout._PIECE", 1 << 9)
    monkeypatch.setattr("blosc2._frames.append._AT_ONCE", 1 << 9)
    monkeypatch.setattr("blosc2._backends.embedded.writing._SHORT_TAIL", 1 << 10)
    monkeypatch.setattr("blosc2._backends.embedded.writing._SLACK", 1 << 14)
    return


@pytest.mark.usefixtures("small_limits")
def test_as_a_dictionary(tmp_path: Path) -> None:
    names = st.sampled_from([f"/{letter}" for letter in "abcdefgh"])
    counter = iter(range(10**9))

    class Machine(RuleBasedStateMachine):
        @initialize(number=st.sampled_from([0, 3, 30]))
        def create(self, number: int) -> None:
            self.path = tmp_path / f"m{next(counter)}.b2e"
            self.store = blosc2.EmbedStore(self.path, chunksize=64)
            self.now: dict[str, list[int]] = {}
            self.readers: list[tuple[blosc2.EmbedStore, dict[str, list[int]]]] = []
            for n in range(number):
                self.put(f"/many{n}", 40, n)
            self.flush(True)

        @rule(key=names, length=st.sampled_from([0, 1, 9, 60, 300, 1500]), seed=st.integers(0, 9))
        def put(self, key: str, length: int, seed: int) -> None:
            value = np.random.default_rng(seed).integers(0, 1 << 60, length)
            self.store[key] = value
            self.now[key] = value.tolist()

        @rule(key=names)
        def delete(self, key: str) -> None:
            if key in self.now:
                del self.store[key], self.now[key]

        @rule(old=names, new=names)
        def rename(self, old: str, new: str) -> None:
            if old in self.now and new not in self.now:
                self.store.rename(old, new)
                self.now[new] = self.now.pop(old)

        @rule(key=names, number=st.integers(0, 1000))
        def edit(self, key: str, number: int) -> None:
            if self.now.get(key):
                self.store[key][0] = number
                self.now[key] = [number, *self.now[key][1:]]

        @rule(durable=st.booleans())
        def flush(self, durable: bool) -> None:
            self.store.flush(durable)
            check_layout(self.path)
            assert values_of(self.path) == self.now

        @rule()
        def compact(self) -> None:
            self.store.compact()
            self.flush(True)

        @rule()
        def reopen(self) -> None:
            self.store.close()
            self.store = blosc2.EmbedStore(self.path, chunksize=64)

        @rule(mode=st.sampled_from([None, "r"]))
        def open_reader(self, mode: str | None) -> None:
            self.readers.append((blosc2.EmbedStore(self.path, mode="r", mmap_mode=mode), values_of(self.path)))

        @invariant()
        def readers_keep_their_version(self) -> None:
            for reader, values in getattr(self, "readers", ()):
                assert {key: leaf[:].tolist() for key, leaf in reader.items()} == values

        @invariant()
        def same(self) -> None:
            if hasattr(self, "store"):
                assert {key: leaf[:].tolist() for key, leaf in self.store.items()} == self.now

        def teardown(self) -> None:
            if hasattr(self, "store"):
                self.store.close()
                for reader, _ in self.readers:
                    reader.close()
                assert values_of(self.path) == self.now

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_publishing_without_a_store(tmp_path: Path) -> None:
    """The parts by themselves, as other stores use them."""
    frame = blosc2.asarray(np.arange(5)).to_cframe()
    byte_range = (Source.of_buffer(frame), 0, len(frame))
    file = EmbeddedFile(str(tmp_path / "sub" / "x.b2e"))

    def publish(*changes: Any, **how: Any) -> Embedded:
        entries = file.publish(EmbeddedChanges(*changes, **how))
        found = open_embedded(file.path, None)
        assert found.entries == entries
        assert found.frame.source.identity == file.identity
        return found

    first = publish("b2dict", None, {"/a": byte_range}, metadata={"extra": raw_header(1) + b"\xc0"})
    pending = file.prepare(EmbeddedChanges("b2dict", first, {"/b": byte_range}))
    assert list(open_embedded(file.path, None).entries) == ["/a"]
    pending.abandon()
    assert os.path.getsize(file.path) == first.frame.frame_len
    second = publish("b2dict", first, {"/b": byte_range})
    assert list(open_embedded(file.path, "r").entries) == list(second.entries) == ["/a", "/b"]
    assert second.frame.vlmeta("extra") == b"\xc0"
    # A file of another kind is written anew, and so is what a caller wants to be.
    inode = os.stat(file.path).st_ino
    third = publish("b2tree", second, {})
    assert third.kind == "b2tree"
    assert os.stat(file.path).st_ino != inode
    shutil.rmtree(tmp_path / "sub")
    with pytest.raises(OSError):
        file.publish(EmbeddedChanges("b2tree", third, {"/c": byte_range}))
