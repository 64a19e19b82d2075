"""Small files that claim much."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from blosc2._frames.handle import vlmeta_chunk
from blosc2._frames.update import Fields, FrameContent, lay_out

NONE = (0, 0, 0, 0, 0, 0)
LIKE = SimpleNamespace(
    codec=5, codec_meta=0, clevel=5, splitmode=3, typesize=1, blocksize=0, filters=NONE, filters_meta=NONE,
    use_dict=False,
)  # fmt: skip


def write_frame(
    path: Path,
    chunks: Sequence[bytes | int] = (),
    *,
    count: int | None = None,
    nbytes: int = 0,
    chunksize: int = 1 << 14,
    metalayers: dict[str, bytes] | None = None,
    vlmeta: dict[str, bytes] | None = None,
    variable: bool = False,
    typesize: int = 1,
) -> bytes:
    """Write a frame of these chunks; one special offset may stand for `count` of them."""
    like = SimpleNamespace(**{**vars(LIKE), "typesize": typesize})
    parts: list[Any] = []
    fields = Fields(like, 0 if variable else chunksize, variable=variable)
    count = len(chunks) if count is None else count
    head = lay_out(parts.append, FrameContent(fields, metalayers or {}, vlmeta or {}, chunks, count, nbytes))
    data = b"".join([head, *map(bytes, parts)])
    path.write_bytes(data)
    return data


def runs(nbytes: int, blocksize: int, byte: int = 0) -> bytes:
    """A chunk whose blocks are all the same byte, each said in a few bytes of its own."""
    count = -(-nbytes // blocksize)
    stream = struct.pack("<i", 0) if byte == 0 else struct.pack("<iB", -byte, 1)
    first = 32 + 4 * count
    starts = b"".join(struct.pack("<i", first + len(stream) * i) for i in range(count))
    size = first + len(stream) * count
    head = struct.pack("<4B3i6B2B6B2B", 5, 1, 0x95, 1, nbytes, blocksize, size, *NONE, 5, 0, *NONE, 0, 0)
    return head + starts + stream * count


def entries(count: int, packed: bytes) -> dict[str, bytes]:
    """Metadata entries of the same content."""
    one = vlmeta_chunk(packed)
    return {f"e{number}": one for number in range(count)}


def damaged_table(path: Path, **how: Any) -> None:
    """A frame whose table of metadata entries is damaged, so that it has to be recovered."""
    data = bytearray(write_frame(path, **how))
    data[len(data) - 35 + 2] ^= 1
    path.write_bytes(data)
