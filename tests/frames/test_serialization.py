"""Values of metadata: the bytes that the reference package writes, round trips, and bytes that lie."""

from __future__ import annotations

import math
import struct
import threading
import tracemalloc
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import msgpack
import numpy as np
import pytest
from fixture_kit.names import shown
from hypothesis import given

import blosc2
from blosc2._frames.metadata import pack, unpack
from blosc2.exceptions import FormatError, UnsafeDeserializationError


def ext(code: int, payload: bytes) -> bytes:
    """An extension value, also of a code that msgpack does not write."""
    return b"\xc9" + len(payload).to_bytes(4, "big") + struct.pack("b", code) + payload


def ext_array(**parts: Any) -> bytes:
    return ext(46, msgpack.packb(parts))


def same(a: Any, b: Any) -> bool:
    """Equal in value and in type, NaNs and arrays included."""
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and (same(a.ravel().tolist(), b.ravel().tolist()) if a.dtype == object else a.tobytes() == b.tobytes())
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return struct.pack(">d", a) == struct.pack(">d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    return bool(a == b)


# The bytes that blosc2 4.14.1 writes for these values; they were taken from it, not from this package.
REFERENCE_BYTES = [
    ((1, 2), "93a95f5f7475706c655f5f0102"),
    ([1, (2,)], "920192a95f5f7475706c655f5f02"),
    ({1, 2}, "c7032d920102"),
    ({(1, 2)}, "c70e2d9193a95f5f7475706c655f5f0102"),
    (1 + 2j, "d82c3ff00000000000004000000000000000"),
    ({b"a": 1}, "81c4016101"),
    (2**64 - 1, "cfffffffffffffffff"),
    (-(2**63), "d38000000000000000"),
    (
        np.arange(3, dtype="<i8"),
        "c7372e83a5647479706581a3737472a33c6938a573686170659103a464617461c418000000000000000001000000000000000200000000000000",
    ),
    (np.array(5.0), "c7262e83a5647479706581a3737472a33c6638a5736861706590a464617461c4080000000000001440"),
    (np.array([1, "x", None], dtype=object), "c7152e82a676616c7565739301a178c0a573686170659103"),
    (
        np.zeros(2, "i4,S3"),
        (
            "c7502e83a5647479706581a564657363729293a95f5f7475706c655f5fa26630a33c693493a95f5f7475706c655f5fa26631a37c5333"
            "a573686170659102a464617461c40e0000000000000000000000000000"
        ),
    ),
    (np.zeros(2, ">i2"), "c7232e83a5647479706581a3737472a33e6932a573686170659102a464617461c40400000000"),
]


@pytest.mark.parametrize(("value", "packed"), REFERENCE_BYTES, ids=lambda x: shown(x)[:30])
def test_bytes_of_the_reference(value, packed):
    assert pack(value).hex() == packed
    assert same(unpack(bytes.fromhex(packed)), value)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
)
HASHABLE = st.recursive(st.one_of(st.none(), st.integers(0, 9), st.text()), lambda s: st.tuples(s, s), max_leaves=4)


@st.composite
def arrays(draw: Any) -> np.ndarray[Any, Any]:
    dtype = np.dtype(draw(st.sampled_from(["<i4", ">f8", "<c8", "?", "S3", "<U2", "<M8[s]", "V3", "<i2,>f4", "O"])))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    size = math.prod(shape)
    if dtype.kind in "UO":
        array = np.empty(size, dtype)
        for index in range(size):
            array[index] = draw(st.text("ab", max_size=2))
        return array.reshape(shape)
    return np.frombuffer(
        draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize)), dtype
    ).reshape(shape)


ARRAYS = arrays()
VALUES = st.recursive(
    st.one_of(SCALARS, st.sets(HASHABLE), ARRAYS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).filter(lambda items: not items or not same(items[0], "__tuple__")),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.binary(max_size=5)), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(VALUES)
def test_round_trip(value):
    packed = pack(value)
    back = unpack(packed)
    assert same(back, value)
    assert pack(back) == packed
    for form in (bytearray(packed), memoryview(packed)):
        assert same(unpack(form), value)


@pytest.mark.parametrize(("value", "kind", "text"), [
    (object(), TypeError, "can not serialize 'object'"),
    (range(3), TypeError, "can not serialize 'range'"),
    ([{"a": (1, object())}], TypeError, "can not serialize 'object'"),
    ({1: 2}, TypeError, "key of type 'int'"),
    ({"a": [{None: 2}]}, TypeError, "key of type 'NoneType'"),
    ({(1, 2): 3}, TypeError, "key of type 'list'|key of type 'tuple'"),
    ({1.5: 3}, TypeError, "key of type 'float'"),
    (np.array([{1: 2}], dtype=object), TypeError, "key of type 'int'"),
    (np.datetime64("2020"), TypeError, "numpy.datetime64"),
    (np.timedelta64(3, "s"), TypeError, "numpy.timedelta64"),
    (np.void(b"abc"), TypeError, "numpy.void"),
    (np.zeros(2, [("a", "O")]), TypeError, "can not serialize an array.*object"),
    (np.array(["a"], dtype=np.dtypes.StringDType()), TypeError, "can not serialize an array"),
    (np.ma.array([1], mask=[True]), TypeError, "mask"),
    (np.empty(2, "V0"), TypeError, "no bytes"),
    (2**64, OverflowError, "2\\*\\*64"),
    ([-(2**63) - 1], OverflowError, "2\\*\\*63"),
], ids=lambda x: shown(x)[:40])  # fmt: skip
def test_refused_when_packing(value, kind, text):
    with pytest.raises(kind, match=text):
        pack(value)


def test_things_that_contain_themselves():
    loop: list[Any] = []
    loop.append(loop)
    ring = np.empty(1, dtype=object)
    ring[0] = ring
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    for value in (loop, (loop,), ring, [ring], deep):
        with pytest.raises(ValueError, match="nested"):
            pack(value)


def test_deep_but_legal():
    value: Any = 1
    for _ in range(500):
        value = [value]
    back = unpack(pack(value))
    for _ in range(500):
        (back,) = back
    assert back == 1


# Active values


FRAME = b"not a frame, but nobody looks"


@pytest.mark.parametrize("code", [42, 43, 0, 41, 47, 99, 127, -2, -128])
def test_active_values_are_refused(code):
    for packed in (ext(code, FRAME), b"\x81\xa1a\x91" + ext(code, FRAME)):
        with pytest.raises(UnsafeDeserializationError, match="deserialize='safe'") as caught:
            unpack(packed, location="variable metadata 'k'")
        assert caught.value.location == "variable metadata 'k'"
        assert caught.value.kind


def test_full_leaves_them_raw_and_they_pack_back():
    for code in (42, 43, 99):
        packed = msgpack.packb({"a": msgpack.ExtType(code, FRAME)})
        value = unpack(packed, deserialize="full")
        assert (value["a"].code, value["a"].data) == (code, FRAME)
        assert pack(value) == packed


# Hostile bytes


NESTED_SETS = b"\x90"
for _ in range(20000):
    NESTED_SETS = ext(45, NESTED_SETS)
NESTED_ARRAYS = b"\x90"
for _ in range(3000):
    NESTED_ARRAYS = ext(46, msgpack.packb({"values": [1], "shape": [1], "x": msgpack.ExtType(45, NESTED_ARRAYS)}))

HOSTILE = {
    "empty": b"",
    "truncated": b"\x93\x01",
    "trailing": b"\x01\x02",
    "array_huge": b"\xdd\xff\xff\xff\xff\x01",
    "map_huge": b"\xdf\xff\xff\xff\xff\x01",
    "bytes_huge": b"\xc6\xff\xff\xff\xff\x01",
    "ext_huge": b"\xc9\xff\xff\xff\xff\x2e\x01",
    "deep": b"\x91" * 100000 + b"\x01",
    "deep_maps": b"\x81\x01" * 100000 + b"\x01",
    "deep_keys": b"\x81" * 100000 + b"\x01",
    "deep_sets": NESTED_SETS,
    "deep_arrays": NESTED_ARRAYS,
    "never_used": b"\xc1",
    "bad_utf8": b"\xa2\xff\xfe",
    "surrogate": b"\xa3\xed\xa0\x80",
    "key_unhashable": b"\x81\x90\x01",
    "key_set": b"\x81\xc7\x02\x2d\x91\x01\x01",
    "complex_short": ext(44, b"\0" * 5),
    "complex_long": ext(44, b"\0" * 17),
    "set_garbage": ext(45, b"\xc1"),
    "set_empty": ext(45, b""),
    "set_trailing": ext(45, b"\x90\x90"),
    "set_of_lists": ext(45, msgpack.packb([[1]])),
    "set_no_list": ext(45, msgpack.packb({"a": 1})),
    "set_tuple": ext(45, msgpack.packb(["__tuple__", 1])),
    "array_none": ext_array(),
    "array_no_map": ext(46, b"\x90"),
    "array_too_large": ext_array(dtype={"str": "<i4"}, shape=[2**40], data=b"\0" * 8),
    "array_negative": ext_array(dtype={"str": "<i4"}, shape=[-1], data=b"\0" * 8),
    "array_negative_twice": ext_array(dtype={"str": "<i4"}, shape=[-1, -2], data=b"\0" * 8),
    "array_overflow": ext_array(dtype={"str": "<i4"}, shape=[2**62, 2**62, 2**62], data=b"\0" * 8),
    "array_empty_overflow": ext_array(dtype={"str": "<i4"}, shape=[0, 2**63, 2**63], data=b""),
    "array_dimensions": ext_array(dtype={"str": "<i4"}, shape=[1] * 100, data=b"\0" * 4),
    "array_bool_shape": ext_array(dtype={"str": "<i4"}, shape=[True], data=b"\0" * 4),
    "array_float_shape": ext_array(dtype={"str": "<i4"}, shape=[1.0], data=b"\0" * 4),
    "array_text_shape": ext_array(dtype={"str": "<i4"}, shape="1", data=b"\0" * 4),
    "array_object": ext_array(dtype={"str": "|O"}, shape=[1], data=b"\1" * 8),
    "array_object_field": ext_array(dtype={"descr": [["__tuple__", "a", "|O"]]}, shape=[1], data=b"\1" * 8),
    "array_no_dtype": ext_array(dtype={"str": "nonsense"}, shape=[1], data=b"\1" * 8),
    "array_empty_items": ext_array(dtype={"str": "|V0"}, shape=[2**40], data=b""),
    "array_dtype_text": ext_array(dtype="<i4", shape=[1], data=b"\1" * 4),
    "array_dtype_list": ext_array(dtype={"str": ["<i4"]}, shape=[1], data=b"\1" * 4),
    "array_dtype_code": ext_array(dtype={"descr": "[('a', '<i4')]"}, shape=[1], data=b"\1" * 4),
    "array_dtype_fields": ext_array(dtype={"descr": [["a", "<i4"]]}, shape=[1], data=b"\1" * 4),
    "array_data_text": ext_array(dtype={"str": "|u1"}, shape=[2], data="ab"),
    "values_too_few": ext_array(values=[1, 2], shape=[2**40]),
    "values_too_many": ext_array(values=[1, 2], shape=[1]),
    "values_no_list": ext_array(values="ab", shape=[2]),
    "values_dimensions": ext_array(values=[1], shape=[1] * 100),
    "timestamp_length": b"\xc7\x03\xff\0\0\0",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name):
    with pytest.raises(FormatError) as caught:
        unpack(HOSTILE[name], location="variable metadata 'k'")
    assert caught.value.reason.startswith("variable metadata 'k': ")
    assert 30 < len(str(caught.value)) < 400


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.startswith("deep")])
def test_nesting_needs_little_stack(name):
    """In a thread with the least stack that is common, one of 512 KiB."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            unpack(HOSTILE[name])
        except FormatError as error:
            errors.append(error)

    old = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(old)
    assert len(errors) == 1


@pytest.mark.parametrize("size", [900, 20_000, 1_000_000])
@pytest.mark.parametrize("marker", [b"\xdc", b"\xdd", b"\xdf"])
def test_claims_do_not_allocate(size, marker):
    """Lists inside of lists, each of which states as many items as there are bytes."""
    claim = min(size, 65535).to_bytes(2, "big") if marker == b"\xdc" else size.to_bytes(4, "big")
    bomb = (marker + claim) * (1000 if size > 6000 else 100) + b"\0" * size
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            unpack(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20 + 70 * len(bomb)


def test_long_lists_are_read():
    for items in (
        list(range(100_000)),
        [0xDCDC] * 70_000,
        [[n] * 2000 for n in range(50)],
        {f"k{n}": {"offset": n * 0xDDDC, "length": 0xDDDCDDDC} for n in range(20_000)},
    ):
        assert unpack(pack(items)) == items
        assert unpack(pack({"a": (items, 1)})) == {"a": (items, 1)}


def test_metadata_of_dtypes_is_left_out() -> None:
    """Such as h5py gives texts: it means nothing in a file, and could not be read back."""
    text = np.dtype("S3", metadata={"h5py_encoding": "ascii"})
    array = blosc2.asarray(np.arange(3))
    for dtype in ([("n", "i4"), ("s", text)], [("inner", [("s", text, (2,))])], text):
        array.vlmeta["x"] = np.zeros(2, dtype)
        assert array.vlmeta["x"].dtype == np.dtype(dtype)
