"""safetensors files: types that NumPy has not, and files that are damaged."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError


def write(path: Path, header: Any, data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def described(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_types_that_numpy_has_not(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="an extra")
    tensors = pytest.importorskip("safetensors.torch", reason="an extra")
    values = torch.linspace(-3, 3, 24).reshape(4, 6)
    saved = {
        "bf16": values.bfloat16(), "e4m3": values.to(torch.float8_e4m3fn), "e5m2": values.to(torch.float8_e5m2),
        "f4": values, "scalar": torch.tensor(1.5).bfloat16(), "none": torch.zeros((0, 3)).bfloat16(),
    }  # fmt: skip
    tensors.save_file(saved, tmp_path / "a.safetensors", metadata={"format": "pt"})
    assert blosc2.convert(tmp_path / "a.safetensors", tmp_path / "a.b2z", verify=True).complete
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/e4m3"].vlmeta[:] == {"safetensors_dtype": "F8_E4M3"}
        bits = store["/bf16"]
        assert (bits.dtype, bits.vlmeta["safetensors_dtype"]) == (np.dtype("u2"), "BF16")
        np.testing.assert_array_equal(bits[...], saved["bf16"].view(torch.uint16).numpy())
    assert blosc2.convert(tmp_path / "a.b2z", tmp_path / "b.safetensors", verify=True).complete
    back = tensors.load_file(tmp_path / "b.safetensors")
    assert back.keys() == saved.keys()
    for name, tensor in saved.items():
        assert back[name].dtype == tensor.dtype
        assert torch.equal(back[name].float(), tensor.float())


def test_an_attribute_that_does_not_fit(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/x"] = np.arange(3, dtype="f4")
        store["/x"].vlmeta["safetensors_dtype"] = "BF16"
    report = blosc2.convert(tmp_path / "a.b2z", tmp_path / "a.safetensors", verify=True)
    assert [each.what for each in report.left_out] == ["attribute 'safetensors_dtype'"]


@pytest.mark.parametrize(
    "bad",
    [
        described("F32", [4], 8, 24), described("F32", [2], 8, 4), described("F32", [2], -8, 0),
        described("F32", [3], 0, 8), described("F32", [-2, -1], 0, 8), described("F32", [2**70, 0], 0, 0),
        described("F32", ["a"], 0, 8), described("F4", [4], 0, 2), {"dtype": "F32"},
        {"dtype": [], "shape": [2], "data_offsets": [0, 8]},
    ], ids=str,
)  # fmt: skip
def test_a_tensor_that_is_described_wrongly(tmp_path: Path, bad: dict[str, Any]) -> None:
    write(
        tmp_path / "a.safetensors", {"bad": bad, "good": described("I32", [2], 8, 16)}, struct.pack("<4i", 1, 2, 3, 4)
    )
    report = blosc2.convert(tmp_path / "a.safetensors", tmp_path / "a.b2z", verify=True)
    assert ("/bad", "all of it") in [each[:2] for each in report.left_out]
    assert all("\n" not in str(each) for each in report.left_out)
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert list(store) == ["/good"]
        assert store["/good"][...].tolist() == [3, 4]


def test_bytes_that_no_tensor_has(tmp_path: Path) -> None:
    write(tmp_path / "a.safetensors", {"x": described("U8", [2], 0, 2)}, b"12345")
    report = blosc2.convert(tmp_path / "a.safetensors", tmp_path / "a.b2z")
    assert [each[:2] for each in report.left_out] == [("/", "3 bytes")]


def test_damaged_headers(tmp_path: Path) -> None:
    """They are refused in one line, or what the file does not have is listed."""
    path, rng = tmp_path / "a.safetensors", random.Random(0)
    write(
        path, {"__metadata__": {"a": "b"}, "x": described("U8", [2], 0, 2), "y": described("U8", [3], 2, 5)}, b"12345"
    )
    data = path.read_bytes()
    wanted: dict[str, Any] = {"/x": b"12", "/y": b"345"}
    refused = 0
    for _ in range(200):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data) - 5)] = rng.randrange(256)
        path.write_bytes(damaged if rng.random() < 0.7 else data[: rng.randrange(len(data))])
        try:
            report = blosc2.convert(path, tmp_path / "a.b2z", overwrite=True)
        except ConversionError as error:
            assert "\n" not in str(error)  # noqa: PT017
            refused += 1
            continue
        with blosc2.open(str(tmp_path / "a.b2z")) as store:
            values = sorted(store[key][...].tobytes() for key in store)
        assert not report.complete or values == sorted(wanted.values())
    assert refused > 50
