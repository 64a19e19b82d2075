"""Converting dtypes to the string that an array stores, and back.

The text is the one that NumPy itself prints: ``<f8``, ``[('a', '<i4'), ('b', '<f8')]``, or a dictionary where
fields have gaps between them. What is read comes from a file, so it is checked piece by piece and never
evaluated as anything but literals of strings, integers and booleans. Dtypes that hold pointers (object fields
at any depth, `StringDType`) are refused in both directions: their bytes mean nothing in another process.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from blosc2._core.io.sharing import item_of, never_freed, remembered

# Far above any real dtype. It bounds the work that a hostile text can cause.
MAX_DTYPE_TEXT = 65536
_MAX_NESTING = 32
# NumPy needs some 200 bytes and 20 us for each field.
_MAX_FIELDS = 1 << 14

# Texts of patterns that few dtypes need are compiled when they are needed.
# "a" is left out: an old alias of "S" that NumPy warns about.
_SIMPLE: Final = r"[<>|=]?(?!a\d*\Z)[A-Za-z?][A-Za-z0-9_]*(?:\[[A-Za-z0-9]*\])?"
# Text without quotes, or a whole string. Matched piece after piece, never searched for: that would try each quote anew.
_PIECE: Final = (
    r"""[^'"]+|'(?:[^'\\\n]|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*'"""
    r'''|"(?:[^"\\\n]|\\(?:[\\'"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*"'''
)
# What was matched is not tried in another way: digits could be parted in many, and each number would double the work.
_BETWEEN_LITERALS: Final = r"(?:[\[\]{}(),: ]|\d{1,10}+(?!\d)|True|False|None)*+"


@never_freed
def parse_dtype(text: str) -> np.dtype[Any]:
    """Read a dtype from its text on disk; `ValueError` with the reason.

    It never has object fields, nor zero bytes. It may have a shape.

    Examples
    --------
    >>> parse_dtype("[('a', '<i4'), ('b', '>f8', (2,))]").itemsize
    20
    """
    if text[:1] not in ("[", "{", "("):
        return _simple_dtype(text)
    # Structured dtypes are not cached: NumPy lets `array.dtype.names` be assigned, which would change
    # the cached one, and with it every array that is opened later.
    if len(text) > MAX_DTYPE_TEXT:
        raise ValueError(f"the dtype text has {len(text)} characters, the limit is {MAX_DTYPE_TEXT}")
    _check_literal(text)
    try:
        description = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError) as error:  # TypeError: an unhashable key
        raise ValueError(f"the dtype {_shorten(text)} cannot be parsed") from error
    if isinstance(description, tuple) and len(description) == 2:
        return _with_shape(*description)
    _check_description(description, 0)
    return _build(np.dtype, description)


def _with_shape(description: object, shape: object) -> np.dtype[Any]:
    """A dtype of whole arrays of items, as the published package writes."""
    _check_shape(shape)
    _check_description(description, 0)
    item = _build(np.dtype, description)
    try:
        dtype = np.dtype((item, shape))
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"not a valid dtype: {error}") from error
    if dtype.itemsize == 0:
        raise ValueError(f"the items of the dtype {_shorten((description, shape))} have no bytes")
    return dtype


def dtype_from_description(description: str | list[Any]) -> np.dtype[Any]:
    """Build a dtype from its text or, if it has fields, from the list that `numpy.dtype.descr` gives.

    There, a field without a name is a gap between its neighbours. `ValueError` with the reason.
    """
    if isinstance(description, str):
        return _simple_dtype(description)
    check_fields(description)
    _check_description(description, 0)
    return _build(np.lib.format.descr_to_dtype, description)


def format_dtype(dtype: np.dtype[Any]) -> str:
    """Write a dtype as its text on disk; for what cannot be stored the errors of `refuse_unstorable`.

    Examples
    --------
    >>> format_dtype(np.dtype([("a", "i4"), ("b", "S3")]))
    "[('a', '<i4'), ('b', 'S3')]"
    """
    refuse_unstorable(dtype)
    if dtype.names is None:
        return dtype.str
    text = str(dtype)
    try:
        if parse_dtype(text) == dtype:
            return text
    except ValueError:
        pass
    # NumPy's text names record classes, and leaves out gaps where one aligned structure is inside of another.
    return repr(_describe(dtype))


def is_masked(value: Any) -> bool:
    """Whether this is a masked array. As long as nobody has imported them, there are none: it takes 30 ms to do so."""
    masked = item_of(sys.modules, "numpy.ma")
    return masked is not None and isinstance(value, masked.MaskedArray)


def refuse_unstorable(dtype: np.dtype[Any]) -> None:
    """Raise `TypeError` for a dtype whose bytes cannot be stored, `ValueError` for one whose items have none."""
    if dtype.hasobject:
        what = "StringDType" if dtype.kind == "T" else "object"
        raise TypeError(
            f"cannot store the dtype {dtype}: {what} items are pointers into memory; "
            "convert text to a fixed width ('<U..' or 'S..') and numbers to a numeric dtype"
        )
    if dtype.isbuiltin == 2:
        bits = f"u{dtype.itemsize}" if dtype.itemsize in (1, 2, 4, 8) else f"V{dtype.itemsize}"
        kind = f"{dtype.type.__module__}.{dtype.type.__name__}"
        raise TypeError(
            f"cannot store the dtype {dtype}, which is not one of NumPy: keep its bits, as items.view({bits!r}), and "
            f"array[...].view({kind}) gives them back"
        )
    if dtype.subdtype is not None:
        raise TypeError(f"cannot store the dtype {dtype}: it is not a plain NumPy dtype")
    if dtype.itemsize == 0:
        raise ValueError(f"cannot store the dtype {dtype}: its items have no bytes; give it a length")
    if dtype.names is not None:
        for name in dtype.names:
            refuse_unstorable(dtype[name].base)


@remembered(256)
def _simple_dtype(text: str) -> np.dtype[Any]:
    if len(text) > 100 or not re.fullmatch(_SIMPLE, text):
        raise ValueError(f"{_shorten(text)} is not a dtype")
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{_shorten(text)} is not a dtype: {error}") from error
    _refuse_unusable(dtype, repr(text))
    return dtype


def _refuse_unusable(dtype: np.dtype[Any], text: str) -> None:
    if dtype.hasobject:
        raise ValueError(f"the dtype {text} holds pointers, which mean nothing outside of the process that wrote them")
    if dtype.itemsize == 0:
        raise ValueError(f"the items of the dtype {text} have no bytes")
    if dtype.subdtype is not None:
        raise ValueError(f"the dtype {text} is an array of items, not an item")


def _without_strings(text: str) -> str:
    """The parts of a text between its strings."""
    pieces = []
    piece_at = re.compile(_PIECE).match
    at = 0
    while at < len(text):
        piece = piece_at(text, at)
        if piece is None:
            raise ValueError(f"the dtype {_shorten(text)} holds a string that does not end, or is written oddly")
        if text[at] not in "'\"":
            pieces.append(piece[0])
        at = piece.end()
    return "".join(pieces)


def _check_literal(text: str) -> None:
    """Let only brackets, strings, whole numbers and booleans through, nested to a bounded depth."""
    rest = _without_strings(text)
    if not re.fullmatch(_BETWEEN_LITERALS, rest):
        raise ValueError(f"the dtype {_shorten(text)} holds something other than names, formats and numbers")
    depth = 0
    for character in rest:
        if character in "[{(":
            depth += 1
            if depth > _MAX_NESTING:
                raise ValueError(f"the dtype {_shorten(text)} is nested deeper than {_MAX_NESTING} levels")
        elif character in "]})":
            depth -= 1


def _build(make: Callable[[Any], np.dtype[Any]], description: object) -> np.dtype[Any]:
    """Make a dtype from a description that was checked."""
    try:
        dtype = make(description)
    except (ValueError, TypeError, OverflowError) as error:  # parts that contradict each other
        raise ValueError(f"not a valid dtype: {error}") from error
    _refuse_unusable(dtype, _shorten(description))
    return dtype


def check_fields(description: object) -> None:
    """Raise ValueError where a list of fields, as `numpy.dtype.descr` gives it, is longer than it may be."""
    if _count_fields(description, 0) > _MAX_FIELDS:
        raise ValueError(f"the dtype has more than {_MAX_FIELDS} fields")


def _count_fields(description: object, depth: int) -> int:
    """The fields of a description, as far as it is worth counting them; the same list may occur often in it."""
    if not isinstance(description, list) or depth > _MAX_NESTING:
        return 0
    count = len(description)
    for field in description:
        if count > _MAX_FIELDS:
            break
        if isinstance(field, tuple) and len(field) > 1:
            count += _count_fields(field[1], depth + 1)
    return count


def _check_description(description: object, depth: int) -> None:
    if depth > _MAX_NESTING:
        raise ValueError(f"the dtype is nested deeper than {_MAX_NESTING} levels")
    if isinstance(description, str):
        _simple_dtype(description)
    elif isinstance(description, list):
        for field in description:
            if not isinstance(field, tuple) or len(field) not in (2, 3):
                raise ValueError(f"the field {_shorten(field)} is not (name, format) or (name, format, shape)")
            _check_label(field[0])
            _check_description(field[1], depth + 1)
            if len(field) == 3:
                _check_shape(field[2])
    elif isinstance(description, dict):
        _check_dictionary(description, depth)
    else:
        raise ValueError(f"{_shorten(description)} does not describe a dtype")


def _check_label(label: object) -> None:
    parts = label if isinstance(label, tuple) and len(label) == 2 else (label,)
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{_shorten(label)} is not the name of a field, nor its title and name")


def _check_dictionary(fields: dict[Any, Any], depth: int) -> None:
    unknown = set(fields) - {"names", "formats", "offsets", "titles", "itemsize", "aligned"}
    if unknown:
        raise ValueError(f"{_shorten(min(map(str, unknown)))} is not a part of a dtype")
    names = fields.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ValueError("the names of a dtype are a list of strings")
    for part in ("formats", "offsets", "titles"):
        values = fields.get(part, names if part == "titles" else None)
        if not isinstance(values, list) or len(values) != len(names):
            raise ValueError(f"the {part} of a dtype are a list, one for each name")
    if not all(map(_is_size, fields["offsets"])) or not _is_size(fields.get("itemsize")):
        raise ValueError("the offsets and the itemsize of a dtype are whole numbers")
    if not isinstance(fields.get("aligned", False), bool):
        raise ValueError("aligned is True or False in a dtype")
    if not all(title is None or isinstance(title, str) for title in fields.get("titles", [])):
        raise ValueError("a title of a dtype is a string")
    for item in fields["formats"]:
        if isinstance(item, tuple) and len(item) == 2:
            _check_description(item[0], depth + 1)
            _check_shape(item[1])
        else:
            _check_description(item, depth + 1)


def _check_shape(shape: object) -> None:
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if len(sizes) > 32 or not all(map(_is_size, sizes)):
        raise ValueError(f"{_shorten(shape)} is not the shape of a field")


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _describe(dtype: np.dtype[Any]) -> Any:
    """Give literals that NumPy makes the same dtype of, each gap stated by offsets."""
    if dtype.fields is None:
        return dtype.str
    names = list(dtype.names or ())
    fields = [dtype.fields[name] for name in names]
    titles = [field[2] if len(field) == 3 else None for field in fields]
    shapes = [field[0].shape for field in fields]
    formats = [_describe(field[0].base) for field in fields]
    description = {
        "names": names,
        "formats": [(text, shape) if shape else text for text, shape in zip(formats, shapes, strict=True)],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
    }
    return description if not any(titles) else {**description, "titles": titles}


def _shorten(value: object) -> str:
    """Quote a value in a message, at most 60 characters of it."""
    text = repr(value[:61]) if isinstance(value, (str, list, tuple)) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
