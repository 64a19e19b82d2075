"""Looking into a store or an array: a program for the terminal, and one HTML page that can be sent.

Only the command `blosc2 view` uses this package. What is read is bounded by what is shown. `app` needs the extra
``view``; the other modules know nothing of a terminal.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.viewer.html_page import web_page
else:
    __getattr__ = on_demand(__name__, {"html_page": "web_page"})

__all__ = ["web_page"]
