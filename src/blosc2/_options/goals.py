"""What compression may be chosen for: goals by name, limits with units, and how exact numbers have to stay."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from blosc2._core.io.sharing import item_of

#: What each goal means, in the words that users see.
GOALS: Final = {
    "balanced": "smaller, unless reading becomes more than 20 % slower",
    "size": "as small as can be",
    "read": "as fast to read as can be",
    "write": "as fast to write as can be",
}
#: Other names of goals, for `cparams`.
ALIASES: Final = {"auto": "balanced", "smallest": "size", "fastest": "read"}
#: How many bytes a unit has, without its "b".
UNITS: Final = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip


def goal_named(name: object) -> str:
    """The goal that a name stands for."""
    found = item_of(ALIASES, name) or name if isinstance(name, str) else None
    if found not in GOALS:
        known = ", ".join(map(repr, (*GOALS, *ALIASES)))
        raise ValueError(f"there is no goal {name!r} of choosing compression: it is one of {known}")
    return found


def bytes_of_text(value: Any, name: str, *, per_second: bool = False) -> float:
    """A number of bytes, from a number or a text with a unit; of bytes in a second with `per_second`."""
    number = math.nan
    if isinstance(value, str):
        matched = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?(/s)?\s*", value.lower())
        if matched and matched[2] in UNITS and (per_second or not matched[3]) and matched[1].count(".") < 2:
            number = float(matched[1] if matched[1] != "." else "nan") * UNITS[matched[2]]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    if not 0 < number < math.inf:
        example = "2 GB/s" if per_second else "10 MB"
        raise ValueError(f"{name} should be a positive number of bytes, or a text such as {example!r}, not {value!r}")
    return number


class Precision(NamedTuple):
    """How far decoded numbers may be from those that are given: `absolute`, or `relative` to each number.

    Those that are equal to one of `exact` stay as they are.
    """

    kind: str
    error: float
    exact: tuple[Any, ...] = ()


def precision_of(value: Any) -> Precision | None:
    """The precision that a caller asks for; None for exact numbers."""
    if value is None or isinstance(value, Precision):
        return value
    kind, error = "absolute", value
    if isinstance(value, Mapping) and len(value) == 1:
        kind, error = next(iter(value.items()))
    elif isinstance(value, str):
        matched = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(%|digits?|)\s*", value)
        kind = {"%": "relative", "": "absolute"}.get(matched[2], "digits") if matched else ""
        try:
            error = float(matched[1]) / (100 if matched[2] == "%" else 1) if matched else None
        except ValueError:
            error = None
    usable = isinstance(error, (int, float)) and not isinstance(error, bool) and math.isfinite(error)
    if usable and kind == "digits" and error == int(error) and abs(error) < 300:
        kind, error = "absolute", 0.5 * 10.0 ** -int(error)
    if not usable or kind not in ("absolute", "relative") or not error > 0 or (kind == "relative" and error >= 1):
        raise ValueError(
            f"precision should be an error such as 0.01, '0.1%' or '3 digits', or a dictionary with 'absolute', "
            f"'relative' or 'digits', not {value!r}"
        )
    return Precision(kind, float(error))
