"""What is fetched and kept of an object: the right bytes, whatever is read, asked for and let go, by any threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blosc2._core.io.source import RemoteSource, Source
from blosc2._files.remote import pieces, remote_file, servers
from blosc2._files.remote.answers import Answer, Failure, Version, parse_range
from blosc2._options import RemoteOptions, RemotePath
from blosc2.exceptions import RemoteError

DATA = np.random.default_rng(9).integers(0, 256, 300_000, dtype=np.uint8).tobytes()


class Server:
    """An object in memory."""

    def __init__(self) -> None:
        self.fails = 0

    def get(self, start: int, stop: int) -> Answer:
        if self.fails:
            self.fails -= 1
            raise Failure(RemoteError("no"))
        return Answer(start, DATA[start:stop], Version(len(DATA), "x"))

    def get_end(self, count: int) -> Answer:
        start = max(0, len(DATA) - count)
        return self.get(start, len(DATA))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "server_of", lambda path: server)
        patch.setattr(pieces, "PART", 40_000)
        yield server


def opened(memory: int = 1 << 20, suffix: str = ".b2nd") -> remote_file.RemoteFile:
    return remote_file.RemoteFile(RemotePath(f"memory://a{suffix}", None, RemoteOptions(memory=memory)))


def read(file: remote_file.RemoteFile, start: int, stop: int) -> bytes:
    buffer = bytearray(stop - start)
    file.read_into(start, memoryview(buffer))
    return bytes(buffer)


SPANS = st.tuples(st.integers(0, len(DATA)), st.integers(0, 90_000)).map(lambda s: (s[0], min(s[0] + s[1], len(DATA))))


@given(
    st.lists(st.tuples(st.booleans(), SPANS), max_size=30), st.sampled_from([1, 5_000, 100_000, 1 << 20]),
    st.sampled_from([0.0, 1e-4, 1e-3]),
)  # fmt: skip
def test_reads_and_requests(
    server: Server, steps: list[tuple[bool, tuple[int, int]]], memory: int, seconds: float
) -> None:
    file = opened(memory)
    file._pace.note(1, seconds)  # more is fetched where answers take as long
    for asks, (start, stop) in steps:
        if asks:
            file.ask([(start, stop)])
        else:
            assert read(file, start, stop) == DATA[start:stop]
    kept = file._pieces
    with file._lock:
        assert kept._starts == sorted(kept._table)
        ends = [0, *(kept._table[start].stop for start in kept._starts)]
        assert all(end <= start for end, start in zip(ends, kept._starts))


def test_threads(server: Server) -> None:
    file = opened(memory=60_000)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            start = int(rng.integers(0, len(DATA)))
            stop = min(len(DATA), start + int(rng.integers(0, 60_000)))
            if rng.integers(3) == 0:
                file.ask([(start, stop)])
            elif read(file, start, stop) != DATA[start:stop]:
                wrong.append((start, stop))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def paced(latency: float, rate: float) -> pieces.ServerPace:
    """What is known of a server after a short and a long answer."""
    pace = pieces.ServerPace(8 << 20)
    pace.note(1000, latency)
    pace.note(2 << 20, latency + (2 << 20) / rate)
    return pace


@pytest.mark.parametrize(("rate", "spans"), [(1e8, 1), (1e6, 3)])
def test_gaps_that_take_less_time_than_a_request_come_too(server: Server, rate: float, spans: int) -> None:
    pace = paced(0.02, rate)
    pace._times = 0  # no pages around them
    needed = [(30_000, 40_000), (60_000, 70_000), (0, 10_000)]
    assert len(pace.widened(needed) or needed) == spans


def test_an_interrupt_is_for_one_thread(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened()
    plain, interrupted = server.get, []

    def get(start: int, stop: int) -> Answer:
        if not interrupted:
            interrupted.append(start)
            raise KeyboardInterrupt
        return plain(start, stop)

    monkeypatch.setattr(server, "get", get)
    with pytest.raises(KeyboardInterrupt):
        read(file, 100_000, 100_010)
    assert read(file, 100_000, 100_010) == DATA[100_000:100_010]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("asks", [True, False])
def test_an_interrupt_while_pieces_are_handed_over(
    server: Server, monkeypatch: pytest.MonkeyPatch, asks: bool, at: int
) -> None:
    """Starting a thread may be interrupted. What nobody fetches then is asked for again, and waited for by nobody."""
    file, plain, calls = opened(), remote_file.submit, [0]

    def submit(*given: Any) -> bool:
        calls[0] += 1
        if calls[0] == at + 1:
            raise KeyboardInterrupt
        return plain(*given)

    monkeypatch.setattr(remote_file, "submit", submit)
    with pytest.raises(KeyboardInterrupt):
        if asks:
            file.ask([(60_000, 300_000)])
        else:
            read(file, 60_000, 300_000)
    done = threading.Event()
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: (found.append(read(file, 60_000, 300_000)), done.set()), daemon=True)
    thread.start()
    assert done.wait(30)
    assert found == [DATA[60_000:300_000]]


def test_joined_with_other_sources(server: Server) -> None:
    source = RemoteSource(opened(), "memory://a")
    parts = [(source, 1000, 50), (Source.of_buffer(b"between"), 0, 7), (source, 200_000, 60_000), (source, 5, 10)]
    joined = Source.joined(parts)
    expected = DATA[1000:1050] + b"between" + DATA[200_000:260_000] + DATA[5:15]
    assert joined.read(0, joined.size) == expected
    assert joined.read(40, 100) == expected[40:140]
    with pytest.raises(BufferError):
        memoryview(source)
    again = Source.joined([(RemoteSource(opened(), "memory://a"), 270_000, 10)])
    server.fails = 1
    with pytest.raises(RemoteError):
        again.read(0, 10)


def test_a_range() -> None:
    assert parse_range("u", "bytes 3-9/20") == (3, 10, 20)
