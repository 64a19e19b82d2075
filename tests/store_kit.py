"""The contract of a store as tests: a class of tests for each kind of store inherits `StoreContract`.

A subclass names how its store is made; every test then runs for it, and every test that reads back runs over both
ways to read a file.
"""

from __future__ import annotations

import gc
import os
import pickle
import sysconfig
import threading
import weakref
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import blosc2

VALUES: dict[str, Any] = {
    "/scalar": 7,
    "/list": [1.5, 2.5],
    "/numpy": np.arange(24, dtype="i2").reshape(2, 3, 4),
    "/empty": np.zeros((0, 3)),
    "/text": np.array(["a", "ünï"]),
    "/date": np.array(["2026-11-21"], "M8[D]"),
    "/group/fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "/group/sub/large": np.arange(30_000, dtype="f8"),
    "/group/struct": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    "/ünï/日本": np.arange(3, dtype=">u4"),
    "/dots/a.b.c": np.int8(3),
}

BAD_KEYS = ["/a/", "//a", "/a//b", "", "/..", "/../x", "/a/../b", "/./x", "/a/.", "/a\0b", "/a\nb", "/a\\b", "/C:x",
            "/\x7f", "/\ud800", "/a/" + "é" * 121, "/ab" * 1400, "/a" * 257 + "/" + "b" * 241, "/embed.b2e",
            "/embed.b2e/a", "/embed.b2e.b2lock", "/.b2", "/.b2/a",
            "/.B2", "/.B2/a", "/EMBED.b2e/x", "/Embed.B2E", "/embed.b2e.b2LOCK/a", "/EMBED.B2E.B2LOC\u212a",
            "/con", "/a/NUL.txt/b", "/Lpt1", "/a/com\xb2",
            "/aux .b", "/a?b", "/a*", "/a/\"", "/a<b", "/a>b", "/a|b", "/a.", "/a./b", "/a ", "/a/b /c"]  # fmt: skip
BAD_VALUES = [{"a": 1}, object(), np.array([None, 1]), [[1], [2, 3]], lambda: 0]


def tree_state(path: Path) -> dict[str, Any]:
    """Every file below a path (or the path itself), with content and time."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*"))
    return {str(p): (p.read_bytes() if p.is_file() else None, p.stat().st_mtime_ns) for p in files}


class StoreContract:
    """What every store must do."""

    kind: ClassVar[type]
    suffix: ClassVar[str] = ""  # "" for a store in memory
    options: ClassVar[dict[str, Any]] = {}

    # ------------------------------------------------------------------ how the store is made
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / f"store{self.suffix}"

    def make(self, path: Path, mode: str = "a", **more: Any) -> Any:
        if not self.suffix:
            return self.kind(mode=mode, **self.options, **more)
        return self.kind(str(path), mode=mode, **self.options, **more)

    def beside(self, path: Path) -> list[str]:
        """What lies in the folder of a store."""
        return [path.name]

    def read_back(self, store: Any, path: Path, mmap_mode: str | None) -> Any:
        """Close a store and open what it left, read-only."""
        if not self.suffix:
            return self.kind._from_buffer(store.to_cframe(), "r")
        store.close()
        return self.kind(str(path), mode="r", mmap_mode=mmap_mode)

    @pytest.fixture
    def filled(self, path: Path) -> Iterator[Any]:
        with self.make(path) as store:
            store.update(VALUES)
            yield store

    # ------------------------------------------------------------------ mapping
    def test_it_is_a_mutable_mapping(self, filled: Any) -> None:
        assert isinstance(filled, MutableMapping)
        leaves = [key for key in filled if isinstance(filled[key], blosc2.NDArray)]
        assert set(leaves) == set(VALUES)
        assert len(filled) == len(list(filled)) == len(filled.keys()) == len(list(filled.items()))
        assert set(filled.keys()) >= set(VALUES)
        assert filled.keys() == set(filled)
        assert filled.keys() & {"/list", "/none"} == {"/list"}
        assert filled.keys() - set(filled) == set()
        assert list(filled.keys()) == list(filled)
        assert filled.get("/none") is None
        assert filled.get("/none", 5) == 5
        assert filled.get("/scalar")[()] == 7
        for key in VALUES:
            assert key in filled
            assert key + "x" not in filled
        for wrong in (5, None, "/a/", "//", "/\0", "/.."):
            assert wrong not in filled

    def test_an_iterator_that_has_ended(self, filled: Any) -> None:
        keys = iter(filled)
        assert len(list(keys)) == len(filled)
        filled["/behind"] = [1]
        assert next(keys, "end") == "end"

    def test_values_come_back(self, filled: Any, path: Path, source: str | None) -> None:
        for back in (False, True):
            store = self.read_back(filled, path, source) if back else filled
            for key, value in VALUES.items():
                expected = np.asarray(value)
                leaf = store[key]
                assert leaf.dtype == expected.dtype
                assert leaf.shape == expected.shape
                np.testing.assert_array_equal(leaf[()], expected)
                np.testing.assert_array_equal(store[key[1:]][()], expected)
            order = list(store)
            assert order == list(store)

    def test_arrays_keep_their_bytes(self, path: Path, source: str | None) -> None:
        values = {
            "/array": blosc2.asarray(np.arange(1000), chunks=(300,), blocks=(30,), meta={"m": [1]}),
            "/schunk": blosc2.SChunk(chunksize=64, data=bytes(range(200)), cparams={"typesize": 1}),
        }
        values["/array"].vlmeta["unit"] = "mm"
        frames = {key: value.to_cframe() for key, value in values.items()}
        with self.make(path) as store:
            store.update(values)
            store = self.read_back(store, path, source)
        for key, frame in frames.items():
            assert type(store[key]) is type(values[key])
            assert store[key].to_cframe() == frame
        assert store["/array"].vlmeta["unit"] == "mm"
        assert store["/array"].meta["m"] == [1]
        assert store["/schunk"][10:20] == bytes(range(10, 20))

    def test_delete(self, filled: Any, path: Path, source: str | None) -> None:
        del filled["/list"]
        del filled["group/fortran"]
        for key in ("/list", "/group/fortran", "/none"):
            assert key not in filled
            with pytest.raises(KeyError, match=key):
                filled[key]
            with pytest.raises(KeyError, match="not found"):
                del filled[key]
        store = self.read_back(filled, path, source)
        assert set(VALUES) - set(store) == {"/list", "/group/fortran"}

    def test_overwrite(self, filled: Any, path: Path, source: str | None) -> None:
        held = filled["/numpy"]
        filled["/numpy"] = np.array([1, 2])
        np.testing.assert_array_equal(held[:], VALUES["/numpy"])  # what was handed out stays what it was
        with pytest.raises(ValueError):
            held[0] = 5
        filled["/list"] = blosc2.SChunk(data=b"12345678")  # of another kind
        assert filled["/list"][:] == b"12345678"
        store = self.read_back(filled, path, source)
        np.testing.assert_array_equal(store["/numpy"][:], [1, 2])
        assert store["/list"][:] == b"12345678"
        assert set(VALUES) <= set(store)

    def test_pop_clear_setdefault(self, filled: Any) -> None:
        assert filled.pop("/scalar")[()] == 7
        assert "/scalar" not in filled
        assert filled.pop("/scalar", "gone") == "gone"
        filled.clear()
        assert list(filled) == []
        assert len(filled) == 0
        filled["/a"] = [1]
        assert list(filled) == ["/a"]

    # ------------------------------------------------------------------ keys and values
    def test_keys_that_no_store_takes(self, path: Path) -> None:
        with self.make(path) as store:
            for key in BAD_KEYS:
                with pytest.raises(ValueError):
                    store[key] = [1]
                assert list(store) == [], key
                assert key not in store or key == "/"

    def test_keys_that_are_no_strings(self, path: Path) -> None:
        with self.make(path) as store:
            for key in (5, None, b"/a", ("/a",), 2.5):
                for error in (TypeError, ValueError):
                    with pytest.raises(error, match="must be a string"):
                        store[key] = [1]
                    with pytest.raises(error, match="must be a string"):
                        store[key]
                assert key not in store

    def test_keys_of_numpy_are_strings(self, path: Path, source: str | None) -> None:
        with self.make(path) as store:
            store[np.str_("/g/a")] = [1]
            store["/b"] = [2]
            leaf = store[np.str_("b")]
            assert store["/b"] is leaf
            leaf[0] = 3
            assert np.str_("/b") in store
            assert {type(key) for key in store} == {str}
            store = self.read_back(store, path, source)
        assert {"/b", "/g/a"} <= set(store)
        assert store[np.str_("/b")][0] == 3
        assert type(store[np.str_("/b")]._handle.key) is str

    def test_long_keys(self, path: Path, source: str | None) -> None:
        key = "/é" + "k" * 238 + "/" + "é" * 120
        with self.make(path) as store:
            store[key] = [1]
            store = self.read_back(store, path, source)
        assert store[key][0] == 1

    def test_a_key_gets_its_slash(self, path: Path) -> None:
        with self.make(path) as store:
            store["a/b"] = [1]
            assert "/a/b" in store
            assert "a/b" in store
            assert store["a/b"] is not None

    @pytest.mark.parametrize("value", BAD_VALUES, ids=lambda v: type(v).__name__)
    def test_values_that_are_no_arrays(self, path: Path, value: Any) -> None:
        with self.make(path) as store:
            for error in (TypeError, AttributeError):
                with pytest.raises(error, match=r"/bad.*cannot be stored"):
                    store["/bad"] = value
            assert list(store) == []

    # ------------------------------------------------------------------ live leaves
    def test_leaves_are_live(self, filled: Any, path: Path, source: str | None) -> None:
        leaf = filled["/numpy"]
        assert filled["/numpy"] is leaf
        leaf[0, 0, 0] = 99
        assert filled["/numpy"][0, 0, 0] == 99
        filled["/list"][1] = 5  # nobody holds this leaf
        assert filled["/list"][1] == 5
        filled["/empty"].vlmeta["note"] = [1, 2]
        filled.flush()
        assert filled["/list"][1] == 5
        leaf[0, 0, 1] = 98  # after a flush too
        view = filled["/text"].vlmeta
        view["late"] = True
        store = self.read_back(filled, path, source)
        assert store["/numpy"][0, 0, 0] == 99
        assert store["/numpy"][0, 0, 1] == 98
        assert store["/list"][1] == 5
        assert store["/empty"].vlmeta["note"] == [1, 2]
        assert store["/text"].vlmeta[:] == {"late": True}

    def test_the_same_leaf_while_it_is_held(self, filled: Any, path: Path, source: str | None) -> None:
        store = self.read_back(filled, path, source)
        leaf = store["/numpy"]
        assert store["/numpy"] is leaf
        assert store["numpy"] is leaf
        gone = weakref.ref(leaf)
        del leaf
        if sysconfig.get_config_var("Py_GIL_DISABLED"):  # each thread keeps the last small leaf until it opens another
            next(leaf for key, leaf in store.items() if key != "/numpy")
        gc.collect()
        assert gone() is None  # the store keeps no leaf alive

    def test_leaves_that_nobody_holds_are_forgotten(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("blosc2._stores.leaves.open_leaves.LEAST_SWEPT", 10)
        with self.make(path) as store:
            store.update({f"/k{n}": [n] for n in range(50)})
            held = [store[f"/k{n}"] for n in range(5)]
            for n in range(50):
                store[f"/k{n}"][0]
            assert len(store._table.leaves.held) <= 25
            assert all(store[f"/k{n}"] is held[n] for n in range(5))

    # ------------------------------------------------------------------ publishing
    def test_an_empty_store(self, path: Path, source: str | None) -> None:
        with self.make(path, "w") as store:
            store = self.read_back(store, path, source)
        assert list(store) == []
        assert "/a" not in store
        with pytest.raises(KeyError):
            store["/a"]

    # ------------------------------------------------------------------ closing
    def test_closed(self, filled: Any, path: Path, source: str | None) -> None:
        store = self.read_back(filled, path, source)
        leaf = store["/numpy"]
        store.close()
        store.close()
        assert store.closed
        np.testing.assert_array_equal(leaf[:], VALUES["/numpy"])
        for use in (
            lambda: store["/numpy"], lambda: store["/none"], lambda: "/numpy" in store, lambda: list(store),
            lambda: len(store), lambda: store.keys(), lambda: store.__setitem__("/a", [1]),
            lambda: store.__delitem__("/numpy"), lambda: store.get("/numpy"), lambda: store.flush(),
            lambda: store.discard(), lambda: store.__enter__(), lambda: list(store.items()),
        ):  # fmt: skip
            with pytest.raises(ValueError, match="closed store"):
                use()
        assert "closed" in repr(store)

    # ------------------------------------------------------------------ modes
    def test_read_only(self, filled: Any, path: Path, source: str | None) -> None:
        store = self.read_back(filled, path, source)
        before = tree_state(path) if self.suffix else None
        for key in ("/numpy", "/new", "/none"):
            with pytest.raises(ValueError, match="read-only mode"):
                store[key] = [1]
            with pytest.raises(ValueError, match="read-only mode"):
                del store[key]
        with pytest.raises(ValueError, match="reading mode"):
            store["/numpy"][0] = 1
        with pytest.raises(ValueError, match="reading mode"):
            store["/numpy"].vlmeta["a"] = 1
        store.flush()
        store.close()
        if self.suffix:
            assert tree_state(path) == before
            assert sorted(os.listdir(path.parent)) == self.beside(path)

    @pytest.mark.parametrize("mode", ["q", "", "rw", "r+", None, 5])
    def test_unknown_modes(self, path: Path, mode: Any) -> None:
        with pytest.raises(ValueError, match="must be 'r', 'w', or 'a'"):
            self.make(path, mode)
        assert not path.exists()

    @pytest.mark.parametrize("mmap_mode", ["r+", "w+", "c", "x", "", 1])
    def test_unknown_mmap_modes(self, path: Path, mmap_mode: Any) -> None:
        with pytest.raises(ValueError, match="must be None or 'r'"):
            self.make(path, "r", mmap_mode=mmap_mode)

    @pytest.mark.parametrize("mode", ["a", "w", "x"])
    def test_mapping_needs_mode_r(self, filled: Any, path: Path, mode: str) -> None:
        if self.suffix:
            filled.close()
            before = tree_state(path)
        with pytest.raises(ValueError, match="requires mode='r'"):
            self.make(path, mode, mmap_mode="r")
        if self.suffix:
            assert tree_state(path) == before

    # ------------------------------------------------------------------ sharing
    def test_pickle(self, filled: Any, path: Path, source: str | None) -> None:
        store = self.read_back(filled, path, source)
        copy = pickle.loads(pickle.dumps(store))
        assert type(copy) is type(store)
        assert (copy.mode, copy.mmap_mode) == ("r", store.mmap_mode)
        np.testing.assert_array_equal(copy["/numpy"][:], VALUES["/numpy"])
        copy.close()

    def test_threads(self, filled: Any, path: Path, source: str | None) -> None:
        store = self.read_back(filled, path, source)
        errors: list[BaseException] = []

        def read() -> None:
            try:
                for _ in range(30):
                    for key, value in VALUES.items():
                        np.testing.assert_array_equal(store[key][()], np.asarray(value))
                    assert len(list(store)) == len(store)
            except BaseException as error:  # noqa: BLE001 - a thread must report whatever goes wrong
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
