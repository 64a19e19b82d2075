"""Leaves of an archive, opened, read and set without making objects; catalog and directory of its next version.

What opens, reads and sets them are the fast paths of stores; `blosc2._stores` does whatever these cannot do.
"""
