"""safetensors files: named arrays behind a header in JSON, with texts as metadata of the whole file.

https://huggingface.co/docs/safetensors: 8 bytes that say how long the header is, the header, and the bytes of all
tensors, which the header places.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from blosc2._files import NewFile
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import ArrayItem, GroupItem, Item, ObjectItem, Source, Target
from blosc2._tools.converting.report import WHOLE, LeftOut
from blosc2.exceptions import ConversionError

# The names of dtypes, all of them little-endian.
_NAMES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
    "F32": "<f4", "F64": "<f8", "I64": "<i8", "U64": "<u8", "C64": "<c8",
}  # fmt: skip
_NAME_OF = {np.dtype(dtype): name for name, dtype in _NAMES.items()}
# Types that NumPy has not: their bits are kept, and an attribute names the type.
_BITS = {"BF16": np.dtype("<u2")} | dict.fromkeys(
    ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), np.dtype("u1")
)
_DTYPE = "safetensors_dtype"
# As the library has it.
_LONGEST_HEADER = 100_000_000


class Tensors(Source):
    """A safetensors file, which is mapped. The library cannot give tensors of types that NumPy has not."""

    def __init__(self, path: str) -> None:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or not 2 <= length <= min(size - 8, _LONGEST_HEADER):
                raise ConversionError(f"{path} is no safetensors file, or a damaged one: its header has {length} bytes")
            text = file.read(length)
        try:
            self._header = json.loads(text)
            self._metadata = self._header.pop("__metadata__", {})
            if not all(isinstance(each, dict) for each in (self._metadata, *self._header.values())):
                raise TypeError("it does not describe tensors")
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ConversionError(f"{path} is no safetensors file, or its header is damaged: {error}") from None
        self._bytes = np.memmap(path, "u1", "r")[8 + length :]

    def close(self) -> None:
        del self._bytes

    def items(self) -> Iterator[Item]:
        yield GroupItem("/", self._metadata)
        used = 0
        for name in sorted(self._header):
            key = "/" + name.strip("/")
            used += (yield from conversion.alone(key, self._tensor(key, self._header[name]))) or 0
        if used < len(self._bytes):
            yield LeftOut("/", f"{len(self._bytes) - used} bytes", "they belong to no tensor that could be read")

    def _tensor(self, key: str, described: dict[str, Any]) -> Generator[Item, None, int]:
        """The number of bytes of a tensor is returned."""
        dtype, shape, (begin, end) = described["dtype"], described["shape"], described["data_offsets"]
        if not 0 <= begin <= end <= len(self._bytes):
            raise ValueError(f"its bytes {begin} to {end} are not in the file, which has {len(self._bytes)}")
        found = _BITS.get(dtype) or _NAMES.get(dtype)
        if found is None:
            yield LeftOut(key, WHOLE, f"NumPy has no dtype for {dtype}")
            return int(end - begin)
        if min(shape, default=0) < 0 or math.prod(shape) * np.dtype(found).itemsize != end - begin:
            raise ValueError(f"it has {end - begin} bytes, and another number by its shape {shape}")
        attributes = {_DTYPE: dtype} if dtype in _BITS else {}
        yield ArrayItem.of(key, self._bytes[begin:end].view(found).reshape(shape), attributes)
        return int(end - begin)


class NewTensors(Target):
    """A new safetensors file. Its header says where each tensor lies, so the items wait until all are known."""

    waits = True

    def __init__(self, path: str, **_: Any) -> None:
        super().__init__(path)
        self._items: list[tuple[str, ArrayItem]] = []  # with the names of their types
        self._metadata: dict[str, str] = {}

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        bits = item.attributes.get(_DTYPE)
        is_bits = isinstance(item, ArrayItem) and isinstance(bits, str) and bits in _BITS and item.dtype == _BITS[bits]
        for name, value in item.attributes.items():
            if item.key == "/" and isinstance(value, str):
                self._metadata[name] = value
            elif not (is_bits and name == _DTYPE):
                yield LeftOut(item.key, f"attribute {name!r}", "safetensors has texts for the whole file only")
        if isinstance(item, ObjectItem):
            yield LeftOut(item.key, WHOLE, "safetensors holds arrays only")
        elif isinstance(item, ArrayItem):
            if item.key == "/__metadata__":
                yield LeftOut(item.key, WHOLE, "safetensors needs this name for itself")
            elif item.dtype in _NAME_OF:
                self._items.append((str(bits) if is_bits else _NAME_OF[item.dtype], item))
            else:
                yield LeftOut(item.key, WHOLE, f"safetensors has no {item.dtype}")

    def finish(self) -> None:
        header: dict[str, Any] = {"__metadata__": self._metadata} if self._metadata else {}
        at = 0
        self._items.sort(key=lambda each: -each[1].dtype.itemsize)  # so that each is aligned
        for name, item in self._items:
            header[item.key.strip("/")] = {
                "dtype": name, "shape": list(item.shape), "data_offsets": [at, at + item.nbytes],
            }  # fmt: skip
            at += item.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with NewFile(self.partial, replace=True) as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, item in self._items:
                file.writelines(conversion.bytes_of(item.read(box)) for box in conversion.boxes_of(item, in_order=True))
            if file.tell() != 8 + len(text) + at:
                raise ConversionError(f"{self.partial}: an array has other bytes than its shape says")
