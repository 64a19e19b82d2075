"""Damage to the bytes of a file, the same for the same seed."""

from __future__ import annotations

import random
import struct

# lengths and counts go wrong at their borders first
_INTERESTING = [0, 1, 7, 31, 32, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]


def _position(rng: random.Random, size: int) -> int:
    """Headers and trailers are small and decide most: two thirds of all damage goes there."""
    where = rng.random()
    if where < 0.35:
        return rng.randrange(min(size, 200))
    if where < 0.65:
        return size - 1 - rng.randrange(min(size, 200))
    return rng.randrange(size)


def mutate(data: bytes, seed: int) -> tuple[bytes, int, str]:
    """Damaged bytes, the first position that changed, and what was done."""
    rng = random.Random(seed)
    size = len(data)
    at = _position(rng, size)
    out = bytearray(data)
    kind = rng.random()
    if kind < 0.4:
        bit = rng.randrange(8)
        out[at] ^= 1 << bit
        return bytes(out), at, f"bit {bit} of byte {at} flipped"
    if kind < 0.55:
        out[at] = rng.randrange(256)
        return bytes(out), at, f"byte {at} is {out[at]}"
    if kind < 0.65:
        out[at] = rng.choice([0, 0x7F, 0x80, 0xFF])
        return bytes(out), at, f"byte {at} is {out[at]}"
    if kind < 0.77:
        code = rng.choice([">I", "<I", ">Q", "<Q", ">H", "<H"])
        width = struct.calcsize(code)
        value = rng.choice(_INTERESTING) & ((1 << 8 * width) - 1)
        if rng.random() < 0.5:
            value = (1 << 8 * width) - 1 - value
        raw = struct.pack(code, value)[: size - at]
        out[at : at + len(raw)] = raw
        return bytes(out), at, f"bytes {at}.. are {raw.hex()}"
    if kind < 0.9:
        cut = at if rng.random() < 0.5 else rng.randrange(size)
        return bytes(out[:cut]), cut, f"cut to {cut} of {size} bytes"
    length = rng.randrange(1, 40)
    if kind < 0.93:
        out[at:at] = rng.randbytes(length)
        return bytes(out), at, f"{length} bytes put in at {at}"
    if kind < 0.96:
        del out[at : at + length]
        return bytes(out), at, f"{length} bytes taken out at {at}"
    start = rng.randrange(size)
    piece = out[start : start + length][: size - at]
    out[at : at + len(piece)] = piece
    return bytes(out), at, f"{len(piece)} bytes of {start} copied to {at}"
