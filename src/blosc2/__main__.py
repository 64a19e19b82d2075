"""The command line: ``python -m blosc2``."""

import sys

from blosc2._tools import main

if __name__ == "__main__":
    sys.exit(main())
