"""Ctrl-C ends a read from a server at once, whichever threads wait for its bytes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import remote_kit

import blosc2

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a process cannot send itself SIGINT on Windows")


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """Workers that run tests beside each other ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("together", [False, True])
def test_an_interrupt_waits_for_no_request(server: remote_kit.RangeServer, tmp_path: Path, together: bool) -> None:
    items = np.random.default_rng(0).integers(0, 1 << 30, (48, 48, 48))
    blosc2.asarray(items, urlpath=str(tmp_path / "a.b2nd"), chunks=(16, 16, 16), blocks=(8, 8, 8))
    array = blosc2.open(server.put("a.b2nd", tmp_path / "a.b2nd"))
    answer = threading.Event()

    def spoil(handler: Any, data: bytes, part: slice) -> bool:
        answer.wait()
        return False

    before = blosc2.set_nthreads(4)
    server.spoil = spoil
    interrupt = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    patience = threading.Timer(20, answer.set)
    try:
        interrupt.start()
        patience.start()
        with pytest.raises(KeyboardInterrupt):
            if together:
                array.read_many([np.s_[i : i + 12, 4:40, 4:40] for i in range(0, 36, 3)])
            else:
                array[4:40, 4:40, 4:40]
        assert not answer.is_set()
    finally:
        patience.cancel()
        answer.set()
        blosc2.set_nthreads(before)
    # What was on its way is awaited by the next read, or asked for again.
    np.testing.assert_array_equal(array[4:40, 4:40, 4:40], items[4:40, 4:40, 4:40])
