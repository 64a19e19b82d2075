"""Exceptions are what their callers catch, survive pickling, and say where and what."""

from __future__ import annotations

import builtins
import copy
import errno
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2 import exceptions
from blosc2.exceptions import (
    ChunkIndexError,
    ChunkSizeError,
    ClosedStoreError,
    CompressionError,
    ConversionError,
    ExistingFileError,
    FormatError,
    MissingFileError,
    MissingMetadataError,
    OtherFileSystemError,
    ParameterError,
    ReadOnlyError,
    RemoteAccessError,
    RemoteChangedError,
    RemoteError,
    ShapeError,
    ShortReadError,
    StaleHandleError,
    StoreKeyError,
    StoreLockedError,
    UnexpectedKeywordError,
    UnsafeDeserializationError,
    UnsupportedKindError,
    UnsupportedValueError,
    codec_error_text,
)

EXAMPLES = [
    (FormatError("cut short", path="a.b2nd", key="/k", offset=9), (ValueError, RuntimeError)),
    (StaleHandleError("changed since", path="a.b2nd", key="/k"), (ValueError, RuntimeError)),
    (ShortReadError("cut while it was read", path="a.b2nd", key="/k", offset=9), (ValueError, RuntimeError, OSError)),
    (MissingFileError(errno.ENOENT, "No such file or directory", "p"), (FileNotFoundError, RuntimeError)),
    (OtherFileSystemError(errno.EXDEV, "Invalid cross-device link", "p"), (OSError,)),
    (ExistingFileError(errno.EEXIST, "File exists", "p"), (FileExistsError, RuntimeError)),
    (ReadOnlyError("reading mode", path="p", key="/k"), (ValueError,)),
    (ShapeError("(2,) into (3,)"), (ValueError, RuntimeError)),
    (ChunkIndexError("no chunk 3", path="p"), (IndexError, RuntimeError)),
    (ChunkSizeError("9 bytes into 8"), (ValueError, RuntimeError)),
    (MissingMetadataError("x not found", path="p"), (KeyError, RuntimeError)),
    (UnsupportedValueError("a file handle", key="/k"), (TypeError, AttributeError)),
    (ClosedStoreError("closed store", path="p"), (ValueError,)),
    (StoreKeyError("Key '/q' not found", path="p"), (KeyError,)),
    (StoreLockedError("open for writing", path="p"), (OSError,)),
    (RemoteError("no answer", path="https://host/a.b2nd"), (OSError,)),
    (RemoteChangedError("another version", path="https://host/a.b2nd"), (OSError,)),
    (RemoteAccessError("401", path="https://host/a.b2nd"), (PermissionError,)),
    (ParameterError("clevel is 10"), (ValueError, RuntimeError)),
    (CompressionError("a filter failed", path="p", key="/k"), (ValueError, RuntimeError)),
    (UnexpectedKeywordError("zeros() has no keyword 'x'."), (TypeError, KeyError, ValueError)),
    (ConversionError("a.x: its format is not known"), (ValueError,)),
    (UnsupportedKindError("a lazy expression", path="p"), (NotImplementedError,)),
    (UnsafeDeserializationError("reference", location="variable metadata 'k'"), (ValueError,)),
]


@pytest.mark.parametrize(("error", "kinds"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_is_what_callers_catch(error, kinds):
    for kind in kinds:
        assert isinstance(error, kind)
        assert getattr(builtins, kind.__name__) is kind


@pytest.mark.parametrize("error", [error for error, _ in EXAMPLES], ids=lambda value: type(value).__name__)
def test_pickles_with_attributes(error):
    pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for twin in (*pickled, copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)
        for name in ("errno", "strerror", "filename"):
            assert getattr(twin, name, None) == getattr(error, name, None)


@pytest.mark.parametrize("kind", [blosc2.StaleHandleError, blosc2.ShortReadError, blosc2.ReadOnlyError])
def test_pickles_with_notes(kind):
    error = kind("why", path="x.b2nd")
    error.add_note("more")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["more"]


# The published package 4.14.1 raises a RuntimeError for each.
REFUSED = [
    lambda: blosc2.compress2(b"x" * 100, clevel=10),
    lambda: blosc2.compress2(b"x" * 100, blocksize=-1),
    lambda: blosc2.compress2(b"x" * 100, filters=[99]),
    lambda: blosc2.SChunk(data=b"x" * 100, cparams={"filters": [blosc2.Filter.NDMEAN]}),
    lambda: blosc2.pack_tensor(np.arange(9), cparams={"clevel": 10}),
    lambda: blosc2.asarray(np.arange(9), cparams={"codec": 99}),
    lambda: blosc2.asarray(np.arange(9), cparams={"filters": [blosc2.Filter.TRUNC_PREC]}),
    lambda: blosc2.asarray(np.arange(9, dtype="i2"), cparams={"codec": blosc2.Codec.ZFP_ACC, "filters": []}),
    lambda: blosc2.asarray(np.arange(9)).copy(cparams={"clevel": 12}),
    lambda: blosc2.asarray(np.arange(9), chunks=(-1,)),
    lambda: blosc2.asarray(np.zeros((1,) * 17)),
    lambda: blosc2.zeros((3, -1)),
    lambda: blosc2.zeros(3).resize((-5,)),
    lambda: blosc2.frombuffer(b"x" * 100, (-3,)),
    lambda: blosc2.eye(-3),
    lambda: blosc2.zeros((2, 1)).squeeze(axis=0),
]


@pytest.mark.parametrize("call", REFUSED)
def test_parameters_are_refused_as_by_the_published_package(call):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert isinstance(caught.value, ValueError)


def test_all_are_tried():
    tried = {type(error) for error, _ in EXAMPLES}
    defined = {
        value
        for value in vars(exceptions).values()
        if isinstance(value, type) and issubclass(value, Exception) and not value.__name__.startswith("_")
    }
    assert defined == tried


def test_message_names_the_location():
    assert (
        str(FormatError("cut short", path=Path("a.b2nd"), key="/k", offset=9)) == "a.b2nd, key '/k', byte 9: cut short"
    )
    assert str(FormatError("cut short")) == "cut short"
    assert str(StoreKeyError("Key '/q' not found", path="s.b2z")) == "s.b2z: Key '/q' not found"


def test_a_key_that_is_missing_is_told_of(tmp_path: Path):
    for store in (blosc2.EmbedStore(), blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w")):
        for act in (store.__getitem__, store.__delitem__, lambda key, store=store: store.read_many([key])):
            with pytest.raises(StoreKeyError) as caught:
                act("/nope")
            assert (caught.value.key, pickle.loads(pickle.dumps(caught.value)).key) == ("/nope", "/nope")
            assert str(caught.value).count("/nope") == 1


def test_key_errors_are_not_quoted():
    assert str(KeyError("a 'b'")) != "a 'b'"
    assert str(StoreKeyError("a 'b'")) == "a 'b'"
    assert str(MissingMetadataError("a 'b'")) == "a 'b'"


def test_unsafe_value_says_how_to_go_on():
    error = UnsafeDeserializationError("reference", location="variable metadata 'k'")
    assert (error.kind, error.location) == ("reference", "variable metadata 'k'")
    assert "while using deserialize='safe'" in str(error)
    assert "deserialize='full'" in str(error)
    assert "variable metadata 'k'" in str(error)


def test_codec_errors_have_one_text_each():
    texts = [codec_error_text(code) for code in range(-37, 0)]
    assert len({re.sub(r" \(.*", "", text) for text in texts}) == 37
    assert "7" in codec_error_text(-7)
    assert "built in" in codec_error_text(-7)
    assert "-1000" in codec_error_text(-1000)
    assert "unknown" in codec_error_text(-38)
