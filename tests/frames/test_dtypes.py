"""dtypes and their text on disk: NumPy's own text, both ways; hostile text is refused with a reason."""

from __future__ import annotations

import ast
import time
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import blosc2
from blosc2._frames.dtypes import dtype_from_description, format_dtype, parse_dtype

# what NumPy prints for the dtype itself, or for a field of it
SIMPLE = st.sampled_from(
    [
        "|b1", "|i1", "|u1", "<i2", ">i2", "<u4", ">i8", "<f2", ">f4", "<f8", "<c8", ">c16", "|S1", "|S300", "<U3",
        ">U5", "|V7",
    ]
    + ["<M8[ns]", ">M8[25s]", "<m8[ms]", "<M8[D]"]
)  # fmt: skip


@st.composite
def structured(draw: Any, depth: int = 0) -> np.dtype[Any]:
    names = draw(
        st.lists(st.text(min_size=1, max_size=8).filter(lambda n: "\0" not in n), min_size=1, max_size=4, unique=True)
    )
    fields: list[Any] = []
    for index, name in enumerate(names):
        inner = SIMPLE if depth == 2 else st.one_of(SIMPLE, structured(depth + 1))
        label = (f"title {index}", name) if draw(st.integers(0, 5)) == 0 and f"title {index}" not in names else name
        shape = draw(st.sampled_from([(), (), (1,), (2, 3)]))
        fields.append((label, draw(inner), shape) if shape else (label, draw(inner)))
    return np.dtype(fields, align=draw(st.booleans()))


def says_it_all(text: str) -> np.dtype[Any] | None:
    """The dtype of NumPy's text, which leaves out the gaps of aligned structures inside of structures."""
    try:
        return np.dtype(ast.literal_eval(text))
    except ValueError:
        return None


@given(structured())
def test_structured_text_is_numpys(dtype):
    text = format_dtype(dtype)
    if says_it_all(str(dtype)) == dtype:
        assert text == str(dtype)
    back = parse_dtype(text)
    assert back == dtype == np.dtype(ast.literal_eval(text))
    assert back.fields == dtype.fields  # titles, offsets


@given(hnp.array_dtypes(max_size=4))
def test_round_trip_of_hypothesis_dtypes(dtype):
    if dtype.itemsize:
        assert parse_dtype(format_dtype(dtype)) == dtype


def test_gaps_overlaps_and_order():
    for dtype in (
        np.dtype({"names": ["a", "b"], "formats": ["<i2", "<f4"], "offsets": [4, 12], "itemsize": 24}),
        np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [4, 0]}),
        np.dtype({"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2], "itemsize": 4}),
        np.dtype({"names": ["a"], "formats": [("<f8", (2,))], "offsets": [8], "titles": ["t"], "itemsize": 40}),
    ):
        assert format_dtype(dtype) == str(dtype)
        assert parse_dtype(format_dtype(dtype)) == dtype


def test_aligned_outside_holds_inside_too():
    text = "{'names': ['n'], 'formats': [[('a', 'i1'), ('b', '<i2')]], 'offsets': [0], 'itemsize': 4, 'aligned': True}"
    assert parse_dtype(text)["n"].fields["b"][1] == 2
    assert parse_dtype(text) == np.dtype(ast.literal_eval(text))
    packed = np.dtype([("n", [("a", "i1"), ("b", "<i2")]), ("c", "<f8")])
    mixed = np.dtype([("n", packed["n"]), ("c", "<f8")], align=True)
    for dtype in (packed, mixed):
        assert parse_dtype(format_dtype(dtype)) == dtype == np.dtype(ast.literal_eval(format_dtype(dtype)))


@pytest.mark.parametrize("text", [
    "", " ", "|O", "O", "object", "T", "xyz", "S0", "U", "V0", "a5", "f8,i4", "(2,)f8", "<", "i4 ", "<i4\0",
    "é", "S99999999999",
    "M8[xx]", "f3", "{", "[", "[]", "{}", "[1]", "{1, 2}", "['a']", "[('a',)]", "[('a', 'i4', 2, 3)]",
    "[(1, 'i4')]", "[None]",
    "[('a', '|O')]", "[('a', [('b', [('c', 'O')])])]", "[('a', 'i4'), ('a', 'i4')]", "[('a', 'V0')]",
    "[('a', 5)]",
    "__import__('os').system('true')", "[__import__('os')]", "[('a', 'i4')]*9", "[('a', b'i4')]",
    "[('a', f'i4')]", "[-1]",
    "[('a', 'i4', -1)]", "[('a', 'i4', (2147483647, 2147483647))]", "[('a', 'i4', True)]",
    "[('a', 'i4', 99999999999)]",
    "[('a', 'i4', (1,) )", "[0777]", "[('a' 'i4')]", "[('a', 'i4')]]", "{[]: 1}", "{'a': 1}",
    "[('\\N{DASH}', 'i4')]", "[('\\q', 'i4')]",
    "{'names': ['a'], 'formats': ['i4'], 'offsets': [0], 'itemsize': 2}",
    "{'names': ['a'], 'formats': ['i4'], 'offsets': [0, 1], 'itemsize': 8}",
    "{'names': ['a'], 'formats': [], 'offsets': [0], 'itemsize': 8}",
    "{'names': ['a'], 'formats': ['i4'], 'offsets': ['0'], 'itemsize': 8}",
    "{'names': ['a'], 'formats': ['O'], 'offsets': [0], 'itemsize': 8}",
    "{'names': ['a'], 'formats': ['i4'], 'offsets': [0]}",
    "{'names': 'a', 'formats': 'i', 'offsets': [0], 'itemsize': 8}",
    "{'names': ['a'], 'formats': ['i4'], 'offsets': [0], 'itemsize': 8, 'aligned': 3}",
    "{'names': ['a'], 'formats': ['i4'], 'offsets': [0], 'itemsize': 8, 'titles': [5]}",
    "{'names': ['a', 'b'], 'formats': ['i8', 'O'], 'offsets': [0, 0], 'itemsize': 8}",
    "[" * 5000, "[('a', " * 33 + "'i4'" + ")]" * 33, "[" + "('a', 'i4'), " * 6000 + "]", "-" * 50000 + "1",
    "(" * 50000,
], ids=lambda text: repr(text[:40]))  # fmt: skip
def test_refused(text):
    with pytest.raises(ValueError) as caught:
        parse_dtype(text)
    assert 10 < len(str(caught.value)) < 300


@given(st.text(alphabet="[]{}()',:<>|i4f8OSUVab0 \\\"", max_size=40))
def test_any_text_gives_a_dtype_or_a_reason(text):
    for candidate in (text, f"[{text}]", f"[('a', {text})]"):
        try:
            dtype = parse_dtype(candidate)
        except ValueError:
            continue
        assert dtype.itemsize
        assert not dtype.hasobject


@pytest.mark.parametrize("text", ["['" + "\\'" * 30_000, '["' + '\\"' * 30_000, "['" + "\\'" * 10_000 + "\\"])
def test_a_string_that_does_not_end_is_refused_at_once(text):
    """It was looked for from each of its quotes anew: half a minute for 60 thousand bytes."""
    start = time.process_time()
    with pytest.raises(ValueError, match="does not end"):
        parse_dtype(text)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("text", ["[" + "2147483647, " * 40 + "x]", "[" + "2" * 400 + "x]"])
def test_numbers_before_something_that_is_refused(text):
    """Each digit doubled the time."""
    start = time.process_time()
    with pytest.raises(ValueError, match="something other than"):
        parse_dtype(text)
    assert time.process_time() - start < 1


def test_brackets_in_names_do_not_count_as_nesting():
    dtype = np.dtype([("[" * 100, "<i4"), ("it's \"[\\", "<i4"), ("\n\x01é", "<i4")])
    assert parse_dtype(format_dtype(dtype)) == dtype


@pytest.mark.parametrize("dtype", [np.dtype(object), np.dtype([("a", "O")]), np.dtype([("a", [("b", "O", (2,))])])])
def test_pointers_are_not_written(dtype):
    with pytest.raises(TypeError, match="object"):
        format_dtype(dtype)


def test_dtypes_of_others():
    """As bfloat16 of ml_dtypes is one. NumPy has one of its own, for its tests."""
    rational = pytest.importorskip("numpy._core._rational_tests", reason="NumPy keeps it for itself").rational
    for dtype in (np.dtype(rational), np.dtype([("a", rational, (2,))])):
        with pytest.raises(TypeError, match=r"keep its bits, as items\.view\('u8'\)"):
            format_dtype(dtype)
    items = np.arange(3).astype(rational)
    with pytest.raises(TypeError, match=r"array\[\.\.\.\]\.view\(\S+rational\) gives them back"):
        blosc2.asarray(items)
    assert (blosc2.asarray(items.view("u8"))[...].view(rational) == items).all()


def test_deep_description():
    description: Any = "<i4"
    for _ in range(2000):
        description = [("a", description)]
    with pytest.raises(ValueError, match="nested"):
        dtype_from_description(description)
