"""Files whose names are not UTF-8 work like any other, and what is said of them can be printed everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import KINDS

import blosc2

VALUE = np.arange(100)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    path = os.path.join(os.fsencode(tmp_path), b"scans\xff")
    try:
        os.mkdir(path)
    except OSError:  # of a file system that takes UTF-8 alone
        path = os.fsencode(tmp_path)
    return os.fsdecode(path)


def said(act: Callable[[], Any]) -> str:
    """What an error or a result says."""
    try:
        return str(act())
    except UnicodeError:
        raise
    except Exception as error:  # noqa: BLE001 - what is raised is not the matter here
        return "\n".join([str(error), repr(error), *getattr(error, "__notes__", ())])


def check_printable(*acts: Callable[[], Any]) -> None:
    for act in acts:
        said(act).encode()


@pytest.mark.parametrize("kind", list(KINDS))
def test_stores(kind: str, folder: str) -> None:
    cls, suffix, options = KINDS[kind]
    path = os.path.join(folder, f"a{suffix}")
    with cls(path, mode="w", **options) as store:
        store["/g/a"], store["/h"] = VALUE, VALUE
        check_printable(
            lambda: store, lambda: store.info, lambda: store["/none"], lambda: store.rename("/h", "/g/a"),
            lambda: store.__setitem__("/a:b", 1), lambda: store.__setitem__("/x", object()),
            lambda: cls(path, mode="a"),
        )  # fmt: skip
    check_printable(lambda: store["/h"], lambda: cls(path, mode="x"), lambda: cls(f"{path}-none{suffix}", mode="r"))
    with blosc2.open(path) as store:
        assert np.array_equal(store["/g/a"][:], VALUE)
        check_printable(
            lambda: store.info, lambda: store.__setitem__("/z", 1), lambda: store["/h"].__setitem__(0, 1),
            lambda: store["/h"].vlmeta["none"],
        )  # fmt: skip
    assert blosc2.check(path).ok
    out = os.path.join(folder, f"new{suffix}")
    check_printable(lambda: blosc2.check(path), lambda: blosc2.salvage(path, out), lambda: blosc2.salvage(path, out))
    with blosc2.open(out) as store:
        assert np.array_equal(store["/h"][:], VALUE)


def test_arrays(folder: str) -> None:
    path = os.path.join(folder, "a.b2nd")
    array = blosc2.asarray(VALUE, urlpath=path, mode="w")
    blosc2.open(path, mode="a")[0] = 5
    found = blosc2.open(os.fsencode(path))
    assert found[0] == 5
    check_printable(
        lambda: array.__setitem__(0, 1), lambda: found.__setitem__(0, 1), lambda: found.info, lambda: array.save(path),
        lambda: blosc2.zeros(3, urlpath=path, mode="x"), lambda: blosc2.zeros(3, urlpath=f"{path}x", mode="r"),
        lambda: blosc2.SChunk(urlpath=f"{path}x", mode="r"), lambda: blosc2.SChunk(urlpath=path, mode="r"),
        lambda: blosc2.open(path, offset=3), lambda: blosc2.open(folder), lambda: blosc2.open(f"file://x/{path}"),
        lambda: blosc2.check(f"{path}x"), lambda: blosc2.salvage(path, f"{path}.b2z"),
    )  # fmt: skip
    for size in (0, 10, 150):
        with open(os.path.join(folder, "cut.b2nd"), "wb") as file, open(path, "rb") as whole:
            file.write(whole.read(size))
        check_printable(lambda: blosc2.open(file.name), lambda: blosc2.check(file.name))


def test_conversions(folder: str) -> None:
    source, target = os.path.join(folder, "a.npz"), os.path.join(folder, "a.b2z")
    np.savez(source, items=VALUE)
    check_printable(
        lambda: blosc2.convert(source, target), lambda: blosc2.convert(source, target),
        lambda: blosc2.convert(source, source), lambda: blosc2.convert(f"{source}.npz", target),
        lambda: blosc2.convert(f"{source}.none", target), lambda: blosc2.merge([target], target),
        lambda: blosc2.merge([target], f"{target}.txt"),
    )  # fmt: skip
    with blosc2.open(target) as store:
        assert np.array_equal(store["/items"][:], VALUE)
    with open(source, "wb") as file:
        file.write(b"none")
    check_printable(lambda: blosc2.convert(source, os.path.join(folder, "b.b2z")))


def test_the_command_line(folder: str) -> None:
    path = os.path.join(folder, "a.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a"] = VALUE
    command = [sys.executable, "-m", "blosc2", "compact", os.fsencode(path)]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"}, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
