from typing import Any

from blosc2._core.keys.keytable import KeyTable
from blosc2._core.zip.archive_writer import ArchiveWriter

def added_keys(base: KeyTable, keys: list[str], without: KeyTable | None = None) -> KeyTable: ...
def append_moved(writer: ArchiveWriter, table: KeyTable, old: str, new: str, others: dict[str, Any]) -> None: ...
