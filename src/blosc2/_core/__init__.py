"""Bytes, in Cython: sources, chunks, frames, grids of arrays, archives, keys, and the fast ways to many leaves.

Nothing is decided here: no modes, no defaults, and no paths beyond opening them. Of the Python layers only `exceptions`
is imported. `allocation` has the one rule of what a file may make an operation hold.
"""
