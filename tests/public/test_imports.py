"""What is imported when: what opening and slicing an array needs by `import blosc2`, what other reading needs before a
fork, all of the rest before a change."""

from __future__ import annotations

import ast
import copy
import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import blosc2

SOURCE = Path(blosc2.__file__).resolve().parent
# Packages that import modules when a name of theirs is first used.
ON_DEMAND = sorted(
    path for path in SOURCE.rglob("__init__.py") if "__getattr__" in path.read_text(encoding="utf-8")
)  # fmt: skip
# What writes stores.
WRITERS = {
    "blosc2._stores.changes", "blosc2._stores.transaction", "blosc2._stores.new_keys",
    "blosc2._stores.automatic_publishing", "blosc2._stores.open_stores",
    "blosc2._stores.leaves.leaf_setting", "blosc2._stores.leaves.live_leaf", "blosc2._stores.leaves.many_frames",
    "blosc2._stores.tree.tree_changes", "blosc2._stores.copy_store",
    "blosc2._backends.writer_lock", "blosc2._backends.zip.publishing",
    "blosc2._backends.directory.publishing", "blosc2._backends.embedded.writing",
    "blosc2._backends.embedded.frame_layout",
    "blosc2._core.leaves.leaf_stream", "blosc2._core.zip.archive_writer", "blosc2._core.leaves.catalog_writer",
}  # fmt: skip
# What `import blosc2` imports besides `_core`: each of these takes a program's time, and most only ever read.
FIRST = {
    "blosc2", "blosc2._arrays", "blosc2._arrays.readable", "blosc2._arrays.ready", "blosc2._files", "blosc2._frames",
    "blosc2._frames.dtypes", "blosc2._frames.header_fields", "blosc2._functions", "blosc2._functions.from_frame",
    "blosc2._frames.chunks", "blosc2._frames.handle",
    "blosc2._frames.opening", "blosc2._indexing", "blosc2._indexing.reducible", "blosc2._indexing.views",
    "blosc2._opening", "blosc2._opening.open_path", "blosc2._options",
    "blosc2._options.codecs", "blosc2._options.threads", "blosc2._options.modes",
    "blosc2._options.encoding", "blosc2._options.absent", "blosc2._options.paths",
    "blosc2.exceptions", "blosc2.info", "blosc2.ndarray",
    "blosc2.schunk", "blosc2.storage", "blosc2.version", "blosc2._tuning",
}  # fmt: skip
# What changes arrays and super-chunks, in memory and in files.
ARRAY_WRITERS = {
    "blosc2._arrays.resize", "blosc2._core.ndim.grid_write", "blosc2._files.copies",
    "blosc2._frames.append", "blosc2._frames.update", "blosc2._frames.parameters",
    "blosc2._frames.chunk_updates",
    "blosc2._frames.changeable", "blosc2._frames.new_frame", "blosc2._indexing.write_items",
}  # fmt: skip
# What few programs need.
RARE = {
    "concurrent.futures", "logging", "blosc2._integrity", "blosc2._lists", "blosc2.batch_array", "blosc2.objectarray",
    "blosc2._functions.creation", "blosc2._functions.manipulation", "blosc2._functions.buffers",
    "blosc2._opening.tensors", "blosc2._opening.pickles", "blosc2._stores.leaves.statistics", "blosc2.core",
}  # fmt: skip
KINDS = {
    "b2z": ("DictStore", "x.b2z"),
    "b2d": ("DictStore", "x.b2d"),
    "b2e": ("EmbedStore", "x.b2e"),
    "tree-b2z": ("TreeStore", "t.b2z"),
    "tree-b2d": ("TreeStore", "t.b2d"),
}


def run(code: str, *arguments: object) -> str:
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent), "PYTHONWARNINGS": "ignore"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def imported(code: str, *arguments: object) -> set[str]:
    """The modules that a new process imports, besides those of NumPy."""
    before = "import sys, numpy as np; before = set(sys.modules)\n"
    return set(run(f"{before}{code}\nprint(*(set(sys.modules) - before))", *arguments).split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind."""
    path = tmp_path_factory.mktemp("kinds")
    items = np.arange(600.0)
    blosc2.asarray(items, chunks=(100,), urlpath=str(path / "a.b2nd"))
    blosc2.asarray(items, chunks=(100,), urlpath=str(path / "d.b2nd"), contiguous=False)
    with blosc2.DictStore(str(path / "f.b2z"), mode="w") as store:
        store["/g/0"] = items
    for kind, name in KINDS.values():
        with getattr(blosc2, kind)(str(path / name), mode="w") as store:
            for number in range(3):
                store[f"/g/{number}"] = np.arange(600) + number
    return path


# ---------------------------------------------------------------------- what is loaded
def test_the_package_loads_what_arrays_need() -> None:
    found = imported("import blosc2")
    assert {name for name in found if name.startswith("blosc2") and not name.startswith("blosc2._core")} == FIRST
    assert "msgpack" not in found
    assert not found & ARRAY_WRITERS
    assert not found & (WRITERS | RARE)
    packages = {".".join(name.split(".")[:2]) for name in found}
    assert not packages & {"blosc2._stores", "blosc2._backends", "blosc2.dict_store", "blosc2.embed_store"}
    assert not {name for name in found if name.startswith(("blosc2._core.leaves.", "blosc2._core.keys."))}


@pytest.mark.parametrize("options", ["mmap_mode='r', dparams={'nthreads': 1}", "mmap_mode='r'", "mode='r'"])
def test_opening_and_slicing_an_array_loads_nothing(options: str, folder: Path) -> None:
    """The first patch of a process does not wait for modules."""
    code = f"""
import sys, numpy as np
import blosc2
before = set(sys.modules)
array = blosc2.open(sys.argv[1], {options})
assert array.shape == (600,) and array.dtype == np.float64 and len(array) == 600
assert array[3:5].tolist() == [3, 4] and array[7] == 7 and array[...].sum() == 179700
print(*(set(sys.modules) - before))
"""
    assert run(code, folder / "a.b2nd").split() == []


# What follows is done by a forked child; where there are none, by the process as it is before a fork.
FORK = """
import os
if hasattr(os, "fork"):
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    from blosc2._core.io import sharing
    sharing._prepare()
"""
# What its parent opened is read by every kind of key.
READS = (
    """
import sys, numpy as np
numpys = set(sys.modules)
import blosc2
kind, path = sys.argv[1:]
if kind == "leaf":
    store = blosc2.open(path)
    array = store["/g/0"]
elif kind == "bytes":
    array = blosc2.from_cframe(open(path, "rb").read())
else:
    mmap_mode = "r" if kind == "mmap" else None
    array = blosc2.open(path, mmap_mode=mmap_mode, verify=True if kind == "verify" else None)
"""
    + FORK
    + """
loaded, before = set(sys.modules), set(sys.modules)
want = np.arange(600.0)
mask = want % 7 == 3
keys = [3, -1, slice(1, 3), slice(None, None, -2), (), ..., None, (None, slice(4)), [5, 1, 1], np.arange(9), mask, True]
for key in keys:
    assert np.array_equal(array[key], want[key]), key
    assert np.array_equal(array.read(key, out=np.empty_like(want[key])), want[key]), key
assert np.array_equal(array.oindex[[4, 2]], want[[4, 2]]) and np.array_equal(array.oindex[mask], want[mask])
assert [items.tolist() for items in array.read_many([0, [2, 3], mask[:]])] == [0, [2, 3], want[mask].tolist()]
assert np.array_equal(array, want) and list(array) == list(want) and array.item(7) == 7
for bad in (600, "x", (0, 0), [600]):
    try:
        array[bad]
    except (IndexError, KeyError, ValueError):
        continue
    raise AssertionError(bad)
try:
    array.view()
except ValueError:
    pass
assert dict(array.vlmeta) == {} and "b2nd" in array.meta
chunks = array.schunk
assert chunks[2:4] == want[2:4].tobytes() and b"".join(chunks.decompress_chunk(n) for n in range(chunks.nchunks))
assert len(chunks.get_chunk(0)) >= 32 <= len(chunks.get_lazychunk(0))
assert len(list(array.iterchunks_info())) == len(list(chunks.iterchunks_info())) == chunks.nchunks
array.advise("willneed")
assert not array.refresh()
print(*(set(sys.modules) - before), "|", *(loaded - numpys))
"""
)


@pytest.mark.parametrize("kind", ["pread", "mmap", "verify", "directory", "bytes", "leaf"])
def test_a_forked_child_reads_an_array_and_loads_no_more(kind: str, folder: Path) -> None:
    """By every kind of key: it may not be able to import anything."""
    name = {"leaf": "f.b2z", "directory": "d.b2nd"}.get(kind, "a.b2nd")
    later, _, loaded = run(READS, kind, folder / name).partition("|")
    assert later.split() == []
    assert "numpy.ma" not in loaded.split()  # which takes longer than all of ours
    if kind in ("pread", "mmap"):
        assert not set(loaded.split()) & (ARRAY_WRITERS | WRITERS | RARE)


# How something that can be changed comes to be, in `folder`.
CHANGEABLE = {
    "file": "array = blosc2.open(folder + '/a.b2nd', 'a')",
    "durable": "array = blosc2.open(folder + '/a.b2nd', 'a', durable=True)",
    "mapped": "array = blosc2.open(folder + '/a.b2nd', mmap_mode='r+')",
    "mapped, in memory": "array = blosc2.open(folder + '/a.b2nd', mmap_mode='c')",
    "shared": "array = blosc2.open(folder + '/a.b2nd', 'a', locking=True)",
    "directory": "array = blosc2.open(folder + '/d.b2nd', 'a')",
    "bytes": "array = blosc2.from_cframe(open(folder + '/a.b2nd', 'rb').read())",
    "loaded": "array = blosc2.load(folder + '/a.b2nd')",
    "pickled": "array = pickle.loads(open(folder + '/a.pickle', 'rb').read())",
    "new": "array = blosc2.asarray(np.arange(600.0), chunks=100)",
    "zeros": "array = blosc2.zeros(600, chunks=(100,))",
    "new file": "array = blosc2.asarray(np.arange(600.0), chunks=100, urlpath=folder + '/new.b2nd')",
    "new directory": "array = blosc2.asarray(np.arange(600.0), urlpath=folder + '/new', contiguous=False)",
    "leaf of b2z": "store = blosc2.open(folder + '/f.b2z', 'a'); array = store['/g/0']",
    "leaf of b2d": "store = blosc2.open(folder + '/f.b2d', 'a'); array = store['/g/0']",
    "leaf of b2e": "store = blosc2.open(folder + '/f.b2e', 'a'); array = store['/g/0']",
    "schunk": "chunks = blosc2.SChunk(800, np.arange(600.0))",
    "schunk in a file": "chunks = blosc2.SChunk(800, np.arange(600.0), urlpath=folder + '/new.b2frame')",
    "schunk from a file": "chunks = blosc2.open(folder + '/s.b2frame', 'a')",
    "schunk from bytes": "chunks = blosc2.schunk_from_cframe(open(folder + '/s.b2frame', 'rb').read())",
    "list": "values = blosc2.ObjectArray(urlpath=folder + '/new.b2frame', mode='w')",
    "list from a file": "values = blosc2.open(folder + '/o.b2frame', 'a')",
}  # fmt: skip
CHANGE = """
import pickle, sys, numpy as np
numpys = set(sys.modules)
import blosc2
folder = sys.argv[1]
array = chunks = values = None
exec(sys.argv[2])
loaded, before = set(sys.modules), set(sys.modules)
if array is not None:
    array[3] = 7
    array[::2] = array[[1, 2, 1]] = array[np.arange(len(array)) > 590] = 5
    array.oindex[[4, 9]] = [2, 3]
    if "leaf" not in sys.argv[3]:
        array.append([1, 2])
        array.resize(1000)
        with array.transaction():
            array[-400:] = np.arange(400.0) ** 0.5
            array.resize(90)
            array[5] = 4
    array.advise("willneed")
    assert array[1] == 5 and array[4] == 2
if chunks is not None:
    assert chunks.append_data(bytes(80)) == 7
    chunks.update_data(0, bytes(800))
    chunks.insert_chunk(1, chunks.get_chunk(2))
    chunks.delete_chunk(3)
    chunks[2:4] = bytes(16)
    chunks.fill_special(5, blosc2.SpecialValue.ZERO)
    chunks.reorder_offsets(range(chunks.nchunks)[::-1])
if values is not None:
    values.extend([1, {"a": 2}])
    values[0] = "x"
    del values[1]
for changed in (array, chunks, values):
    if changed is not None:
        changed.vlmeta["unit"] = "mm"
        changed.cparams = {"clevel": 3}
        changed.flush()
        changed.compact()
        assert changed.vlmeta["unit"] == "mm"
print(*(set(sys.modules) - before), "|", *(loaded - numpys))
"""


@pytest.mark.parametrize("how", CHANGEABLE)
def test_changes_load_no_more(how: str, tmp_path: Path) -> None:
    """What changes need was imported when something was opened for them, or made."""
    items = np.arange(600.0)
    array = blosc2.asarray(items, chunks=(100,), urlpath=str(tmp_path / "a.b2nd"))
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(array))
    blosc2.asarray(items, chunks=(100,), urlpath=str(tmp_path / "d.b2nd"), contiguous=False)
    blosc2.SChunk(800, items, urlpath=str(tmp_path / "s.b2frame"))
    blosc2.ObjectArray(urlpath=str(tmp_path / "o.b2frame"), mode="w").append(3)
    for kind in ("b2z", "b2d", "b2e"):
        with getattr(blosc2, KINDS[kind][0])(str(tmp_path / f"f.{kind}"), mode="w") as store:
            store["/g/0"] = items
    later, _, loaded = run(CHANGE, tmp_path, CHANGEABLE[how], how).partition("|")
    assert later.split() == []
    assert "numpy.ma" not in loaded.split()
    if "array = " in CHANGEABLE[how]:
        assert set(loaded.split()) >= ARRAY_WRITERS


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_loads_its_backend_and_no_writer(kind: str, folder: Path) -> None:
    found = imported("import blosc2; assert blosc2.open(sys.argv[1])['/g/1'][5] == 6", folder / KINDS[kind][1])
    assert not found & (WRITERS | RARE)
    own = {"b2z": "zip", "b2d": "directory", "b2e": "embedded"}[kind[-3:]]
    backends = {name.split(".")[2] for name in found if name.endswith(".backend")}
    assert backends == {own}


@pytest.mark.parametrize("mmap_mode", [None, "r"], ids=["pread", "mmap"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_reads_a_store_and_loads_no_more(kind: str, mmap_mode: str | None, folder: Path) -> None:
    """A forked child, which may not be able to import anything, can read the stores of its parent."""
    if kind.endswith("b2d") and mmap_mode is None:
        mmap_mode = "r"  # the same modules
    code = f"""
import sys, numpy as np, blosc2
store = blosc2.open(sys.argv[1], mmap_mode=sys.argv[2] or None)
{FORK}
before = set(sys.modules)
keys = ["/g/0", "/g/1", "/g/2"]
for key in keys:
    want = np.arange(600) + int(key[-1])
    assert (store[key][...] == want).all() and (store[key][3:9] == want[3:9]).all() and (store.read(key) == want).all()
    assert key in store and key + "x" not in store
assert store.read_many(keys).shape == (3, 600)
assert [name for name in store if name in keys] == keys and len(store) >= 3
assert not store.refresh()
store.close()
store = None
print(*(set(sys.modules) - before))
"""
    assert run(code, folder / KINDS[kind][1], mmap_mode or "").split() == []


CHANGES = """
import atexit, os, sys
def at_last():
    late = set(sys.modules) - before
    assert not late, late
    os.write(1, b"nothing")
atexit.register(at_last)  # runs after the stores are closed
import numpy as np
import blosc2
kind, path, how = sys.argv[1:]
options = {"threshold": 1000} if "mixed" in path else {}
store = getattr(blosc2, kind)(path or None, mode="a" if how == "opened" else "w", **options)
before = set(sys.modules)
store["/g/a"] = np.arange(40)
if how == "changed":
    leaf = store["/g/a"]
    leaf[2] = 7
    store["/g/b"] = np.arange(90000.0)
    store.update({f"/h/{number}": np.arange(number + 1) for number in range(300)})
    with store.transaction():
        del store["/h/7"]
    store.rename("/g/b", "/g/c")
    store.flush()
    store.compact()
    store["/g/d"] = np.arange(3)
    before = set(sys.modules)
    store["/h/8"] = np.zeros(5)
"""


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *((kind, how) for kind in (*KINDS, "mixed-b2z", "mixed-b2d") for how in ("new", "opened", "changed")),
        ("memory", "new"),
        ("memory", "changed"),
    ],
)
def test_a_writer_has_loaded_all_that_it_needs(kind: str, how: str, tmp_path: Path) -> None:
    """Nothing is imported when a store that was left open is published at exit."""
    name, file = KINDS.get(kind, ("TreeStore", f"{kind}.{kind[-3:]}") if "mixed" in kind else ("EmbedStore", ""))
    path = str(tmp_path / file) if file else ""
    if how == "opened":
        options = {"threshold": 1000} if "mixed" in kind else {}
        with getattr(blosc2, name)(path, mode="w", **options) as store:
            store["/g/old"] = np.arange(4)
    assert run(CHANGES, name, path, how) == "nothing"
    if path:
        with blosc2.open(path) as store:
            want = np.arange(40)
            if how == "changed":
                want[2] = 7
                assert store["/h/8"][:].tolist() == [0] * 5
            assert store["/g/a"][:].tolist() == want.tolist()


# ---------------------------------------------------------------------- names
def declared(path: Path) -> dict[str, tuple[str, str]]:
    """The names that a package imports on demand, as type checkers see them: their modules, and their names there."""
    found, tree = {}, ast.parse(path.read_text(encoding="utf-8"))
    package = ".".join(path.parent.relative_to(SOURCE.parent).parts)
    tables = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    places = {
        f"{package}.{place.value}": names.value.split()
        for table in tables
        for place, names in zip(table.keys, table.values, strict=True)
        if isinstance(place, ast.Constant) and isinstance(names, ast.Constant)
    }
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                assert line.module
                if line.names[0].name == "*":  # those of the table, and others that nobody has at run time
                    found.update({name: (line.module, name) for name in places[line.module]})
                else:
                    found.update({alias.asname or alias.name: (line.module, alias.name) for alias in line.names})
            assert {name for names in places.values() for name in names} <= found.keys()
    return found


def package_at(path: Path) -> ModuleType:
    return importlib.import_module(".".join(path.parent.relative_to(SOURCE.parent).parts))


@pytest.mark.parametrize("path", ON_DEMAND, ids=lambda path: path.parent.relative_to(SOURCE.parent).as_posix())
def test_names_on_demand_are_those_that_type_checkers_see(path: Path) -> None:
    package, names = package_at(path), declared(path)
    assert names
    for name, (module, there) in names.items():
        home = importlib.import_module(module)
        want = getattr(home, there) if hasattr(home, there) else importlib.import_module(f"{module}.{there}")
        assert getattr(package, name) is want
        # A module that is imported becomes an attribute of its package, in place of a function of that name.
        assert isinstance(want, ModuleType) or not (path.parent / f"{name}.py").exists()
    with pytest.raises(AttributeError, match="nothing_like_it"):
        package.nothing_like_it  # noqa: B018


def exported(module: str) -> set[str]:
    """The names that a strict type checker sees in an installed module: what it defines, what it imports with a star or
    under the same name `as`, and of its other imports what it lists."""
    path = Path(importlib.import_module(module).__file__ or "")
    found, imported, listed = set(), set(), getattr(importlib.import_module(module), "__all__", [])
    nodes = list(ast.parse(path.read_text(encoding="utf-8")).body)
    for node in nodes:
        if isinstance(node, ast.If):
            nodes += node.body
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = ast.walk(ast.Tuple(node.targets if isinstance(node, ast.Assign) else [node.target]))
            found |= {name.id for name in names if isinstance(name, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            found |= exported(node.module or "")
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names if alias.asname == alias.name}
            imported |= {alias.asname or alias.name for alias in node.names}
    return found | imported & set(listed)


def test_a_strict_type_checker_sees_each_public_name() -> None:
    modules = {name for name, value in vars(blosc2).items() if isinstance(value, ModuleType)}
    names = {name for name in dir(blosc2) if not name.startswith("_")}
    assert len(names) > 150
    assert not names - modules - set(blosc2._MODULES) - exported("blosc2")


def test_there_are_packages_with_names_on_demand() -> None:
    assert SOURCE / "__init__.py" in ON_DEMAND
    assert SOURCE / "_stores" / "__init__.py" in ON_DEMAND


def test_each_name_is_there_in_a_new_process() -> None:
    """Also without any other name used before it, and as `from blosc2 import ...`."""
    code = """
import sys, blosc2
assert set(blosc2.__all__) <= set(dir(blosc2))
late = [name for name in blosc2.__all__ if name not in vars(blosc2) and name != "nthreads"]
for name in late:
    assert hasattr(blosc2, name), name
space = {}
exec("from blosc2 import *", space)
assert set(blosc2.__all__) <= set(space)
assert all(space[name] is getattr(blosc2, name) for name in late)
print(len(late))
"""
    assert int(run(code)) > 60


@pytest.mark.parametrize(
    "name",
    [
        "batch_array",
        "blosc2_ext",
        "core",
        "dict_store",
        "embed_store",
        "ndarray",
        "objectarray",
        "schunk",
        "storage",
        "tree_store",
        "utils",
    ],
)
def test_modules_are_attributes_of_the_package(name: str) -> None:
    code = f"import sys, blosc2; assert blosc2.{name} is sys.modules['blosc2.{name}']; print('{name}' in dir(blosc2))"
    assert run(code).strip() == "True"


def test_public_objects_are_those_of_their_modules() -> None:
    for name in blosc2.__all__:
        value = getattr(blosc2, name)
        home: Any = sys.modules.get(getattr(value, "__module__", ""))
        if home is not None and home.__name__.startswith("blosc2") and hasattr(value, "__qualname__"):
            assert getattr(home, value.__qualname__, value) is value
            assert pickle.loads(pickle.dumps(value)) is value


# ---------------------------------------------------------------------- what comes from elsewhere
def test_pickles_open_in_a_new_process(tmp_path: Path) -> None:
    """Nothing of the package is imported there but what the pickle asks for."""
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a"] = np.arange(5)
    store = blosc2.open(path)
    things = [
        blosc2.asarray(np.arange(5)), blosc2.asarray(np.arange(10).reshape(2, 5))[1:2, :], store, store["/a"],
        blosc2.SChunk(data=np.arange(5)), blosc2.ObjectArray(), blosc2.BatchArray(),
    ]  # fmt: skip
    things[5].append([0, 1])
    things[6].append([0, 1])
    for number, thing in enumerate(things):
        (tmp_path / f"{number}.pickle").write_bytes(pickle.dumps(thing))
    code = """
import pickle, sys, warnings
for number in range(int(sys.argv[2])):
    with open(f"{sys.argv[1]}/{number}.pickle", "rb") as file:
        print(type(pickle.load(file)).__name__)
"""
    assert run(code, tmp_path, len(things)).split() == [type(thing).__name__ for thing in things]


def test_arrays_travel_by_every_protocol() -> None:
    array = blosc2.asarray(np.arange(5))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(array, protocol))[:].tolist() == [0, 1, 2, 3, 4]


def test_the_module_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(blosc2)) is blosc2
    assert copy.deepcopy(blosc2) is blosc2
