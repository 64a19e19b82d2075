"""The command bench: how fast a file of one's own is read, and what other codecs make of its items."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import click
import numpy as np

from blosc2._display import human_size
from blosc2._functions import asarray
from blosc2._stores import Store
from blosc2._tools.cli.locations import Location, LocationError, leaves_below, located, need_store, one_key, opened
from blosc2._tools.cli.looking import columns, print_json
from blosc2._tools.selections import axes_of, pieces
from blosc2.ndarray import NDArray
from blosc2.storage import Codec

# Rounds alternate between mapped and not, so that both meet the same conditions; the medians are shown.
_ROUNDS = 3
# Arrays are drawn from so many leaves, which are drawn from the first ones of a group.
_LEAVES, _FIRST = 64, 10_000
# The sides of a patch: of one axis, of two, of more.
_SIDES = (4096, 128, 32)
# How much of an array a scan reads at a time, and what the codecs are given.
_PIECE, _SAMPLE = 8 << 20, 16 << 20
_CODECS = (("BLOSCLZ", 5), ("LZ4", 5), ("LZ4HC", 5), ("ZLIB", 5), ("ZSTD", 1), ("ZSTD", 5), ("ZSTD", 9))

#: Reads something, and returns how many bytes it gave.
Read = Callable[[], int]


@click.command()
@click.argument("location")
@click.option("--seconds", type=click.FloatRange(0, 60), default=0.2, show_default=True, help="For each measurement.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is read.")
@click.option("--codecs", is_flag=True, help="Compress up to 16 MiB of an array with each codec instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(location: str, seconds: float, seed: int, codecs: bool, as_json: bool) -> None:
    """Measure how fast an array, or the arrays of a store or group, are read.

    The same random items and patches are read mapped and not mapped, from a file that is in memory by then. Nothing is
    written. With --codecs the items of one array are compressed in memory by each codec, with the array's filters.
    """
    where = located(location)
    if codecs:
        rows = _of_codecs(where, seconds)
        texts: list[tuple[str, ...]] = [("codec", "ratio", "compress", "decompress")]
        texts += [(r["codec"], f"{r['cratio']:.2f}x", _rate(r["compress"]), _rate(r["decompress"])) for r in rows]
    else:
        rows = _of_reads(where, seconds, seed)
        texts = [("", "mapped", "", "not mapped", "")]
        texts += [(r["what"], *_cells(r["mapped"]), *_cells(r["not_mapped"])) for r in rows]
    if as_json:
        print_json({"location": str(where), "rows": rows})
        return
    for line in columns(texts):
        click.echo(line)


def _cells(row: dict[str, float]) -> tuple[str, str]:
    return _time(row["seconds"]), _rate(row["bytes_a_second"]) if row["bytes_a_second"] else ""


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _rate(bytes_a_second: float) -> str:
    return f"{human_size(int(bytes_a_second))}/s"


def _measure(read: Read, seconds: float) -> tuple[float, float]:
    """Call `read` for so long, once at least; return the seconds of a call and the bytes of a second."""
    calls = total = 0
    start, spent = time.perf_counter(), -1.0
    while spent < seconds:
        total += read()
        calls += 1
        spent = time.perf_counter() - start
    return spent / calls, total / max(spent, 1e-9)


# ------------------------------------------------------------------ reads
def _of_reads(where: Location, seconds: float, seed: int) -> list[dict[str, Any]]:
    modes = (("mapped", True), ("not_mapped", False))
    with ExitStack() as stack:
        found = {name: stack.enter_context(opened(where.path, mapped=mapped)) for name, mapped in modes}
        chosen = _chosen(found["mapped"], where, seed)
        rows: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for round_, (name, mapped) in itertools.product(range(_ROUNDS), modes):
            for what, read in _reads(
                partial(opened, where.path, mapped=mapped), found[name], chosen, random.Random(seed + round_)
            ):
                rows.setdefault(what, {}).setdefault(name, []).append(_measure(read, seconds / _ROUNDS))
    return [{"what": what, **{name: _median(row[name]) for name, _ in modes}} for what, row in rows.items()]


def _median(measured: Sequence[tuple[float, float]]) -> dict[str, float]:
    spent, rates = zip(*measured, strict=True)
    return {"seconds": statistics.median(spent), "bytes_a_second": statistics.median(rates)}


def _chosen(found: Any, where: Location, seed: int) -> list[str]:
    """Keys of arrays at or below a location; none if it is an array file."""
    if not isinstance(found, Store):
        if where.key:
            need_store(found, where)
        _need_items(found, where)
        return []
    keys = list(itertools.islice(leaves_below(found, one_key(found, where) if where.key else ""), _FIRST))
    random.Random(seed).shuffle(keys)
    chosen = list(itertools.islice((key for key in keys if _has_items(found[key])), _LEAVES))
    if not chosen:
        raise LocationError(f"{where}: no array with items is there")
    return chosen


def _has_items(found: Any) -> bool:
    return isinstance(found, NDArray) and found.size > 0


def _need_items(found: Any, where: Location) -> None:
    if not _has_items(found):
        raise LocationError(f"{where}: only arrays that have items can be measured, and this is {found!r}")


def _reads(
    open_again: Callable[[], AbstractContextManager[Any]], found: Any, keys: list[str], draw: random.Random
) -> Iterator[tuple[str, Read]]:
    """What is measured, with a function that does it once; `draw` chooses."""

    def opening() -> int:
        with open_again():
            return 0

    def leaf() -> Any:
        return found[draw.choice(keys)] if keys else found

    def item() -> int:
        array = leaf()
        return int(array[tuple(draw.randrange(n) for n in array.shape)].nbytes)

    def patch() -> int:
        array = leaf()
        side = _SIDES[min(max(array.ndim, 1), 3) - 1]
        corner = [draw.randrange(max(1, n - side + 1)) for n in array.shape]
        return int(array[tuple(slice(at, at + side) for at in corner)].nbytes)

    def scan() -> Iterator[int]:
        while True:
            array = leaf()
            for part in pieces(array, axes_of((...,), array.shape), _PIECE):
                yield np.asarray(part).nbytes

    yield "open the file again", opening
    if keys:
        yield "find a key, open its leaf", lambda: 0 * len(leaf().shape)
    yield "random item", item
    yield "random patch", patch
    parts = scan()
    yield "all items, in order", lambda: next(parts)


# ------------------------------------------------------------------ codecs
def _of_codecs(where: Location, seconds: float) -> list[dict[str, Any]]:
    with opened(where.path) as found:
        keys = _chosen(found, where, 0)
        array = found[keys[0]] if keys else found
        if len(keys) > 1 or (keys and keys[0] != where.key):
            raise LocationError(f"{where} is a group or store: name one of its arrays, as 'blosc2 ls' shows them")
        items = np.asarray(next(iter(pieces(array, axes_of((...,), array.shape), _SAMPLE))))
        items = items.reshape((1,) * (array.ndim - items.ndim) + items.shape)
        chunks = tuple(map(min, array.chunks, items.shape))
        blocks = tuple(map(min, array.blocks, chunks))
        own = array.cparams
        options = {"filters": list(own.filters), "filters_meta": list(own.filters_meta)}
    return [_of_codec(partial(_compressed, items, chunks, blocks, options, *codec), seconds / 2) for codec in _CODECS]


def _compressed(
    items: np.ndarray[Any, Any], chunks: Any, blocks: Any, options: dict[str, Any], codec: str, level: int
) -> NDArray:
    return asarray(items, chunks=chunks, blocks=blocks, cparams={**options, "codec": Codec[codec], "clevel": level})


def _of_codec(compress: Callable[[], NDArray], seconds: float) -> dict[str, Any]:
    made = compress()
    codec, level = made.cparams.codec.name, made.cparams.clevel

    def decompress() -> int:
        # Chunk by chunk, because a small array that is read again comes from the block cache.
        return sum(len(made.schunk.decompress_chunk(number) or b"") for number in range(made.schunk.nchunks))

    _, written = _measure(lambda: compress().nbytes, seconds)
    _, read = _measure(decompress, seconds)
    return {"codec": f"{codec} {level}", "cratio": made.cratio, "compress": written, "decompress": read}


COMMANDS = (bench,)
