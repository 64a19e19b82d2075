"""What salvage and check hold of a small file that claims chunks of gigabytes."""

from __future__ import annotations

import base64
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._integrity.check_frames import Fields, check_chunk
from blosc2.exceptions import FormatError

# 588 bytes, found by the fuzzer: a super-chunk whose chunks have blocks of different sizes, and which is no list.
# One of its chunks claims 1.7 GB.
FRAME = zlib.decompress(
    base64.b85decode(
        "c-nPQJxc>Y5S_VjQTsqzML`iiAjHnXLTs(9kJ-zbJCaM{-eQPdz&~J&tq=%Af+7m`0l`j1(*zWMi?e4gC>Mu)Gdp{4c4psQUWweH"
        "qCmns0NlSqWY%tX2nW^>08P3${5ggXLqg*sI=lh$dK{&ruV_PT=g*M+0_+R&T&)yQ!|;zj0iQT-pZ1QW3jJyY`=L}mmHiW`dO=vM"
        "kz2a;wG2Y1CY2+~RkvhalTy{X6S|%ZXpqK>sFB6kiu+AkBdoCBWTY4^v<&Sm6&IQ3tWPOgVsElmhdP4E8zNUJm>c$|kk{Df8GDR5"
        "Q`GE~(BMyE_z7WG|LGk~Ij}K1JI_0Voe2{X7C&2z<J~y6k#%2S-5(qlUb_wpM-3;CnhK=J46;1_1$i51FvFY7uQvI_bO6m8LE814"
        "a#2>a7q(NDjW2v&A0@{6232fjx&"
    )
)


def test_chunks_of_blocks_of_different_sizes(tmp_path: Path) -> None:
    path = tmp_path / "x.b2frame"
    path.write_bytes(FRAME)
    tracemalloc.start()
    try:
        assert not blosc2.check(path).ok
        with pytest.raises(FormatError):
            blosc2.salvage(path, tmp_path / "out.b2frame")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_chunk_with_a_dictionary_among_chunks_of_any_size() -> None:
    """Its blocks do not stand alone, so that it is decoded at once."""
    items = np.arange(1 << 18, dtype="<i4") // 7
    how = {"codec": blosc2.Codec.ZSTD, "use_dict": True, "typesize": 4, "blocksize": 1 << 15}
    schunk = blosc2.SChunk(chunksize=1 << 20, data=items, cparams=how)
    chunk, whole = bytearray(schunk.get_chunk(0)), bytes(schunk.get_chunk(0))
    claimed = 48 << 25
    struct.pack_into("<ii", chunk, 4, claimed, claimed // 32)  # as many blocks, so that its table of starts fits
    like = schunk._handle.frame

    def frame_of(stored: bytes, nbytes: int) -> Frame:
        fields = Fields(like, 0, vlblocks=False)
        source = Source.of_buffer(stored, "chunk")
        return Frame.assemble(source, np.zeros(1, np.int64), 1, nbytes, 0, fields, like.metalayers(), {})

    assert frame_of(whole, 1 << 20).variable
    assert check_chunk(frame_of(whole, 1 << 20), 0) == len(whole)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="would take 1610612736 bytes"):
            check_chunk(frame_of(bytes(chunk), claimed), 0)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
