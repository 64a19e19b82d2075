"""Names of members as archivers write them: UTF-8 without its flag, code page 437, backslashes, Unicode paths."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import blosc2

DOS, UNIX, NTFS, DARWIN = 0, 3, 10, 19
FRAME = blosc2.asarray(np.arange(7)).to_cframe()


class Name(NamedTuple):
    """How a name is stored."""

    stored: bytes
    host: int = UNIX
    flags: int = 0
    extra: bytes = b""
    local_extra: bytes = b""


def unicode_path(path: str, stored: bytes, *, version: int = 1, beyond: int = 0) -> bytes:
    """The extra field that Info-ZIP writes; `beyond` is how much longer it claims to be than it is."""
    content = struct.pack("<BI", version, zlib.crc32(stored)) + path.encode("utf-8", "surrogateescape")
    return struct.pack("<2H", 0x7075, len(content) + beyond) + content


def written(path: Path, names: list[Name]) -> Path:
    """An archive of a store that another tool made: its members have the same leaf."""
    with blosc2.DictStore(str(path.with_suffix(".b2d")), mode="w"):
        pass
    embed = (path.with_suffix(".b2d") / "embed.b2e").read_bytes()
    shutil.rmtree(path.with_suffix(".b2d"))
    data, directory = b"", b""
    for name in [Name(b"embed.b2e"), *names]:
        content = b"" if name.stored[-1:] in (b"/", b"\\") else embed if name.stored == b"embed.b2e" else FRAME
        common = struct.pack("<5H3I", 20, name.flags, 0, 0, 33, zlib.crc32(content), len(content), len(content))
        directory += b"PK\1\2" + struct.pack("<2B", 20, name.host) + common + struct.pack(
            "<5H2I", len(name.stored), len(name.extra), 0, 0, 0, 0, len(data)) + name.stored + name.extra  # fmt: skip
        data += b"PK\3\4" + common + struct.pack("<2H", len(name.stored), len(name.local_extra))
        data += name.stored + name.local_extra + content
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(names) + 1, len(names) + 1, len(directory), len(data), 0)
    path.write_bytes(data + directory + end)
    return path


def keys_of(path: Path, source: str | None = None) -> list[str]:
    """The keys, by each way of asking for them, after a look at their values."""
    with blosc2.open(str(path), mmap_mode=source) as store:
        keys = sorted(store)
        for key in keys:
            assert key in store
            assert store[key][:].tolist() == list(range(7))
        assert {key for key, _ in store.items()} == {*keys}
        return keys


E_ACUTE = "é".encode()


@pytest.mark.parametrize(
    "extra",
    [
        unicode_path("ü.b2nd", b"other"),
        unicode_path("ü.b2nd", b"e.b2nd", version=2),
        unicode_path("ü.b2nd", b"e.b2nd", beyond=1),
        unicode_path("ü.b2nd", b"e.b2nd", beyond=0xFF00),
        unicode_path("\udcff.b2nd", b"e.b2nd"),
        unicode_path("ü.b2nd/", b"e.b2nd"),
        unicode_path("", b"e.b2nd"),
        unicode_path("ü.b2nd", b"e.b2nd")[:8],
        struct.pack("<2H", 0x7075, 0),
        struct.pack("<2H", 0xFFFF, 0xFFFF) + unicode_path("ü.b2nd", b"e.b2nd"),
        b"\x75\x70",
    ],
)
def test_unicode_paths_that_do_not_count(tmp_path: Path, source: str | None, extra: bytes) -> None:
    path = written(tmp_path / "s.b2z", [Name(b"e.b2nd", extra=extra)])
    assert keys_of(path, source) == ["/e"]


@pytest.mark.parametrize(
    "name",
    [
        Name(b"..\\a.b2nd", DOS),
        Name(b"\\a.b2nd", DOS),
        Name(b"a\\\\b.b2nd", DOS),
        Name(b"a.b2nd", extra=unicode_path("../a.b2nd", b"a.b2nd")),
        Name(b"a.b2nd", extra=unicode_path("/etc/a.b2nd", b"a.b2nd")),
        Name(b"a.b2nd", extra=unicode_path("a\0.b2nd", b"a.b2nd")),
    ],
)
def test_names_that_lead_out(tmp_path: Path, source: str | None, name: Name) -> None:
    path = written(tmp_path / "s.b2z", [name])
    with pytest.raises(blosc2.FormatError, match="member name"):
        blosc2.open(str(path), mmap_mode=source)
    assert not blosc2.check(path).ok


def test_folders_of_dos(tmp_path: Path) -> None:
    path = written(tmp_path / "s.b2z", [Name(b"g\\", DOS), Name(b"g\\a.b2nd", DOS)])
    assert keys_of(path) == ["/g/a"]
    assert blosc2.check(path).ok


FOREIGN = [
    Name(E_ACUTE + b".b2nd"),
    Name(b"g\\\x82.b2nd", DOS),
    Name(b"x.b2nd", extra=unicode_path("ü.b2nd", b"x.b2nd"), local_extra=unicode_path("ü.b2nd", b"x.b2nd")),
    Name(b"plain.b2nd"),
]  # fmt: skip
KEYS = ["/g/é", "/plain", "/é", "/ü"]


@pytest.mark.parametrize("cut", ["nothing", "the end", "the directory"])
def test_salvage_gives_the_same_keys(tmp_path: Path, cut: str) -> None:
    path = written(tmp_path / "s.b2z", FOREIGN)
    data = path.read_bytes()
    end = {"nothing": len(data), "the end": len(data) - 22, "the directory": data.index(b"PK\1\2")}[cut]
    path.write_bytes(data[:end])
    blosc2.salvage(path, tmp_path / "out.b2d")
    found = keys_of(tmp_path / "out.b2d")
    # Without its end no directory is found, and local headers do not say which system a name comes from.
    assert found == (sorted(["/g\\é", "/plain", "/é", "/ü"]) if cut != "nothing" else KEYS)


def test_salvage_of_a_damaged_leaf(tmp_path: Path) -> None:
    """An older member of the same name is found, although its header alone would tell another name."""
    path = written(tmp_path / "s.b2z", [Name(E_ACUTE + b".b2nd", DOS)] * 2)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\1\2") - 40] ^= 1  # in the last leaf
    path.write_bytes(data)
    blosc2.salvage(path, tmp_path / "out.b2d")
    assert keys_of(tmp_path / "out.b2d") == ["/├⌐"]


@pytest.mark.parametrize("language", ["C", "C.UTF-8"])
def test_an_archive_of_zip(tmp_path: Path, source: str | None, language: str) -> None:
    """The command that messages recommend."""
    program = shutil.which("zip")
    if program is None:
        pytest.skip("zip is not installed")
    values: dict[str, Any] = {"/é": np.arange(7), "/日本/ü": np.arange(7), "/plain": np.arange(7)}
    with blosc2.DictStore(str(tmp_path / "s.b2d"), mode="w") as store:
        store.update(values)
    command = [program, "-q", "-0", "-r", str(tmp_path / "s.b2z"), "."]
    subprocess.run(command, cwd=tmp_path / "s.b2d", env={"LC_ALL": language}, check=True)
    assert keys_of(tmp_path / "s.b2z", source) == sorted(values)
    assert blosc2.check(tmp_path / "s.b2z").ok
    with blosc2.DictStore(str(tmp_path / "s.b2z"), mode="a") as store:
        store["/new"] = np.arange(7)
    assert keys_of(tmp_path / "s.b2z", source) == sorted([*values, "/new"])
