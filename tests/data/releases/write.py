"""Write the files of a release: python tests/data/releases/write.py. Run it once, when a major version is released.

The folder gets the number of the version, and a manifest with the checksum of each file. Files that are there are never
written anew: later versions have to read them as they are.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from fixture_kit import release_values as values  # noqa: E402

import blosc2  # noqa: E402


def parameters(how):
    """The keywords of a constructor for parameters by their names."""
    how = dict(how)
    given = {}
    if "contiguous" in how:
        given["contiguous"] = how.pop("contiguous")
    if "codec" in how:
        how["codec"] = blosc2.Codec[how["codec"]]
    if "filters" in how:
        names = how["filters"]
        how["filters"] = [blosc2.Filter[name] for name in names]
        how["filters_meta"] = [0] * len(names)
        if "BYTEDELTA" in names:
            how["filters_meta"] = [2 if name == "BYTEDELTA" else 0 for name in names]
    return {**given, "cparams": how}


def write_arrays(folder):
    for name, (items, chunks, blocks, how) in values.ARRAYS.items():
        keywords = {"urlpath": str(folder / f"{name}.b2nd"), "mode": "w", **parameters(how)}
        if chunks is not None:
            keywords.update(chunks=chunks, blocks=blocks)
        if name == "zeros":
            blosc2.zeros(items.shape, items.dtype, **keywords)
        elif name == "nans":
            blosc2.nans(items.shape, items.dtype, **keywords)
        elif name == "full":
            blosc2.full(items.shape, 7, items.dtype, **keywords)
        else:
            blosc2.asarray(items, **keywords)
    items, key, value = values.CHANGED
    array = blosc2.asarray(items, chunks=(512,), blocks=(128,), urlpath=str(folder / "changed.b2nd"), mode="w")
    array[key] = value
    array.vlmeta.update(values.ATTRIBUTES)
    first, second = values.GROWN
    array = blosc2.asarray(first, chunks=(512,), blocks=(128,), urlpath=str(folder / "grown.b2nd"), mode="w")
    array.append(second)


def write_lists(folder):
    blosc2.SChunk(data=values.DATA, chunksize=3000, urlpath=str(folder / "data.b2frame"), mode="w")
    objects = blosc2.ObjectArray(urlpath=str(folder / "objects.b2frame"), mode="w")
    objects.extend(values.OBJECTS)
    batches = blosc2.BatchArray(urlpath=str(folder / "batches.b2frame"), mode="w")
    for batch in values.BATCHES:
        batches.append(batch)


def write_stores(folder):
    for name in ("tree.b2z", "tree.b2d", "dict.b2z", "embed.b2e", "changed.b2z"):
        kinds = {"tree": blosc2.TreeStore, "dict": blosc2.DictStore, "embe": blosc2.EmbedStore, "chan": blosc2.TreeStore}
        kind = kinds[name[:4]]
        with kind(str(folder / name), mode="w", **({"threshold": 1000} if name == "tree.b2d" else {})) as store:
            for key, items in values.LEAVES.items():
                store[key] = items
            if kind is blosc2.TreeStore:
                store.attrs.update(values.ATTRIBUTES)
                store.get_subtree("/a/b").attrs.update(values.ATTRIBUTES)
    with blosc2.TreeStore(str(folder / "changed.b2z"), mode="a") as store:
        store["/scan"] = values.RAMP
        del store["/a/ramp"]
        store.rename("/many/007", "/moved")
        store["/new"] = np.arange(3)


def main():
    folder = HERE / blosc2.__version__.partition(".")[0]
    folder.mkdir()  # never written anew
    write_arrays(folder)
    write_lists(folder)
    write_stores(folder)
    files = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }
    about = {"version": blosc2.__version__, "c-blosc2": blosc2.blosclib_version.split()[0], "numpy": np.__version__}
    (folder / "manifest.json").write_text(json.dumps({"written_by": about, "files": files}, indent=1) + "\n")


if __name__ == "__main__":
    main()
