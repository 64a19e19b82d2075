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
    for cls in (blosc2.EmbedStore, blosc2.DictStore, blosc2.TreeStore):
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


@pytest.mark.parametrize("path", [5, 1.5, ["a"], object()])
def test_a_path_that_is_none(path: Any) -> None:
    for cls in (blosc2.EmbedStore, blosc2.DictStore, blosc2.TreeStore):
        with refused(TypeError, ValueError):
            cls(path, mode="r")


# -------------------------------------------------------------------------------------------------- modes


@pytest.mark.parametrize("mode", ["", "rw", "R", "r+b", "wb", "q", None, 1])
@pytest.mark.parametrize("name", ["array.b2nd", "no.b2nd"])
def test_an_illegal_mode(folder: Path, mode: Any, name: str) -> None:
    """The mode is looked at before any file: a missing path makes no difference."""
    with refused(ValueError, TypeError, words="mode"):
        blosc2.zeros(3, urlpath=str(folder / name), mode=mode)
    with refused(ValueError, TypeError, words="mode"):
        blosc2.SChunk(urlpath=str(folder / name), mode=mode)


# -------------------------------------------------------------------------------------------------- values

NO_ARRAYS: list[Any] = [
    None, object(), np.array([None, 1]), np.array([object()]), np.array([(1, None)], dtype=[("a", "i4"), ("b", "O")]),
]  # fmt: skip


@pytest.mark.parametrize("value", NO_ARRAYS, ids=lambda v: type(v).__name__)
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


def test_what_is_out_of_scope_is_named(folder: Path) -> None:
    for url in ("http://host/a.b2d", "s3://bucket/a.b2d"):
        with refused(NotImplementedError, words="b2d"):
            blosc2.DictStore(str(folder / "DictStore.b2z"), mode="r").to_b2d(url)


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
