"""Converting between stores and other formats.

A format is a `Source` and, if it can be written, a `Target`; `conversion` says what both give and take, and
lists them. Each imports its library when it is used.
"""
