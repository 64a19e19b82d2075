"""What is done with a file: plays, each a few calls, the same for the same seed and visible state."""

from __future__ import annotations

import functools
import itertools
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blosc2
from blosc2.exceptions import FormatError

from . import layout
from .changes import change
from .recorder import ENOUGH, REFUSED, Failure, Recorder, digest
from .uses import _OBJECTS, _STORES, _plain, block_cost, opened, use

#: How a play is called: recorder, path, source ("r" or None), random numbers.
Play = Callable[[Recorder, Path, str | None, random.Random], None]


def play_read(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Open for reading and use."""
    how: dict[str, Any] = {}
    if rng.random() < 0.4:
        how["verify"] = rng.random() < 0.6
    if rng.random() < 0.1:
        how["deserialize"] = "full"
    if rng.random() < 0.1:
        how["advise"] = rng.choice(["random", "sequential", "willneed"])
    rec.named = path.name
    x = opened(rec, path, source, **how)
    if x is REFUSED:
        return
    try:
        use(rec, x, rng)
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close)


def play_check(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """`check`, and whether what it calls whole can be read."""
    report = rec("check", "check", lambda: blosc2.check(str(path)), compare=False)
    rec("check", "repr", lambda: repr(report), compare=False)
    if report is not REFUSED and report.ok and not report.unverified:
        try:
            _read_all(path, source)
        except FormatError as error:
            raise Failure("check", "found nothing, but reading fails", str(error)[:300]) from error
        except (NotImplementedError, blosc2.UnsafeDeserializationError):
            pass


def _read_all(path: Path, source: str | None) -> None:
    x = blosc2.open(str(path), mmap_mode=source)
    leaves = [x]
    if isinstance(x, _STORES):
        leaves = [x[key] for key in itertools.islice(x.keys(), 300)]
    for leaf in leaves:
        if type(leaf) is blosc2.NDArray:
            if leaf.nbytes < ENOUGH:
                leaf[()]
        elif isinstance(leaf, blosc2.SChunk) and leaf.nbytes < ENOUGH:
            leaf[:]
        if isinstance(leaf, blosc2.NDArray | blosc2.SChunk):
            leaf.vlmeta[:]
    if hasattr(x, "close"):
        x.close()


def play_salvage(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """`salvage`, and whether what it wrote is whole."""
    suffix = path.suffix if path.suffix in (".b2z", ".b2d", ".b2e") else ".b2nd"
    if suffix == ".b2z" and rng.random() < 0.3:
        suffix = ".b2d"
    out = path.parent / f"salvaged{suffix}"
    _remove(out)
    fill = rng.choice([None, None, 0, 7.5])
    if path.is_dir() and not (path / "embed.b2e").exists():
        return  # a directory of chunks, for which it says that it does nothing
    kind = rec("check", "kind", lambda: _kind(path))
    if (kind in ("archive", "directory", "embedded")) != (suffix in (".b2z", ".b2d", ".b2e")):
        suffix = ".b2z" if kind in ("archive", "directory", "embedded") else ".b2nd"
        out = path.parent / f"salvaged{suffix}"
        _remove(out)
    report = rec("salvage" if fill != 7.5 else "salvage with a value", f"salvage fill={fill}",
                 lambda: blosc2.salvage(str(path), str(out), fill=fill),
                 asked=0 if fill is None else _claimed(path), compare=False)  # fmt: skip
    if report is not REFUSED:
        rec("info", "repr", lambda: repr(report), compare=False)
        again = rec("check", "check of what was salvaged", lambda: blosc2.check(str(out)), compare=False)
        if not again.ok and not report.lost:  # damaged metadata and values are kept, and told
            raise Failure("salvage", "what it wrote is damaged", str(list(again)[:3]))
        x = opened(rec, out, source)
        use(rec, x, rng)
        if hasattr(x, "close"):
            x.close()
    _remove(out)


def _kind(path: Path) -> str:
    from blosc2._integrity.check_frames import kind_of_path

    return str(kind_of_path(str(path)))


def _claimed(path: Path) -> int:
    """Bytes that an array says it has: with `fill`, that is what is asked for."""
    try:
        return min(int(blosc2.open(str(path)).nbytes), 1 << 28)
    except Exception:  # noqa: BLE001 - then it says nothing
        return 0


def play_cframe(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """The same bytes as a frame in memory, a chunk, and a pickle."""
    if path.is_dir():
        return
    data = path.read_bytes()
    readers = [blosc2.from_cframe, blosc2.schunk_from_cframe, blosc2.ndarray_from_cframe,
               blosc2.objectarray_from_cframe,
               blosc2.estore_from_cframe]  # fmt: skip
    x = rec("from_cframe", "from_cframe", lambda: readers[0](data, copy=rng.random() < 0.5), asked=2 * len(data))
    use(rec, x, rng)
    other = rng.choice(readers[1:])
    rec("from_cframe", other.__name__, lambda: other(data), asked=2 * len(data))
    if len(data) >= 16:
        claimed = min(int.from_bytes(data[4:8], "little"), 1 << 31)
        if claimed < 16 * ENOUGH:
            rec("decompress", "decompress2", lambda: blosc2.decompress2(data), asked=2 * claimed)
            rec("decompress", "decompress", lambda: blosc2.decompress(data), asked=2 * claimed)
            into = bytearray(max(1, min(claimed, ENOUGH)))
            rec(
                "decompress",
                "decompress2 into",
                lambda: blosc2.decompress2(data, dst=into),
                asked=2 * claimed,
                compare=False,
            )
        rec("decompress", "sizes", lambda: blosc2.get_cbuffer_sizes(data))
        rec("decompress", "library", lambda: blosc2.get_clib(data))
    for unpack in (blosc2.unpack_tensor, blosc2.unpack_array2):
        if x is REFUSED or getattr(x, "nbytes", 0) < ENOUGH:
            rec("unpack", unpack.__name__, lambda unpack=unpack: unpack(data), asked=8 * ENOUGH)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()
    lock = path.with_name(path.name + ".b2lock")
    if lock.exists():
        lock.unlink()


# ------------------------------------------------------------------ changing
def play_change(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Open for writing and change; then open again and read."""
    mode: dict[str, Any] = {"mode": "a", "mmap_mode": None}
    mapped = rng.choice([None, "r+", "c"])
    if source == "r" and path.suffix not in (".b2z", ".b2d", ".b2e") and path.is_file():
        mode = {"mode": "a", "mmap_mode": mapped}
        rec.comparable = mapped != "c"  # whose changes stay in memory
    rec.sizes_comparable = False
    x = rec("open", f"open {mode}", lambda: blosc2.open(str(path), **mode))
    if x is REFUSED:
        return
    try:
        for _ in range(rng.choice([1, 2, 4])):
            change(rec, x, rng)
        use(rec, x, rng)
        if isinstance(x, blosc2.NDArray | blosc2.SChunk) and rng.random() < 0.3:
            rec("compact", "compact", x.compact, asked=8 * (path.stat().st_size if path.is_file() else rec.size))
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close)
    del x
    use(rec, opened(rec, path, source), rng)


def play_convert(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Copy to another form: archive, directory, another file."""
    x = opened(rec, path, source)
    out = path.parent / "converted"
    try:
        if isinstance(x, blosc2.DictStore):
            for name, suffix in (("to_b2z", ".b2z"), ("to_b2d", ".b2d"))[1 if x.is_zip_store else 0 :]:
                target = out.with_suffix(suffix)
                _remove(target)
                call = getattr(x, name)
                made = rec("convert", name, lambda call=call,
                           target=target: str(call(filename=str(target)) if name == "to_b2z"  # noqa: B023
                           else call(str(target)))[-3:], asked=4 * rec.size + ENOUGH)  # fmt: skip
                if made is not REFUSED:
                    use(rec, opened(rec, target, source), rng)
                _remove(target)
        elif isinstance(x, blosc2.NDArray | blosc2.SChunk) and hasattr(x, "to_cframe"):
            target = out.with_suffix(".b2nd")
            _remove(target)
            if type(x) is blosc2.NDArray:
                rec("convert", "save", lambda: x.save(str(target)), asked=4 * rec.size + 4 * x.chunksize, compare=False)
            elif isinstance(x, blosc2.SChunk):
                rec(
                    "convert",
                    "copy",
                    lambda: x.copy(urlpath=str(target), mode="w").nbytes,
                    asked=4 * rec.size + 4 * x.chunksize,
                )
            if target.exists():
                use(rec, opened(rec, target, source), rng)
            _remove(target)
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close)


# ------------------------------------------------------------------ damage after opening
def play_moving(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Change the file under an open handle. A mapped one is never cut: the system answers that with SIGBUS."""
    from . import mutate
    from .samples import read

    x = opened(rec, path, source)
    if x is REFUSED:
        return
    leaf = REFUSED
    try:
        if isinstance(x, _STORES):
            keys = rec("list", "keys", lambda: list(itertools.islice(x.keys(), 100)), compare=False) or []
            if keys and rng.random() < 0.7:
                leaf = rec("leaf", "leaf", lambda: x[keys[0]], compare=False)
        if rng.random() < 0.6:
            use(rec, x, random.Random(1))
        for _ in range(rng.choice([1, 3])):
            files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
            file = rng.choice(sorted(files))
            old = file.read_bytes()
            sample, _ = mutate.damaged(read(file), rng, [read(file)])
            new = next(iter(sample.files.values()), b"")
            with open(file, "r+b") as stream:
                # a mapping sees the same bytes when they are put in place; the file never gets shorter under one
                stream.write(new if source is None else new[: len(old)])
                if source is None and rng.random() < 0.7:
                    stream.truncate(len(new))
            watched = _Uncompared(rec)
            use(watched, x, rng)
            if leaf is not REFUSED:
                use(watched, leaf, rng)
            if rng.random() < 0.4:
                watched("refresh", "refresh", x.refresh)
                use(watched, x, rng)
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close, compare=False)


class _Uncompared:
    """A recorder whose results differ between sources: what a handle has in memory already is its own affair."""

    def __init__(self, rec: Recorder) -> None:
        self._rec, self.size, self.outcomes = rec, rec.size, rec.outcomes
        self.sizes_comparable = False

    def __call__(
        self, operation: str, what: str, call: Callable[[], Any], *, asked: int = 0, compare: bool = True
    ) -> Any:
        return self._rec(operation, what, call, asked=asked + 4 * ENOUGH, compare=False)


# ------------------------------------------------------------------ what must be the same
def sound_of(path: Path) -> Path:
    """Where the file before its damage is put."""
    return path.with_name(f"sound{path.suffix}")


def values(rec: Recorder, x: Any, limit: int = 60) -> dict[str, str]:
    """What an object holds, by name: errors by their class."""
    found: dict[str, str] = {}

    def note(name: str, operation: str, call: Callable[[], Any], asked: int = 0) -> Any:
        value = rec(operation, name, call, asked=asked)
        found[name] = rec.outcomes[-1][1]
        return value

    def note_leaf(name: str, leaf: Any) -> None:
        try:
            if type(leaf) is blosc2.NDArray and leaf.nbytes <= ENOUGH:
                found[f"{name} facts"] = repr((leaf.shape, leaf.dtype))
                note(f"{name} items", "read", lambda: leaf[()], 2 * leaf.nbytes + block_cost(leaf))
            elif isinstance(leaf, blosc2.SChunk) and leaf.nbytes <= ENOUGH:
                found[f"{name} facts"] = repr((leaf.nbytes, leaf.typesize))
                note(f"{name} items", "read", lambda: leaf[:], 2 * leaf.nbytes + block_cost(leaf))
            elif isinstance(leaf, _OBJECTS):
                note(f"{name} items", "objects", lambda: [_plain(v) for v in leaf], ENOUGH)
        except FormatError:
            found[f"{name} items"] = "FormatError"
        if hasattr(leaf, "vlmeta") and not isinstance(leaf, _STORES):
            note(f"{name} vlmeta", "vlmeta", lambda: leaf.vlmeta[:])

    if not isinstance(x, _STORES):
        note_leaf("it", x)
        return found
    keys = note("keys", "list", lambda: list(x.keys())) or []
    note("count", "list", lambda: len(x))
    if isinstance(x, blosc2.TreeStore):
        note("walk", "list", lambda: list(x.walk()))
        note("vlmeta", "attributes", lambda: x.vlmeta[:])
    for key in keys[:limit]:
        note_leaf(key, note(key, "leaf", lambda key=key: x[key]))
    return found


def _close(rec: Recorder, x: Any) -> None:
    if x is not REFUSED and hasattr(x, "close"):
        rec("close", "close", x.close)


def play_catalog(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Damage to a catalog must not be seen."""
    _play_catalog(rec, path, source, rng, forged=False)


def play_forged(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """A catalog that lies, with right checksums, may hide keys; no value is wrong, and nothing fails."""
    _play_catalog(rec, path, source, rng, forged=True)


def _play_catalog(rec: Recorder, path: Path, source: str | None, rng: random.Random, *, forged: bool) -> None:
    x, y = opened(rec, path, source), opened(rec, sound_of(path), source)
    if y is REFUSED:
        return
    if x is REFUSED:
        raise Failure("wrong value", "catalog", "an archive with a damaged catalog is not opened")
    right, got = values(rec, y), values(rec, x)
    if forged:
        keys = list(y)
        got = {}
        for key in keys[:60]:
            if rec("list", "in", lambda key=key: key in x):
                leaf = rec("leaf", key, lambda key=key: x[key])
                if type(leaf) is blosc2.NDArray:
                    got[f"{key} items"] = digest(leaf[()])
        right = {name: value for name, value in right.items() if name in got}
    else:
        got["stats"] = digest(rec("stats", "stats", lambda: x.stats(depth=2, by="dtype")))
        right["stats"] = digest(rec("stats", "stats", lambda: y.stats(depth=2, by="dtype")))
    for name, value in right.items():
        if got.get(name) != value:
            raise Failure("wrong value", f"catalog: {name.rpartition(' ')[2]}", f"{name}: {got.get(name)} for {value}")
    use(rec, x, rng)
    _close(rec, x)
    _close(rec, y)


@functools.lru_cache(1)
def _items_of(path: Path, data: bytes) -> dict[str, str]:
    """What the arrays of a sound archive hold, by key."""
    with blosc2.open(str(path)) as store:
        return {key: digest(leaf[()]) for key, leaf in store.items() if type(leaf) is blosc2.NDArray}


def play_hidden(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """What `forged` is about with fewer calls, for guided fuzzing."""
    right = _items_of(sound_of(path), sound_of(path).read_bytes())
    x = opened(rec, path, source)
    if x is REFUSED:
        raise Failure("wrong value", "hidden", "an archive with a forged catalog is not opened")
    rec("list", "keys", lambda: list(x.keys()))
    rec("list", "len", lambda: len(x))
    for key, items in right.items():
        if rec("list", "in", lambda key=key: key in x):
            leaf = rec("leaf", key, lambda key=key: x[key])
            if type(leaf) is blosc2.NDArray and digest(leaf[()]) != items:
                raise Failure("wrong value", "hidden", f"{key}: {digest(leaf[()])} for {items}")
    if isinstance(x, blosc2.TreeStore):
        rec("list", "walk", lambda: list(itertools.islice(x.walk(), 100)))
        rec("stats", "children", lambda: x.get_children("/"))
    rec("stats", "stats", lambda: x.stats(depth=1))
    for key in list(right)[:2]:
        rec("describe", "describe", lambda key=key: x.describe(key))
    rec("read_many", "read_many", lambda: x.read_many(list(right)[:5]))
    _close(rec, x)


def play_verify(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """What carries checksums is right or refused with `verify=True`, and `check` finds what is wrong.

    After one wrong byte what is read as a whole is so without being asked for.
    """
    sound = sound_of(path)
    if not sound.exists() or sound.read_bytes() == path.read_bytes():
        return
    report = rec("check", "check", lambda: blosc2.check(str(path)), compare=False)
    if report.ok and not report.unverified:
        raise Failure("check", "verify", "a wrong byte was not found")
    _compare_read(rec, path, source, True)
    good, damaged = sound.read_bytes(), path.read_bytes()
    if len(good) == len(damaged) and sum(a != b for a, b in zip(good, damaged, strict=True)) == 1:
        _compare_read(rec, path, source, None)


def _compare_read(rec: Recorder, path: Path, source: str | None, verify: bool | None) -> None:
    """Compare what is read of a damaged file with the sound one; without `verify`, what is read as a whole."""
    how = {} if verify is None else {"verify": verify}
    x = opened(rec, path, source, **how)
    y = opened(rec, sound_of(path), source)
    if x is not REFUSED and type(x) is type(y):
        got, right = values(rec, x), values(rec, y)
        for name, value in right.items():
            if verify is None and not name.endswith((" items", " facts")):
                continue
            if got.get(name, value) not in (value, "FormatError") and name not in ("keys", "count", "walk", "vlmeta"):
                play = "verify" if verify else "default"
                raise Failure("wrong value", f"{play}: {name.rpartition(' ')[2]}", f"{name}: {got[name]} for {value}")
    elif x is not REFUSED:
        raise Failure("wrong value", "verify", f"{type(x)} for {type(y)}")
    _close(rec, x)
    _close(rec, y)


def play_stale(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Fields that readers do not use may hold anything."""
    if path.is_dir():
        return
    data = bytearray(path.read_bytes())
    if sound_of(path).exists() and sound_of(path).read_bytes() != data:
        return  # of damaged files it is not clear where the fields are, nor in archives, which have dead ones
    if not data.startswith(layout.FRAME_MAGIC):
        return
    fields = [f for f in layout.frame_fields(data, 0) if f.name in layout.STALE]
    first = values(rec, opened(rec, path, source))
    for field in fields:
        if rng.random() < 0.7:
            marker = field.name == "header.has_vlmeta"
            data[field.at : field.at + field.width] = (
                rng.choice([b"\xc2", b"\xc3"]) if marker else rng.randbytes(field.width)
            )
    data[86] = 0  # without the mark of checksums, which such a header would contradict
    other = path.with_name(f"stale{path.suffix}")
    other.write_bytes(data)
    second = values(rec, opened(rec, other, source))
    if first != second:
        name = next(n for n in first if first.get(n) != second.get(n))
        raise Failure("wrong value", "stale", f"{name}: {first.get(name)} and {second.get(name)}")


def play_cut(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """A frame that is cut short is refused, wherever it is cut."""
    x = opened(rec, path, source)
    if x is not REFUSED:
        raise Failure("wrong value", "cut", f"a frame that is cut to {rec.size} bytes was accepted")


def play_facts(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Damage behind the header changes neither shape nor dtype nor partitions."""
    sound = sound_of(path)
    if not sound.exists():
        return
    x, y = opened(rec, path, source), opened(rec, sound, source)
    if x is REFUSED or y is REFUSED:
        return
    first, second = facts(x), facts(y)
    if first != second:
        raise Failure("wrong value", "facts", f"{first} for {second}")
    use(rec, x, rng)


def facts(x: Any) -> dict[str, str]:
    """What the header of a frame settles."""
    names = ("nbytes", "shape", "dtype", "chunks", "blocks", "typesize", "chunksize", "blocksize")
    return {"kind": type(x).__name__, **{name: repr(getattr(x, name)) for name in names if hasattr(x, name)}}


PLAYS: dict[str, tuple[Play, int]] = {
    "read": (play_read, 8),
    "check": (play_check, 2),
    "salvage": (play_salvage, 2),
    "cframe": (play_cframe, 2),
    "change": (play_change, 5),
    "convert": (play_convert, 1),
    "moving": (play_moving, 4),
    # chosen for damage that they are about
    "stale": (play_stale, 0),
    "cut": (play_cut, 0),
    "facts": (play_facts, 0),
    "catalog": (play_catalog, 0),
    "forged": (play_forged, 0),
    "hidden": (play_hidden, 0),
    "verify": (play_verify, 0),
}


def choose(rng: random.Random, sample_suffix: str) -> str:
    """Which play."""
    if sample_suffix == ".chunk":
        return "cframe"
    names = list(PLAYS)
    return rng.choices(names, [PLAYS[n][1] for n in names])[0]


def path_in(folder: Path, suffix: str) -> Path:
    """Where a sample is put."""
    return folder / f"x{suffix}"


def clean(folder: Path) -> None:
    """Remove what plays left."""
    for entry in list(os.scandir(folder)):
        _remove(Path(entry.path))
