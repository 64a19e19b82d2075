"""`pyarrow.array` of arrays with one axis: what it gives is what it gives for NumPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "<u4", "i8", "f2", "f4", "f8", "U3", "S3", "M8[ns]", "m8[s]"])
@pytest.mark.parametrize("clevel", [0, 5])
def test_as_of_numpy(tmp_path: Path, source: str | None, dtype: str, clevel: int) -> None:
    items = (np.arange(1000) % 100).astype(dtype)
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(items, urlpath=path, mode="w", chunks=(300,), cparams={"clevel": clevel})
    found = pa.array(blosc2.open(path, mmap_mode=source))
    assert found.type == pa.array(items).type
    assert found.equals(pa.array(items))
    found.validate(full=True)
    if items.dtype.kind in "iuf":
        assert found.equals(pa.array(items.tolist(), found.type))


def test_numbers_of_another_byte_order() -> None:
    found = pa.array(blosc2.asarray(np.arange(5, dtype=">i4")))
    assert (found.type, found.to_pylist()) == (pa.int32(), [0, 1, 2, 3, 4])


def test_steps_of_several_units() -> None:
    items = np.array([1, 2, "NaT"], "M8[25s]")
    found = pa.array(blosc2.asarray(items))
    assert found.to_pylist() == items.astype("M8[s]").tolist()
    assert found.null_count == 1


def test_nan_is_a_number() -> None:
    found = pa.array(blosc2.asarray(np.array([1.0, np.nan])))
    assert found.null_count == 0
    assert np.isnan(found[1].as_py())


def test_numbers_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of compressed arrays it is the buffer that was decoded into, of others the mapping."""
    decoded: list[np.ndarray[Any, Any]] = []
    read = blosc2.NDArray._read_all
    monkeypatch.setattr(
        "blosc2._arrays.readable.ReadableArray._read_all", lambda self: decoded.append(read(self)) or decoded[-1]
    )
    found = pa.array(blosc2.asarray(np.arange(10_000), chunks=(3000,)))
    assert found.buffers()[1].address == decoded[0].ctypes.data
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(np.arange(1000), urlpath=path, mode="w", chunks=(1000,), cparams={"clevel": 0})
    mapped = blosc2.open(path, mmap_mode="r")
    found = pa.array(mapped)
    assert found.buffers()[1].address == mapped.view().ctypes.data
    assert len(decoded) == 1
    del mapped
    assert found.to_pylist() == list(range(1000))


def test_tables_and_types() -> None:
    columns = {"a": np.arange(5, dtype="i2"), "b": np.linspace(0, 1, 5)}
    table = pa.table({name: blosc2.asarray(items) for name, items in columns.items()})
    assert table.equals(pa.table(columns))
    assert pa.array(blosc2.asarray(columns["a"]), type=pa.float64()).type == pa.float64()
    assert len(pa.array(blosc2.zeros(0, "i4"))) == 0
    assert pa.array(blosc2.nans(3)).type == pa.float64()
    with pytest.raises(pa.ArrowNotImplementedError):
        pa.array(blosc2.asarray(columns["b"] * 1j))


@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_other_numbers_of_axes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one axis"):
        pa.array(blosc2.zeros(shape))
