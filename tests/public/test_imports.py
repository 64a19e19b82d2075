"""What is imported when: little by `import blosc2`, what reading needs by opening, all of the rest before a change."""

from __future__ import annotations

import ast
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
    "blosc2._stores.changes", "blosc2._stores.all_or_none", "blosc2._stores.transaction", "blosc2._stores.new_keys",
    "blosc2._stores.leaf_publishing", "blosc2._stores.paced_publishing", "blosc2._stores.open_stores",
    "blosc2._stores.leaves.leaf_setting", "blosc2._stores.leaves.value_to_frame",
    "blosc2._stores.leaves.many_frames", "blosc2._stores.tree.tree_changes", "blosc2._stores.copy_store",
    "blosc2._backends.writer_lock", "blosc2._backends.zip.publishing", "blosc2._backends.zip.compaction",
    "blosc2._backends.zip.streaming", "blosc2._backends.zip.directory_records",
    "blosc2._backends.directory.publishing", "blosc2._backends.embedded.append",
    "blosc2._backends.embedded.changes", "blosc2._backends.embedded.frame_layout",
    "blosc2._core.leaves.leaf_stream", "blosc2._core.zip.archive_writer", "blosc2._core.catalog_writing.catalog_writer",
    "blosc2._core.zip.external_sort", "blosc2._core.catalog_writing.leaf_merge",
    "blosc2._core.catalog_writing.path_slots",
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
    blosc2.asarray(np.arange(600.0), urlpath=str(path / "a.b2nd"))
    for kind, name in KINDS.values():
        with getattr(blosc2, kind)(str(path / name), mode="w") as store:
            for number in range(3):
                store[f"/g/{number}"] = np.arange(600) + number
    return path


# ---------------------------------------------------------------------- what is loaded
def test_the_package_loads_what_arrays_need() -> None:
    found = imported("import blosc2")
    assert "blosc2.ndarray" in found
    assert not found & (WRITERS | RARE)
    packages = {".".join(name.split(".")[:2]) for name in found}
    assert not packages & {"blosc2._stores", "blosc2._backends", "blosc2.dict_store", "blosc2.embed_store"}
    assert not {name for name in found if name.startswith(("blosc2._core.leaves.", "blosc2._core.keys."))}


def test_an_array_needs_no_more(folder: Path) -> None:
    code = """
import sys, numpy, blosc2
before = set(sys.modules)
assert blosc2.open(sys.argv[1])[5] == 5
print(*(set(sys.modules) - before))
"""
    assert not {name for name in run(code, folder / "a.b2nd").split() if name.startswith("blosc2")}


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_loads_its_backend_and_no_writer(kind: str, folder: Path) -> None:
    found = imported("import blosc2; assert blosc2.open(sys.argv[1])['/g/1'][5] == 6", folder / KINDS[kind][1])
    assert not found & (WRITERS | RARE)
    own = {"b2z": "zip", "b2d": "directory", "b2e": "embedded"}[kind[-3:]]
    backends = {name.split(".")[2] for name in found if name.endswith(".backend")}
    assert backends == {own}


@pytest.mark.parametrize("mmap_mode", [None, "r"], ids=["pread", "mmap"])
@pytest.mark.parametrize("kind", KINDS)
def test_reading_loads_no_more(kind: str, mmap_mode: str | None, folder: Path) -> None:
    """A forked child, which may not be able to import anything, can read the stores of its parent."""
    if kind.endswith("b2d") and mmap_mode is None:
        mmap_mode = "r"  # the same modules
    code = """
import sys, numpy as np, blosc2
store = blosc2.open(sys.argv[1], mmap_mode=sys.argv[2] or None)
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
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                assert line.module
                found.update({alias.asname or alias.name: (line.module, alias.name) for alias in line.names})
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
