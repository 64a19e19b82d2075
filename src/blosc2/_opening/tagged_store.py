"""Opening a `DictStore` or `TreeStore` with the class that its tag names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

from blosc2._backends import REGISTRY, WriterLock, absolute
from blosc2._options import StoreOptions
from blosc2._stores import advise_all, backend_of
from blosc2.dict_store import DictStore
from blosc2.tree_store import TreeStore

#: The classes by the tags of stores, which lie in a metalayer of the frame of embedded values.
KINDS: Final[dict[str, type[DictStore]]] = {cls._metalayer: cls for cls in (DictStore, TreeStore)}

# The leaf that describes a store which is one table.
_TABLE: Final = "/_meta"


def open_tagged(path: str, options: StoreOptions, given: Mapping[str, Any]) -> DictStore:
    """Open the store at a path with the class that its tag names; the tag is read once.

    A store that is one table of another package has no tree, so it opens as a `DictStore`. `given` are further
    arguments of the class: `cparams` and `dparams`.
    """
    lock = None
    if options.mode == "a":
        # Before anything is read: what is read must stay the newest.
        lock = WriterLock(absolute(path), options.timeout, exclusive=options.exclusive)
    try:
        backend = backend_of(path, options)
        backend.lock = lock
        backend.open()
        if lock is not None:
            backend.cut_tail()
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    embedded, members = backend.embedded, backend.members
    assert embedded is not None
    kind = KINDS.get(str(embedded.kind), DictStore)
    if options.mode in "wx":
        return kind(path, **options._asdict(), **given)
    for cls in (kind, DictStore):
        store = cls.__new__(cls)
        backend.kind = cls._metalayer
        if given:
            store._set_parameters(given.get("cparams"), given.get("dparams"))
        store._set_up(path, options, backend)
        may_be_table = cls._has_groups and (
            embedded.frame.vlmeta(REGISTRY) is not None
            or _TABLE in embedded.entries
            or (backend.has_file(_TABLE) if members is None else members.table().find(_TABLE) >= 0)
        )
        if not (may_be_table and store.is_table()):
            break
        warnings.warn(f"{path} is a table of another package; its parts are shown as leaves", UserWarning,
                      stacklevel=3)  # fmt: skip
    if options.advise is not None and store._session.advice is None:
        advise_all(store, options.advise)
    return store
