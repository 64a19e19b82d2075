"""Parquet files as pandas and others write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError

pa = pytest.importorskip("pyarrow", reason="an extra")
parquet = pytest.importorskip("pyarrow.parquet", reason="an extra")


def converted(tmp_path: Path, columns: Any, **options: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What is kept, and why the others are not."""
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", **options)
    report = blosc2.convert(tmp_path / "a.parquet", tmp_path / "a.b2z", verify=True, overwrite=True)
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        kept = {key: store[key][...] if isinstance(store[key], blosc2.NDArray) else list(store[key]) for key in store}
    return kept, {each.key: each.why for each in report.left_out + report.changed}


def test_lists_of_one_length_are_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors, squares = rng.random((1000, 7), "f4"), rng.random((1000, 2, 3))
    kept, lost = converted(
        tmp_path,
        {
            "vector": list(vectors), "square": pa.array(squares.tolist()), "large": pa.array(
                vectors.tolist(), pa.large_list(pa.float32())), "ragged": pa.array([[1.0]] * 999 + [[1.0, 2.0]]),
            "inner": pa.array([[[1], [2]]] * 999 + [[[1], [2, 3]]]), "hole": pa.array([[1.0]] * 999 + [None]),
            "none": pa.array([[]] * 1000, pa.list_(pa.int8())),
        }, row_group_size=300,
    )  # fmt: skip
    assert set(kept) == {"/vector", "/square", "/large", "/none"}
    for key, wanted in {"/vector": vectors, "/square": squares, "/large": vectors}.items():
        assert kept[key].dtype == wanted.dtype
        np.testing.assert_array_equal(kept[key], wanted)
    assert kept["/none"].shape == (1000, 0)
    assert lost == {
        "/ragged": "its lists have 1 to 2 items, and no array has such rows",
        "/inner": "its lists have 1 to 2 items, and no array has such rows",
        "/hole": "1 of its values are missing: fill them first",
    }


def test_a_table_without_rows(tmp_path: Path) -> None:
    kept, lost = converted(tmp_path, {"v": pa.array([], pa.list_(pa.float32())), "s": pa.array([], pa.string())})
    assert (kept["/v"].shape, kept["/s"], lost) == ((0, 0), [], {})


def test_texts_and_times(tmp_path: Path) -> None:
    days = np.array(["2020-01-01", "1960-02-29"], "M8[D]")
    kept, lost = converted(
        tmp_path,
        {
            "text": ["é", ""], "hole": ["a", None], "day": days, "class": pa.array(["a", "b"]).dictionary_encode(),
            "s": pa.array(days.astype("M8[s]"), pa.timestamp("ms")), "ns": pa.array(days.astype("M8[ns]")),
            "zone": pa.array(days.astype("M8[us]"), pa.timestamp("us", "Europe/Oslo")), "nat": pa.array(
                np.array(["2020", "NaT"], "M8[us]")), "wait": pa.array(np.array([1, 2], "m8[us]")),
            "yes": [True, False], "inner": pa.FixedSizeListArray.from_arrays(pa.array([1.0, None, 3.0, 4.0]), 2),
        },
    )  # fmt: skip
    assert set(lost) == {"/hole", "/nat", "/class", "/inner"}
    assert (kept["/yes"].dtype, kept["/yes"].tolist()) == (np.dtype(bool), [True, False])
    assert (kept["/text"], kept["/class"]) == (["é", ""], ["a", "b"])
    for key, unit in {"/day": "D", "/s": "ms", "/ns": "ns", "/zone": "us"}.items():
        assert kept[key].dtype == f"M8[{unit}]"
        np.testing.assert_array_equal(kept[key], days)
    assert kept["/wait"].dtype == "m8[us]"
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/zone"].vlmeta[:] == {"timezone": "Europe/Oslo"}


def test_a_name_that_means_two_columns(tmp_path: Path) -> None:
    fields = pa.array([{"x": 1, "y": {"z": 2}}, {"x": 3, "y": {"z": 4}}])
    kept, lost = converted(tmp_path, {"s": fields, "s.x": pa.array([5, 6]), "s.y.z": pa.array([7.5, 8.5])})
    assert {key: items.tolist() for key, items in kept.items()} == {"/s.x": [5, 6], "/s.y.z": [7.5, 8.5]}
    assert set(lost) == {"/s"}


def test_a_footer_that_hides_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"x": pa.array(range(6))}), path)
    data = path.read_bytes()
    assert parquet.read_metadata(path).num_rows == 6
    refused = 0
    for at in [at for at in range(data.rindex(b"x"), len(data)) if data[at] == 12]:  # 6 as thrift writes it
        path.write_bytes(data[:at] + b"\0" + data[at + 1 :])
        try:
            report = blosc2.convert(path, tmp_path / "b.b2z", overwrite=True)
        except (ConversionError, OSError):
            refused += 1
            continue
        with blosc2.open(str(tmp_path / "b.b2z")) as store:
            assert not report.complete or store["/x"].shape == (6,)
    assert refused > 0


def test_encrypted_columns_are_listed(tmp_path: Path) -> None:
    encryption = pytest.importorskip("pyarrow.parquet.encryption", reason="pyarrow can be built without it")

    class Keys(encryption.KmsClient):  # type: ignore[misc,name-defined]
        def wrap_key(self, key: bytes, name: str) -> str:
            return key.hex()

        def unwrap_key(self, wrapped: str, name: str) -> bytes:
            return bytes.fromhex(wrapped)

    table = pa.table({"open": [1, 2], "number": [3, 4], "text": ["a", "b"]})
    how = encryption.EncryptionConfiguration("f", column_keys={"c": ["number", "text"]}, plaintext_footer=True)
    keys = encryption.CryptoFactory(lambda _: Keys()).file_encryption_properties(encryption.KmsConnectionConfig(), how)
    path = tmp_path / "a.parquet"
    with parquet.ParquetWriter(path, table.schema, encryption_properties=keys) as writer:
        writer.write_table(table)
        writer.write_table(table)
    signed = path.read_bytes()
    footer = int.from_bytes(signed[-8:-4], "little") - 28
    for data in (signed, signed[:-36] + footer.to_bytes(4, "little") + signed[-4:]):  # as it is, and not signed
        path.write_bytes(data)
        report = blosc2.convert(path, tmp_path / "a.b2z", verify=True, overwrite=True)
        assert report.arrays == 1
        assert {each.key for each in report.left_out} == {"/number", "/text"}
        assert all("decrypt" in each.why for each in report.left_out)


def test_metadata_of_arrow_are_attributes(tmp_path: Path) -> None:
    column = pa.field("n", pa.int64(), metadata={"unit": "mm"})
    schema = pa.schema([column], metadata={"pandas": '{"columns": []}', b"raw": b"\xff"})
    parquet.write_table(pa.table({"n": [1, 2]}, schema=schema), tmp_path / "a.parquet")
    assert blosc2.convert(tmp_path / "a.parquet", tmp_path / "a.b2z", verify=True).complete
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store.attrs[:] == {"pandas": '{"columns": []}', "raw": b"\xff"}
        assert store["/n"].vlmeta[:] == {"unit": "mm"}


@pytest.mark.parametrize("is_dictionary", [True, False])
def test_one_text_for_many_rows(tmp_path: Path, is_dictionary: bool) -> None:
    """A small file can mean texts of many gigabytes, which are left out; memory holds each of them once."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 6000, pa.int32()), pa.array(["x" * 400_000]))
    table = pa.table({"huge": texts, "x": np.arange(6000)})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=is_dictionary)
    before = pa.total_allocated_bytes()
    report = blosc2.convert(tmp_path / "a.parquet", tmp_path / "a.b2z", verify=True)
    (lost,) = report.left_out
    assert lost[:2] == ("/huge", "all of it")
    assert "its texts have more than 1073741824 bytes" in lost.why
    assert pa.default_memory_pool().max_memory() - before < 1 << 28
    assert report.arrays == 1


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_encodings_of_texts(tmp_path: Path, encoding: str) -> None:
    texts = [f"é {number}" for number in range(3000)]
    kept, lost = converted(
        tmp_path, {"x": texts, "x/y": pa.array(texts, pa.large_string()), "n": [*texts[1:], None]},
        use_dictionary=False, column_encoding={"x": encoding}, row_group_size=700,
    )  # fmt: skip
    assert kept["/x"] == texts
    assert "1 of its values are missing" in lost["/n"]
