"""Check and salvage: whether a file or store is whole, and what can be recovered if it is not.

`check` reads everything, in every format, and reports findings; nothing is repaired in place. `salvage` writes what is
whole to a new file. No lower layer imports this package.
"""

from blosc2._integrity.paths import SalvageReport, check, check_opened_handle, check_store, salvage
from blosc2._integrity.report import CheckReport, Finding
