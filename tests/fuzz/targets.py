"""What guided fuzzing plays. A target makes a case of any bytes, so that what is found is a case like all others."""

from __future__ import annotations

import io
import random
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgpack

from . import generate, layout, mutate, repair, samples
from .cases import Case
from .samples import Sample

#: One archive for each target: many small files would be more than what is in them.
GUIDED = samples.CORPUS / "guided"
_FRAMES = (".b2nd", ".b2frame", ".b2f", ".b2b")
# Inputs beyond this only take time.
LONGEST = 8192


class Target(NamedTuple):
    """How bytes become a case, what bytes to begin with, and how they are changed."""

    case: Callable[[bytes], Case]
    seeds: Callable[[], Iterator[bytes]]
    mutate: Callable[[bytearray, random.Random], None]


def _case(name: str, suffix: str, content: bytes, data: bytes, *, play: str = "read", sound: bytes = b"") -> Case:
    """Which keys are read is drawn by the bytes, in one of a few ways: coverage then tells of the bytes."""
    return Case(
        Sample(f"{samples.DAMAGED} {name}", suffix, {"": content}, sound), play, zlib.crc32(data) % 8, f"guided: {name}"
    )


# ------------------------------------------------------------------ whole files
def _frame_case(data: bytes) -> Case:
    play = ("read", "read", "read", "read", "read", "cframe", "check", "salvage")[zlib.crc32(data) >> 16 & 7]
    return _case("frame", ".b2nd", data, data, play=play)


def _archive_case(data: bytes) -> Case:
    play = ("read", "read", "read", "read", "read", "read", "check", "salvage")[zlib.crc32(data) >> 16 & 7]
    return _case("archive", ".b2z", data, data, play=play)


def _files(suffixes: tuple[str, ...]) -> Iterator[bytes]:
    for sample in samples.all_samples():
        if sample.suffix in suffixes and "" in sample.files and sample.size <= LONGEST:
            yield sample.files[""]


def _damage_file(data: bytearray, rng: random.Random) -> None:
    """One or two damages that know the fields, then right checksums as a rule."""
    other = Sample("", "", {"": generate.array_frame(rng)})
    for _ in range(rng.choice([1, 1, 2])):
        mutate.damage(data, rng, [other])
    if b"PK\5\6" in data and rng.random() < 0.3:
        repair.repair_directory(data)
    if rng.random() < 0.8:
        repair.repair(data)


# ------------------------------------------------------------------ catalogs
def base() -> bytes:
    """The archive whose catalog is replaced. It is a file, so that what was found stays what it was."""
    return (GUIDED / "base.b2z").read_bytes()


def _catalog_of(archive: bytes) -> tuple[int, int]:
    footer = archive.rfind(layout.CATALOG_MAGIC)
    return footer + 256 - layout.u(archive, footer + 40, 8), footer + 256


def _catalog_case(data: bytes) -> Case:
    """A catalog with right checksums, in front of the directory that it is about: it may hide keys, no more."""
    sound = base()
    start, stop = _catalog_of(sound)
    archive = bytearray(sound)
    archive[start:stop] = data[: stop - start].ljust(stop - start, b"\0")
    repair.repair_catalogs(archive)
    archive[:start] = sound[:start]  # forged sizes let checksums lie elsewhere
    archive[stop:] = sound[stop:]
    return _case("catalog", ".b2z", bytes(archive), data, play="hidden", sound=sound)


def _catalog_seeds() -> Iterator[bytes]:
    sound = base()
    start, stop = _catalog_of(sound)
    yield sound[start:stop]


def _damage_catalog(data: bytearray, rng: random.Random) -> None:
    """Fields of the catalog, by a whole archive: the layout looks for them by the footer."""
    start, stop = _catalog_of(base())
    size = stop - start
    part = data[:size].ljust(size, b"\0")
    for _ in range(rng.choice([1, 1, 2, 3])):
        before = bytes(part)
        mutate.damage(part, rng, [Sample("", "", {"": before})])
        if len(part) != size:
            part[:] = (part + before[len(part) :])[:size]
    data[:] = part


# ------------------------------------------------------------------ maps of embedded values
def _values() -> list[bytes]:
    rng = random.Random(7)
    return [generate.array_frame(rng), generate.schunk_frame(rng), generate.embedded(rng, [generate.array_frame(rng)])]


def _embedded_frame(table: bytes, registry: bytes | None = None) -> bytes:
    body = b"".join(_VALUES)
    size = 4096
    count = -(-len(body) // size)
    body = body.ljust(count * size, b"\0")
    chunks: list[bytes | int] = [
        generate.header(5, 0x17, 1, size, size, size + 32) + body[i * size : (i + 1) * size] for i in range(count)
    ]
    entries = [(b"estore_metadata", _stored(table))]
    if registry is not None:
        entries.append((b"_object_registry", _stored(registry)))
    tag = [(b"b2embed", bytes(msgpack.packb({"version": 1})))]
    return generate.frame(tag, chunks, entries, nbytes=len(body), chunksize=size, typesize=1)


def _stored(content: bytes) -> bytes:
    """A chunk with the bytes as they are."""
    return generate.header(5, 0x17, 1, len(content), max(len(content), 1), 32 + len(content)) + content


def _embedded_case(data: bytes) -> Case:
    """A map; behind the separator, if there is one, the registry of objects."""
    table, found, registry = data.partition(_BREAK)
    return _case("embedded", ".b2e", _embedded_frame(table, registry if found else None), data)


def _embedded_seeds() -> Iterator[bytes]:
    entries, at = {}, 0
    for key, value in zip(["/a", "/g/b", "/g/c/d"], _VALUES, strict=True):
        entries[key] = {"offset": at, "length": len(value)}
        at += len(value)
    whole = msgpack.packb({"embed_map": entries, "current_offset": at})
    yield whole
    yield whole + _BREAK + msgpack.packb({"/a": {"kind": "ctable", "version": 1, "layout": 1}})
    yield msgpack.packb({"embed_map": {}, "current_offset": 0})
    yield msgpack.packb({"embed_map": {"/x": {"urlbase": "http://h/", "path": "y"}}, "current_offset": at})
    rng = random.Random(3)
    for _ in range(20):
        yield generate.packed(rng)


# ------------------------------------------------------------------ metadata
def _metadata_case(data: bytes) -> Case:
    """msgpack in one of the places that take it, which the first byte chooses."""
    place, content = data[:1], data[1:]
    rng = random.Random(11)
    kind = (place or b"\0")[0] % 8
    chunks: list[bytes | int] = [generate.chunk(rng, 96, 4, 48)]
    if kind == 0:
        frame = generate.frame([], chunks, [(b"a", _stored(content))], nbytes=96, chunksize=96, typesize=4)
    elif kind == 1:
        frame = generate.frame([(b"m", content)], chunks, [], nbytes=96, chunksize=96, typesize=4)
    elif kind == 2:
        frame = generate.frame([(b"b2nd", content)], chunks, [], nbytes=96, chunksize=96, typesize=4, blocksize=48)
    elif kind == 3:
        tag = [(b"vlarray", bytes(msgpack.packb({"version": 1, "serializer": "msgpack"})))]
        one = _stored(content)
        frame = generate.frame(tag, [one], [], nbytes=len(content), chunksize=len(content), typesize=1)
    elif kind == 4:
        about = {"version": 1, "serializer": "msgpack", "items_per_block": 2, "arrow_schema": None}
        tag = [(b"batcharray", bytes(msgpack.packb(about)))]
        entries = [(b"_batch_array_metadata", _stored(content))]
        frame = generate.frame(tag, chunks, entries, nbytes=96, chunksize=96, typesize=1)
    elif kind == 5:
        frame = generate.frame(
            [], chunks, [(b"__pack_tensor__", _stored(content))], nbytes=96, chunksize=96, typesize=4
        )
        return _case("metadata", ".b2nd", frame, data, play="cframe")
    elif kind == 6:
        frame = generate.frame([(b"vlarray", content)], [_stored(b"\x91\1")], [], nbytes=2, chunksize=2, typesize=1)
    else:
        frame = generate.frame([(b"batcharray", content)], chunks, [], nbytes=96, chunksize=96, typesize=1)
    return _case("metadata", ".b2nd", frame, data)


def _metadata_seeds() -> Iterator[bytes]:
    rng = random.Random(5)
    yield b"\2" + generate.b2nd([6, 4], [6, 4], [3, 4], b"<i4")
    yield b"\2" + generate.b2nd([24], [24], [12], b"[('a', '<i2'), ('b', '<i2')]")
    yield b"\6" + msgpack.packb({"version": 1, "serializer": "msgpack"})
    yield b"\7" + msgpack.packb({"version": 1, "serializer": "msgpack", "items_per_block": 2, "arrow_schema": None})
    for kind in range(8):
        for _ in range(12):
            yield bytes([kind]) + generate.packed(rng)


def _damage_packed(data: bytearray, rng: random.Random) -> None:
    """A value put over or between others, or a byte that says what follows."""
    at = rng.randrange(len(data) + 1)
    kind = rng.random()
    if kind < 0.3:
        data[at : at + rng.choice([0, 1, 2, 5, 9])] = generate.packed(rng)
    elif kind < 0.4:
        data[1:] = generate.packed(rng)
    elif kind < 0.7 and at < len(data):
        data[at] = rng.choice(_HEADS)
    elif kind < 0.85:
        data[at:at] = rng.choice(generate.EDGES[:37]).to_bytes(8, "big")[-rng.choice([1, 2, 4, 8]) :]
    else:
        text = generate.dtype_text(rng).encode()
        data[at : at + len(text)] = text


_BREAK = b"\xc1\xc1registry\xc1\xc1"
_HEADS = bytes([*range(0x7E, 0x84), *range(0x90, 0x95), *range(0xA0, 0xA6), *range(0xC0, 0xE0)])
_VALUES = _values()

TARGETS: dict[str, Target] = {
    "frame": Target(_frame_case, lambda: _files(_FRAMES), _damage_file),
    "archive": Target(_archive_case, lambda: _files((".b2z",)), _damage_file),
    "catalog": Target(_catalog_case, _catalog_seeds, _damage_catalog),
    "embedded": Target(_embedded_case, _embedded_seeds, _damage_packed),
    "metadata": Target(_metadata_case, _metadata_seeds, _damage_packed),
}


def read_corpus(path: Path) -> list[bytes]:
    """The inputs of one of the archives in `GUIDED`."""
    with tarfile.open(path) as archive:
        return [archive.extractfile(member).read() for member in archive]  # type: ignore[union-attr]


def write_corpus(path: Path, inputs: list[bytes]) -> None:
    """One archive, as inputs are much alike."""
    with tarfile.open(path, "w:xz", preset=9) as archive:
        for number, data in enumerate(sorted(set(inputs))):
            member = tarfile.TarInfo(f"{number:04}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def corpus() -> Iterator[Case]:
    """The cases of what guided fuzzing left."""
    for name, target in TARGETS.items():
        yield from map(target.case, read_corpus(GUIDED / f"{name}.tar.xz"))
