"""Each operation of each kind of store, with a fault at each position: a line, an allocation, a system call, a reader.

A kind of sweep is a module of this package with three functions: ``cases()`` gives the names of what is done to which
kind of file; ``count(case, folder)`` says at how many positions something can go wrong, or lists how each is reached,
found by a run in which nothing does; ``play(case, at, folder)`` does it once with the fault at one position, and raises
when what is left is not right. The tests play some positions of each case; ``python tests/sweeps/run.py`` plays all of
them, each line once (``--once``), or some by a seed.
"""

from __future__ import annotations
