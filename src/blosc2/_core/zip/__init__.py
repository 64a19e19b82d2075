"""ZIP archives: records, directories, and reading catalogs of leaves.

Members are byte ranges here; `leaves` turns them into leaves, and makes catalogs.
"""
