"""Large arrays that are compressed right into the file of a `.b2z`, and not into a temporary file first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from blosc2._arrays import ArrayPlan
from blosc2._backends import NewFrame
from blosc2._core.frame.frame_writer import header_length
from blosc2._core.leaves.store_state import Change
from blosc2._frames import AnyChunk, Running

if TYPE_CHECKING:
    from blosc2._stores.store import Store


def takes_chunks(store: Store) -> bool:
    """Whether `lay_out` can write to a store."""
    return store._session.sharing is None and store._backend.streaming is not None


def lay_out(store: Store, key: str, plan: ArrayPlan, chunks: Iterable[AnyChunk], vlmeta: dict[str, bytes]) -> NewFrame:
    """The frame of an array, written where it stays; the store's lock is held.

    What would refuse the key later is asked before the first chunk is made.
    """
    stream = store._backend.streaming
    assert stream is not None
    with Change(store._session):
        store._session.check_thread("change keys")
        if store._names is not None:
            store._names.check_new(key, store._contents, is_new=not store._contents.has(key))
        plan.summed = True
        return stream.lay_out(
            key, ".b2nd", plan.most_nbytes(vlmeta), header_length(plan.metalayers),
            lambda write: plan.lay_out(chunks, write, vlmeta, Running()),
        )  # fmt: skip
