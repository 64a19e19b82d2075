"""A version of a `.b2z` that was published is never passed over, nor cut off, because a bit of it is wrong."""

from __future__ import annotations

import contextlib
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import before_sync

import blosc2
from blosc2._backends.zip import unfinished_append as archive_tail
from blosc2._backends.zip.unfinished_append import END_WITH_CHECKSUM, lost_end
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2.exceptions import FormatError

# A bit of a record may say that its member is compressed.
pytestmark = pytest.mark.filterwarnings("ignore:.*another tool has compressed its member:UserWarning")


@pytest.fixture(autouse=True, params=[False, True], ids=["usual", "small"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a file is gone through in pieces."""
    if request.param:
        monkeypatch.setattr(archive_tail, "_PIECE", 1 << 10)
        monkeypatch.setattr(archive_tail, "_AT_ONCE", 3)


def two_versions(path: Path, *, with_checksum: bool = True, leaves: int = 2) -> bytes:
    """The bytes of a store that was changed once; they begin with the older version."""
    with blosc2.DictStore(path, "w") as store:
        store["/old"] = np.arange(3)
    if not with_checksum:
        with zipfile.ZipFile(path) as z:
            members = {name: z.read(name) for name in z.namelist()}
        with zipfile.ZipFile(path, "w") as z:
            for name, data in members.items():
                z.writestr(name, data)
    old = path.read_bytes()
    with blosc2.DictStore(path, "a") as store:
        for n in range(leaves):
            store[f"/new/{n}"] = np.arange(n)
    new = before_sync(path.read_bytes())
    path.write_bytes(new)
    assert new.startswith(old)
    assert (Archive(Source.of_buffer(new)).file_checksum is not None) == with_checksum
    return new


def first_byte_of_the_end(data: bytes) -> int:
    """Where the directory of an archive begins."""
    return int(Archive(Source.of_buffer(data)).directory_offset)


@contextlib.contextmanager
def damaged(path: Path, data: bytes, bit: int) -> Iterator[None]:
    """A file in which one bit is another one; where nothing was written to it since."""
    with path.open("r+b") as file:
        file.seek(bit >> 3)
        file.write(bytes([data[bit >> 3] ^ 1 << (bit & 7)]))
    yield
    with path.open("r+b") as file:
        file.seek(bit >> 3)
        file.write(data[bit >> 3 : (bit >> 3) + 1])
    assert path.read_bytes() == data


@pytest.mark.parametrize("with_checksum", [True, False])
def test_a_flipped_bit_of_the_directory_or_the_end(tmp_path: Path, with_checksum: bool, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    data = two_versions(path, with_checksum=with_checksum)
    refused = 0
    for bit in range(8 * first_byte_of_the_end(data), 8 * len(data)):
        with damaged(path, data, bit):
            try:
                with blosc2.open(path, mmap_mode=source) as store:
                    shown = "/new/1" in store or "/new/0" in store
            except FormatError as error:
                refused += 1
                assert str(path) in str(error)  # noqa: PT017 - not every bit is one that matters
                with contextlib.suppress(FormatError):  # of the key; nothing is cut off, as `damaged` sees
                    blosc2.DictStore(path, "a").close()
                continue
            assert shown, f"bit {bit} of {len(data)} bytes: the older version shows"
    assert refused > 400


@pytest.mark.parametrize("verify", [False, True])
def test_what_the_refusal_says(tmp_path: Path, verify: bool, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    data = two_versions(path)
    at = data.rindex(b"PK\1\2")
    with damaged(path, data, 8 * at):
        with pytest.raises(FormatError, match=r"newest version.*blosc2\.check.*blosc2\.salvage") as raised:
            blosc2.open(path, mmap_mode=source, verify=verify)
        assert raised.value.offset == len(data) - END_WITH_CHECKSUM
        assert any("newest version is damaged" in one.problem for one in blosc2.check(path))
        found = blosc2.salvage(path, tmp_path / "saved.b2z")
        assert len(found.recovered) == 3
    with blosc2.open(tmp_path / "saved.b2z") as store:
        assert sorted(store) == ["/new/0", "/new/1", "/old"]


def test_a_catalog_and_a_long_directory(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    data = two_versions(path, leaves=300)
    directory = first_byte_of_the_end(data)
    # Each bit of the end, some of the directory, and of the catalog before it.
    bits = [
        *range(8 * (directory - 300), 8 * (len(data) - END_WITH_CHECKSUM), 1009),
        *range(8 * (len(data) - END_WITH_CHECKSUM), 8 * len(data)),
    ]
    for bit in bits:
        with damaged(path, data, bit), contextlib.suppress(FormatError), blosc2.open(path, mmap_mode=source) as store:
            assert len(store) >= 299  # it may be the name of one, or what makes it a leaf


def test_what_is_left_of_a_damaged_end_behind_which_an_append_was_begun(tmp_path: Path) -> None:
    """The damaged record is not at the end of the file then."""
    path = tmp_path / "x.b2z"
    data = two_versions(path)
    end = len(data) - END_WITH_CHECKSUM
    for bit in range(8 * end, 8 * (len(data) - 8)):
        changed = bytearray(data + b"PK\3\4 and something more, perhaps in the end also PK\5\6" * 5)
        changed[bit >> 3] ^= 1 << (bit & 7)
        archive = Archive(Source.of_buffer(bytes(changed)))
        if archive.end < len(data):  # that of the older version; or of this one, which lost its file checksum
            assert lost_end(archive.source, archive) == end
        else:
            assert lost_end(archive.source, archive) is None


@pytest.mark.parametrize("with_checksum", [True, False])
def test_each_beginning_of_an_append_is_no_version(tmp_path: Path, with_checksum: bool, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    data = two_versions(path, with_checksum=with_checksum)
    old = Archive(Source.of_buffer(data[: first_byte_of_the_end(data)])).end
    for stop in range(old, len(data), 3):
        path.write_bytes(data[:stop])
        with blosc2.open(path, mmap_mode=source) as store:
            assert list(store) == ["/old"]
        if stop % 8 == 0 or stop > len(data) - 25:
            with blosc2.DictStore(path, "a") as store:
                store["/other"] = [1]
            with blosc2.open(path, mmap_mode=source) as store:
                assert sorted(store) == ["/old", "/other"]


def test_a_store_among_the_values_is_no_version(tmp_path: Path, source: str | None) -> None:
    """Its end record says where it was in a file of its own."""
    inner = two_versions(tmp_path / "inner.b2z")
    path = tmp_path / "x.b2z"
    for with_checksum in (True, False):
        old = len(two_versions(path, with_checksum=with_checksum, leaves=0))
        data = path.read_bytes()
        for gap in (0, 4096 - old, 1000):
            for one in (inner, inner[:-34] + b"\0\0"):
                path.write_bytes(data[:old] + bytes(gap) + one)
                with blosc2.open(path, mmap_mode=source) as store:
                    assert list(store) == ["/old"]


def test_damage_of_a_large_archive(tmp_path: Path) -> None:
    """One whose numbers are in the two records before the end record."""
    path = tmp_path / "x.zip"
    with path.open("x+b") as file:
        writer = ArchiveWriter(file.fileno(), align=1)
        writer.append(b"old", b"")
        writer.write_directory()
        writer.write_end()
        old = writer.position
        writer = ArchiveWriter(file.fileno(), old, align=1)
        for n in range(0x10000):
            writer.append(b"%d" % n, b"")
        writer.write_directory()
        writer.write_end()
    data = bytearray(path.read_bytes())
    end = len(data) - 22
    for bit in range(8 * (end - 76), 8 * len(data), 3):
        data[bit >> 3] ^= 1 << (bit & 7)
        archive = Archive(Source.of_buffer(data))
        if archive.end == old:
            assert lost_end(archive.source, archive) == end, bit - 8 * end
        else:
            assert archive.count == 0x10000
        del archive
        data[bit >> 3] ^= 1 << (bit & 7)


def test_a_false_end_is_no_damage(tmp_path: Path) -> None:
    """What programs write that were never told of this package, and the remains that others were seen to leave."""
    path = tmp_path / "x.b2z"
    data = two_versions(path, leaves=0)
    record: list[Any] = [b"PK\5\6", 0, 0, 1, 1, 50, 77, 0]
    for tail in (b"PK\5\6", b"PK\5\6" + bytes(18), struct.pack("<4sHHHHIIH", *record), b"PK\5\6" * 1000):
        archive = Archive(Source.of_buffer(data + tail))
        assert archive.end == len(data)
        assert lost_end(archive.source, archive) is None


@pytest.mark.parametrize(
    "mark", [b"PK\5\6", b"PK\5\6PK\6\6", b"PK\5\6PK\6\7" + bytes(8), b"blosc2 0123456789abcdef ", b"PK\5\6" + bytes(50)]
)
def test_a_tail_full_of_marks_is_gone_through_in_proportion(tmp_path: Path, mark: bytes, source: str | None) -> None:
    """Marks, each of which a record may begin with: they are looked at together, and the store opens."""
    path = tmp_path / "x.b2z"
    data = two_versions(path, leaves=1)
    count = 20_000
    path.write_bytes(data + mark * count)
    looked_at = 0
    real = archive_tail._was_plain

    def counted(*args: Any) -> bool:
        nonlocal looked_at
        looked_at += 1
        return real(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(archive_tail, "_was_plain", counted)
        with blosc2.open(path, mmap_mode=source) as store:
            assert list(store) == ["/new/0", "/old"]
    assert looked_at < 100
