"""What the tests of super-chunks share."""

from __future__ import annotations

from blosc2 import SChunk
from blosc2._core.frame.frame import Frame


def decode_all(frame: Frame) -> None:
    """Decode every chunk and every metadata entry; raises `FormatError` at the first that is wrong."""
    if frame.variable and frame.nbytes:
        frame.chunk_sizes()
    for number in range(frame.nchunks):
        frame.decode_chunk(number)
    for name in frame.vlmeta_names():
        frame.vlmeta(name)


def check(schunk: SChunk, chunks: list[bytes]) -> None:
    """The super-chunk holds these chunks, by every way to read them."""
    whole = b"".join(chunks)
    assert schunk.nchunks == len(chunks)
    assert schunk.nbytes == len(whole)
    assert len(schunk) == len(whole) // schunk.typesize
    assert [schunk.decompress_chunk(n) for n in range(len(chunks))] == chunks
    assert schunk[:] == whole[: len(schunk) * schunk.typesize]
    assert [info.nchunk for info in schunk.iterchunks_info()] == list(range(len(chunks)))
