"""One frame: its header, the table of its chunks, its checksums, and the parts of a frame to be written.

Every value in a frame is checked here, once, before it is used. `ndim` handles axes; of `zip` a frame needs to know
that it is a member of an archive.
"""
