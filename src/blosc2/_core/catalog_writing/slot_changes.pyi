from typing import Self

from blosc2._core.keys.keytable import KeyTable

class SlotChanges:
    def __new__(cls, table: KeyTable) -> Self: ...
