"""CRC-32C: the published check values, all ways of computing it, and continuing."""

import os

import pytest

from blosc2._core.io.checksum import WAYS, crc32c

# RFC 3720, appendix B.4, and the check value of the CRC catalogues ("CRC-32/ISCSI").
PUBLISHED = [
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (b"", 0),
]


@pytest.mark.parametrize("way", [*range(WAYS), -1])
@pytest.mark.parametrize(("data", "expected"), PUBLISHED)
def test_published_values(data, expected, way):
    assert crc32c(data, way=way) == crc32c(memoryview(bytearray(data)), way=way) == expected


@pytest.mark.parametrize("way", range(1, WAYS))
@pytest.mark.parametrize("size", [0, 1, 8, 255, 256, 257, 511, 512, 513, 767, 4096, 12_287, 12_288, 12_289, 300_003])
def test_the_ways_of_this_processor(way, size):
    """Each processor takes the best one, and shows what the others give on lesser ones."""
    data = os.urandom(size)
    whole = crc32c(data, 0x1234, way=0)
    assert crc32c(data, 0x1234, way=way) == crc32c(data, 0x1234) == whole
    for cut in (0, 1, size // 3, size):
        assert crc32c(data[cut:], crc32c(data[:cut], 0x1234)) == whole


def test_what_is_refused():
    with pytest.raises(ValueError, match="ways"):
        crc32c(b"x", way=WAYS)
    with pytest.raises(TypeError):
        crc32c("123456789")


def test_every_flipped_bit_shows():
    data = bytearray(os.urandom(100))
    good = crc32c(data)
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert crc32c(data) != good
        data[bit // 8] ^= 1 << bit % 8
