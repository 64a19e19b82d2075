from typing import Self

from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.catalog import NAME as NAME
from blosc2._core.zip.external_sort import SortedRuns

class CatalogPatch:
    def __new__(cls, table: KeyTable, runs: SortedRuns) -> Self: ...
