"""Writing many leaves of a `.b2z` one by one. Only directory records are kept of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from blosc2._backends.layout import ByteRange
from blosc2._backends.zip.member_frames import append_frame
from blosc2._core.leaves.leaf_stream import SmallLeaves

if TYPE_CHECKING:
    from blosc2._backends.zip.backend import ZipBackend
    from blosc2._core.frame.small_frame import RawKinds
    from blosc2._core.keys.folded_keys import KeyAdmission


class LeafStream:
    """Takes leaves one by one, and publishes them together.

    Parameters
    ----------
    backend : ZipBackend
        Where they go; it is asked for its writer each time, as somebody may close it meanwhile.
    """

    __slots__ = ("_backend",)

    def __init__(self, backend: ZipBackend) -> None:
        self._backend = backend

    def begin(self) -> None:
        """Begin to write after what is published, or to a file that will replace it."""
        self._backend.begin_stream()

    def add(self, key: str, suffix: str, description: bytes, frame: ByteRange | bytes) -> None:
        """Write a leaf. `end` publishes all of them."""
        append_frame(self._backend.streaming_writer(), (key[1:] + suffix).encode(), frame, description)

    def small_leaves(
        self, admission: KeyAdmission, kinds: RawKinds | None, progress: Callable[[int, int], Any], *, alone: bool
    ) -> SmallLeaves:
        """What writes most small leaves, after `begin`; see there."""
        writer_of = self._backend.streaming_writer
        return SmallLeaves(writer_of(), admission, kinds, writer_of, progress, alone)

    def end(self, gone: Mapping[str, None], registry: dict[str, Any] | None) -> None:
        """Publish what was written, and remove the embedded values in `gone`. That is not shown yet."""
        backend = self._backend
        backend.streaming_writer()
        fresh = backend.embedded is None
        embed = backend.changes_of(gone, registry) if fresh or gone or registry is not None else None
        backend.write({}, embed, fresh=fresh)
        backend.must_load = True
