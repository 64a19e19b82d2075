"""The keywords that constructors share, divided by subject.

Each constructor refuses an unknown keyword before anything is created: a misspelt `urlpath` must not make an array that
exists only in memory.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from blosc2._core.io.forking import in_child
from blosc2._core.io.sharing import free_lock
from blosc2.storage import (
    CParams,
    DParams,
    Storage,
    cparams_from,
    dparams_from,
    storage_dflts,
    storage_from,
)

_STORAGE = tuple(item.name for item in fields(Storage))
ARRAY_KEYWORDS = ("chunks", "blocks", "layout", "cparams", "dparams", *_STORAGE, "storage")
SCHUNK_KEYWORDS = (*_STORAGE, "storage", "cparams", "dparams")


class ConstructorKeywords(NamedTuple):
    """Checked keywords of a constructor.

    Attributes
    ----------
    storage : Storage
    cparams : CParams, dict or None
        As given: what it leaves out depends on the data, so `cparams_from` comes later.
    dparams : DParams
    chunks, blocks, layout : object
        As given; None where they are not.
    """

    storage: Storage
    cparams: CParams | dict[str, Any] | None
    dparams: DParams
    chunks: Any = None
    blocks: Any = None
    layout: Any = None


def array_keywords(keywords: dict[str, Any]) -> ConstructorKeywords:
    """Split the keywords of a constructor of arrays; `cparams` is not checked yet.

    Raises
    ------
    KeyError
        A keyword that arrays do not have.
    AttributeError
        `storage` beside one of its own fields.
    TypeError, ValueError, NameError
        A value that the parameters refuse.
    """
    for name in keywords:
        if name not in ARRAY_KEYWORDS:
            hint = f"; it belongs into cparams={{{name!r}: ...}}" if name in _CPARAMS else ""
            raise KeyError(
                f"Only {list(ARRAY_KEYWORDS)} are supported as keyword arguments, and you passed {name!r}{hint}"
            )
    return _split(keywords)


def schunk_keywords(keywords: dict[str, Any]) -> ConstructorKeywords:
    """Split the keywords of a constructor of super-chunks.

    Raises
    ------
    ValueError
        A keyword that super-chunks do not have.
    AttributeError
        `storage` beside one of its own fields.
    TypeError, ValueError, NameError
        A value that the parameters refuse.
    """
    for name in keywords:
        if name not in SCHUNK_KEYWORDS:
            hint = f"; it belongs into cparams={{{name!r}: ...}}" if name in _CPARAMS else ""
            raise ValueError(f"{name} is not supported as keyword argument{hint}")
    cparams = keywords.get("cparams")
    if cparams is not None:
        cparams_from(cparams)  # only to refuse it now, while nothing has been created
    return _split(keywords)


def cparams_keywords(keywords: dict[str, Any], itemsize: int = 1, **overrides: Any) -> CParams:
    """Give the parameters of functions that take either `cparams=` or the fields themselves.

    `itemsize` is that of the data, which ``typesize=None`` stands for.
    """
    given = _either(keywords, "cparams")
    cparams = cparams_from(given, **overrides)
    asked: Any = given["typesize"] if isinstance(given, dict) and "typesize" in given else cparams.typesize
    if isinstance(given, CParams):
        asked = given.typesize
    return cparams if asked is not None else cparams_from(given, **{"typesize": itemsize, **overrides})


def dparams_keywords(keywords: dict[str, Any]) -> DParams:
    """Give the parameters of functions that take either `dparams=` or the fields themselves."""
    return dparams_from(_either(keywords, "dparams"))


_CPARAMS = tuple(item.name for item in fields(CParams))


def _split(keywords: dict[str, Any]) -> ConstructorKeywords:
    if not keywords:
        return ConstructorKeywords(_default_storage(), None, dparams_from(None))
    storage = keywords.get("storage")
    stored = {name: keywords[name] for name in _STORAGE if name in keywords}
    if storage is not None:
        if stored:
            raise AttributeError("Cannot pass both `storage` and other kwargs already included in Storage")
        storage = storage_from(storage)
    else:
        storage = storage_from(stored) if stored else _default_storage()
    return ConstructorKeywords(
        storage, keywords.get("cparams"), dparams_from(keywords.get("dparams")), keywords.get("chunks"),
        keywords.get("blocks"), keywords.get("layout"),
    )  # fmt: skip


def _default_storage() -> Storage:
    """The default storage. All callers share one object, which nobody changes, until `storage_dflts` changes."""
    global _defaults
    if _defaults is None or _defaults[0] != storage_dflts:
        _defaults = (dict(storage_dflts), storage_from(None))
    return _defaults[1]


_defaults: tuple[dict[str, Any], Storage] | None = None


def _begin_child() -> None:
    if _defaults is not None:
        free_lock(_defaults[0])


in_child(_begin_child)


def _either(keywords: dict[str, Any], name: str) -> Any:
    given = keywords.get(name)
    if given is None:
        return {key: value for key, value in keywords.items() if key != name}
    if len(keywords) > 1:
        kind = "CParams" if name == "cparams" else "DParams"
        raise AttributeError(f"Cannot pass both {name} and other kwargs already included in {kind}")
    return given
