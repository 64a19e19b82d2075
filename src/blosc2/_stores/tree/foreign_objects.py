"""Names that a `TreeStore` gives to leaves of its own.

They are not shown as keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Never

from blosc2._backends import REGISTRY, TieredBackend
from blosc2._core.io.sharing import item_of
from blosc2._options import kind_in_words
from blosc2._stores.contents import Contents
from blosc2._stores.leaves.leaf import leaf_of, maker_of
from blosc2._stores.pending import PendingChanges
from blosc2.exceptions import FormatError, UnsafeDeserializationError, UnsupportedKindError

if TYPE_CHECKING:
    from blosc2._core.keys.listing import KeyListing
    from blosc2._stores.leaf_table import LeafTable

#: The leaf below a group that carries its attributes.
ATTRIBUTES: Final = "__vlmeta__"
#: How the keys of such leaves end.
HIDDEN: Final = "/" + ATTRIBUTES
#: The leaf below a group that describes an object of another package.
DESCRIPTION: Final = "_meta"


class ForeignObject:
    """An object that this package can list, describe and copy, but not compute with.

    Attributes
    ----------
    key : str
        Its key.
    kind : str
        What it is, as the package that wrote it calls it.
    description : dict
        What its store says about it.
    """

    __slots__ = ("_table", "description", "key", "kind")

    def __init__(self, table: LeafTable, key: str, description: Mapping[str, Any]) -> None:
        self._table = table
        self.key = key
        self.description = dict(description)
        self.kind = str(description.get("kind", "object"))

    def leaves(self) -> Iterator[tuple[str, Any]]:
        """Its leaves, to be read or copied, by their keys below its own."""
        table = self._table
        table.session.check_open()
        for key in table.contents.listing().below(self.key):
            yield key[len(self.key) :], table.foreign.inner_leaf(key)

    def _refuse(self) -> Never:
        raise UnsupportedKindError(
            f"an object of kind {kind_in_words(self.kind)} can be listed and copied with its store, but not read "
            "or changed; use the package that wrote it",
            path=self._table.path,
            key=self.key,
        )

    def __getitem__(self, key: Any) -> Never:
        self._refuse()

    def __setitem__(self, key: Any, value: Any) -> Never:
        self._refuse()

    def __len__(self) -> Never:  # noqa: PLE0303 - it has no length to give
        self._refuse()

    def __iter__(self) -> Never:
        self._refuse()

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<ForeignObject {self.key!r} of kind {kind_in_words(self.kind)}>"


class ForeignObjects:
    """Finds the objects of one store.

    The store is an argument of some calls, which may open the leaf that describes an object. It is not kept here, so a
    store that is dropped is freed at once.

    Attributes
    ----------
    possible : bool or None
        Whether there may be any; None if not yet determined.
    """

    __slots__ = ("_backend", "_contents", "_described", "_pending", "_published", "_verify", "possible")

    def __init__(
        self, backend: TieredBackend, pending: PendingChanges, contents: Contents, *, verify: bool | None = None
    ) -> None:
        self._backend = backend
        self._pending = pending
        self._contents = contents
        self._verify = verify
        # The registry of the version that is shown; None if it was not read.
        self._published: dict[str, Any] | None = None
        # Descriptions of the groups asked for so far; None for groups that are no objects.
        self._described: dict[str, dict[str, Any] | None] = {}
        self.possible: bool | None = None

    @property
    def registry(self) -> dict[str, Any]:
        """The objects that the store declares, by key."""
        found = self._pending.registry  # once: another thread may publish it
        if found is None:
            found = self._published
        if found is None:
            embedded = self._backend.embedded
            is_none = embedded is None or embedded.frame.vlmeta(REGISTRY) is None
            self._published = found = {} if embedded is None or is_none else embedded.registry()
        return found

    def are_possible(self) -> bool:
        """Whether there may be objects of other packages. This costs little, and is mostly False."""
        possible = self.possible
        if possible is None:
            backend, embedded = self._backend, self._backend.embedded
            # Mostly there is no registry, in any version.
            has_registry = self._pending.registry is not None or (
                embedded is not None and embedded.frame.vlmeta(REGISTRY) is not None
            )
            possible = not backend.lists_cheaply or (has_registry and bool(self.registry))
            if not possible:
                is_published = not (self._pending.frames or self._contents.placed)
                listing = backend.listing() if is_published else self._contents.listing()
                possible = bool(listing.named(DESCRIPTION))
            self.possible = possible
        return possible

    def are_in(self, listing: KeyListing) -> bool:
        """Whether there may be objects, as a listing of the published keys says."""
        if self._backend.lists_cheaply:
            return self.are_possible()
        return bool(self.registry or listing.named(DESCRIPTION))

    def at(self, path: str) -> dict[str, Any] | None:
        """The description of the object at a path; None if there is none."""
        described = self._described
        if path in described:
            return described[path]
        described[path] = found = self._describe(path)
        return found

    def _describe(self, path: str) -> dict[str, Any] | None:
        entry = item_of(self.registry, path)
        if entry is not None:
            return dict(entry) if isinstance(entry, Mapping) else {"kind": str(entry)}
        key = f"{path}/{DESCRIPTION}"
        has_description = self._contents.has(key) if path or self._pending.frames else self._backend.contains_now(key)
        if not has_description:
            return None
        try:
            leaf = self.inner_leaf(key)
            if leaf is None:
                return None
            kind = leaf.vlmeta.get("kind")
        except (FormatError, UnsupportedKindError, UnsafeDeserializationError):
            return None  # what cannot be read describes nothing
        if isinstance(kind, bytes):
            kind = kind.decode("utf-8", "replace")
        return {"kind": "ctable"} if kind == "ctable" else None

    def inner_leaf(self, key: str) -> Any:
        """A leaf of an object, to be read; None if there is none."""
        frame = self._contents.frame(key)
        if frame is None:
            return None
        if self._verify:
            self._backend.verify(key, frame)
        return leaf_of(maker_of(None, None, "safe", self._verify), frame, key, verify=bool(self._verify))

    def above(self, key: str) -> str | None:
        """The object above a key, not at the key itself; None if there is none."""
        if not self.are_possible():
            return None
        end = key.find("/", 1)
        while end > 0:
            if self.at(key[:end]) is not None:
                return key[:end]
            end = key.find("/", end + 1)
        return None

    def keys(self) -> set[str]:
        """The keys of all objects."""
        if not self.are_possible():
            return set()
        named = [key[: -len(DESCRIPTION) - 1] for key in self._contents.listing().named(DESCRIPTION)]
        return {key for key in [*self.registry, *named] if key and self.at(key) is not None}

    # ------------------------------------------------------------------ changing
    def rename(self, old: str, new: str) -> None:
        """The object at a path and those below it get other keys."""
        self._replace_registry(
            {
                new + name[len(old) :] if name == old or name.startswith(old + "/") else name: entry
                for name, entry in self.registry.items()
            }
        )

    def declare(self, entries: dict[str, Any]) -> None:
        """The store has these objects, too: what its registry says of each, by key."""
        self._replace_registry({**self.registry, **entries})

    def remove(self, path: str) -> None:
        """The object at a path and those below it are removed."""
        self._replace_registry(
            {name: entry for name, entry in self.registry.items() if name != path and not name.startswith(path + "/")}
        )

    def _replace_registry(self, registry: dict[str, Any]) -> None:
        if list(registry) != list(self.registry):
            self._pending.registry = registry
            self._pending.unwritten = True
            self.possible = None
        self._described = {}

    # ------------------------------------------------------------------ as a follower of the keys: see `KeyFollower`
    def key_changed(self, key: str, change: int) -> None:  # noqa: ARG002 - a replaced description counts too
        """A leaf was replaced (0), added (1) or removed (-1): a description makes its group an object."""
        if key.endswith("/" + DESCRIPTION):
            self.recount()

    def keys_removed(self, keys: list[str]) -> None:  # noqa: ARG002 - recounting costs less than looking at them
        self.recount()

    def recount(self) -> None:
        self._described = {}
        self.possible = None

    def begin_version(self) -> None:
        self._published, self._described, self.possible = None, {}, None
