"""Batches that are packed as Arrow streams, and what such streams may not hold."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lists.test_list_values import packed_batches

import blosc2
from blosc2 import BatchArray
from blosc2.exceptions import FormatError, UnsupportedKindError

LENGTHS = "_batch_array_metadata"


def test_without_pyarrow() -> None:
    """It says what to install, and nothing else needs it."""
    program = """
import sys
sys.modules["pyarrow"] = None
import blosc2
blosc2.BatchArray().append([1])
try:
    blosc2.BatchArray(serializer="arrow")
except ImportError as error:
    assert "needs the package 'pyarrow'" in str(error) and "python-blosc2[arrow]" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def pa() -> Any:
    return pytest.importorskip("pyarrow")


def test_arrow_batches(pa: Any, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2b"
    batches = BatchArray(serializer="arrow", items_per_block=2, urlpath=path)
    batches.vlmeta["user"] = 1
    batches.append(pa.array([[1, 2], None, [3]]))
    batches.append([[4], [5, 6]])
    batches.append(pa.chunked_array([[[7]], [[8]]]))
    want = [[[1, 2], None, [3]], [[4], [5, 6]], [[7], [8]]]
    with pytest.raises(TypeError, match="must share the same schema"):
        batches.append(pa.array([1]))
    with pytest.raises(ValueError, match="cannot be empty"):
        batches.append(pa.array([], pa.int64()))
    for bad in (5, "ab", np.arange(3)):
        with pytest.raises(TypeError, match="Arrow arrays or sequences"):
            batches.append(bad)
    batches.append([None, None])
    want.append([None, None])
    for found in (batches, blosc2.open(path, mmap_mode=source), batches.copy(), batches.copy(items_per_block=1)):
        assert found.serializer == "arrow"
        assert [batch[:] for batch in found] == want
        assert [found[0][n] for n in range(-3, 3)] == want[0] + want[0]
        assert found.items[2:4] == [[3], [4]]
        assert found.vlmeta["user"] == 1
        assert found.vlmeta[LENGTHS] == {"batch_lengths": [3, 2, 2, 2]}
    schema = pa.ipc.read_schema(pa.py_buffer(batches.meta["batcharray"]["arrow_schema"]))
    assert schema.names == ["values"]
    assert schema.field(0).type == pa.list_(pa.int64())
    assert batches.copy(serializer="msgpack").serializer == "msgpack"
    assert [batch[:] for batch in batches.copy(serializer="msgpack")] == want
    assert batches.pop(0) == want[0]
    assert blosc2.check(path).ok


def test_types(pa: Any) -> None:
    for array in (
        pa.array(["a", None]), pa.array([b"a"]), pa.array([1.5, None]), pa.array([True, False]), pa.array([None, None]),
        pa.array(["a", "b", "a"]).dictionary_encode(), pa.array([{"x": 1, "y": [2]}, None]), pa.array([1], pa.date32()),
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
        pa.array([b"ab"], pa.binary(2)), pa.array([["a"]], pa.large_list(pa.large_string())),
        pa.array([3], pa.duration("s")),
    ):  # fmt: skip
        batches = BatchArray(serializer="arrow")
        batches.append(array)
        assert batches[0][:] == array.to_pylist(), array.type
        assert batches[0][0] == array[0].as_py()


def test_types_that_are_refused(pa: Any) -> None:
    extended = pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "mine", "me"), pa.array([1]))
    for array in (
        extended, pa.array(["a"], pa.string_view()), pa.array([[1]], pa.list_view(pa.int64())),
        pa.RunEndEncodedArray.from_arrays([3], pa.array([1])), pa.array([{}], pa.struct([])),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    ):  # fmt: skip
        batches = BatchArray(serializer="arrow")
        with pytest.raises(TypeError, match="cannot be stored"):
            batches.append(array)
        assert len(batches) == 0


def stream(pa: Any, array: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], names=["values"])
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_hostile_streams(pa: Any, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2b"
    few = stream(pa, pa.array([1, 2]))
    nested = pa.ListArray.from_arrays(pa.array([0, 1 << 30], pa.int32()), pa.nulls(1 << 30))
    shared = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 20, np.int8)), pa.array(["x" * 100_000]))
    beyond = bytearray(stream(pa, pa.array(["abc", "d"])))
    at = beyond.index(struct.pack("<3i", 0, 3, 4))
    beyond[at : at + 12] = struct.pack("<3i", 0, 1 << 28, 1 << 29)
    cases: list[tuple[bytes, Any, str]] = [
        (stream(pa, pa.array([1] * 10_000), compression="zstd"), UnsupportedKindError, "compressed inside"),
        (stream(pa, pa.nulls(1 << 30)), FormatError, "would take"),
        (stream(pa, nested), FormatError, "would take"),
        (stream(pa, shared), FormatError, "would take"),
        (bytes(beyond), FormatError, "not a valid Arrow stream"),
        (few[:40], FormatError, "not a valid Arrow"),
        (b"\xff" * 64, FormatError, "not a valid Arrow"),
        (b"", FormatError, ""),
        (stream(pa, pa.array([[1]], pa.list_view(pa.int64()))), UnsupportedKindError, "cannot be read"),
    ]
    for data, error, words in cases:
        if not data:
            continue
        packed_batches(path, [data], {"batch_lengths": [2]}, serializer="arrow")
        found = blosc2.open(path, mmap_mode=source)
        for read in (0, slice(None)):
            with pytest.raises(error, match=words):
                found[0][read]
        assert not blosc2.check(path).ok or error is UnsupportedKindError
    packed_batches(path, [few], {"batch_lengths": [2]}, serializer="arrow")
    assert blosc2.open(path)[0][:] == [1, 2]


def test_any_damaged_byte_of_a_stream(pa: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = tmp_path / "x.b2b"
    for array in (pa.array([["a", "b"], None, ["c"]]), pa.array(["x", "y", "x"]).dictionary_encode()):
        data = stream(pa, array)
        for at in rng.permutation(len(data))[:300].tolist():
            changed = bytearray(data)
            changed[at] ^= int(rng.integers(1, 256))
            packed = BatchArray(serializer="arrow")._blocks
            kind = packed(BatchArray(serializer="arrow")._handle.frame)
            try:
                block = kind.open(bytes(changed), "here", "safe", len(data))
                block.all(None)
                [block.item(n) for n in range(len(block))]
            except (FormatError, UnsupportedKindError):
                pass
    assert not path.exists()
