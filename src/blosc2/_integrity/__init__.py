"""Check and salvage: whether a file or store is whole, and what can be recovered if it is not.

`check` reads everything, in every format, and reports findings; nothing is repaired in place. `salvage` writes what is
whole to a new file. No lower layer imports this package.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._integrity.check_frames import *
    from blosc2._integrity.check_stores import *
    from blosc2._integrity.recovery import *
    from blosc2._integrity.report import *
else:
    __getattr__ = on_demand(__name__, {
        "check_frames": "check check_opened check_store",
        "check_stores": "check_archive_file check_directory_store check_embedded check_embedded_file",
        "recovery": "SalvageReport salvage",
        "report": "CheckReport Finding",
    })  # fmt: skip
