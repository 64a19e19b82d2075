"""Names that a `TreeStore` gives to leaves of its own.

They are not shown as keys.
"""

from __future__ import annotations

from typing import Final

#: The leaf below a group that carries its attributes.
ATTRIBUTES: Final = "__vlmeta__"
#: How the keys of such leaves end.
HIDDEN: Final = "/" + ATTRIBUTES
#: The leaf below a group that describes an object of another package.
DESCRIPTION: Final = "_meta"
