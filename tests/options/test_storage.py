"""Parameters are valid as soon as they exist; defaults are looked up when they are used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from blosc2 import storage
from blosc2._frames.parameters import (
    ARRAY_KEYWORDS,
    array_keywords,
    cparams_keywords,
    dparams_keywords,
    schunk_keywords,
)
from blosc2._options import local_path, threads
from blosc2._options.threads import get_nthreads, set_nthreads
from blosc2.storage import (
    Codec,
    CParams,
    DParams,
    Filter,
    SplitMode,
    Storage,
    Tuner,
    cparams_dflts,
    cparams_from,
    cparams_of,
    dparams_dflts,
    dparams_from,
    storage_dflts,
    storage_from,
)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    nthreads, saved = get_nthreads(), [dict(defaults) for defaults in (cparams_dflts, dparams_dflts, storage_dflts)]
    yield
    set_nthreads(nthreads)
    for defaults, old in zip((cparams_dflts, dparams_dflts, storage_dflts), saved, strict=True):
        defaults.clear()
        defaults.update(old)


# CParams


def test_defaults():
    c = CParams()
    assert (c.codec, c.codec_meta, c.clevel, c.use_dict, c.typesize, c.blocksize) == (Codec.ZSTD, 0, 5, False, 8, 0)
    assert c.filters == [Filter.NOFILTER] * 5 + [Filter.SHUFFLE]
    assert c.filters_meta == [0] * 6
    assert (c.splitmode, c.tuner, c.nthreads) == (SplitMode.AUTO_SPLIT, Tuner.STUNE, get_nthreads())
    assert cparams_dflts == vars(c)
    assert dparams_dflts == vars(DParams())
    assert list(cparams_dflts) == [
        *["codec", "codec_meta", "clevel", "use_dict", "typesize", "nthreads", "blocksize", "splitmode"],
        *["filters", "filters_meta", "tuner"],
    ]
    assert storage_dflts == {
        "contiguous": False, "durable": False, "urlpath": None, "mode": "a", "mmap_mode": None,
        "initial_mapping_size": None, "locking": False, "meta": None,
    }  # fmt: skip


def test_ids_on_disk():
    assert [s.value for s in SplitMode] == [1, 2, 3, 4]
    assert [s.value for s in storage.SpecialValue] == [0, 1, 2, 3, 4]
    assert (storage.MAX_TYPESIZE, storage.MAX_BUFFERSIZE) == (536866816, 2147483615)


def test_equality_and_hash():
    assert CParams() == CParams()
    assert CParams(clevel=1) != CParams()
    for made in (CParams(), DParams(), Storage()):
        with pytest.raises(TypeError, match="unhashable"):
            hash(made)
    CParams().filters.append(Filter.DELTA)
    assert len(CParams().filters) == 6


def test_numbers_become_members():
    c = CParams(codec=1, filters=[2, np.int64(3)], splitmode=2, tuner=0, clevel=np.int8(9), use_dict=1)
    assert (c.codec, c.splitmode, c.tuner) == (Codec.LZ4, SplitMode.NEVER_SPLIT, Tuner.STUNE)
    assert c.filters == [Filter.BITSHUFFLE, Filter.DELTA] + [Filter.NOFILTER] * 4
    assert type(c.clevel) is int
    assert c.use_dict is True


def test_negative_codec_meta_is_a_byte():
    assert CParams(codec=Codec.ZFP_ACC, codec_meta=-3).codec_meta == 253


def test_bytedelta_takes_the_typesize():
    filters = [Filter.SHUFFLE, Filter.BYTEDELTA]
    assert CParams(filters=filters, typesize=4).filters_meta[:2] == [0, 4]
    assert CParams(filters=filters, filters_meta=[0, 2], typesize=4).filters_meta[:2] == [0, 2]
    for given in (CParams(filters=filters), {"filters": filters}):
        assert cparams_from(given, typesize=2).filters_meta[:2] == [0, 2]
    assert cparams_from(CParams(filters=filters, filters_meta=[0, 3]), typesize=2).filters_meta[:2] == [0, 3]


BAD = [
    ({"codec": 99}, ValueError, "99 is no codec.*5 ZSTD"),
    ({"codec": 3}, ValueError, "3 is no codec"),
    ({"codec": "zstd"}, TypeError, "blosc2.Codec.*'zstd'"),
    ({"codec": None}, TypeError, "blosc2.Codec"),
    ({"codec": True}, TypeError, "blosc2.Codec"),
    ({"codec": Filter.SHUFFLE}, TypeError, "blosc2.Codec"),
    ({"codec_meta": 256}, ValueError, "codec_meta"),
    ({"clevel": 10}, ValueError, "clevel can only be in the 0-9 range"),
    ({"clevel": -1}, ValueError, "clevel can only be in the 0-9 range"),
    ({"clevel": 5.0}, TypeError, "clevel"),
    ({"clevel": True}, TypeError, "clevel"),
    ({"clevel": "5"}, TypeError, "clevel"),
    ({"use_dict": "yes"}, ValueError, "use_dict"),
    ({"use_dict": 2}, ValueError, "use_dict"),
    ({"typesize": 0}, ValueError, "typesize can only be in the 1-536866816 range"),
    ({"typesize": 536866817}, ValueError, "typesize"),
    ({"nthreads": 0}, ValueError, "positive integer"),
    ({"nthreads": 2.0}, TypeError, "positive integer"),
    ({"nthreads": True}, TypeError, "positive integer"),
    ({"blocksize": -1}, ValueError, "blocksize"),
    ({"splitmode": 0}, ValueError, "splitmode"),
    ({"tuner": 3}, ValueError, "tuner"),
    ({"tuner": Tuner.BTUNE}, ValueError, "BTUNE"),
    ({"filters": [1] * 7}, ValueError, "exceeds 6"),
    ({"filters_meta": [1] * 7}, ValueError, "exceeds 6"),
    ({"filters": [1, 2], "filters_meta": [0]}, ValueError, "cannot exceed number of filters meta"),
    ({"filters": [99]}, ValueError, "99 is no filter"),
    ({"filters": Filter.SHUFFLE}, TypeError, "filters must be a list"),
    ({"filters": None}, TypeError, "filters must be a list"),
    ({"filters_meta": [128] * 6}, ValueError, "filters_meta"),
    ({"filters": [Filter.BYTEDELTA], "typesize": 300}, ValueError, "BYTEDELTA"),
    ({"foo": 1}, TypeError, "foo"),
]


@pytest.mark.parametrize(("fields", "kind", "text"), BAD, ids=repr)
def test_bad_compression_parameters(fields, kind, text):
    with pytest.raises(kind, match=text):
        CParams(**fields)
    with pytest.raises(kind, match=text):
        cparams_from(fields)
    with pytest.raises(kind, match=text):
        schunk_keywords({"cparams": fields})


def test_renamed_and_misplaced_fields():
    with pytest.raises(NameError, match="`compcode` has been renamed"):
        cparams_from({"compcode": 1})
    with pytest.raises(NameError, match="`shuffle` has been substituted"):
        cparams_from({"shuffle": 1})
    for name in ("chunks", "blocks"):
        with pytest.raises(ValueError, match=name):
            cparams_from({name: (2,)})
    for value in ([1], "zstd", 5, DParams()):
        with pytest.raises(TypeError, match="cparams must be"):
            cparams_from(value)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="dparams must be"):
        dparams_from([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'foo' is not a field of dparams"):
        dparams_from({"foo": 1})


def test_partial_dictionaries():
    assert cparams_from(None) == CParams()
    assert cparams_from({"clevel": 1}, typesize=4) == CParams(clevel=1, typesize=4)
    assert cparams_from({"clevel": 1}, unless_given={"typesize": 1, "clevel": 9}) == CParams(clevel=1, typesize=1)
    assert cparams_from(CParams(), unless_given={"typesize": 1}).typesize == 8


def test_changed_defaults_reach_partial_dictionaries_only():
    cparams_dflts["codec"] = Codec.LZ4
    cparams_dflts["filters_meta"] = [7] * 6
    assert cparams_from(None).codec is Codec.LZ4
    assert cparams_from({"clevel": 1}).filters_meta == [7] * 6
    assert cparams_from({"filters": [Filter.DELTA]}).filters_meta == [0] * 6
    assert CParams().codec is Codec.ZSTD
    assert cparams_from(CParams()).codec is Codec.ZSTD


def test_objects_are_checked_again_and_copied():
    given = CParams()
    taken = cparams_from(given)
    assert taken == given
    assert taken is not given
    assert taken.filters is not given.filters
    given.clevel = 77
    with pytest.raises(ValueError, match="clevel"):
        cparams_from(given)


def test_parameters_of_a_frame_are_not_judged():
    frame = SimpleNamespace(
        codec=200, codec_meta=3, clevel=5, use_dict=1, typesize=4, blocksize=64, splitmode=2,
        filters=(0, 0, 34, 160, 1, 0), filters_meta=(0, 0, 200, 0, 0, 0),
    )  # fmt: skip
    c: Any = cparams_of(frame, nthreads=3)
    assert (c.codec, c.codec_meta, c.use_dict, c.typesize, c.blocksize, c.nthreads) == (200, 3, True, 4, 64, 3)
    assert c.filters == [Filter.NOFILTER, Filter.NOFILTER, 34, 160, Filter.SHUFFLE, Filter.NOFILTER]
    assert c.filters_meta == [0, 0, 200, 0, 0, 0]
    assert c.splitmode is SplitMode.NEVER_SPLIT
    frame.codec = 5
    assert cparams_of(frame).codec is Codec.ZSTD


# Threads


def test_number_of_threads_is_looked_up_at_use():
    old = get_nthreads()
    assert set_nthreads(5) == old
    assert set_nthreads(np.int64(3)) == 5
    assert CParams().nthreads == DParams().nthreads == cparams_from({}).nthreads == dparams_from(None).nthreads == 3
    assert cparams_dflts["nthreads"] == dparams_dflts["nthreads"] == 3
    assert cparams_from({"nthreads": 1}).nthreads == dparams_from({"nthreads": 1}).nthreads == 1
    assert type(get_nthreads()) is int


@pytest.mark.parametrize(("number", "kind", "text"), [
    (0, ValueError, "must be a positive integer"), (-1, ValueError, "must be a positive integer"),
    (2**31, ValueError, r"less or equal than 2\^31 - 1"), (True, TypeError, "True"), (2.5, TypeError, "2.5"),
    ("3", TypeError, "'3'"), (None, TypeError, "None"),
])  # fmt: skip
def test_illegal_numbers_of_threads(number, kind, text):
    old = get_nthreads()
    with pytest.raises(kind, match=text):
        set_nthreads(number)
    assert get_nthreads() == old == cparams_dflts["nthreads"]


def test_cores():
    assert 1 <= threads.detect_number_of_cores() <= (os.cpu_count() or 1)
    assert threads.ncores == threads.detect_number_of_cores()


# Storage and modes


def test_storage():
    assert (Storage().contiguous, Storage().urlpath, Storage().mode) == (False, None, "a")
    assert Storage(urlpath="x").contiguous is True
    assert Storage(contiguous=True).contiguous is True
    for path in (Path("a") / "b", os.fsencode(Path("a") / "b"), str(Path("a") / "b")):
        assert Storage(urlpath=path).urlpath == str(Path("a") / "b")  # type: ignore[arg-type]
    assert storage_from({"urlpath": "x"}, mode="w") == Storage(urlpath="x", mode="w")
    storage_dflts["mode"] = "w"
    assert storage_from(None).mode == "w"


@pytest.mark.parametrize(("fields", "kind", "text"), [
    ({"mode": "rw"}, ValueError, "'r', 'a', 'w' or 'x', not 'rw'"),
    ({"mode": None}, ValueError, "mode must be"),
    ({"mmap_mode": "x"}, ValueError, "Invalid mmap_mode 'x'"),
    ({"mmap_mode": True}, ValueError, "Invalid mmap_mode"),
    ({"initial_mapping_size": 9}, ValueError, "initial_mapping_size can only be used with mmap_mode"),
    ({"initial_mapping_size": 9, "mmap_mode": "r"}, ValueError, "can only be used with writing modes"),
    ({"initial_mapping_size": 0, "mmap_mode": "w+"}, ValueError, "positive"),
    ({"initial_mapping_size": 1.5, "mmap_mode": "w+"}, TypeError, "number of bytes"),
    ({"meta": [1]}, TypeError, "meta must be a dictionary"),
    ({"urlpath": 5}, TypeError, "a path must be"),
    ({"foo": 5}, TypeError, "foo"),
], ids=repr)  # fmt: skip
def test_bad_storage(fields, kind, text):
    with pytest.raises(kind, match=text):
        Storage(**fields)
    with pytest.raises(kind, match=text):
        storage_from(fields)


def test_local_path():
    assert local_path("C:\\data\\x.b2nd") == "C:\\data\\x.b2nd"
    assert local_path(b"a://b"[:2] + b"x") == "a:x"
    with pytest.raises(NotImplementedError, match="https://host/x"):
        local_path("https://host/x")


# Keywords of constructors


def test_array_keywords():
    split = array_keywords(
        {"urlpath": "x", "mode": "w", "chunks": 5, "cparams": {"clevel": 1}, "dparams": {"nthreads": 2}}
    )
    assert split.storage == Storage(urlpath="x", mode="w")
    assert split.cparams == {"clevel": 1}
    assert split.dparams == DParams(2)
    assert (split.chunks, split.blocks) == (5, None)
    assert array_keywords({}) == (storage_from(None), None, dparams_from(None), None, None, None)
    assert array_keywords(dict.fromkeys(("cparams", "dparams", "storage", "urlpath"))).cparams is None
    assert array_keywords({"storage": {"urlpath": "x"}}).storage == Storage(urlpath="x")
    assert set(ARRAY_KEYWORDS) == {
        *["chunks", "blocks", "layout", "cparams", "dparams", "meta", "urlpath", "contiguous", "mode", "mmap_mode"],
        *["initial_mapping_size", "locking", "durable", "storage"],
    }


def test_unknown_keywords():
    with pytest.raises(KeyError, match="no keyword 'urlpth'; did you mean 'urlpath'"):
        array_keywords({"urlpth": "x"})
    with pytest.raises(KeyError, match="cparams"):
        array_keywords({"clevel": 1})
    with pytest.raises(ValueError, match="no keyword 'chunks'"):
        schunk_keywords({"chunks": 1})
    with pytest.raises(ValueError, match="no keyword 'clevel': it belongs into cparams="):
        schunk_keywords({"clevel": 1})
    assert schunk_keywords({"mode": "r", "urlpath": "x"}).storage.mode == "r"


@pytest.mark.parametrize("split", [array_keywords, schunk_keywords])
def test_storage_beside_its_own_fields(split):
    for beside in ({"urlpath": "x"}, {"mode": "a"}, {"meta": None}):
        with pytest.raises(AttributeError, match="Cannot pass both `storage` and other kwargs"):
            split({"storage": Storage(), **beside})


def test_keywords_of_buffer_functions():
    assert cparams_keywords({"clevel": 1}) == CParams(clevel=1)
    assert cparams_keywords({"cparams": CParams(clevel=1)}, typesize=2) == CParams(clevel=1, typesize=2)
    assert dparams_keywords({"nthreads": 1}) == dparams_keywords({"dparams": {"nthreads": 1}}) == DParams(1)
    assert dparams_keywords({"dparams": None}) == DParams()
    with pytest.raises(AttributeError, match="Cannot pass both cparams and other kwargs"):
        cparams_keywords({"cparams": {}, "clevel": 1})
    with pytest.raises(AttributeError, match="Cannot pass both dparams and other kwargs"):
        dparams_keywords({"dparams": DParams(), "nthreads": 1})
    with pytest.raises(NameError, match="renamed"):
        cparams_keywords({"compcode": 1})
    with pytest.raises(TypeError, match="foo"):
        cparams_keywords({"foo": 1})
