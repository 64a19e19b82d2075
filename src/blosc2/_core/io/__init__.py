"""Where bytes come from: mapped files, positional reads, checksums; and what a forked child resets.

A source gives bytes by their offset; nothing here knows a format. Every other package may use all of it.
"""
