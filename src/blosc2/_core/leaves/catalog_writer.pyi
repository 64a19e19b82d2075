from collections.abc import Callable
from typing import Any, Self

from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.archive_writer import ArchiveWriter, SortedRuns
from blosc2._core.zip.catalog import NAME as NAME
from blosc2._core.zip.catalog import Catalog

SLOTS_BUDGET: int

class LeafKinds: ...

class Pages:
    def __new__(cls, writer: ArchiveWriter | None) -> Self: ...

class LeafTotals: ...
class RecordSample: ...
class LeafMerge: ...
class PathSlots: ...

class CatalogPatch:
    def __new__(cls, table: KeyTable, runs: SortedRuns) -> Self: ...

class CatalogBuilder:
    def __new__(
        cls,
        old: KeyTable | None = None,
        runs: SortedRuns | None = None,
        dtype_of: Callable[[str], Any] | None = None,
    ) -> Self: ...

def catalog_in_memory(table: KeyTable, dtype_of: Callable[[str], Any]) -> Catalog | None: ...
def write_cataloged(
    writer: ArchiveWriter,
    old: KeyTable | None,
    runs: SortedRuns,
    others: bytes,
    embed: bytes,
    gone: tuple[str, ...] = (),
) -> int: ...
