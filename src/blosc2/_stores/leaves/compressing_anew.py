"""Compressing the leaves of a store anew, in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from blosc2 import _tuning
from blosc2._arrays import ArrayPlan, copied
from blosc2._display import human_size, number
from blosc2._options import fields_of
from blosc2._stores.leaf_table import group_of, table_of, whole_of
from blosc2.exceptions import StoreKeyError
from blosc2.ndarray import NDArray
from blosc2.storage import cparams_from

if TYPE_CHECKING:
    from blosc2._stores.store import Store

#: Changes of so many compressed bytes are published at a time, so that an interrupted run has done something.
_AT_ONCE: Final = 64 << 20


class Recompression(NamedTuple):
    """What `recompress` did.

    Attributes
    ----------
    leaves : int
        Arrays that were looked at.
    changed : int
        Those that became smaller.
    before, after : int
        Bytes of the frames of all of them.
    """

    leaves: int
    changed: int
    before: int
    after: int

    def __str__(self) -> str:
        saved = f", {1 - self.after / self.before:.1%} smaller" if self.before else ""
        return (
            f"{number(self.changed, 'array')} of {self.leaves} compressed anew: {human_size(self.before)} -> "
            f"{human_size(self.after)}{saved}"
        )


def recompress(
    store: Store, keys: str | Iterable[str] | None, cparams: Any, progress: Callable[[int, int], Any] | None
) -> Recompression:
    """Compress arrays anew where that makes them smaller; see `Store.recompress`."""
    table = table_of(store)
    table.session.check_writable("recompress leaves")
    parameters = cparams_from(cparams)  # one object for all leaves, which learn from one another by it
    chosen = list(dict.fromkeys(_leaves(store, keys)))
    whole = whole_of(store)
    leaves = changed = before = after = waiting = 0
    for done, key in enumerate(chosen, 1):
        old = whole[key]
        if isinstance(old, NDArray):
            leaves += 1
            size = old._handle.byte_range()[2]
            new = smaller(old, _tuning.sparing(parameters, old.vlmeta[:], key.rpartition("/")[2]), size)
            before, after = before + size, after + (size if new is None else new._handle.byte_range()[2])
            if new is not None:
                whole[key] = new
                changed += 1
                waiting += new._handle.byte_range()[2]
        if waiting >= _AT_ONCE and table.session.transaction is None:
            whole.flush()
            waiting = 0
        if progress is not None:
            progress(done, len(chosen))
    if table.session.transaction is None:
        whole.flush()
    return Recompression(leaves, changed, before, after)


def _leaves(store: Store, keys: str | Iterable[str] | None) -> Iterator[str]:
    """The keys of leaves in the whole store: those given, and all below those that are groups."""
    table = table_of(store)
    named = [keys] if isinstance(keys, str) else keys
    for place in [group_of(store)] if named is None else map(store._absolute, named):
        found = table.contents.leaf_keys(place if place != "/" else "")
        if not found and named is not None and place not in ("", "/"):
            raise StoreKeyError(place, path=table.path)
        yield from (key for key in found if table.hidden_name is None or not key.endswith(f"/{table.hidden_name}"))


def smaller(array: NDArray, parameters: Any, size: int) -> NDArray | None:
    """The array, compressed anew; None where that is not smaller than `size`, or no other way."""
    keywords = {"cparams": parameters, "chunks": array.chunks, "blocks": array.blocks}
    plan = ArrayPlan(array.shape, array.dtype, keywords)
    plan.settle(array.__getitem__, array.shape)
    if plan.precision is None and fields_of(plan.encoding) == fields_of(array._handle.frame):
        return None
    made = NDArray._of(copied(array, None, {**keywords, "cparams": plan.chosen or plan.cparams}))
    return made if made._handle.byte_range()[2] < size else None
