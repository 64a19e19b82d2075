"""Each allocation fails: of the package, the C library and NumPy's arrays, or of Python too.

In reads, writes, changes of stores, `check`, `salvage` and `compact` it is told as a lack of memory; nothing crashes,
is lost or called damaged, and with memory again all works.
"""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from faults.injection import check_tidy, play_on
from faults.recorder import Recorder
from faults.scenarios import Play
from faults.stories import stories
from fixture_kit import failing_allocator
from fixture_kit.failing_allocator import FOREVER, lack
from fixture_kit.lines import PACKAGE

import blosc2
from blosc2._core.codec.codec import free_idle

C, F = blosc2.Codec, blosc2.Filter

#: Compression parameters of arrays: each codec, each filter, what needs contexts or memory of its own.
FORMATS: dict[str, dict[str, Any]] = {
    **{
        f"{codec.name} {'+'.join(f.name for f in filters)}".lower(): {"codec": codec, "filters": list(filters)}
        for codec in (C.ZSTD, C.LZ4, C.LZ4HC, C.BLOSCLZ, C.ZLIB)
        for filters in ((F.NOFILTER,), (F.SHUFFLE,), (F.BITSHUFFLE,), (F.DELTA, F.SHUFFLE))
    },
    **{f"{codec.name.lower()} dictionary": {"codec": codec, "use_dict": True} for codec in (C.ZSTD, C.LZ4, C.LZ4HC)},
    "three filters": {"codec": C.ZSTD, "filters": [F.TRUNC_PREC, F.SHUFFLE, F.BITSHUFFLE], "filters_meta": [30, 0, 0]},
    "bytedelta": {"codec": C.ZSTD, "filters": [F.SHUFFLE, F.BYTEDELTA]},
    "zfp": {"codec": C.ZFP_PREC, "codec_meta": 20, "filters": [F.NOFILTER]},
    "ndcell": {"codec": C.LZ4, "filters": [F.NDCELL], "filters_meta": [4]},
    "ndmean": {"codec": C.LZ4, "filters": [F.NDMEAN], "filters_meta": [4]},
}

ITEMS = np.arange(96 * 64, dtype="f8").reshape(96, 64) ** 1.5 + np.random.default_rng(5).integers(0, 9, (96, 64))
SHAPES = {"chunks": (48, 64), "blocks": (16, 32)}

WAYS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda a: a[...],
    "part": lambda a: a[5:70, 3:9],
    "points": lambda a: a[[3, 77, 50], [1, 2, 3]],
    "rows": lambda a: np.array(list(a[40:44])),
}

PUBLISHED = {f"/g/k{n}": np.arange(n * 40.0) for n in range(1, 6)} | {"/one": np.ones((40, 50)), "/two": np.zeros(9)}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "embed.b2e": (blosc2.EmbedStore, {}),
    "dict.b2z": (blosc2.DictStore, {}),
    "dict.b2d": (blosc2.DictStore, {"threshold": 1000}),
    "tree.b2z": (blosc2.TreeStore, {"threshold": 1000}),
    "tree.b2d": (blosc2.TreeStore, {}),
    "shared.b2z": (blosc2.TreeStore, {"locking": True}),
}
NEW = np.arange(3000.0)
# What is done to a store, and what it holds then.
CHANGES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "assign": (lambda s: s.__setitem__("/g/new", NEW), {**PUBLISHED, "/g/new": NEW}),
    "replace": (lambda s: s.__setitem__("/one", NEW), {**PUBLISHED, "/one": NEW}),
    "delete": (lambda s: s.__delitem__("/g/k2"), {k: v for k, v in PUBLISHED.items() if k != "/g/k2"}),
    "update": (lambda s: s.update({"/u/a": NEW, "/u/b": NEW[:5]}), {**PUBLISHED, "/u/a": NEW, "/u/b": NEW[:5]}),
    "flush": (lambda s: s.flush(), PUBLISHED),
    "compact": (lambda s: s.compact(), PUBLISHED),
}


class Case(NamedTuple):
    """What is done without memory. `make` gives what `act` needs; `check` looks at what came of it."""

    make: Callable[[Path], Any]
    act: Callable[[Any], Any]
    check: Callable[[Any, Path, Any], None]


def _array_file(folder: Path, how: dict[str, Any], mode: str = "a", mmap_mode: str | None = None) -> Any:
    path = str(folder / "a.b2nd")
    blosc2.asarray(ITEMS, cparams=how, urlpath=path, **SHAPES)
    return blosc2.open(path, mode, mmap_mode=mmap_mode)


def _is_near(array: Any, found: Any, items: Any) -> bool:
    """Whether items are what they were, as far as filters and codecs keep them."""
    return F.NDMEAN in array.schunk.cparams.filters or np.allclose(found, items, rtol=0.01, atol=1)


def _check_array(array: Any, folder: Path, result: Any) -> None:
    again = blosc2.open(array.urlpath)[...]
    assert _is_near(array, again, ITEMS), "another array"
    assert np.array_equal(array[...], again)
    assert blosc2.check(array.urlpath).ok


def _check_read(way: Callable[[Any], Any]) -> Callable[[Any, Path, Any], None]:
    def check(array: Any, folder: Path, result: Any) -> None:
        expected = way(array)
        assert result is None or np.array_equal(result, expected), "other items"
        assert _is_near(array, expected, way(ITEMS))
        _check_array(array, folder, result)

    return check


def _check_written(how: dict[str, Any], folder: Path, result: Any) -> None:
    if result is not None:
        assert _is_near(result, result[...], ITEMS), "other items"
    again = blosc2.asarray(ITEMS, cparams=how, **SHAPES)
    assert result is None or result.to_cframe() == again.to_cframe() or how.get("use_dict"), "other bytes"


def _store(folder: Path, kind: str, mode: str) -> Any:
    make, options = KINDS[kind]
    path = str(folder / kind)
    if not os.path.lexists(path):
        with make(path, mode="w", **options) as store:
            store.update(PUBLISHED)
    return make(path, mode=mode, **options)


def _content(store: Any) -> dict[str, Any]:
    leaves = {key: store[key] for key in store}
    return {key: leaf[...] for key, leaf in leaves.items() if not isinstance(leaf, blosc2.TreeStore)}


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def _check_store(kind: str, change: str) -> Callable[[Any, Path, Any], None]:
    after = CHANGES[change][1]
    versions = [PUBLISHED, after]
    if change == "update":
        versions.append({**PUBLISHED, "/u/a": NEW})  # its items are assigned one after the other

    def check(store: Any, folder: Path, result: Any) -> None:
        shown = _content(store)
        assert any(_same(shown, one) for one in versions), f"the handle shows {list(shown)}"
        assert len(store) == len(list(store))
        with suppress(KeyError):
            CHANGES[change][0](store)
        assert _same(_content(store), after), "a second attempt does not do it"
        store.close()
        assert blosc2.check(folder / kind).ok, str(blosc2.check(folder / kind))
        with _store(folder, kind, "a") as again:
            assert _same(_content(again), after)
            again["/more"] = [1]
        assert {*os.listdir(folder)} <= {kind, f"{kind}.b2lock"}, os.listdir(folder)

    return check


def _damaged(folder: Path, kind: str) -> Path:
    path = folder / kind
    if kind.endswith(".b2nd"):
        blosc2.asarray(ITEMS, cparams=FORMATS["zstd bitshuffle"], urlpath=str(path), **SHAPES)
    else:
        _store(folder, kind, "r").close()
    return path


def _check_checked(path: Path, folder: Path, report: Any) -> None:
    assert report is None or report.ok, str(report)
    assert blosc2.check(path).ok


def _check_salvaged(path: Path, folder: Path, report: Any) -> None:
    out = path.with_name("out" + path.suffix)
    if report is None and not os.path.lexists(out):  # else all of it was written, and no part
        report = blosc2.salvage(path, out, fill=0)
    assert report is None or not report.lost, str(report)
    if path.suffix == ".b2nd":
        assert np.array_equal(blosc2.open(str(out))[...], ITEMS)
    else:
        with blosc2.open(str(out)) as store:
            assert _same(_content(store), PUBLISHED)


def _read_store(store: Any) -> Any:
    return store.read_many(list(PUBLISHED))


def _check_store_read(store: Any, folder: Path, result: Any) -> None:
    values = _read_store(store)
    for found in (result, values):
        assert found is None or all(map(np.array_equal, found, PUBLISHED.values()))
    store.close()


def _new_list(folder: Path, cls: Any) -> Any:
    values = cls(urlpath=str(folder / "list.b2f"), mode="w")
    values.append([b"first" * 50] * 4)
    return values


def _check_list(values: Any, folder: Path, result: Any) -> None:
    assert list(values[0]) == [b"first" * 50] * 4
    assert len(values) in (1, 2)
    again = blosc2.open(str(folder / "list.b2f"))
    assert len(again) == len(values)
    assert list(again[0]) == list(values[0])
    assert blosc2.check(folder / "list.b2f").ok


@cache
def _plain() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name, how in FORMATS.items():
        for way, read in WAYS.items():
            for where, mmap_mode in (("mapped", "r"), ("positional", None)):
                found[f"read {way}, {name}, {where}"] = Case(
                    lambda folder, how=how, mmap_mode=mmap_mode: _array_file(folder, how, "r", mmap_mode),
                    read,
                    _check_read(read),
                )
        found[f"write {name}"] = Case(
            lambda folder, how=how: how, lambda how: blosc2.asarray(ITEMS, cparams=how, **SHAPES), _check_written
        )
        found[f"assign {name}"] = Case(
            lambda folder, how=how: _array_file(folder, how),
            lambda array: array.__setitem__((slice(7, 60), slice(5)), ITEMS[7:60, :5]),
            _check_array,
        )
    for kind in KINDS:
        found[f"read_many {kind}"] = Case(
            lambda folder, kind=kind: _store(folder, kind, "r"), _read_store, _check_store_read
        )
        for change, (act, _) in CHANGES.items():
            found[f"{change} {kind}"] = Case(
                lambda folder, kind=kind: _store(folder, kind, "a"), act, _check_store(kind, change)
            )
    for kind in ("array.b2nd", *KINDS):
        found[f"check {kind}"] = Case(lambda folder, kind=kind: _damaged(folder, kind), blosc2.check, _check_checked)
        found[f"salvage {kind}"] = Case(
            lambda folder, kind=kind: _damaged(folder, kind),
            lambda path: blosc2.salvage(path, path.with_name("out" + path.suffix), fill=0),
            _check_salvaged,
        )
    for cls in (blosc2.ObjectArray, blosc2.BatchArray):
        found[f"append to {cls.__name__}"] = Case(
            lambda folder, cls=cls: _new_list(folder, cls), lambda v: v.append([b"second" * 40] * 9), _check_list
        )
    return found


STORIES = stories()
#: What fails: one allocation of the package or all from it on, one of Python or the package.
SCOPES = {"one": (1, False), "all": (FOREVER, False), "python": (1, True)}


def cases() -> list[str]:
    """All; the modules that they need are loaded by then, and the allocator is built."""
    if not failing_allocator.AVAILABLE:
        return []
    failing_allocator.build()
    plain = [f"{scope}: {name}" for scope in SCOPES for name in _plain()]
    return [*plain, *(f"story: {name}" for name in STORIES)]


def count(case: str, folder: Path) -> int:
    return _play(case, -1, folder)


def play(case: str, at: int, folder: Path) -> None:
    _play(case, at, folder)


def _play(case: str, at: int, folder: Path) -> int:
    blosc2.set_nthreads(1)
    scope, _, name = case.partition(": ")
    if scope == "story":
        return _play_story(name, at, folder)
    many, python = SCOPES[scope]
    one = _plain()[name]
    warm, real = folder / "warm", folder / "real"
    warm.mkdir()
    real.mkdir()
    prepared = one.make(warm)
    one.check(prepared, warm, one.act(prepared))
    shutil.rmtree(warm)
    prepared = one.make(real)
    free_idle()
    result = None
    with lack(at, many, python=python) as short:
        try:
            result = one.act(prepared)
        except (MemoryError, OSError, SystemError, TypeError) as error:
            caught: BaseException | None = error
            if not isinstance(error, (MemoryError, OSError)) and not (python and _is_of_others(error)):
                raise
        else:
            caught = None
    if caught is not None and not short.denied:
        raise caught
    if caught is not None and "refresh() tells" in "".join((str(caught), *getattr(caught, "__notes__", ()))):
        getattr(prepared, "schunk", prepared).refresh()
    one.check(prepared, real, result)
    return short.allocations


def _is_of_others(error: BaseException) -> bool:
    """Whether an error that is no `MemoryError` comes of NumPy or CPython, some of whose functions lose that one where
    memory is short: NumPy raises a SystemError without a reason, and `isinstance` answers wrongly."""
    where = traceback.extract_tb(error.__traceback__)[-1].filename
    return not where.startswith(PACKAGE) or (isinstance(error, SystemError) and where.endswith(".py"))


def _play_story(name: str, at: int, folder: Path) -> int:
    story = STORIES[name]
    with Recorder(folder) as recorder:
        play = Play(story.kind, folder, lambda: len(recorder.ops))
        with lack(at) as short:
            play_on(story, play, short.end)
            short.end()
    story.kind.check(story.kind.observe(folder), [play.now])
    check_tidy(story, folder)
    return short.allocations
