"""Chunk shapes for blocks of dask, so that each task has chunks of its own."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any, Final

import numpy as np
from dask.array import Array
from dask.base import get_scheduler
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph

from blosc2 import _tuning
from blosc2._arrays import ArrayPlan
from blosc2._backends import WriterLock, new_key
from blosc2._files import Owner
from blosc2._frames import is_masked
from blosc2._opening import open as open_path
from blosc2._options import absolute_path, check_target_mode, local_path
from blosc2._stores import KeyClashes, NewKeys, Store, group_of, table_of
from blosc2._tools.integrations.array_writing import Part, Parts, ScratchFolder, where_to
from blosc2._tools.stores import STORES, new_store, remove, remove_folder
from blosc2.embed_store import EmbedStore
from blosc2.exceptions import OF_DISKS, StoreLockedError, legible, name_target
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk

# Chunks of fewer bytes are refused: the blocks have no boundaries in common with chunks worth having.
_LEAST: Final = 4 << 10


def aligned_keywords(array: Any, keywords: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Keywords of a constructor with chunks of which each lies in one block of a dask array, which errors call `what`.

    Chunks among the keywords are checked; else they are chosen. It raises `ValueError` where a block would end inside
    of a chunk, with blocks that would do, and `TypeError` for an array with a mask.
    """
    if is_masked(array._meta):
        raise TypeError(
            f"{what}: masked arrays would lose their mask: take dask.array.ma.getdata(array) and "
            "dask.array.ma.getmaskarray(array), or dask.array.ma.filled(array)"
        )
    if any(math.isnan(n) for lengths in array.chunks for n in lengths):
        raise ValueError(f"{what} has blocks of unknown lengths: call compute_chunk_sizes() first")
    keywords = {name: value for name, value in keywords.items() if value is not None}
    plan = ArrayPlan(array.shape, array.dtype, dict(keywords))
    if array.size == 0 or not array.shape:
        return keywords
    steps = [_step(lengths) for lengths in array.chunks]
    chunks = plan.geometry.chunks
    if "chunks" not in keywords:
        chunks = tuple(c if step == 0 else _nearest_divisor(step, c) for c, step in zip(chunks, steps, strict=True))
        smaller = math.prod(chunks) * array.dtype.itemsize
        if smaller < min(_LEAST, array.nbytes // 64):
            raise ValueError(
                f"{what}: its blocks have the lengths {_shown(array.chunks)}, which have only {chunks} in common, too "
                f"small for a chunk: {_advice(array, plan.geometry.chunks)}"
            )
        keywords["chunks"] = chunks
        if any(block > chunk for block, chunk in zip(keywords.get("blocks", ()), chunks)):
            keywords.pop("blocks")
        return keywords
    wrong = [axis for axis, (c, step) in enumerate(zip(chunks, steps, strict=True)) if step % c]
    if wrong:
        raise ValueError(
            f"{what}: on axis {wrong[0]}, blocks of {_shown((array.chunks[wrong[0]],))} items end inside of chunks of "
            f"{chunks[wrong[0]]}, and two tasks would write one chunk: {_advice(array, chunks)}"
        )
    return keywords


def rechunked(array: Any, chunks: tuple[int, ...] | None) -> Any:
    """The array with blocks that are multiples of chunks, of about the size that they have."""
    wanted = ArrayPlan(array.shape, array.dtype, {} if chunks is None else {"chunks": chunks}).geometry.chunks
    return array.rechunk(_multiples(array, wanted))


def _multiples(array: Any, chunks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(
        min(max(round(max(lengths) / c), 1) * c, max(n, 1))
        for lengths, c, n in zip(array.chunks, chunks, array.shape, strict=True)
    )


def _advice(array: Any, chunks: tuple[int, ...]) -> str:
    return f"blocks of a multiple of {chunks} would do, for example array.rechunk({_multiples(array, chunks)})"


def _step(lengths: tuple[int, ...]) -> int:
    """What all inner boundaries of blocks are multiples of; 0 if there are none."""
    found = end = 0
    for length in lengths[:-1]:
        end += length
        found = math.gcd(found, end)
    return found


def _nearest_divisor(number: int, wanted: int) -> int:
    """The divisor of a number that is nearest to another, as a ratio."""
    found = [n for low in range(1, math.isqrt(number) + 1) if number % low == 0 for n in (low, number // low)]
    return min(found, key=lambda n: abs(math.log(n / max(wanted, 1))))


def _shown(blocks: tuple[tuple[int, ...], ...]) -> str:
    axes = [f"({', '.join(map(str, lengths[:4]))}{', ...' if len(lengths) > 4 else ''})" for lengths in blocks]
    return " x ".join(axes)


#: The result of a task, for dask an array like all others.
_DONE = np.ones(1, bool)


class StagedArray:
    """A new array, by keywords with aligned chunks, which tasks of dask write to part files in a folder that exists."""

    def __init__(self, array: Any, keywords: dict[str, Any], folder: str) -> None:
        self._array = array
        plan = ArrayPlan(array.shape, array.dtype, dict(keywords))
        how = plan.asked or plan.cparams
        self._keywords = {**keywords, "chunks": plan.geometry.chunks, "blocks": plan.geometry.blocks}
        if plan.asked is not None:
            self._keywords["cparams"] = how  # one for the tasks of a process: what one learns, others know
        token = (array.name, array.chunks, array.dtype, plan.geometry.chunks, plan.geometry.blocks, how)
        digest = hashlib.sha256(repr(token).encode()).digest()[:16]
        bounds = tuple(tuple(accumulate(lengths, initial=0)) for lengths in array.chunks)
        self._part = Part(absolute_path(folder), digest, array.shape, array.dtype, dict(self._keywords), bounds)
        self._parts = Parts(self._part)

    def written(self) -> Any:
        """An array of dask with an item for each block, whose computing writes the parts."""
        return self._array.map_blocks(
            _write_block, part=self._part, dtype=bool, chunks=tuple((1,) * len(each) for each in self._array.chunks),
            meta=np.zeros((0,) * self._array.ndim, bool),
        )  # fmt: skip

    def missing(self, written: Any) -> list[Any]:
        """The keys of `written` for the parts that are not there yet."""
        if self._array.size == 0:
            return []
        self._parts.find()
        keys = flatten(written.__dask_keys__())
        return [key for number, key in enumerate(keys) if number not in self._parts.paths]

    def assembled(self, where: Mapping[str, Any], attributes: Mapping[str, Any]) -> NDArray:
        """The array of all parts: their bytes are copied, not decoded. `where` are keywords that say where it lies."""
        plan = ArrayPlan(self._part.shape, self._part.dtype, {**self._keywords, **where})
        self._parts.find()
        array = NDArray._of(plan.write(self._parts.chunks(plan.geometry.nchunks) if self._array.size else ()))
        if attributes:
            array.vlmeta.update(attributes)
        return array


def _write_block(items: Any, part: Part, block_id: tuple[int, ...] = ()) -> Any:
    """What a task does. It returns next to nothing."""
    part.write(items, block_id)
    return _DONE


def compute_staged(staged: Sequence[StagedArray], options: Mapping[str, Any]) -> None:
    """Write the missing parts of arrays by dask's scheduler; what several arrays need is computed once."""
    written = [each.written() for each in staged]
    missing = [key for each, array in zip(staged, written, strict=True) for key in each.missing(array)]
    if not missing:
        return
    name = f"blosc2-parts-{uuid.uuid4().hex}"
    graph = HighLevelGraph.from_collections(
        name, {(name, number): key for number, key in enumerate(missing)}, dependencies=written
    )
    tasks = Array(graph, name, ((1,) * len(missing),), meta=_DONE[:0])
    client: Any = getattr(get_scheduler(scheduler=options.get("scheduler"), collections=[tasks]), "__self__", None)
    if type(client).__module__.partition(".")[0] != "distributed":
        tasks.compute(**options)
        return
    from dask.distributed import as_completed, futures_of

    futures = futures_of(client.persist(tasks, **{how: value for how, value in options.items() if how != "scheduler"}))
    del tasks
    try:
        for future in as_completed(futures):
            future.result()
            # What a worker has done is a file: if it dies later, nothing has to be computed again.
            future.release()
    except BaseException:
        client.cancel(futures)
        raise


def write_dask(
    data: Any, target: Any, key: str = "/", *, mode: str = "w-", chunks: Any = None, blocks: Any = None,
    cparams: Any = None, attributes: Mapping[str, Any] | None = None, resume: bool = True, **compute: Any,
) -> None:  # fmt: skip
    check_target_mode(mode, ("w-", "w"))
    attributes = dict(attributes or {})
    given = {"chunks": chunks, "blocks": blocks, "cparams": _tuning.sparing(cparams, attributes)}
    path = None if isinstance(target, Store) else local_path(target).rstrip("/")
    arrays = _arrays_by_key(data, key)
    single = path is not None and path.endswith(".b2nd")
    if single and (isinstance(data, Mapping) or key != "/"):
        raise ValueError(f"{legible(path)} holds one array, which has no key")
    if not single and "/" in arrays:
        raise ValueError("an array in a store has a key: to_store(array, store, key)")
    keywords = {name: aligned_keywords(array, given, f"the array {name!r}") for name, array in arrays.items()}
    beside = _place_of(target, path)
    _check_target(target, path, list(arrays), mode, single=single)
    SChunk().vlmeta.update(attributes)  # raises what it would in the end
    with _staging(beside, sorted(arrays), keep=resume) as folder:
        staged = {}
        for number, (name, array) in enumerate(sorted(arrays.items())):
            inner = os.path.join(folder, str(number))
            Owner().makedirs(inner)
            staged[name] = StagedArray(array, keywords[name], inner)
        compute_staged(list(staged.values()), compute)
        if single:
            (each,) = staged.values()
            _write_single(each, str(path), attributes, folder, mode)
        else:
            with ScratchFolder(os.path.join(folder, "store")) as scratch:
                made = {
                    name: each.assembled(where_to(arrays[name].shape, arrays[name].dtype, scratch), attributes)
                    for name, each in staged.items()
                }
                _publish(target, path, made, mode)


def _arrays_by_key(data: Any, key: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        return {"/" + key.strip("/"): data}
    prefix = "" if key == "/" else "/" + key.strip("/")
    arrays: dict[str, Any] = {}
    for name, array in data.items():
        if not isinstance(name, str):
            raise TypeError(f"keys are strings, not {name!r}")
        full = f"{prefix}/{name.strip('/')}"
        if full in arrays:
            raise ValueError(f"two arrays have the key {full!r}")
        arrays[full] = array
    return arrays


def _place_of(target: Any, path: str | None) -> str:
    """The path beside which tasks write."""
    if path is not None:
        return absolute_path(path)
    named = target._table.backend.named
    if named is None:
        raise ValueError("a store in memory cannot be shared with tasks: give a store with a path")
    return absolute_path(str(named))


def _check_target(target: Any, path: str | None, keys: list[str], mode: str, *, single: bool) -> None:
    """Refuse, before anything is computed, what cannot be written in the end."""
    if single:
        if mode == "w-" and os.path.lexists(str(path)):
            raise FileExistsError(f"{legible(path)} exists; mode='w' replaces it")
        parent = os.path.dirname(absolute_path(str(path)))
        if not os.path.isdir(parent):
            raise FileNotFoundError(errno.ENOENT, "cannot write here, make the folder first", parent)
        return
    if path is not None and not path.endswith(STORES):
        raise ValueError(f"{legible(path)}: a store in .b2z, .b2d or .b2e, or an array in .b2nd")
    if path is None:
        target._table.session.check_writable("set items")
        _check_keys(target, keys)
        _check_new(target, keys, mode)
    elif os.path.lexists(path):
        with open_path(path, mode="r") as store:
            if not isinstance(store, Store):
                raise TypeError(f"{legible(path)} is a {type(store).__name__}, and no store")
            _check_keys(store, keys)
            _check_new(store, keys, mode)
    else:
        _check_keys(EmbedStore(), keys, grouped=not path.endswith(".b2e"))


def _check_keys(store: Any, keys: list[str], *, grouped: bool | None = None) -> None:
    """Check keys against the leaves and groups of a store, and against each other.

    `grouped` says whether a key is either a leaf or a group, if the store is only to be made.
    """
    table = table_of(store)
    admit = NewKeys(table, KeyClashes(), grouped=grouped)
    for key in sorted(keys):  # a key comes before those below it
        absolute = new_key(group_of(store) + key)
        table.check_assignable(absolute)  # knows what the store has not published yet
        admit(absolute)


def _check_new(store: Any, keys: list[str], mode: str) -> None:
    there = [key for key in keys if key in store]
    if there and mode == "w-":
        raise FileExistsError(f"{table_of(store).path} has {', '.join(map(repr, there))}; mode='w' replaces arrays")


def _write_single(staged: StagedArray, path: str, attributes: Mapping[str, Any], folder: str, mode: str) -> None:
    waiting = os.path.join(folder, "array.b2nd")
    with suppress(FileNotFoundError):
        Owner().unlink(waiting)
    staged.assembled({"urlpath": waiting, "mode": "w"}, attributes)
    if mode == "w-" and os.path.lexists(path):
        raise FileExistsError(f"{path} was made by somebody else meanwhile; mode='w' replaces it")
    Owner().replace(waiting, path)


def _publish(target: Any, path: str | None, arrays: Mapping[str, NDArray], mode: str) -> None:
    if path is None:
        _set_all(target, arrays, mode)
        return
    is_new = not os.path.lexists(path)
    with new_store(path, "a") if is_new else open_path(path, mode="a") as store:
        _set_all(store, arrays, mode)


def _set_all(store: Any, arrays: Mapping[str, NDArray], mode: str) -> None:
    with store.transaction():
        _check_new(store, list(arrays), mode)
        for key, array in arrays.items():
            store[key] = array


@contextmanager
def _staging(beside: str, keys: list[str], *, keep: bool) -> Iterator[str]:
    """The folder of one run, which no other run has. It is removed at the end; after a failure it may be kept."""
    folder = f"{beside}.staging-{hashlib.sha256(repr(keys).encode()).hexdigest()[:8]}"
    Owner().makedirs(folder)
    try:
        lock = WriterLock(folder)
    except StoreLockedError as error:
        raise StoreLockedError(f"another run writes {', '.join(keys)}: {error.reason}", path=folder) from None
    try:
        for name in () if keep else os.listdir(folder):
            remove(os.path.join(folder, name))
        try:
            yield folder
        except BaseException as error:
            if isinstance(error, OSError) and error.errno in OF_DISKS:
                name_target(error, folder, beside)
            if not keep:
                remove_folder(folder)
            raise
        remove_folder(folder)
    finally:
        lock.release()
