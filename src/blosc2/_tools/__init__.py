"""What works on whole files with the public classes: the command line, and the demo that it runs."""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.cli import main
else:
    __getattr__ = on_demand(__name__, {"cli": "main"})

__all__ = ["main"]
