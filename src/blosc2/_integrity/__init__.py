"""Check and salvage: whether what lies at a path is whole, and what of it can be had when it is not.

Everything is read that a file claims, in every format, and reported as findings; nothing is repaired in place.
`salvage` writes what is whole to a new file. Nothing below imports this package.
"""

from blosc2._integrity.checking import check, check_opened_handle, check_store
from blosc2._integrity.report import CheckReport, Finding
from blosc2._integrity.salvaging import SalvageReport, salvage

__all__ = [
    "CheckReport", "Finding", "SalvageReport", "check", "check_opened_handle", "check_store", "salvage",
]  # fmt: skip
