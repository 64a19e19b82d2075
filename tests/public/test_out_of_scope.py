"""Names of the published package that are not here say what to use instead."""

from __future__ import annotations

import copy
import pickle
import traceback

import numpy as np
import pytest

import blosc2
from blosc2._options import absent


def test_names_that_are_not_here() -> None:
    for name in absent.names():
        assert not hasattr(blosc2, name)
        with pytest.raises(AttributeError, match=rf"^this package has no blosc2\.{name}: ") as caught:
            getattr(blosc2, name)
        shown = "".join(traceback.format_exception(caught.value))
        assert "Did you mean" not in shown
        assert "doc/scope.md" not in shown  # which whoever has a wheel does not have
        assert "use numpy." not in str(caught.value) or hasattr(np, name), name


@pytest.mark.parametrize(("name", "advice"), [("Proxy", "blosc2.asarray"), ("can_cast", r"\(array.dtype, ")])
def test_advice_fits_what_was_meant(name: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=advice):
        getattr(blosc2, name)


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(AttributeError, match=r"^module 'blosc2' has no attribute 'frobnicate'$"):
        blosc2.frobnicate  # noqa: B018
    with pytest.raises(ImportError, match="frobnicate"):
        from blosc2 import frobnicate  # noqa: F401


@pytest.mark.parametrize("name", ["where", "argsort", "sort", "cumulative_sum"])
def test_methods_that_compute(name: str) -> None:
    array = blosc2.arange(6)
    assert not hasattr(array, name)
    with pytest.raises(AttributeError, match=rf"use numpy\.{name} with what is read"):
        getattr(array, name)
    with pytest.raises(AttributeError, match="there are no indexes"):
        array.create_index  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'NDArray' object has no attribute 'frobnicate'$"):
        array.frobnicate  # noqa: B018
    assert name not in dir(array)
    assert {"shape", "resize", "__getitem__"} <= set(dir(array))
    with pytest.raises(AttributeError, match="'NDArray' has no"):
        getattr(blosc2.NDArray, name)


def test_numpy_computes_all_the_same() -> None:
    array = blosc2.asarray(np.arange(12.0).reshape(3, 4))
    assert np.sum(array) == 66
    assert np.array_equal(np.mean(array, axis=0), [4, 5, 6, 7])
    assert np.array_equal(pickle.loads(pickle.dumps(array))[...], array[...])
    assert np.array_equal(copy.deepcopy(array)[...], array[...])


@pytest.mark.parametrize("name", ["int8", "uint64", "float32", "complex128", "bool_"])
def test_types_are_those_of_numpy(name: str) -> None:
    assert getattr(blosc2, name) is getattr(np, name)
    assert blosc2.zeros(3, getattr(blosc2, name)).dtype == name.rstrip("_")


def test_defaults() -> None:
    assert blosc2.arange(3).dtype == blosc2.DEFAULT_INT == blosc2.DEFAULT_INDEX
    assert blosc2.zeros(3).dtype == blosc2.DEFAULT_FLOAT
    assert (np.zeros(3, blosc2.DEFAULT_FLOAT) * 1j).dtype == blosc2.DEFAULT_COMPLEX
