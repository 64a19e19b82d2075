"""The table of codecs and filters: what else the package says of them follows from it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import blosc2
from blosc2._frames import chunk_encoding
from blosc2._options import Support, check_meta

ROOT = Path(__file__).resolve().parents[2]


def test_ids_on_disk() -> None:
    """Of the published package (FORMATS 2.4): these never change."""
    assert {codec.name: codec.value for codec in blosc2.Codec} == {
        "BLOSCLZ": 0, "LZ4": 1, "LZ4HC": 2, "ZLIB": 4, "ZSTD": 5, "NDLZ": 32, "ZFP_ACC": 33, "ZFP_PREC": 34,
        "ZFP_RATE": 35, "OPENHTJ2K": 36, "GROK": 37, "OPENZL": 38, "J2K": 39, "HTJ2K": 40,
    }  # fmt: skip
    assert {item.name: item.value for item in blosc2.Filter} == {
        "NOFILTER": 0, "SHUFFLE": 1, "BITSHUFFLE": 2, "DELTA": 3, "TRUNC_PREC": 4, "NDCELL": 32, "NDMEAN": 33,
        "BYTEDELTA": 35, "INT_TRUNC": 36,
    }  # fmt: skip


@pytest.mark.parametrize("member", [*blosc2.Codec, *blosc2.Filter], ids=str)
def test_members_are_found_by_their_id_and_travel(member: blosc2.Codec | blosc2.Filter) -> None:
    kind = type(member)
    assert kind(member.value) is member
    assert pickle.loads(pickle.dumps(member)) is member
    assert (kind.__module__, repr(member)) == ("blosc2.storage", f"<{kind.__name__}.{member.name}: {member.value}>")


@pytest.mark.parametrize("page", ["reference/api.md", "design/formats.md"])
def test_pages_name_all(page: str) -> None:
    text = (ROOT / "doc" / page).read_text(encoding="utf-8")
    if page == "reference/api.md":
        for member in [*blosc2.Codec, *blosc2.Filter]:
            assert f"`{type(member).__name__}.{member.name}`" in text
        return
    section = text.partition("### 2.4 ")[2].partition("\n## ")[0]
    numbers = [
        {int(one) for one in re.findall(r"\d+", row.split("|")[1])} for row in section.splitlines() if "|" in row
    ]
    assert {codec.value for codec in blosc2.Codec if codec.facts.support is not Support.ABSENT} <= set().union(*numbers)
    filters = [
        {int(one) for one in re.findall(r"\d+", row.split("|")[3])} for row in section.splitlines() if "|" in row
    ]
    assert {item.value for item in blosc2.Filter} <= set().union(*filters)


@pytest.mark.parametrize(
    ("codec", "meta", "fits"),
    [
        ("ZFP_RATE", 100, True),
        ("ZFP_RATE", 101, False),
        ("ZFP_RATE", 0, True),
        ("ZFP_PREC", 0, True),
        ("NDLZ", 4, True),
        ("NDLZ", 5, False),
        ("ZSTD", 255, True),
    ],
)
def test_metas_of_codecs(codec: str, meta: int, fits: bool) -> None:
    if fits:
        check_meta(blosc2.Codec[codec], meta)
        return
    with pytest.raises(ValueError, match=f"codec_meta is {meta}, and for the codec {codec} it is"):
        check_meta(blosc2.Codec[codec], meta)


def test_what_a_chunk_says() -> None:
    """By the bytes of its header (FORMATS 2.1)."""
    chunk = blosc2.compress2(
        bytes(range(200)) * 50, codec=blosc2.Codec.LZ4HC, typesize=4, filters=[blosc2.Filter.DELTA], filters_meta=[7]
    )
    told = chunk_encoding(chunk)
    assert (told.codec, told.typesize, told.filters[0], told.filters_meta[0]) == (2, 4, 3, 7)


FAKE = """
import re, sys, types
text = open(sys.argv[1], encoding="utf-8").read()
fake = "    FAKE = 3, CodecFacts('nobody', Support.BLOCK, 2)\\n"
noise = "    NOISE = 41, _plugin(dtypes=('int16',), metas=(7,))\\n"
blur = "    BLUR = 40, FilterFacts(Support.BLOCK, lossy=True)\\n"
text = text.replace("    HTJ2K = 40\\n", "    HTJ2K = 40\\n" + fake + noise)
text = text.replace("    INT_TRUNC = 36,", blur + "    INT_TRUNC = 36,")
table = types.ModuleType("blosc2._options.codecs")
sys.modules[table.__name__] = table
exec(text, table.__dict__)

import numpy as np
import blosc2
from blosc2._arrays.slabs import _parameters_like
from blosc2._frames import LOSSY_CODECS, check_lossy_codec
from blosc2._stores.leaves.statistics import codec_name

assert "[CODEC_FAKE] = SUPPORT_BLOCK" in table.native_table() and "[CODEC_FAKE] = 2," in table.native_table()
assert "case CODEC_NOISE: return 7;" in table.native_table()
assert "[FILTER_BLUR] = SUPPORT_BLOCK" in table.native_table()
assert blosc2.CParams(codec=41, filters=[]).codec is blosc2.Codec.NOISE
assert blosc2.Codec.NOISE in blosc2.compressor_list(plugins=True)
assert blosc2.Codec.NOISE not in blosc2.compressor_list()
assert blosc2.Codec.NOISE in LOSSY_CODECS
assert codec_name(41) == "NOISE"
try:
    blosc2.CParams(codec=99)
except ValueError as error:
    assert "3 FAKE" in str(error) and "41 NOISE" in str(error)
else:
    raise AssertionError
try:
    check_lossy_codec(blosc2.CParams(codec=41, filters=[]), np.dtype("f8"))
except ValueError as error:
    assert "NOISE compresses int16 of native byte order only" in str(error)
else:
    raise AssertionError
try:
    blosc2.compress(b"x" * 100, codec=blosc2.Codec.NOISE)
except ValueError as error:
    assert "NOISE compresses arrays, not buffers" in str(error) and "FAKE" in str(error)
else:
    raise AssertionError
f8 = np.dtype("f8")
assert _parameters_like(blosc2.CParams(codec=41), f8, f8) is None
assert _parameters_like(blosc2.CParams(filters=[40]), f8, f8) is None
assert _parameters_like(blosc2.CParams(codec=3), f8, f8)["codec"] is blosc2.Codec.FAKE
# A chunk with the format bits of the codec is its own.
header = bytearray(blosc2.compress2(bytes(range(200)) * 50, codec=blosc2.Codec.ZSTD)[:32])
header[2] = header[2] & 0x1F | 2 << 5
assert blosc2.get_clib(bytes(header)) == "fake"
print("seen")
"""
