"""`ObjectArray` and `BatchArray` behave as lists do, wherever they lie."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from store_makers import KINDS, Maker

import blosc2
from blosc2 import BatchArray, ObjectArray
from blosc2.exceptions import FormatError, MissingFileError, UnexpectedKeywordError

VALUES = ["a", 1, None, {"b": (1, [2])}, 2.5, b"\0\1", [], (), -7, "é" * 40]
BATCHES = [[1, "a", None], ["b"], [(1, 2), {"c": [3]}, 4.5, b"d", "e"], [[]], [0, 0]]
ELEMENTS = {"objects": VALUES, "batches": BATCHES}
CLASSES = {"objects": ObjectArray, "batches": BatchArray}
STORAGES = ["memory", "contiguous", "file", "mapped", "directory", "locking", *KINDS]

Opener = Callable[..., Any]


def plain(values: Any) -> list[Any]:
    """What a list holds, as a list of plain values."""
    return [value[:] if isinstance(value, blosc2.Batch) else value for value in values]


@pytest.fixture(params=list(CLASSES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STORAGES)
def new(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[Opener]:
    """Makes an empty list in one kind of storage."""
    storage = request.param
    cls = CLASSES[kind]
    ways: dict[str, dict[str, Any]] = {
        "memory": {}, "contiguous": {"contiguous": True}, "file": {"urlpath": tmp_path / "x.b2f"},
        "mapped": {"urlpath": tmp_path / "x.b2f", "mmap_mode": "w+"},
        "directory": {"urlpath": tmp_path / "x.b2f", "contiguous": False},
        "locking": {"urlpath": tmp_path / "x.b2f", "locking": True},
    }  # fmt: skip
    with ExitStack() as stack:

        def make(**how: Any) -> Any:
            if storage in ways:
                return cls(**ways[storage], **how)
            store = stack.enter_context(Maker(storage, tmp_path)("w"))
            store["/k"] = cls(**how)
            return store["/k"]

        yield make


def test_every_method_of_a_list(new: Opener, kind: str) -> None:
    elements = ELEMENTS[kind]
    values = new()
    model: list[Any] = []
    assert (len(values), plain(values), bool(values)) == (0, [], False)
    for n, one in enumerate(elements, 1):
        assert values.append(one) == n
        model.append(one)
    assert plain(values) == model
    assert values.extend(elements[:3]) is None
    model.extend(elements[:3])
    for index in (0, 2, -1, 99, -99):
        assert values.insert(index, elements[1]) == len(model) + 1
        model.insert(index, elements[1])
    assert plain(values) == model
    for index in (-1, 0, 3):
        assert values.pop(index) == model.pop(index)
    assert values.pop() == model.pop()
    assert values.delete(1) == len(model) - 1
    del model[1]
    del values[-2], model[-2]
    values[2] = model[2] = elements[-1]
    values[-1] = model[-1] = elements[0]
    assert plain(values) == model
    values += elements[:2]
    model += elements[:2]
    values.reverse()
    model.reverse()
    assert plain(values) == model
    assert plain(reversed(values)) == model[::-1]
    assert [plain([values[n]])[0] for n in range(-len(model), len(model))] == model + model
    for n in (len(model), -len(model) - 1):
        with pytest.raises(IndexError, match="out of range"):
            values[n]
        with pytest.raises(IndexError, match="out of range"):
            values.pop(n)
        with pytest.raises(IndexError, match="out of range"):
            values.delete(n)
        with pytest.raises(IndexError, match="out of range"):
            values[n] = elements[0]
    with pytest.raises(NotImplementedError, match="Slicing"):
        values.pop(slice(0, 1))
    for use in (lambda: values["a"], lambda: values[1.0], lambda: values.insert("0", elements[0])):
        with pytest.raises(TypeError):
            use()
    assert plain(values) == model
    values.clear()
    assert (len(values), plain(values), values.nbytes) == (0, [], 0)
    values.extend(elements)
    assert plain(values) == elements


SLICES = [slice(a, b, c) for a in (None, 0, 2, 5, -3, 99) for b in (None, 0, 3, -1, 99) for c in (None, 1, 2, -1, -3)]


def test_slices(kind: str) -> None:
    elements = (ELEMENTS[kind] * 2)[:7]
    for key in SLICES:
        values, model = CLASSES[kind](), list(elements)
        values.extend(elements)
        assert plain(values[key]) == model[key]
        for new in (elements[:1], elements[:3], []):
            one, other = values.copy(), list(model)
            try:
                other[key] = new
            except ValueError:
                with pytest.raises(ValueError, match="extended slice"):
                    one[key] = new
            else:
                one[key] = new
            assert plain(one) == other, (key, new)
        del values[key], model[key]
        assert plain(values) == model, key
    values = CLASSES[kind]()
    values.extend(elements)
    with pytest.raises(ValueError, match="zero"):
        values[::0]
    with pytest.raises(TypeError):
        values[1:2] = 3
    assert plain(values) == elements


def test_what_fails_changes_nothing(kind: str, tmp_path: Path) -> None:
    elements = ELEMENTS[kind]
    path = tmp_path / "x.b2f"
    values = CLASSES[kind](urlpath=path)
    bad: Any = object() if kind == "objects" else [1, object()]

    def uses() -> list[Callable[[], Any]]:
        def gives() -> Iterator[Any]:
            yield elements[0]
            raise KeyError("mine")

        return [
            lambda: values.append(bad), lambda: values.extend([elements[0], bad]), lambda: values.insert(0, bad),
            lambda: values.__setitem__(slice(0, 1), [elements[0], bad]), lambda: values.extend(gives()),
            lambda: values.pop(10), lambda: values.__setitem__(10, elements[0]), lambda: values.__setitem__(0, bad),
        ]  # fmt: skip

    for there in ([], elements):
        values.extend(there)
        before = path.read_bytes()
        for use in uses():
            with pytest.raises((TypeError, KeyError, IndexError)):
                use()
            assert path.read_bytes() == before
            assert plain(values) == there
            assert plain(blosc2.open(path)) == there


def test_modes(kind: str, tmp_path: Path) -> None:
    cls, elements = CLASSES[kind], ELEMENTS[kind]
    path = str(tmp_path / "x.b2f")
    with pytest.raises(MissingFileError):
        cls(urlpath=path, mode="r")
    cls(urlpath=path).extend(elements[:2])
    assert cls(urlpath=path, mode="a").append(elements[2]) == 3
    assert plain(cls(urlpath=path, mode="r", mmap_mode="r")) == elements[:3]
    with pytest.raises(FileExistsError):
        cls(urlpath=path, mode="x")
    reader = cls(urlpath=path, mode="r")
    assert plain(reader) == elements[:3]
    for change in (
        lambda: reader.append(elements[0]), lambda: reader.extend([elements[0]]), lambda: reader.insert(0, elements[0]),
        lambda: reader.pop(), lambda: reader.delete(0), lambda: reader.__setitem__(0, elements[0]), reader.clear,
        lambda: reader.__delitem__(0), lambda: reader.__setitem__(slice(1), []), reader.reverse,
        lambda: reader.vlmeta.__setitem__("a", 1), lambda: reader.append(object()), lambda: reader.pop(99),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="reading mode"):
            change()
    assert len(cls(urlpath=path, mode="w")) == 0
    assert len(blosc2.open(path)) == 0
    for other in (SCHUNK, *(c for c in CLASSES.values() if c is not cls)):
        other(urlpath=path, mode="w")
        for mode in ("r", "a"):
            with pytest.raises(FormatError, match=f"not tagged as an? {cls.__name__}"):
                cls(urlpath=path, mode=mode)
    with pytest.raises(FormatError, match="not tagged"):
        cls(_from_schunk=blosc2.SChunk(data=b"abc"))
    values = cls()
    values.append(elements[0])
    assert plain(cls(_from_schunk=values.schunk)) == elements[:1]
    with pytest.raises(ValueError, match="no keyword 'foo'"):
        cls(foo=1)
    with pytest.raises(AttributeError, match="both"):
        cls(storage={"urlpath": path}, urlpath=path)
    with pytest.raises(ValueError, match="urlpath must be set"):
        cls(mode="r")
    with pytest.raises(ValueError, match="must be 'safe' or 'full'"):
        cls(deserialize="yes")


SCHUNK: Any = blosc2.SChunk


def test_metadata_and_parameters(new: Opener, kind: str) -> None:
    values = new(meta={"mine": {"a": 1}}, cparams={"codec": blosc2.Codec.LZ4, "clevel": 3})
    values.vlmeta["x"] = (1, 2)
    values.extend(ELEMENTS[kind])
    assert values.meta["mine"] == {"a": 1}
    assert values.vlmeta["x"] == (1, 2)
    assert values.attrs["x"] == (1, 2)
    assert (values.cparams.codec, values.cparams.typesize, values.typesize) == (blosc2.Codec.LZ4, 1, 1)
    assert values.schunk.nchunks == len(values)
    assert 0 < values.cbytes <= values.schunk.cbytes
    assert values.nbytes == sum(values.schunk.iterchunks_info().__class__ and [
        len(values.schunk.decompress_chunk(n)) for n in range(len(values))
    ])  # fmt: skip
    shown = dict(values.info_items)
    assert shown["type"] == CLASSES[kind].__name__
    assert len(repr(values)) < 100
    assert "cratio" in repr(values.info)
    for again in (values.copy(), blosc2.from_cframe(values.to_cframe()), values.copy(cparams={"clevel": 9})):
        assert type(again) is CLASSES[kind]
        assert plain(again) == ELEMENTS[kind]
        assert again.meta["mine"] == {"a": 1}
        assert again.vlmeta["x"] == (1, 2)
        again.append(ELEMENTS[kind][0])
    assert plain(values) == ELEMENTS[kind]
    with pytest.raises(ValueError, match="meta should not be passed"):
        values.copy(meta={})
    with pytest.raises(UnexpectedKeywordError, match=r"copy\(\) has no keyword 'urlpat'; did you mean 'urlpath'"):
        values.copy(urlpat="x.b2frame")


def test_copies_to_files(kind: str, tmp_path: Path) -> None:
    values = CLASSES[kind]()
    values.extend(ELEMENTS[kind])
    values.vlmeta["x"] = 1
    for n, how in enumerate(({}, {"cparams": {"codec": blosc2.Codec.LZ4, "clevel": 5}})):
        for contiguous in (True, False):
            path = tmp_path / f"{n}{contiguous}.b2f"
            copied = values.copy(urlpath=path, contiguous=contiguous, **how)
            assert copied.urlpath == str(path)
            assert copied.schunk.contiguous is contiguous
            if how:
                assert copied.cparams.codec is blosc2.Codec.LZ4
            copied.append(ELEMENTS[kind][1])
            again = blosc2.open(path)
            assert plain(again) == [*ELEMENTS[kind], ELEMENTS[kind][1]]
            assert again.vlmeta["x"] == 1
            with pytest.raises(FileExistsError):
                values.copy(urlpath=path, contiguous=contiguous, **how)


@pytest.mark.local
def test_handles_of_one_file(kind: str, tmp_path: Path, source: str | None) -> None:
    """A reader keeps its version until it refreshes; an iteration keeps the one that it began with."""
    cls, elements = CLASSES[kind], ELEMENTS[kind]
    path = tmp_path / "x.b2f"
    writer = cls(urlpath=path)
    writer.extend(elements[:3])
    reader = blosc2.open(path, mmap_mode=source)
    ahead = iter(writer)
    first = next(ahead)
    writer.append(elements[3])
    del writer[0]
    assert plain(reader) == elements[:3]
    assert plain([first, *ahead]) == elements[:3]
    assert reader.refresh()
    assert plain(reader) == elements[1:4]
    before, after = writer.compact()
    assert after < before
    assert plain(writer) == plain(reader) == elements[1:4]
    assert writer.append(elements[0]) == 4
    assert blosc2.check(path).ok


def read_calls() -> int:
    """How many system calls of this process have read so far."""
    return int(Path("/proc/self/io").read_text().split("syscr: ")[1].split()[0])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="no counts of system calls")
def test_a_change_reads_no_other_values(kind: str, tmp_path: Path) -> None:
    values = ELEMENTS[kind] * 100
    items = CLASSES[kind](urlpath=tmp_path / "a.b2frame", mode="w")
    items.extend(values)
    items[3] = values[0]  # what is read once
    before = read_calls()
    for n in range(10):
        items[n] = values[5]
        items.append(values[n])
    assert read_calls() - before < len(values)
    assert plain(items) == [values[5]] * 10 + values[10:] + values[:10]


def test_checked_reads(kind: str, tmp_path: Path, source: str | None) -> None:
    """With `verify` a changed byte of a chunk is noticed before it is decoded; after changes, too."""
    path = tmp_path / "x.b2f"
    values = CLASSES[kind](urlpath=path, cparams={"clevel": 0, "use_dict": False})
    values.extend(ELEMENTS[kind])
    values.append(ELEMENTS[kind][0])
    del values[1]
    want = plain(values)
    assert plain(blosc2.open(path, mmap_mode=source, verify=True)) == want
    at = values._handle.frame.chunk_info(2)[0] + values._handle.frame.chunk_info(2)[2] - 1
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    found = blosc2.open(path, mmap_mode=source, verify=True)
    with pytest.raises(FormatError, match=r"x\.b2f.*chunk 2.*checksum"):
        plain([found[2]])
    if kind == "batches":
        with pytest.raises(FormatError, match=r"x\.b2f.*chunk 2.*checksum"):
            found[2][0]
    assert plain(found[:2]) == want[:2]
    assert not blosc2.check(path).ok
    report = blosc2.salvage(path, tmp_path / "out.b2f")
    assert report.lost
    kept = blosc2.open(tmp_path / "out.b2f")
    assert plain(kept) == want[:2] + want[3:]
    if kind == "batches":
        assert [len(batch) for batch in kept] == [len(batch) for batch in want[:2] + want[3:]]
        assert kept.vlmeta["_batch_array_metadata"] == {"batch_lengths": [len(one) for one in plain(kept)]}


def test_lists_that_processes_change_together(kind: str, tmp_path: Path) -> None:
    cls, elements = CLASSES[kind], ELEMENTS[kind]
    path = tmp_path / "x.b2f"
    one = cls(urlpath=path, locking=True)
    other = blosc2.open(path, mode="a", locking=True)
    for n, element in enumerate(elements):
        assert (one if n % 2 else other).append(element) == n + 1
    assert plain(one) == plain(other) == elements
    with one.holding_lock():
        one[0] = elements[-1]
    assert plain([other[0]]) == elements[-1:]


def test_threads(kind: str, tmp_path: Path, source: str | None) -> None:
    """Many read one handle while others append to their own of the same file."""
    cls = CLASSES[kind]
    path = tmp_path / "x.b2f"
    make = (lambda n: [n, "x" * n, n]) if kind == "batches" else (lambda n: {"n": n, "x": "x" * n})
    cls(urlpath=path).extend(map(make, range(200)))
    shared = blosc2.open(path, mmap_mode=source)
    wrong: list[Any] = []

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for n in rng.integers(0, 200, 300).tolist():
                got = shared[n]
                if (got[:] if kind == "batches" else got) != make(n):
                    wrong.append(n)
                if kind == "batches" and got[1] != "x" * n:
                    wrong.append(n)
        except BaseException as error:  # noqa: BLE001 - told to the test
            wrong.append(error)

    memory = cls()

    def write(seed: int) -> None:
        for n in range(20):
            memory.append(make(seed * 100 + n))

    threads = [threading.Thread(target=read, args=(n,)) for n in range(6)]
    threads += [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    want = [make(seed * 100 + n) for seed in range(3) for n in range(20)]
    assert sorted(plain(memory), key=repr) == sorted(want, key=repr)


def test_live_leaves(kind: str, tmp_path: Path) -> None:
    """What is changed of a leaf is what the store publishes; with `discard` it is not."""
    elements = ELEMENTS[kind]
    for number, name in enumerate(KINDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        make = Maker(name, folder)
        with make("w") as store:
            values = CLASSES[kind]()
            values.extend(elements[:2])
            store["/k"] = values
            values.append(elements[3])  # it was copied
            store["/k"].append(elements[2])
            store["/empty"] = CLASSES[kind]()
            store["/empty"].append(elements[0])
        with make("a") as store:
            assert plain(store["/k"]) == elements[:3]
            leaf = store["/k"]
            leaf.insert(0, elements[3])
            leaf.vlmeta["x"] = 1
            store.flush()
            del leaf[1]
        with make("r") as store:
            assert plain(store["/k"]) == [elements[3], *elements[1:3]]
            assert store["/k"].vlmeta["x"] == 1
            assert plain(store["/empty"]) == elements[:1]
            with pytest.raises(ValueError, match="reading mode"):
                store["/k"].append(elements[0])
        with make("a") as store:
            leaf = store["/k"]
            leaf.clear()
            store.discard()
        with make("r", mmap_mode="r") as store:
            assert plain(store["/k"]) == [elements[3], *elements[1:3]]
        assert blosc2.check(make.path).ok


# ------------------------------------------------------------ whatever is done, in whatever order
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(
    max_size=30) | st.binary(max_size=60)  # fmt: skip
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    | st.tuples(inner, inner),
    max_leaves=5,
)  # fmt: skip
INDICES = st.integers(-6, 6)
SLICE = st.builds(slice, st.none() | INDICES, st.none() | INDICES, st.sampled_from([None, 1, 2, -1, -2]))


CODECS = [
    (blosc2.Codec.ZSTD, False), (blosc2.Codec.ZSTD, True), (blosc2.Codec.LZ4, True), (blosc2.Codec.BLOSCLZ, False),
]  # fmt: skip


class _AsAList(RuleBasedStateMachine):
    """A list of this package and one of Python are given the same orders."""

    kind = "objects"
    elements: Any = NESTED

    def __init__(self) -> None:
        super().__init__()
        self.model: list[Any] = []
        self.folder: Any = None

    @initialize(where=st.sampled_from(["memory", "memory", "file", "locking", "directory", "b2z"]), data=st.data())
    def begin(self, where: str, data: st.DataObject) -> None:
        self.folder = tempfile.mkdtemp()
        path = Path(self.folder) / "x.b2f"
        how: dict[str, Any] = {} if where in ("memory", "b2z") else {"urlpath": path}
        if where in ("locking", "directory"):
            how |= {"locking": True} if where == "locking" else {"contiguous": False}
        codec, use_dict = data.draw(st.sampled_from(CODECS))
        how["cparams"] = {"codec": codec, "clevel": data.draw(st.sampled_from([0, 1, 5])), "use_dict": use_dict}
        if self.kind == "batches":
            how["items_per_block"] = data.draw(st.sampled_from([None, 1, 2, 5]))
        self.path = None if where == "memory" else path
        self.store: Any = None
        self.values = CLASSES[self.kind](**how)
        if where == "b2z":
            self.path = None
            self.store = blosc2.TreeStore(str(path.with_suffix(".b2z")), mode="w")
            self.store["/k"] = self.values
            self.values = self.store["/k"]

    def teardown(self) -> None:
        if self.folder is None:
            return
        try:
            if self.store is not None:
                self.store.close()
                with blosc2.open(self.store.localpath) as store:
                    assert plain(store["/k"]) == self.model
            if self.path is not None:
                assert blosc2.check(self.path).ok
        finally:
            shutil.rmtree(self.folder)

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        one = data.draw(self.elements)
        self.model.append(one)
        assert self.values.append(one) == len(self.model)

    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        new = data.draw(st.lists(self.elements, max_size=4))
        self.model.extend(new)
        self.values.extend(iter(new))

    @rule(data=st.data(), at=INDICES)
    def insert(self, data: st.DataObject, at: int) -> None:
        one = data.draw(self.elements)
        self.model.insert(at, one)
        self.values.insert(at, one)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def pop(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(-len(self.model), len(self.model) - 1))
        assert self.values.pop(at) == self.model.pop(at)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(-len(self.model), len(self.model) - 1))
        self.values[at] = self.model[at] = data.draw(self.elements)

    @rule(key=SLICE)
    def delete(self, key: slice) -> None:
        del self.model[key]
        self.values.delete(key)

    @rule(key=SLICE, data=st.data())
    def assign(self, key: slice, data: st.DataObject) -> None:
        count = len(self.model[key])
        most = count if key.step not in (None, 1) else 3
        new = data.draw(st.lists(self.elements, min_size=most if most == count else 0, max_size=most))
        if key.step not in (None, 1) and len(new) != count:
            return
        self.model[key] = new
        self.values[key] = new

    @rule(key=SLICE)
    def read(self, key: slice) -> None:
        assert plain(self.values[key]) == self.model[key]

    @rule()
    def turn(self) -> None:
        self.model.reverse()
        self.values.reverse()

    @rule()
    def clear(self) -> None:
        self.model.clear()
        self.values.clear()

    @rule()
    def note(self) -> None:
        self.values.vlmeta["length"] = len(self.model)

    @precondition(lambda self: self.store is None)
    @rule()
    def open_again(self) -> None:
        if self.path is None:
            self.values = blosc2.from_cframe(self.values.to_cframe())
        else:
            self.values = blosc2.open(self.path, mode="a", locking=self.values.schunk.locking)

    @invariant()
    def the_same(self) -> None:
        if self.folder is None:
            return
        assert len(self.values) == len(self.model)
        assert plain(self.values) == self.model
        if self.kind == "batches":
            flat = [item for batch in self.model for item in batch]
            assert len(self.values.items) == len(flat)
            for n, item in enumerate(flat[:3]):
                assert self.values.items[n] == item
            for batch, want in zip(self.values, self.model, strict=True):
                assert len(batch) == len(want)
                assert batch[-1] == want[-1]


class _Batches(_AsAList):
    kind = "batches"
    elements = st.lists(NESTED, min_size=1, max_size=6)


TestObjectArray = _AsAList.TestCase
TestObjectArray.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
TestBatchArray = _Batches.TestCase
TestBatchArray.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
