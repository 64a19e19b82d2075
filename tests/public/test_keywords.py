"""What `help` and editors show of functions that share keywords, and errors of keywords that there are not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.storage import ARRAY_KEYWORDS

# What a NumPy function would take, not this package.
_FREE = {"unpack", "unpack_array", "load", "compute_chunks_blocks"}


def functions() -> Iterator[tuple[str, Any]]:
    for name in sorted(blosc2.__all__):
        one = getattr(blosc2, name)
        if not (getattr(one, "__module__", None) or "").startswith("blosc2") or hasattr(one, "__members__"):
            continue  # types of NumPy, enumerations
        if isinstance(one, type):
            if issubclass(one, Exception):
                continue
            yield from ((f"{name}.{each}", found) for each, found in vars(one).items() if each[0] != "_")
        yield name, one


FUNCTIONS = {name: one for name, one in functions() if inspect.isfunction(one) or isinstance(one, type)}


def test_nothing_is_hidden() -> None:
    for name, function in FUNCTIONS.items():
        assert name in _FREE or {"args", "kwargs", "options"}.isdisjoint(inspect.signature(function).parameters), name


@pytest.mark.parametrize("name", ["zeros", "asarray", "concat", "NDArray.copy", "NDArray.slice", "arange", "full_like"])
def test_each_keyword_of_arrays_has_its_text(name: str) -> None:
    function = FUNCTIONS[name]
    assert set(ARRAY_KEYWORDS) <= set(inspect.signature(function).parameters)
    text = inspect.cleandoc(function.__doc__)
    parameters = text[text.index("Parameters\n----------") :]
    for keyword in ARRAY_KEYWORDS:
        assert any(line.partition(" : ")[0].split(", ").count(keyword) for line in parameters.splitlines()), keyword


@pytest.mark.parametrize("kind", ["NDArray", "ObjectArray"])
def test_what_the_modes_do_is_what_their_text_says(kind: str, tmp_path: Path) -> None:
    make = blosc2.zeros if kind == "NDArray" else blosc2.ObjectArray
    assert "'w' replaces a file that exists; 'a' and 'x' refuse to. `ObjectArray(...)`" in (make.__doc__ or "")
    given = {} if kind == "ObjectArray" else {"shape": 3}
    assert type(make(**given, urlpath=tmp_path / "a", mode="a")).__name__ == kind
    for mode in "ax":
        with nullcontext() if (kind, mode) == ("ObjectArray", "a") else pytest.raises(blosc2.ExistingFileError):
            make(**given, urlpath=tmp_path / "a", mode=mode)
    make(**given, urlpath=tmp_path / "a", mode="w")


@pytest.mark.parametrize(
    "name", ["sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax"]
)  # fmt: skip
def test_each_parameter_of_reductions_has_its_text(name: str) -> None:
    """As a function and as a method of arrays and fields; what takes unknown keywords is not shown."""
    for function in (getattr(blosc2, name), getattr(blosc2.NDArray, name), getattr(blosc2.NDField, name)):
        parameters, text = inspect.signature(function).parameters, inspect.getdoc(function) or ""
        assert all(each.kind is not each.VAR_KEYWORD for each in parameters.values())
        described = text.partition("Parameters\n----------\n")[2].partition("\n\nReturns\n")[0]
        assert [line.partition(" : ")[0] for line in described.splitlines() if line[0] != " "] == [*parameters]


def test_stores_have_the_texts_of_their_keywords() -> None:
    for kind in (blosc2.TreeStore, blosc2.DictStore, blosc2.EmbedStore):
        text = inspect.getdoc(kind) or ""
        for name in inspect.signature(kind).parameters:
            assert name == "_from_schunk" or f"\n{name} : " in text or f"{name}, " in text, (kind, name)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: blosc2.ones(3, chunk=2), r"^ones\(\) has no keyword 'chunk'; did you mean 'chunks'\?"),
        (lambda: blosc2.zeros(3).copy(cparam={}), r"^NDArray.copy\(\) has no keyword 'cparam'; did you mean 'cparams'"),
        (lambda: blosc2.SChunk(chunksiz=3), r"^SChunk\(\) has no keyword 'chunksiz'; did you mean 'chunksize'"),
        (lambda: blosc2.asarray([1], storage_options={}), r"no keyword 'storage_options': for .*fsspec\.config"),
        (lambda: blosc2.ObjectArray(xyz=3), r"^ObjectArray\(\) has no keyword 'xyz'\. It takes chunksize, "),
        (lambda: blosc2.save_tensor(np.arange(3), "x", chunks=3), r"^save_tensor\(\) has no keyword 'chunks'"),
        (lambda: blosc2.asarray([1], clevel=3), r"^asarray\(\) has no keyword 'clevel': it belongs into cparams="),
    ],
)
def test_errors_name_the_function_and_what_is_like_it(call: Any, text: str) -> None:
    for kind in (TypeError, KeyError, ValueError):
        with pytest.raises(kind, match=text):
            call()


def test_errors_name_the_class_of_stores_that_was_called() -> None:
    class Mine(blosc2.TreeStore):
        """A class of a user, which has no name for what it inherits."""

    for kind in (blosc2.TreeStore, blosc2.DictStore, blosc2.EmbedStore, Mine):
        name = "TreeStore" if kind is Mine else kind.__name__
        with pytest.raises(TypeError, match=rf"^{name}\(\) has no keyword 'mod'; did you mean 'mode'\? It takes "):
            kind("a.b2z", mod="r")
        with pytest.raises(TypeError, match=rf"^{name}\(\) has no keyword 'clevel': it belongs into cparams="):
            kind("a.b2z", clevel=1)
        with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) takes from "):
            kind(*range(20))
    for kind in (blosc2.TreeStore, blosc2.DictStore):
        with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__\(\) missing .* 'localpath'"):
            kind()  # type: ignore[call-arg]
    assert inspect.signature(blosc2.TreeStore) == inspect.signature(blosc2.DictStore)
    assert "kwargs" not in inspect.signature(blosc2.EmbedStore).parameters
