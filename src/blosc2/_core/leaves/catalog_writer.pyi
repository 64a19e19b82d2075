from collections.abc import Callable
from typing import Any

from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.archive_writer import ArchiveWriter, SortedRuns
from blosc2._core.zip.catalog import NAME as NAME
from blosc2._core.zip.catalog import Catalog

SLOTS_BUDGET: int

def catalog_in_memory(table: KeyTable, dtype_of: Callable[[str], Any]) -> Catalog | None: ...
def write_cataloged(
    writer: ArchiveWriter,
    old: KeyTable | None,
    runs: SortedRuns,
    others: bytes,
    embed: bytes,
    gone: tuple[str, ...] = (),
) -> int: ...
