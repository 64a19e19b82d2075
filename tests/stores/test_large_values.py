"""Values that count as large: where their bytes come from, what becomes of them when files change, and who refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming import everything_large

import blosc2
from blosc2._core.io.source import Source
from blosc2._files import copies as byte_copies
from blosc2._files.copies import TemporaryFile
from blosc2.exceptions import FormatError, StoreLockedError

ITEMS = np.random.default_rng(1).integers(0, 1 << 62, (40, 500))
STORES = (".b2z", ".b2d", ".b2e")


@pytest.fixture(autouse=True)
def large() -> Iterator[None]:
    with everything_large():
        yield


def store_at(path: Path, mode: str) -> Any:
    return (blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore)(str(path), mode=mode)


def array_at(path: Path, *, summed: bool = True) -> Any:
    """An array in a file, with checksums or as another program would have written it."""
    array = blosc2.asarray(ITEMS, chunks=(4, 500), urlpath=path)
    if not summed:
        path.write_bytes(array.to_cframe())
    return blosc2.open(str(path))


# ------------------------------------------------------------------ joined sources
PART = st.tuples(st.integers(0, 2), st.integers(0, 90), st.integers(0, 30))


@given(st.lists(PART, max_size=12), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=12))
def test_joined_bytes_are_those_of_the_parts(parts: list[tuple[int, int, int]], reads: list[tuple[int, int]]) -> None:
    data = np.random.default_rng(0).bytes(120)
    descriptor = os.memfd_create("bytes") if hasattr(os, "memfd_create") else -1
    if descriptor < 0:
        sources = [Source.of_buffer(data)] * 3
    else:
        os.write(descriptor, data)
        sources = [Source.of_buffer(data), Source.of_descriptor(descriptor), Source.of_buffer(memoryview(data)[:120])]
    expected = b"".join(data[offset : offset + length] for _, offset, length in parts)
    joined = Source.joined((sources[number], offset, length) for number, offset, length in parts)
    twice = Source.joined(((joined, 0, joined.size), (joined, 0, joined.size)))
    assert joined.size == len(expected)
    for start, length in reads:
        if start + length <= len(expected):
            assert joined.read(start, length) == expected[start : start + length]
            assert b"".join(s.read(a, n) for s, a, n in joined.byte_ranges(start, length)) == joined.read(start, length)
        else:
            with pytest.raises(FormatError):
                joined.read(start, length)
    assert twice.read(0, twice.size) == 2 * expected


def test_parts_that_reach_too_far_are_refused() -> None:
    with pytest.raises(FormatError):
        Source.joined([(Source.of_buffer(b"abc"), 1, 3)])


# ------------------------------------------------------------------ copies by the system
@pytest.mark.parametrize("code", [errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
@pytest.mark.parametrize("after", [0, 2])
def test_what_the_system_cannot_copy_is_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    calls = 0
    real = getattr(os, "copy_file_range", None)

    def refuse(*args: Any) -> int:
        nonlocal calls
        calls += 1
        if calls > after or real is None:
            raise OSError(code, os.strerror(code))
        return int(real(*args))

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    array = array_at(tmp_path / "a.b2nd")
    array.copy(urlpath=tmp_path / "b.b2nd")
    assert calls > after
    assert (tmp_path / "b.b2nd").read_bytes() == (tmp_path / "a.b2nd").read_bytes()


def test_an_error_of_the_disk_is_none_of_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = array_at(tmp_path / "a.b2nd")

    def full(*args: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full, raising=False)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        array.copy(urlpath=tmp_path / "b.b2nd")
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd"]


def test_a_file_that_was_cut_is_told(tmp_path: Path) -> None:
    array = array_at(tmp_path / "a.b2nd")
    os.truncate(tmp_path / "a.b2nd", 20_000)
    with pytest.raises(FormatError):
        array.copy(urlpath=tmp_path / "b.b2nd")
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd"]


# ------------------------------------------------------------------ files that change meanwhile
@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("suffix", STORES)
def test_a_value_that_changes_while_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, summed: bool
) -> None:
    path = tmp_path / f"store{suffix}"
    with store_at(path, "w") as store:
        store["/kept"] = ITEMS[:3]
    array = array_at(tmp_path / "a.b2nd", summed=summed)
    real = byte_copies.pieces_of

    def pieces(byte_range: Any) -> Iterator[Any]:
        for number, piece in enumerate(real(byte_range)):
            yield piece
            if number == 1:
                with open(tmp_path / "a.b2nd", "rb+") as file:
                    file.seek(100_000)
                    file.write(b"changed by somebody else")

    monkeypatch.setattr(byte_copies, "pieces_of", pieces)
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    if suffix == ".b2d" and summed:
        # It is copied with its checksums, which tell of it, as the file that it has later.
        monkeypatch.setattr("blosc2._backends.directory.placing._OWN_FILE", 0)
        with store_at(path, "a") as store:
            store["/a"] = array
        assert not blosc2.check(path).ok
        return
    with store_at(path, "a") as store:
        with pytest.raises(FormatError, match=r"those that were written|copy it again"):
            store["/a"] = array
            store.flush()
        store.discard()
    monkeypatch.undo()
    with store_at(path, "r") as store:
        assert list(store) == ["/kept"]
        assert np.array_equal(store["/kept"][:], ITEMS[:3])
    assert blosc2.check(path).ok


@pytest.mark.parametrize("suffix", STORES)
def test_a_value_is_what_it_was_when_it_was_assigned(tmp_path: Path, suffix: str) -> None:
    array_at(tmp_path / "a.b2nd")
    array = blosc2.open(str(tmp_path / "a.b2nd"), mode="a")
    with store_at(tmp_path / f"store{suffix}", "w") as store:
        store["/a"] = array
        array[:] = 0
        array.attrs["later"] = 1
    with store_at(tmp_path / f"store{suffix}", "r") as store:
        assert np.array_equal(store["/a"][:], ITEMS)
        assert not store["/a"].attrs


# ------------------------------------------------------------------ leaves that are edited
@pytest.mark.parametrize("suffix", STORES)
def test_edits_of_a_leaf(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"store{suffix}"
    with store_at(path, "w") as store:
        store["/a"] = array_at(tmp_path / "a.b2nd")
    expected = ITEMS.copy()
    rng = np.random.default_rng(2)
    with store_at(path, "a") as store:
        leaf = store["/a"]
        for number in range(30):
            row = int(rng.integers(0, len(expected)))
            leaf[row] = expected[row] = number
            if number % 7 == 3:
                store.flush()
            if number % 11 == 5:
                rows = len(expected) + int(rng.integers(-9, 10))
                leaf.resize((rows, 500))
                kept = expected[:rows]
                expected = np.zeros((rows, 500), ITEMS.dtype)
                expected[: len(kept)] = kept
            assert np.array_equal(leaf[:], expected)
        leaf.attrs["n"] = 30
    with store_at(path, "r") as store:
        assert np.array_equal(store["/a"][:], expected)
        assert store["/a"].attrs["n"] == 30
    assert blosc2.check(path).ok


@pytest.mark.parametrize("suffix", STORES)
def test_damage_gets_no_new_checksum(tmp_path: Path, suffix: str) -> None:
    """A chunk that is damaged stays so for `check`, whatever is edited beside it."""
    path = tmp_path / f"store{suffix}"
    with store_at(path, "w") as store:
        store["/a"] = array_at(tmp_path / "a.b2nd")
    file = path / "a.b2nd" if suffix == ".b2d" else path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    assert not blosc2.check(path).ok
    try:
        with store_at(path, "a") as store:
            store["/a"][0] = 1
    except FormatError:
        pass
    assert not blosc2.check(path).ok or suffix == ".b2z"


# ------------------------------------------------------------------ what waits
@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork does not exist on every platform")
def test_a_child_does_not_write_where_its_parent_waits(tmp_path: Path) -> None:
    waiting = TemporaryFile(str(tmp_path / "a"))
    before = waiting.add(b"of the parent")
    pid = os.fork()
    if pid == 0:
        try:
            waiting.add(b"of the child")
        except StoreLockedError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    after = waiting.add(b"!")
    assert before[0].read(*before[1:]) == b"of the parent"
    assert after[0].read(*after[1:]) == b"!"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", STORES)
def test_a_store_can_be_compacted_after_a_large_transaction_failed(tmp_path: Path, suffix: str) -> None:
    with store_at(tmp_path / f"store{suffix}", "w") as store:
        store["/kept"] = ITEMS
        store.flush()
        with pytest.raises(ZeroDivisionError), store.transaction():
            store["/gone"] = ITEMS
            raise ZeroDivisionError
        store.compact()
        store["/more"] = ITEMS[:5]
    with store_at(tmp_path / f"store{suffix}", "r") as store:
        assert sorted(store) == ["/kept", "/more"]
        assert np.array_equal(store["/more"][:], ITEMS[:5])
