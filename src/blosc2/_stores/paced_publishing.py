"""Publishing the changes of an `EmbedStore` file without waiting for `flush`, as long as that is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blosc2._backends import ByteRange, Pace
from blosc2._stores.publish import flush, may_publish

if TYPE_CHECKING:
    from blosc2._stores.store import Store
    from blosc2._stores.transaction import AllOrNone


class PacedPublishing:
    """Publishes all pending changes of one store together, at a pace that bounds the cost.

    The store is an argument of each call and not kept here, so a store that is dropped is freed at once.

    Attributes
    ----------
    pace : Pace
        How much time publications have taken.
    lazily : bool
        Whether a power cut may lose the publication under way.
    """

    __slots__ = ("lazily", "pace")

    #: Keys of embedded values to remove with the next publication: this kind of store has none.
    hidden: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.pace = Pace()
        self.lazily = False

    def is_due(self, store: Store, nbytes: int, block: AllOrNone | None) -> bool:
        """Whether to publish now, with `nbytes` more than are pending; `block` is about to end."""
        embedded = store._backend.embedded
        # First the condition that is mostly false.
        if not self.pace.is_due(store._pending.in_memory + nbytes, 0 if embedded is None else len(embedded.entries)):
            return False
        return store._path is not None and may_publish(store, block)

    def quiet_time(self, store: Store) -> tuple[int, float]:
        """How many bytes may be pending, and until when, before `is_due` is asked again; -1 for any number."""
        embedded = store._backend.embedded
        return (
            (-1, 0.0) if store._path is None else self.pace.quiet_time(0 if embedded is None else len(embedded.entries))
        )

    def end_block(self, store: Store, block: AllOrNone) -> None:  # noqa: ARG002 - all pending changes are published
        """Publish now."""
        with self.pace:
            self.lazily = True
            try:
                flush(store, durable=True)
            finally:
                self.lazily = False

    def make_durable(self, store: Store, *, durable: bool) -> None:
        """All changes are published: make them durable, if that is asked for."""
        unsettled = store._backend.unsettled
        if unsettled is not None and durable and not self.lazily:
            unsettled.make_durable()

    def is_unsettled(self, store: Store) -> bool:
        """Whether something was published that a power cut may undo."""
        return store._backend.unsettled is not None

    def put(self, store: Store, key: str, byte_range: ByteRange, value: Any) -> bool:  # noqa: ARG002
        """Publish one leaf alone: never."""
        return False

    def remove(self, store: Store, key: str) -> bool:  # noqa: ARG002
        """Remove one leaf alone: never."""
        return False

    def forget_key(self, key: str, *, removed: bool = False) -> None:
        """Another change of this key is pending."""

    def clear(self, *, published: bool) -> None:
        """All pending changes were published, or dropped."""
