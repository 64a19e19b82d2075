"""The catalog and the directory of the next version of an archive, made anew or of those of the last version.

`_core.zip` reads catalogs, and `_core.keys` finds keys in them; neither knows how they are made.
"""

__all__ = [
    "catalog_writer", "descriptions",
]  # fmt: skip
