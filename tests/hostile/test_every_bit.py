"""Each bit of what a ZIP says of its members, flipped: the content is what it was, or an error of the damage is raised.

No key, no attribute and no group is missing without an error, no value is a wrong one, and `check` finds each bit.
"""

from __future__ import annotations

import contextlib
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends.zip import publishing as directory_records
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2.exceptions import FormatError

RNG = np.random.default_rng(49)
# Two of them differ in one bit, and two in the ending that another bit makes a group of.
LEAVES = {"/k2": np.arange(5), "/k3": np.arange(6) * 2, "/g/k2": RNG.normal(size=40), "/g/.b2.x": np.arange(2),
          "/g/h/k": np.arange(3), "/.b2.x": np.arange(4), "/é": np.arange(7)}  # fmt: skip
GROUPS = ["/", "/g", "/g/h"]


def tree(path: Path) -> None:
    with blosc2.TreeStore(str(path), mode="w") as store:
        for key, value in LEAVES.items():
            store[key] = value
        store.vlmeta["of"] = "all"
        store["/g"].vlmeta["unit"] = "mm"


def cataloged(path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(directory_records, "CATALOG_LEAST", 1)
        tree(path)


def embedding(path: Path) -> None:
    with blosc2.TreeStore(str(path), mode="w", threshold=200) as store:
        for key, value in LEAVES.items():
            store[key] = value
        store["/g"].vlmeta["unit"] = "mm"


def foreign(path: Path) -> None:
    """Of another program: a folder, members that are no leaves, a frame under another suffix."""
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("g/", "")
        z.writestr("README", "what this is")
        for key, value in LEAVES.items():
            z.writestr(f"{key[1:]}.b2nd", blosc2.asarray(value).to_cframe())
        z.writestr("g/odd.bin", blosc2.asarray(np.arange(9)).to_cframe())
        z.writestr("embed.b2e", blosc2.EmbedStore().to_cframe())


def descriptors(path: Path) -> None:
    """Sizes and checksums that follow the data."""
    with path.open("wb") as file, zipfile.ZipFile(Unseekable(file), "w") as z:  # type: ignore[call-overload]
        for key, value in LEAVES.items():
            z.writestr(f"{key[1:]}.b2nd", blosc2.asarray(value).to_cframe())
        z.writestr("embed.b2e", blosc2.EmbedStore().to_cframe())


class Unseekable:
    def __init__(self, file: Any) -> None:
        self.write, self.flush = file.write, file.flush


MADE: dict[str, Callable[[Path], None]] = {
    "tree": tree, "cataloged": cataloged, "embedding": embedding, "foreign": foreign, "descriptors": descriptors,
}  # fmt: skip
OWN = ["tree", "cataloged", "embedding"]
WAYS = [(source, verify) for source in (None, "r") for verify in (None, True)]
#: What `check` cannot tell where another program made the archive, and there is no checksum of the file: in a record of
#: the directory who made it, and what attributes the file had.
SAYS_NOTHING = {4, 5, *range(36, 42)}


@contextlib.contextmanager
def flipped(path: Path, data: bytes, bit: int) -> Iterator[None]:
    """A file with another bit."""
    with path.open("r+b") as file:
        file.seek(bit >> 3)
        file.write(bytes([data[bit >> 3] ^ 1 << (bit & 7)]))
        file.flush()
        yield
        file.seek(bit >> 3)
        file.write(data[bit >> 3 : (bit >> 3) + 1])


def content(store: Any, key: str) -> Any:
    """A leaf's value, that it is a group, or the attributes of one."""
    if key.endswith("*"):
        return dict((store if key == "/*" else store[key[:-1]]).vlmeta)
    leaf = store[key]
    return "a group" if isinstance(leaf, blosc2.TreeStore) else leaf[...]


def state(path: Path, source: str | None, verify: bool | None, wanted: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The keys that are listed, and what these and other keys have."""
    with blosc2.TreeStore(str(path), mode="r", mmap_mode=source, verify=verify) as store:
        try:
            listed = list(store)
        except FormatError:
            listed = list(wanted)
        found = {}
        for key in dict.fromkeys([*wanted, *listed]):
            try:
                # With one source it is asked first whether the key is there, with the other last.
                if source and key in LEAVES and key not in store:
                    found[key] = "said not to be there"
                    continue
                found[key] = content(store, key)
                if key in LEAVES and key not in store:
                    found[key] = "said not to be there"
            except (FormatError, KeyError) as error:
                found[key] = error
    return listed, found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and one == other


def problem(found: tuple[list[str], dict[str, Any]], listed: list[str], good: dict[str, Any]) -> str:
    """What is missing or wrong without an error of the damage; empty where nothing is."""
    now, values = found
    for key, value in values.items():
        # A group of a wrong name has nothing but what is told of.
        if key not in good and isinstance(value, str):
            continue
        if not isinstance(value, FormatError) and not (key in good and same(value, good[key])):
            return f"{key}: {value!r}"
    # What is listed no more is known to be there: it was read, or an error tells of it. Nothing is listed twice.
    if len(set(now)) < len(now):
        return f"listed twice: {now}"
    hidden = [key for key in listed if key not in now and not isinstance(values[key], FormatError)]
    return f"not listed: {hidden}" if hidden else ""


def places(data: bytes) -> dict[str, list[int]]:
    """The bytes of the directory with the end, and of all local headers."""
    archive = Archive(Source.of_buffer(data), False)
    local = []
    for number in range(len(archive)):
        start = archive.extent_at(archive.record_offset(number))[0]
        lengths = struct.unpack_from("<2H", data, start + 26)
        local += range(start, start + 30 + sum(lengths))
    return {"directory": list(range(archive.directory_offset, len(data))), "local": sorted(local)}


def bits_of(at: list[int], part: int, parts: int) -> list[int]:
    bits = [8 * byte + bit for byte in at for bit in range(8)]
    random.Random(49).shuffle(bits)
    return bits[part::parts]


def play(kind: str, where: str, part: int, parts: int, path: Path) -> None:
    MADE[kind](path)
    data = path.read_bytes()
    groups = GROUPS if kind == "tree" else []
    wanted = [*LEAVES, *(f"{group}*" for group in groups)]
    if kind == "foreign":
        wanted.append("/g/odd")
    listed, good = state(path, None, None, wanted)
    wanted = list(good)
    for key, value in LEAVES.items():
        assert same(good[key], value), key
    wrong = []
    # Each bit in one way. Each field is there in eight records at least, and met in every way.
    drawn = random.Random(f"{kind} {where} {part}")
    for bit in bits_of(places(data)[where], part, parts):
        source, verify = drawn.choice(WAYS)
        with flipped(path, data, bit):
            with contextlib.suppress(FormatError):
                said = problem(state(path, source, verify, wanted), listed, good)
                if said:
                    around = data[(bit >> 3) - 8 : (bit >> 3) + 8]
                    wrong.append(f"bit {bit} ({around!r}), {source}, {verify}: {said}")
            place = (bit >> 3) - data.rfind(b"PK\1\2", 0, (bit >> 3) + 4)
            if blosc2.check(path).ok and (kind in OWN or where == "local" or place not in SAYS_NOTHING):
                wrong.append(f"bit {bit}, of byte {place} of a record: not found")
    assert not wrong, f"{len(wrong)}: " + "\n".join(wrong[:100])


PARTS = 16


@pytest.mark.filterwarnings("ignore:.*(is not shown|is the leaf|more than one member|suffix)")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("where", ["directory", "local"])
@pytest.mark.parametrize("kind", MADE)
def test_every_bit(kind: str, where: str, part: int, tmp_path: Path) -> None:
    play(kind, where, part, PARTS, tmp_path / "x.b2z")


@pytest.mark.filterwarnings("ignore:.*(is not shown|is the leaf|more than one member|suffix)")
@pytest.mark.local
@pytest.mark.parametrize("seed", range(8))
def test_a_directory_that_its_catalog_covers_only_at_the_ends(seed: int, tmp_path: Path, source: str | None) -> None:
    """Bits of the middle: of names whose neighbours in the order are near or far, and of all else in their records."""
    path = tmp_path / "x.b2z"
    values = {f"/g{n % 7}/leaf{n}": np.arange(n % 5 + 1) + n for n in range(400)}
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many(values)
        store["/g3"].vlmeta["unit"] = "mm"
    data = path.read_bytes()
    archive = Archive(Source.of_buffer(data))
    assert archive.catalog is not None
    records = range(archive.directory_offset, archive.directory_offset + archive.directory_size)
    names = [at for at in records if data[at - 4 : at] in (b"/lea", b"leaf", b".b2n", b"vlme", b".b2f")]
    rng = random.Random(seed)
    wanted = [*values, "/g3*"]
    listed, good = state(path, source, None, wanted)
    for bit in [8 * rng.choice(some) + rng.randrange(8) for some in (names, records) for _ in range(6)]:
        with flipped(path, data, bit), contextlib.suppress(FormatError):
            said = problem(state(path, source, None, list(good)), listed, good)
            assert not said, f"bit {bit}, {data[(bit >> 3) - 8 : (bit >> 3) + 8]!r}: {said}"


def test_many_members_of_others(tmp_path: Path, source: str | None) -> None:
    """They are looked at once, and the store opens."""
    path = tmp_path / "x.b2z"
    with zipfile.ZipFile(path, "w") as z:
        for number in range(2000):
            z.writestr(f"notes/{number}.txt", "abc")
        z.writestr("packed.b2nd", "abc" * 50, zipfile.ZIP_DEFLATED)
        z.writestr("a.b2nd", blosc2.asarray(np.arange(5)).to_cframe())
        z.writestr("embed.b2e", blosc2.EmbedStore().to_cframe())
    with pytest.warns(UserWarning, match="is not shown"), blosc2.open(str(path), mmap_mode=source) as store:
        assert list(store) == ["/a"]
