"""Writing many leaves of a `.b2z` one by one. Only directory records are kept of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from blosc2._backends.layout import ByteRange, NewFrame, described, open_source
from blosc2._backends.zip.member_frames import append_frame
from blosc2._core.leaves.leaf_stream import SmallLeaves

if TYPE_CHECKING:
    from blosc2._backends.zip.backend import ZipBackend
    from blosc2._core.frame.frame_writer import RawKinds
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

    def lay_out(
        self, key: str, suffix: str, most: int, room: int, rest: Callable[[Callable[[Any], None]], bytes]
    ) -> NewFrame:
        """Write one large leaf behind what is published, while its bytes are made: it need not be copied there later.

        It is staged, so `publish` makes it visible under its key. If anything is raised, its bytes are cut off.

        Parameters
        ----------
        key, suffix : str
        most : int
            Bytes that its frame has at most.
        room : int
            Those of its header.
        rest : callable
            Takes a function that writes what follows the header, buffer by buffer, and returns the header.
        """
        backend = self._backend
        name = (key[1:] + suffix).encode()
        begin = -1
        try:
            writer = backend._begin(backend.embedded is None)
            backend._check_own()
            backend._drop(key)
            writer.drain()
            begin = writer.position
            writer.eager = True  # what comes behind it waits for the disk
            start, size = writer.lay_out(name, most, room, self._by_owner(rest))
            source = open_source(
                backend._written_path, None, None if backend.members is None else backend.members.source
            )
            frame = NewFrame((source, start, size), suffix)
            writer.descriptions[name] = described(frame)
            backend._appended[key] = name, start
        except BaseException:
            backend._give_up(begin)
            raise
        backend._dirty = False
        backend._staged = True
        return frame

    def _by_owner(self, rest: Callable[[Callable[[Any], None]], bytes]) -> Callable[[Callable[[Any], None]], bytes]:
        """The same, in this process alone: a forked child would write to the file of its parent."""
        owner, root = self._backend._owner, self._backend.root

        def checked(write: Callable[[Any], None]) -> bytes:
            def write_here(data: Any) -> None:
                owner.check(root)
                write(data)

            return rest(write_here)

        return checked

    def end(self, gone: Mapping[str, None], registry: dict[str, Any] | None) -> None:
        """Publish what was written, and remove the embedded values in `gone`. That is not shown yet."""
        backend = self._backend
        backend.streaming_writer()  # raises if the store was closed meanwhile
        backend._is_streaming = False
        fresh = backend.embedded is None
        embed = backend.changes_of(gone, registry) if fresh or gone or registry is not None else None
        backend.write({}, embed, fresh=fresh)
