"""The hash of catalogs, from its definition."""

from __future__ import annotations


def siphash13(k0: int, k1: int, data: bytes) -> int:
    """SipHash with 1 round a word and 3 at the end, from its definition."""
    mask = (1 << 64) - 1
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & mask

    def one_round() -> None:
        v[0] = (v[0] + v[1]) & mask
        v[1] = rotate(v[1], 13) ^ v[0]
        v[0] = rotate(v[0], 32)
        v[2] = (v[2] + v[3]) & mask
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & mask
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & mask
        v[1] = rotate(v[1], 17) ^ v[2]
        v[2] = rotate(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        one_round()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        one_round()
    return v[0] ^ v[1] ^ v[2] ^ v[3]
