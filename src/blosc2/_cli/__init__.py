"""The command line, and the demo that it runs.

Programs do not import this package; `python -m blosc2` and the command `blosc2` do.
"""

__all__ = ["demo"]
