"""The version of this distribution; no other file states it."""

__version__ = "1.0.0.dev0"
# When this version was released, as YYYY-MM-DD.
VERSION_DATE = "unreleased"
