"""Convert real images to a store, read it back memory-mapped, check every patch, and time it.

The images are a 4-D brain scan (from the nibabel package) and photographs (from the scikit-image package). Each becomes
a pyramid of tiles: the image itself, and copies of half the size until they are small.
"""

from blosc2._tools.demo.errors import DemoError
from blosc2._tools.demo.run import run

__all__ = ["DemoError", "run"]
