"""safetensors files: named arrays behind a header in JSON, with texts as metadata of the whole file."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors import safe_open

from blosc2._files import NewFile
from blosc2._tools.converting.items import (
    WHOLE,
    ArrayItem,
    GroupItem,
    Item,
    LeftOut,
    ObjectItem,
    Source,
    Target,
    boxes_of,
    bytes_of,
)
from blosc2._tools.converting.run import UnresumedTarget
from blosc2.exceptions import ConversionError

# https://huggingface.co/docs/safetensors: the names of dtypes, all of them little-endian
_NAMES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "I32": "<i4", "U32": "<u4",
    "F32": "<f4", "F64": "<f8", "I64": "<i8", "U64": "<u8", "C64": "<c8",
}  # fmt: skip
_NAME_OF = {np.dtype(dtype): name for name, dtype in _NAMES.items()}


class _Tensors:
    def __init__(self, path: str) -> None:
        self._file: Any = safe_open(path, framework="np")

    def close(self) -> None:
        self._file.__exit__(None, None, None)

    def items(self) -> Iterator[Item]:
        yield GroupItem("/", dict(self._file.metadata() or {}))
        for name in sorted(self._file.keys()):
            part = self._file.get_slice(name)
            key = "/" + name.strip("/")
            dtype = _NAMES.get(part.get_dtype())
            if dtype is None:
                yield LeftOut(key, WHOLE, f"NumPy has no dtype for {part.get_dtype()}")
                continue
            shape = tuple(part.get_shape())
            whole = name if not shape or 0 in shape else None
            yield ArrayItem(key, shape, np.dtype(dtype), self._reader(part, whole))

    def _reader(self, part: Any, whole: str | None) -> Any:
        if whole is not None:
            return lambda _: np.asarray(self._file.get_tensor(whole))
        return lambda box: np.asarray(part[box])


def open_source(path: str) -> Source:
    """A safetensors file."""
    return _Tensors(path)


class _NewTensors(UnresumedTarget):
    """The header comes first, and says where each tensor lies: the items wait until all are known."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._items: list[ArrayItem] = []
        self._metadata: dict[str, str] = {}

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        for name, value in item.attributes.items():
            if item.key == "/" and isinstance(value, str):
                self._metadata[name] = value
            else:
                yield LeftOut(item.key, f"attribute {name!r}", "safetensors has texts for the whole file only")
        if isinstance(item, ObjectItem):
            yield LeftOut(item.key, WHOLE, "safetensors holds arrays only")
        elif isinstance(item, ArrayItem):
            if item.key == "/__metadata__":
                yield LeftOut(item.key, WHOLE, "safetensors needs this name for itself")
            elif item.dtype in _NAME_OF:
                self._items.append(item)
            else:
                yield LeftOut(item.key, WHOLE, f"safetensors has no {item.dtype.str}")

    def finish(self) -> None:
        header: dict[str, Any] = {"__metadata__": self._metadata} if self._metadata else {}
        at = 0
        self._items.sort(key=lambda item: -item.dtype.itemsize)  # so that each is aligned
        for item in self._items:
            header[item.key.strip("/")] = {
                "dtype": _NAME_OF[item.dtype], "shape": list(item.shape), "data_offsets": [at, at + item.nbytes],
            }  # fmt: skip
            at += item.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with NewFile(self.partial, replace=True) as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for item in self._items:
                if 0 in item.shape:
                    continue
                file.writelines(bytes_of(item.read(box)) for box in boxes_of(item, in_order=True))
            if file.tell() != 8 + len(text) + at:
                raise ConversionError(f"{self.partial}: an array has other bytes than its shape says")


def new_target(path: str, **_: Any) -> Target:
    """A new safetensors file."""
    return _NewTensors(path)
