"""Codecs and filters that ask the C library for the blocks of an array: who shares what they need."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import in_child

import blosc2

ZFP: dict[str, Any] = {
    "codec": blosc2.Codec.ZFP_RATE, "codec_meta": 50, "filters": [], "filters_meta": [],
}  # fmt: skip
NDLZ: dict[str, Any] = {"codec": blosc2.Codec.NDLZ, "codec_meta": 4, "filters": [], "filters_meta": []}


def array_of(cparams: dict[str, Any], **more: Any) -> blosc2.NDArray:
    items = np.linspace(0, 1, 64 * 64).reshape(64, 64)
    if cparams is NDLZ:
        items = (items * 50).astype("u1")
    return blosc2.asarray(items, chunks=(32, 32), blocks=(16, 16), cparams=cparams, **more)


def test_checking_changes_nothing_for_who_reads(source: str | None, tmp_path: Path) -> None:
    """A check needs the geometry that a super-chunk which is no array has not; reads of it find none later, either."""
    path = tmp_path / "a.b2frame"
    path.write_bytes(array_of(ZFP).to_cframe().replace(b"\xa4b2nd", b"\xa4b3nd"))
    for schunk in (blosc2.open(str(path), mmap_mode=source), blosc2.schunk_from_cframe(path.read_bytes())):
        for _ in range(2):
            with pytest.raises(blosc2.FormatError, match="outside an array"):
                schunk[:]
            assert not schunk.check().ok


def test_threads_read_while_others_check() -> None:
    array = array_of(ZFP)
    good = array[...]
    right: list[bool] = []

    def read() -> None:
        right.extend(np.array_equal(array[...], good) for _ in range(100))

    def check() -> None:
        right.extend(array.check().ok for _ in range(50))

    threads = [threading.Thread(target=work) for work in (read, read, check)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(right) == 250
    assert all(right)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_forked_while_threads_decode(source: str | None, tmp_path: Path) -> None:
    """It waits for no lock, and does not go on with a context that a thread is in the middle of."""
    path = str(tmp_path / "a.b2nd")
    array_of(ZFP, urlpath=path)
    array = blosc2.open(path, mmap_mode=source)
    good = array[...]
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            array[...]

    def same() -> None:
        assert all(np.array_equal(array[...], good) for _ in range(3))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            in_child(same)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


# ---------------------------------------------------------------------- rates above 100 percent
def rated(rate: int, **changed: int) -> bytearray:
    """An array of ZFP_RATE whose header, or whose chunks, state another rate."""
    items = np.linspace(0, 1, 64 * 64).reshape(64, 64)
    frame = bytearray(blosc2.asarray(items, chunks=(32, 32), blocks=(16, 16), cparams=ZFP).to_cframe())
    if changed.get("header"):
        frame[78] = rate
    if changed.get("chunks"):
        at = int.from_bytes(frame[11:15], "big")
        while frame[at : at + 2] == b"\x05\x01" and frame[at + 22] == blosc2.Codec.ZFP_RATE.value:
            frame[at + 23] = rate
            at += int.from_bytes(frame[at + 12 : at + 16], "little")
    return frame


def test_a_header_with_too_high_a_rate_is_not_written_with() -> None:
    """The C library has no room for blocks that take more bytes than their items."""
    array = blosc2.ndarray_from_cframe(bytes(rated(238, header=1)), copy=True)
    assert array[3:40, 5].shape == (37,)
    with pytest.raises(blosc2.FormatError, match=r"byte 78: .*percentage"):
        array[3:40, 5] = 1.0


def test_a_chunk_with_too_high_a_rate_is_refused() -> None:
    array = blosc2.ndarray_from_cframe(bytes(rated(238, chunks=1)), copy=True)
    with pytest.raises(blosc2.FormatError, match="above 100 percent"):
        array[...]


def test_a_rate_is_a_percentage() -> None:
    with pytest.raises(ValueError, match="percentage"):
        blosc2.asarray(np.linspace(0, 1, 4096).reshape(64, 64), cparams={**ZFP, "codec_meta": 238})
