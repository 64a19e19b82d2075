"""Keys of stores: the table that finds them, listings of what is below a group, keys that differ in case.

No key is ever turned into a path here.
"""
