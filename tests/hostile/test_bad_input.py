"""Bad input gets its own exception, a message that says what to do, and changes nothing on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest
from fixture_kit.tree_state import tree_state

import blosc2

STORES: dict[str, tuple[type, str]] = {
    "EmbedStore": (blosc2.EmbedStore, ".b2e"),
    "DictStore.b2d": (blosc2.DictStore, ".b2d"),
    "DictStore.b2z": (blosc2.DictStore, ".b2z"),
    "TreeStore.b2d": (blosc2.TreeStore, ".b2d"),
    "TreeStore.b2z": (blosc2.TreeStore, ".b2z"),
}


@pytest.fixture(params=sorted(STORES))
def kind(request: pytest.FixtureRequest) -> str:
    """One of the stores, in one of its forms."""
    name: str = request.param
    return name


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with something of everything; a test must leave it as it was."""
    (tmp_path / "empty_folder").mkdir()
    (tmp_path / "plain_folder").mkdir()
    (tmp_path / "plain_folder" / "notes.txt").write_text("notes")
    (tmp_path / "nothing").write_bytes(b"")
    (tmp_path / "text.txt").write_text("some words, and more words\n" * 20)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(300))
    for suffix in (".b2nd", ".b2e", ".b2z", ".b2frame"):
        (tmp_path / f"nothing{suffix}").write_bytes(b"")
        (tmp_path / f"text{suffix}").write_text("some words, and more words\n" * 20)
    shutil.copyfile(manifest.ROOT / "shapes" / "2d.b2nd", tmp_path / "array.b2nd")
    shutil.copyfile(manifest.ROOT / "schunks" / "plain.b2frame", tmp_path / "schunk.b2frame")
    for cls, suffix in STORES.values():
        with cls(str(tmp_path / f"{cls.__name__}{suffix}"), mode="w") as store:
            store["/leaf"] = np.arange(10)
            store["/group/leaf"] = np.arange(5.0)
    before = tree_state(tmp_path)
    yield tmp_path
    after = tree_state(tmp_path)
    assert set(after) == set(before)
    assert [path for path in before if before[path] != after[path]] == []


@contextmanager
def refused(
    *kinds: type[BaseException], words: str | tuple[str, ...] = ()
) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    """Assert that the block raises one of these, with a message that says enough and has these words."""
    with pytest.raises(kinds) as caught:
        yield caught
    message = str(caught.value)
    assert len(message) > 10, message
    for word in (words,) if isinstance(words, str) else words:
        assert word.lower() in message.lower(), message


# -------------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize("name", ["no.b2nd", "no.b2e", "no.b2z", "no.b2d", "no", "no_folder/no.b2nd"])
def test_open_of_a_missing_path(folder: Path, name: str, source: str | None) -> None:
    path = str(folder / name)
    for given in (path, Path(path)):
        with refused(FileNotFoundError, words=name) as caught:
            blosc2.open(given, mmap_mode=source)
        message = str(caught.value)
        assert "no such file" in message.lower() or "does not exist" in message
    with refused(RuntimeError):
        blosc2.open(path, mmap_mode=source)


def test_store_of_a_missing_path(folder: Path, kind: str, source: str | None) -> None:
    cls, suffix = STORES[kind]
    path = str(folder / f"no{suffix}")
    for wanted in (FileNotFoundError, RuntimeError):
        with refused(wanted, words=f"no{suffix}"):
            cls(path, mode="r", mmap_mode=source)


@pytest.mark.parametrize("name", ["empty_folder", "plain_folder"])
def test_a_folder_where_a_file_is_meant(folder: Path, name: str, source: str | None) -> None:
    path = str(folder / name)
    with refused(ValueError, RuntimeError, OSError, words=name):
        blosc2.open(path, mmap_mode=source)
    with refused(ValueError, RuntimeError, OSError, words=name):
        blosc2.EmbedStore(path, mode="r", mmap_mode=source)
    for cls in (blosc2.DictStore, blosc2.TreeStore):
        with refused(ValueError, RuntimeError, OSError, words=name):
            cls(path, mode="r", mmap_mode=source)
    for mode in ("r", "a"):
        with refused(ValueError, RuntimeError, OSError, words=name):
            blosc2.open(path, mode=mode)


@pytest.mark.parametrize("suffix", ["", ".b2nd", ".b2frame", ".b2e", ".b2z"])
def test_an_empty_file(folder: Path, suffix: str, source: str | None) -> None:
    with refused(RuntimeError, words="empty"):
        blosc2.open(str(folder / f"nothing{suffix}"), mmap_mode=source)
    assert issubclass(blosc2.exceptions.FormatError, ValueError)


@pytest.mark.parametrize("name", ["text.txt", "picture.png", "text.b2nd", "text.b2frame", "text.b2e", "text.b2z"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_a_file_of_another_kind(folder: Path, name: str, mode: str, source: str | None) -> None:
    more = {"mmap_mode": source} if mode == "r" else {}
    for wanted in (ValueError, RuntimeError):
        with refused(wanted, words=name):
            blosc2.open(str(folder / name), mode=mode, **more)


@pytest.mark.parametrize("mode", ["r", "a"])
def test_an_array_is_no_store(folder: Path, kind: str, mode: str, source: str | None) -> None:
    cls, _ = STORES[kind]
    more = {"mmap_mode": source} if mode == "r" else {}
    for name in ("array.b2nd", "schunk.b2frame", "text.txt"):
        path = str(folder / name)
        for wanted in (ValueError, RuntimeError):
            with refused(wanted, words=name):
                cls(path, mode=mode, **more)


def test_a_store_is_not_made_over_a_folder_of_others(folder: Path) -> None:
    for cls in (blosc2.DictStore, blosc2.TreeStore):
        with refused(FileExistsError, words="plain_folder"):
            cls(str(folder / "plain_folder"), mode="w")


@pytest.mark.parametrize("offset", [1, 7, 10_000, 1 << 40, 1 << 62])
def test_a_wrong_offset(folder: Path, offset: int, source: str | None) -> None:
    for name in ("array.b2nd", "schunk.b2frame"):
        path = str(folder / name)
        with refused(RuntimeError, words=name):
            blosc2.open(path, offset=offset, mmap_mode=source)


def test_an_offset_that_is_no_position(folder: Path, source: str | None) -> None:
    path = str(folder / "array.b2nd")
    with refused(ValueError, words="offset"):
        blosc2.open(path, offset=-1, mmap_mode=source)
    for offset in ("4", 1.5, [0]):
        with refused(TypeError, ValueError):
            blosc2.open(path, offset=offset, mmap_mode=source)


@pytest.mark.parametrize("path", [5, 1.5, ["a"], object()])
def test_a_path_that_is_none(folder: Path, path: Any, source: str | None) -> None:
    with refused(TypeError, ValueError):
        blosc2.open(path, mmap_mode=source)
    for cls in (blosc2.EmbedStore, blosc2.DictStore, blosc2.TreeStore):
        with refused(TypeError, ValueError):
            cls(path, mode="r")


# -------------------------------------------------------------------------------------------------- modes

BAD_MODES = ["", "rw", "R", "r+b", "wb", "q", None, 1]


@pytest.mark.parametrize("mode", BAD_MODES)
@pytest.mark.parametrize("there", [True, False])
def test_an_illegal_mode(folder: Path, mode: Any, there: bool) -> None:
    """The mode is looked at before any file: a missing path makes no difference."""
    for name in ("array.b2nd", "DictStore.b2z", "DictStore.b2d", "EmbedStore.b2e"):
        path = str(folder / name if there else folder / f"no_{name}")
        with refused(ValueError, TypeError, words="mode"):
            blosc2.open(path, mode=mode)
    for cls, suffix in STORES.values():
        path = str(folder / f"{cls.__name__ if there else 'no'}{suffix}")
        with refused(ValueError, TypeError, words="mode"):
            cls(path, mode=mode)
    path = str(folder / ("array.b2nd" if there else "no.b2nd"))
    with refused(ValueError, TypeError, words="mode"):
        blosc2.zeros(3, urlpath=path, mode=mode)
    with refused(ValueError, TypeError, words="mode"):
        blosc2.SChunk(urlpath=path, mode=mode)


@pytest.mark.parametrize("mmap_mode", ["r+", "c", "w+", "w", "", "R", True, 1])
@pytest.mark.parametrize("there", [True, False])
def test_stores_are_mapped_for_reading_only(folder: Path, kind: str, mmap_mode: Any, there: bool) -> None:
    cls, suffix = STORES[kind]
    path = str(folder / f"{cls.__name__ if there else 'no'}{suffix}")
    for mode in ("r", "a", "w"):
        with refused(ValueError) as caught:
            cls(path, mode=mode, mmap_mode=mmap_mode)
        message = str(caught.value)
        assert "None or 'r'" in message
    with refused(ValueError, words="mmap_mode"):
        blosc2.open(path, mmap_mode=mmap_mode)


@pytest.mark.parametrize("mode", ["a", "w"])
@pytest.mark.parametrize("there", [True, False])
def test_a_mapped_store_is_read_only(folder: Path, kind: str, mode: str, there: bool) -> None:
    cls, suffix = STORES[kind]
    path = str(folder / f"{cls.__name__ if there else 'no'}{suffix}")
    with refused(ValueError) as caught:
        cls(path, mode=mode, mmap_mode="r")
    message = str(caught.value)
    assert "requires mode='r'" in message
    with refused(ValueError) as caught:
        blosc2.open(path, mode=mode, mmap_mode="r")
    message = str(caught.value)
    assert "requires mode='r'" in message


def test_mmap_mode_is_a_keyword(folder: Path, kind: str) -> None:
    import inspect

    cls, _ = STORES[kind]
    parameter = inspect.signature(cls).parameters.get("mmap_mode")
    if cls is not blosc2.TreeStore:  # which may pass its arguments on
        assert parameter is not None
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("there", [True, False])
def test_an_illegal_mmap_mode_of_an_array(folder: Path, there: bool) -> None:
    path = str(folder / ("array.b2nd" if there else "no.b2nd"))
    with refused(ValueError, words="w+"):
        blosc2.open(path, mmap_mode="w+")
    for mmap_mode in ("w", "", "R", "x"):
        with refused(ValueError, words="mmap_mode"):
            blosc2.open(path, mmap_mode=mmap_mode)
    with refused(ValueError, words="mmap_mode"):
        blosc2.open(path, initial_mapping_size=1000)


@pytest.mark.parametrize("deserialize", ["unsafe", "", "FULL", True, False])
def test_an_illegal_deserialize(folder: Path, deserialize: Any) -> None:
    path = str(folder / "array.b2nd")
    with refused(ValueError, TypeError):
        blosc2.open(path, deserialize=deserialize)


# ---------------------------------------------------------------------------------------------------- keys

BAD_KEYS = [
    "/../x", "/a/../x", "/a/..", "/..", "/.", "/./x", "/a/./x", "//", "//x", "/a//x", "/x/", "", "/",
    "/a\0b", "/a\nb", "/a\rb", "/a\tb", "/a\\b", "/c:/x",
]  # fmt: skip
NO_KEYS: list[Any] = [5, None, 1.5, b"/x", ("a", "b"), object()]


@pytest.fixture
def writable(kind: str, tmp_path: Path) -> Iterator[Any]:
    """A store opened for writing, which must hold the same keys and leaves afterwards."""
    cls, suffix = STORES[kind]
    path = tmp_path / f"store{suffix}"
    with cls(str(path), mode="w") as store:
        store["/leaf"] = np.arange(10)
        store["/group/leaf"] = np.arange(5.0)
    before = tree_state(tmp_path)
    with cls(str(path), mode="a") as store:
        yield store
        keys = set(store.keys())
        assert keys - {"/group"} == {"/leaf", "/group/leaf"}
        np.testing.assert_array_equal(store["/leaf"][:], np.arange(10))
    assert tree_state(tmp_path) == before
    assert not (tmp_path / "x.b2nd").exists()


@pytest.mark.parametrize("key", BAD_KEYS)
def test_a_key_that_is_refused(writable: Any, key: str) -> None:
    with refused(ValueError) as caught:
        writable[key] = np.arange(3)
    message = str(caught.value)
    assert "key" in message.lower() or "path" in message.lower()
    assert key not in writable or key == "/"


@pytest.mark.parametrize("key", NO_KEYS, ids=lambda key: type(key).__name__)
def test_a_key_that_is_no_string(writable: Any, key: Any) -> None:
    with refused(TypeError, ValueError) as caught:
        writable[key] = np.arange(3)
    message = str(caught.value)
    assert "string" in message
    with pytest.raises((TypeError, ValueError, KeyError)):
        writable[key]
    with pytest.raises((TypeError, ValueError, KeyError)):
        del writable[key]


def test_a_missing_key(writable: Any) -> None:
    for call in (lambda: writable["/no/such"], lambda: writable.__delitem__("/no/such")):
        with pytest.raises(KeyError) as caught:
            call()
        assert "Key '/no/such' not found" in str(caught.value)
        assert not str(caught.value).startswith('"')


def test_reserved_and_structural_keys_of_a_tree(writable: Any) -> None:
    if not isinstance(writable, blosc2.TreeStore):
        return
    with refused(ValueError, words="structural path"):
        writable["/group"] = np.arange(3)
    with refused(ValueError, words="Cannot add child"):
        writable["/leaf/below"] = np.arange(3)
    for key in ("/__vlmeta__", "/group/__vlmeta__"):
        with refused(ValueError):
            writable[key] = np.arange(3)


# -------------------------------------------------------------------------------------------------- values


def _generator() -> Iterator[int]:
    yield 1


NO_ARRAYS: list[Any] = [
    None, object(), {"a": 1}, {1, 2}, len, _generator(), [object()], np.array([None, 1]), np.array([object()]),
    np.array([(1, None)], dtype=[("a", "i4"), ("b", "O")]),
]  # fmt: skip


@pytest.mark.parametrize("value", NO_ARRAYS, ids=lambda v: type(v).__name__)
def test_a_value_that_is_no_array(writable: Any, value: Any) -> None:
    with refused(TypeError) as caught:
        writable["/new"] = value
    message = str(caught.value)
    assert "array" in message.lower() or "dtype" in message.lower()
    assert "/new" not in writable


@pytest.mark.parametrize("value", NO_ARRAYS[-3:] + [None, object()], ids=lambda v: type(v).__name__)
def test_an_array_of_objects_is_refused(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "x.b2nd"
    with refused(TypeError, words="object"):
        blosc2.asarray(value, urlpath=str(path))
    with refused(TypeError, words="object"):
        blosc2.asarray(value)
    assert not path.exists()
    with refused(TypeError, ValueError, words="object"):
        blosc2.zeros(3, dtype=object)
    with refused(TypeError, ValueError):
        blosc2.full(3, None)


# ---------------------------------------------------------------------------------- read-only, closed, taken


def test_a_store_in_mode_r_is_never_written(folder: Path, kind: str, source: str | None) -> None:
    cls, suffix = STORES[kind]
    with cls(str(folder / f"{cls.__name__}{suffix}"), mode="r", mmap_mode=source) as store:
        for call in (
            lambda: store.__setitem__("/new", np.arange(3)),
            lambda: store.__setitem__("/leaf", np.arange(3)),
            lambda: store.__delitem__("/leaf"),
            lambda: store.pop("/leaf"),
            lambda: store.clear(),
            lambda: store.update({"/new": np.arange(3)}),
        ):
            with refused(ValueError, words="read-only mode"):
                call()
        leaf = store["/leaf"]
        with refused(ValueError, words="reading mode"):
            leaf[0] = 5
        with refused(ValueError, words="reading mode"):
            leaf.vlmeta["a"] = 5
        if isinstance(store, blosc2.TreeStore):
            with refused(ValueError, words="read-only mode"):
                store.vlmeta["a"] = 5
            group = store["/group"]
            with refused(ValueError, words="read-only mode"):
                group["/new"] = np.arange(3)
            with refused(ValueError, words="read-only mode"):
                del group["/leaf"]


def test_an_array_in_mode_r_is_never_written(folder: Path, source: str | None) -> None:
    x = blosc2.open(str(folder / "array.b2nd"), mmap_mode=source)
    for call in (
        lambda: x.__setitem__(0, 1),
        lambda: x.vlmeta.__setitem__("a", 1),
        lambda: x.schunk.delete_chunk(0),
    ):
        with refused(ValueError, words="reading mode"):
            call()
    s = blosc2.open(str(folder / "schunk.b2frame"), mmap_mode=source)
    for call in (
        lambda: s.append_data(bytes(8)),
        lambda: s.delete_chunk(0),
        lambda: s.vlmeta.__setitem__("a", 1),
        lambda: s.fill_special(3, blosc2.SpecialValue.ZERO),
    ):
        with refused(ValueError, words="reading mode"):
            call()


def test_a_closed_store_says_so(folder: Path, kind: str, source: str | None) -> None:
    cls, suffix = STORES[kind]
    store = cls(str(folder / f"{cls.__name__}{suffix}"), mode="r", mmap_mode=source)
    leaf = store["/leaf"]
    store.close()
    store.close()
    for call in (lambda: store["/leaf"], lambda: list(store.keys()), lambda: "/leaf" in store, lambda: len(store)):
        with refused(ValueError, words="closed"):
            call()
    np.testing.assert_array_equal(leaf[:], np.arange(10))


def test_a_path_that_is_taken(folder: Path) -> None:
    path = str(folder / "array.b2nd")
    for call in (
        lambda: blosc2.zeros(3, urlpath=path),
        lambda: blosc2.asarray(np.arange(3), urlpath=path),
        lambda: blosc2.arange(3, urlpath=path),
        lambda: blosc2.SChunk(urlpath=path),
        lambda: blosc2.zeros(3, urlpath=path, mode="x"),
        lambda: blosc2.open(path).save(path),
    ):
        for wanted in (FileExistsError, RuntimeError):
            with refused(wanted, words="array.b2nd") as caught:
                call()
            message = str(caught.value)
            assert "mode='w'" in message


def test_an_export_does_not_replace_a_file(folder: Path) -> None:
    with blosc2.DictStore(str(folder / "DictStore.b2d"), mode="r") as store:
        with refused(FileExistsError, words="TreeStore.b2z"):
            store.to_b2z(filename=str(folder / "TreeStore.b2z"))
        with refused(ValueError, words=".b2z extension"):
            store.to_b2z(filename=str(folder / "new.zip"))
    archive = blosc2.DictStore(str(folder / "DictStore.b2z"), mode="r")
    with archive, refused(FileExistsError, words="plain_folder"):
        archive.to_b2d(str(folder / "plain_folder"))


@pytest.mark.parametrize("option", ["dataset", "hdf5_index", "path"])
def test_what_is_out_of_scope_is_named(folder: Path, option: str) -> None:
    with refused(NotImplementedError, words=option):
        blosc2.open(str(folder / "array.b2nd"), **{option: "x"})
    for url in ("http://host/a.b2nd", "s3://bucket/a.b2nd"):
        with refused(NotImplementedError, words="b2d"):
            blosc2.DictStore(str(folder / "DictStore.b2z"), mode="r").to_b2d(url.replace("b2nd", "b2d"))
        with refused(ValueError, words=url):
            blosc2.open(url, "a")


def test_an_unknown_keyword_of_open_is_a_warning(folder: Path) -> None:
    with pytest.warns(UserWarning, match="no_such_option"):
        blosc2.open(str(folder / "array.b2nd"), no_such_option=1)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: blosc2.asarray(iter([np.zeros((3, 4))]), shape=(1, 3, 4)), ValueError, "block[None]"),
        (lambda: blosc2.asarray(iter([1, 2]), shape=(2,)), ValueError, "fromiter"),
        (lambda: blosc2.zeros(3, cparams=5), TypeError, "cparams must be"),
        (lambda: blosc2.zeros(3, cparams={"codec": "zstd"}), TypeError, "Codec.ZSTD"),
        (lambda: blosc2.zeros(3, cparams={"filters": ["no such"]}), TypeError, "Filter.SHUFFLE"),
        (lambda: blosc2.zeros(6).reshape(3, 2), TypeError, "((3, 2, ...))"),
        (lambda: blosc2.reshape(blosc2.zeros(6), 3, 2), TypeError, "((3, 2, ...))"),
        (lambda: blosc2.NDArray([1, 2]), TypeError, "blosc2.asarray"),
        (lambda: blosc2.zeros(3).attrs.__setitem__("a", object()), TypeError, "store numbers"),
        (lambda: blosc2.from_cframe(3), TypeError, "bytes"),
        (lambda: blosc2.unpack_tensor(3), TypeError, "bytes"),
    ],
)
def test_what_beginners_try_is_answered(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    with refused(kind, words=words):
        call()


def test_a_mode_that_only_reads_is_answered_with_the_one_that_writes(folder: Path) -> None:
    array = blosc2.open(str(folder / "array.b2nd"))
    with refused(ValueError, words="mode='a'"):
        array[0] = 1


def test_a_path_that_is_none_is_shown_in_short(folder: Path) -> None:
    with refused(TypeError, words="a path must be") as caught:
        blosc2.save("swapped.b2nd", np.zeros((100, 100)))
    assert len(str(caught.value)) < 150
