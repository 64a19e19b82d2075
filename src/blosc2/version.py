"""The version of this distribution. CITATION.cff repeats it, and a test compares; no other file states it."""

# Programs compare it with versions of the distribution `blosc2`, which are below 5.
__version__ = "5.0.0.dev0"
# When this version was released, as YYYY-MM-DD.
VERSION_DATE = "unreleased"
