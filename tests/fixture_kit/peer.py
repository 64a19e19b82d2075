"""Writes, changes and describes files with whatever `blosc2` its Python has; one JSON line a request.

The same functions are called in the tests' own process with the package under test and, through the worker at the
end, in an environment of its own with the reference package.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import blosc2
from fixture_kit import manifest, recipes
from fixture_kit.keys import array_key, basic_key


def cparams_of(given: dict[str, Any]) -> dict[str, Any]:
    """Compression parameters of which codecs and filters are given by their names."""
    out: dict[str, Any] = dict(given)
    if "codec" in out:
        out["codec"] = blosc2.Codec[out["codec"]]
    if "splitmode" in out:
        out["splitmode"] = blosc2.SplitMode[out["splitmode"]]
    if "filters" in out:
        unused = 6 - len(out["filters"])
        out["filters"] = [blosc2.Filter[name] for name in out["filters"]] + [blosc2.Filter.NOFILTER] * unused
        out["filters_meta"] = [*out.get("filters_meta", [0] * (6 - unused)), *[0] * unused]
    return out


def make_array(path: str, recipe: dict[str, Any]) -> None:
    """The array of a recipe, in a file."""
    more: dict[str, Any] = {"urlpath": path, "mode": "w"}
    for name in ("chunks", "blocks"):
        if recipe[name] is not None:
            more[name] = tuple(recipe[name])
    if "cparams" in recipe:
        more["cparams"] = cparams_of(recipe["cparams"])
    if recipe.get("meta"):
        more["meta"] = recipes.metalayers()
    dtype, shape = manifest.dtype_of(recipe["dtype"]), tuple(recipe["shape"])
    if recipe["fill"] == "zeros":
        x = blosc2.zeros(shape, dtype=dtype, **more)
    elif recipe["fill"] == "full":
        x = blosc2.full(shape, recipes.filler(recipe), dtype=dtype, **more)
    elif recipe["fill"] == "nans":
        x = blosc2.nans(shape, dtype=dtype, **more)
    else:
        x = blosc2.asarray(recipes.values(recipe), **more)
    if recipe.get("vlmeta"):
        for name, value in recipes.vlmeta().items():
            x.vlmeta[name] = value


def make_shaped_items(path: str, dtype: Any, rows: int) -> str:
    """An array of the published package whose items are arrays of numbers; gives its bytes."""
    dtype = np.dtype((dtype[0], tuple(dtype[1])))
    items = np.arange(rows * dtype.itemsize // dtype.base.itemsize).astype(dtype.base)
    array = blosc2.zeros((rows,), dtype=dtype, urlpath=path, mode="w", chunks=(4,), blocks=(2,))
    for nchunk in range(array.schunk.nchunks):  # its assignments have no effect
        part = items.tobytes()[4 * dtype.itemsize * nchunk :][: 4 * dtype.itemsize]
        array.schunk.update_data(nchunk, part.ljust(4 * dtype.itemsize, b"\0"), copy=True)
    return array[:].tobytes().hex()


def make_schunk(path: str, typesize: int, chunksize: int, items: int, vlmeta: bool, clevel: int = 5) -> None:
    """A super-chunk of counted items, whose last chunk may be short."""
    data = np.arange(items * typesize, dtype=np.uint64).astype(np.uint8).tobytes()
    cparams = {"typesize": typesize, "clevel": clevel}
    meta = {"m": [1, 2]} if vlmeta else None
    s = blosc2.SChunk(chunksize=chunksize, urlpath=path, mode="w", cparams=cparams, meta=meta)
    for start in range(0, len(data), chunksize):
        s.append_data(data[start : start + chunksize])
    if vlmeta:
        for name, value in recipes.vlmeta().items():
            s.vlmeta[name] = value


def make_lists(folder: str, cparams: dict[str, Any], items_per_block: int | None) -> None:
    """A list of values and one of batches, each in a file, made and changed in every way."""
    values = blosc2.ObjectArray(urlpath=f"{folder}/values.b2f", mode="w", cparams=cparams_of(cparams))
    values.extend(recipes.list_values())
    change_list(values, recipes.list_values())
    batches = blosc2.BatchArray(items_per_block, urlpath=f"{folder}/batches.b2b", mode="w", cparams=cparams_of(cparams))
    batches.extend(recipes.list_batches())
    change_list(batches, recipes.list_batches())


def change_lists(folder: str) -> None:
    """The same changes to lists that are there."""
    for name, elements in (("values.b2f", recipes.list_values()), ("batches.b2b", recipes.list_batches())):
        change_list(blosc2.open(f"{folder}/{name}", mode="a"), elements)


def change_list(values: Any, elements: list[Any]) -> None:
    """One change of each kind; plain lists take them too, but for their metadata."""
    values.append(elements[1])
    values.insert(1, elements[-1])
    values.pop(0)
    values[2] = elements[0]
    del values[-2]
    values[1:3] = [elements[3], elements[2], elements[1]]
    if hasattr(values, "vlmeta"):
        values.vlmeta["user"] = len(values)


def empty_lists(folder: str) -> None:
    """Lists without anything in them."""
    for name in ("values.b2f", "batches.b2b"):
        blosc2.open(f"{folder}/{name}", mode="a").clear()


def single_items(path: str) -> list[Any]:
    """Each item of a list of batches, read alone."""
    batches = blosc2.open(path)
    out = [[manifest.tagged(batch[n]) for n in range(len(batch))] for batch in batches]
    assert [item for batch in out for item in batch] == [manifest.tagged(item) for item in batches.items]
    return out


def describe(path: str, mmap_mode: str | None = None, deserialize: str = "safe") -> dict[str, Any]:
    """Everything that a path holds, in the words of the manifest; the dtype as NumPy writes it."""
    x = blosc2.open(path, mode="r", mmap_mode=mmap_mode, deserialize=deserialize)
    if not isinstance(x, blosc2.EmbedStore | blosc2.DictStore):
        return _object(x)
    out: dict[str, Any] = {"kind": type(x).__name__.lower()}
    leaves = x
    if isinstance(x, blosc2.TreeStore):
        out["listed"] = sorted(x.keys())
        groups = [key for key in out["listed"] if isinstance(x[key], blosc2.TreeStore)]
        out["attrs"] = {"/": manifest.tagged(x.vlmeta[:])}
        out["attrs"] |= {group: manifest.tagged(x[group].vlmeta[:]) for group in groups}
        out["attrs"] = {group: attrs for group, attrs in out["attrs"].items() if attrs}
        leaves = blosc2.DictStore(path, mode="r", mmap_mode=mmap_mode)
    out["leaves"] = {key: _object(leaves[key]) for key in sorted(leaves.keys()) if not key.endswith("/__vlmeta__")}
    for store in {id(x): x, id(leaves): leaves}.values():
        if hasattr(store, "close"):
            store.close()
    return out


def _object(x: Any) -> dict[str, Any]:
    out = manifest.describe(x)
    if isinstance(x, blosc2.NDArray):
        out["dtype"] = repr(x.dtype)
    return out


def slices(path: str, seed: int, count: int, mmap_mode: str | None = None, arrays: bool = False) -> list[Any]:
    """Shape and digest of what random keys give."""
    x = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        got = np.asarray(x[(array_key if arrays else basic_key)(rng, x.shape)])
        out.append([list(got.shape), manifest.sha256(np.ascontiguousarray(got).tobytes())])
    return out


def change_points(path: str, seed: int) -> None:
    """Assign by masks and by index arrays."""
    x = blosc2.open(path, mode="a")
    rng = np.random.default_rng(seed)
    x[rng.random(x.shape) < 0.1] = 3
    index = rng.permutation(x.shape[0])[:5]
    x[index] = np.full((len(index), *x.shape[1:]), 4, x.dtype)


def change_array(path: str, rows: int) -> int:
    """Grow along the first axis where that is possible, overwrite a slice, add metadata; gives the rows added."""
    x = blosc2.open(path, mode="a")
    old = x.shape
    added = rows if hasattr(x, "resize") else 0
    if added:
        x.resize((old[0] + rows, *old[1:]))
        x[old[0] :] = np.full((rows, *old[1:]), rows, dtype=x.dtype)
    x[1:3] = np.full((2, *old[1:]), -rows, dtype=x.dtype)
    x.vlmeta["rows"] = rows
    return added


def change_schunk(path: str, seed: int) -> list[str]:
    """Append, insert, update and delete chunks; gives the digest of each chunk that must be there."""
    s = blosc2.open(path, mode="a")
    chunks = [s.decompress_chunk(n) for n in range(s.nchunks)]
    rng = np.random.default_rng(seed)
    fresh = [rng.integers(0, 9, s.chunksize, dtype=np.uint8).tobytes() for _ in range(3)]
    s.insert_data(0, fresh[0], True)
    chunks.insert(0, fresh[0])
    s.update_data(1, fresh[1], True)
    chunks[1] = fresh[1]
    s.delete_chunk(2)
    del chunks[2]
    s.append_data(fresh[2])
    chunks.append(fresh[2])
    s.vlmeta["seed"] = seed
    return [manifest.sha256(chunk) for chunk in chunks]


def slice_and_append(path: str) -> list[Any]:
    """What the slices of a super-chunk hold, as a whole and in its middle; its chunks, and how many one more makes."""
    s = blosc2.open(path, mode="a")
    items = len(s)
    found = [manifest.sha256(bytes(s[:])), manifest.sha256(bytes(s[items // 3 : items - 5]))]
    return [*found, [info.special.value for info in s.iterchunks_info()], s.append_data(b"\1" * s.chunksize)]


def change_once(path: str, step: str, mmap_mode: str | None = None) -> None:
    """Make one small change of a file, or none."""
    x = blosc2.open(path, mode="a", **({} if mmap_mode is None else {"mmap_mode": mmap_mode}))
    what, _, how = step.partition(" ")
    if what == "nothing":
        x[:]
    elif what == "resize":
        x.resize((int(how), *x.shape[1:]))
    elif what == "set":
        x[int(how)] = 7
    elif what == "same":
        x[int(how)] = x[int(how)]
    elif what == "vlmeta":
        x.vlmeta[how] = 5
    elif what == "forget":
        del x.vlmeta[how]
    elif what == "meta":
        x.meta["m"] = int(how)
    elif what == "order":
        x.reorder_offsets(np.array([int(n) for n in how.split()]))
    elif what == "append":
        x.append_data(np.full(x.chunksize // 4, int(how), "i4"))
    elif what == "insert":
        x.insert_data(int(how), np.arange(x.chunksize // 4, dtype="i4"), True)
    elif what == "update":
        x.update_data(int(how), np.arange(x.chunksize // 4, dtype="i4"), True)
    elif what == "delete":
        x.delete_chunk(int(how))
    else:
        raise ValueError(step)


def leaf_value(kind: str, seed: int) -> Any:
    """A leaf by a short name; arrays of several sizes, so that a threshold divides them."""
    if kind == "schunk":
        return blosc2.SChunk(chunksize=40, data=bytes(range(100)))
    if kind in ("objects", "batches"):
        name = {"objects": "object_varied.b2f", "batches": "batch_varied.b2b"}[kind]
        return blosc2.open(str(manifest.ROOT / "objects" / name))
    size = {"small": 5, "big": 4000, "empty": 0, "scalar": 1}[kind]
    data = np.random.default_rng(seed).integers(0, 50, size).astype(np.int32)
    return data.reshape(()) if kind == "scalar" else data


def leaf_digest(kind: str, seed: int) -> str | None:
    """What the bytes of a leaf of numbers come to."""
    if kind == "schunk":
        return manifest.sha256(bytes(range(100)))
    if kind in ("objects", "batches"):
        return None
    return manifest.sha256(np.asarray(leaf_value(kind, seed)).tobytes())


def change_store(path: str, cls: str, mode: str, steps: list[list[Any]], threshold: int | None = 0) -> list[str]:
    """Do `[what, key, ...]` steps in one opening: set, delete, attribute."""
    more = {} if cls == "EmbedStore" else {"threshold": threshold}
    store = getattr(blosc2, cls)(path, mode=mode, **more)
    for what, key, *rest in steps:
        if what == "set":
            if cls == "EmbedStore" and key in store:
                del store[key]
            store[key] = leaf_value(*rest)
        elif what == "delete":
            del store[key]
        elif what == "attribute":
            name, value = rest
            view = store if key == "/" else store[key]
            view.vlmeta[name] = value
        elif what == "edit":
            store[key].vlmeta[rest[0]] = rest[1]
    keys = sorted(store.keys())
    if hasattr(store, "close"):
        store.close()
    return keys


def tree_attributes(path: str, group: str) -> None:
    """Attributes of every type on a group."""
    store = blosc2.TreeStore(path, mode="a")
    view = store if group == "/" else store[group]
    for name, value in list(recipes.vlmeta().items())[:15]:
        view.vlmeta[name] = value
    store.close()


def convert(path: str, target: str) -> str:
    """`to_b2z` or `to_b2d`, by the suffix."""
    store = blosc2.open(path, mode="r")
    done = store.to_b2z(filename=target) if target.endswith(".b2z") else store.to_b2d(target)
    store.close()
    return str(Path(done).name)


def about() -> str:
    """The version of the package."""
    return str(blosc2.__version__)


FUNCTIONS = {
    f.__name__: f
    for f in (
        make_array, make_schunk, describe, slices, change_array, change_points, change_schunk, change_store,
        slice_and_append, change_once, tree_attributes, convert, about, make_lists, change_lists, empty_lists,
        single_items, make_shaped_items,
    )
}  # fmt: skip


def serve(functions: dict[str, Any]) -> None:
    """Answer requests for these functions, one JSON line each."""
    blosc2.set_nthreads(1)  # the reference hangs on some files with more
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"value": functions[name](**arguments)}
        except Exception as error:  # noqa: BLE001 - reported where it is asked for
            import traceback

            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(FUNCTIONS)
