"""What the tests of super-chunks share."""

from __future__ import annotations

from blosc2 import SChunk


def check(schunk: SChunk, chunks: list[bytes]) -> None:
    """The super-chunk holds these chunks, by every way to read them."""
    whole = b"".join(chunks)
    assert schunk.nchunks == len(chunks)
    assert schunk.nbytes == len(whole)
    assert len(schunk) == len(whole) // schunk.typesize
    assert [schunk.decompress_chunk(n) for n in range(len(chunks))] == chunks
    assert schunk[:] == whole[: len(schunk) * schunk.typesize]
    assert [info.nchunk for info in schunk.iterchunks_info()] == list(range(len(chunks)))
