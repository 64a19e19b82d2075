from collections.abc import Callable, Iterator
from typing import Any, Self

from blosc2._core.frame.frame_writer import RawKinds
from blosc2._core.keys.key_admission import KeyAdmission
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.archive_writer import ArchiveWriter

class SmallLeaves:
    count: int
    nbytes: int
    def __new__(
        cls,
        writer: ArchiveWriter,
        admission: KeyAdmission,
        kinds: RawKinds | None,
        check: Callable[[], Any],
        progress: Callable[[int, int], Any],
    ) -> Self: ...
    def expect(self, count: int) -> None: ...
    def write(self, values: Iterator[tuple[str, Any]]) -> tuple[bool, Any, Any] | None: ...
    def pause(self) -> None: ...

def append_frames(
    writer: ArchiveWriter,
    frames: dict[str, Any],
    appended: dict[str, Any],
    made: type,
    renamed: type,
    members: KeyTable | None,
) -> list[str]: ...
