"""The message of a key that is not there names those that are like it."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from store_makers import KINDS, Maker

import blosc2
from blosc2.exceptions import StoreKeyError


@pytest.fixture(params=KINDS)
def maker(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    maker = Maker(request.param, tmp_path)
    with maker("w") as store:
        store["/patients/007/image"], store["/patients/008/image"], store["/atlas"] = [1], [2], [3]
    return maker


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("/patients/007/imgae", "is it '/patients/007/image'?"),
        ("/patient/007/image", "is it '/patients'?"),
        ("/patients/07/image", "is it '/patients/007'?"),
        ("atlsa", "is it '/atlas'?"),
        ("/ATLAS", "is it '/atlas'?"),
        ("/patients/00/image", "is it '/patients/007' or '/patients/008'?"),
        ("/PATIENTS/007/image", "is it '/patients/007/image'?"),
        ("/Patients/007/imag", "is it '/patients/007/image'?"),
        ("/nothing", None),
    ],
)
def test_close_keys_are_named(maker: Maker, mode: str, key: str, named: str | None) -> None:
    with maker(mode) as store:
        for act in (lambda: store[key], lambda: store.read(key), lambda: store.pop(key)):
            if mode == "r" and act.__code__.co_names[-1:] == ("pop",):
                continue
            with pytest.raises(KeyError) as caught:
                act()
            text = str(caught.value)
            assert key.strip("/") in text
            assert text.endswith(named) if named else "is it" not in text
            assert str(caught.value) == text


def test_nothing_is_looked_for_unless_somebody_reads_it(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with maker("r") as store:
        with pytest.raises(KeyError) as caught:
            store["/atlsa"]
        text = str(pickle.loads(pickle.dumps(caught.value)))
        assert text.endswith("is it '/atlas'?")
        with pytest.raises(KeyError) as caught:
            store["/atlsa"]
    assert "is it" not in str(caught.value)  # it was closed before


def test_an_error_that_ends_the_block_names_them(maker: Maker) -> None:
    with pytest.raises(KeyError, match="is it '/atlas'"), maker("r") as store:
        store["/atlsa"]


def test_an_error_keeps_no_store(tmp_path: Path) -> None:
    store = blosc2.EmbedStore()
    store["/a"] = np.arange(3)
    error = store._table.missing_key("/b")
    assert isinstance(error, StoreKeyError)
    alive = weakref.ref(store)
    store.close()
    del store
    gc.collect()
    assert alive() is None
    assert str(error).endswith("not found in the store")


def test_a_writer_says_how_to_make_a_group(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "t.b2z"), mode="w") as tree:
        tree["/group/image"] = [1]
        with pytest.raises(KeyError, match=r"not found in the store; is it '/group'\?"):
            tree["/gruop"]
        with pytest.raises(KeyError, match=r"not found in the store; create_group\(key\) makes a group$"):
            tree["/other"]
        with pytest.raises(KeyError, match=r"is it '/group/image'\?"):
            tree["/group"]["/imag"]


def test_threads_read_one_message(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "t.b2z"), mode="w") as tree:
        tree.write_many((f"/group/leaf{i:04}", [i]) for i in range(500))
        for _ in range(10):
            error = tree._table.missing_key("/gruop")
            with ThreadPoolExecutor(4) as pool:
                texts = set(pool.map(lambda _, e=error: str(e), range(8)))
            assert len(texts) == 1
            assert str(pickle.loads(pickle.dumps(error))) in texts


def test_a_store_that_an_error_keeps_is_closed_at_exit(tmp_path: Path) -> None:
    program = """
import sys, blosc2
store = blosc2.TreeStore(sys.argv[1], mode="w")
store["/a"] = [1]
store.flush()
try:
    store["/b"]
except KeyError as error:
    kept = error
"""
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path / "t.b2z")], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_typo_in_a_store_without_groups_is_no_missing_group(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "flat.b2z"), mode="w") as store:
        store["/scan"] = [1]
        with pytest.raises(KeyError) as error:
            store["/mask"]
        assert "create_group" not in str(error.value)
        store["/patients/007"] = [1]
        with pytest.raises(KeyError, match="create_group"):
            store["/mask"]
