"""A `.b2z` store: one ZIP file in which each leaf is a stored member.

Its versions are opened, its members found, and new ones appended here. What a member means to a store is not known
here; `_core.zip` reads and writes the records of ZIP files.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

__all__ = ["backend", "members", "publishing", "unfinished_append"]

if TYPE_CHECKING:
    from blosc2._backends.zip import publishing as publishing
    from blosc2._backends.zip import unfinished_append as unfinished_append
else:
    __getattr__ = on_demand(__name__, {}, __all__)
