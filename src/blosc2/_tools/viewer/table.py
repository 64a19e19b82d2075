"""The pane of values: a window that is moved by keys."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.message import Message
from textual.widgets import Static


class ValuesPane(Static):
    """Shows a window of values, and says how it is to be moved."""

    can_focus = True

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1, 0)", "up", show=False),
        Binding("down", "move(1, 0)", "down", show=False),
        Binding("left", "move(0, -1)", "left", show=False),
        Binding("right", "move(0, 1)", "right", show=False),
        Binding("pageup", "page(-1, 0)", "page up", show=False),
        Binding("pagedown", "page(1, 0)", "page down", show=False),
        Binding("shift+left,ctrl+left", "page(0, -1)", "page left", show=False),
        Binding("shift+right,ctrl+right", "page(0, 1)", "page right", show=False),
        Binding("home", "end(0, -1)", "first column", show=False),
        Binding("end", "end(0, 1)", "last column", show=False),
        Binding("ctrl+home", "end(-1, 0)", "first row", show=False),
        Binding("ctrl+end", "end(1, 0)", "last row", show=False),
    ]

    class Moved(Message):
        """The window is to be moved by so many rows and columns."""

        def __init__(self, down: int, right: int) -> None:
            super().__init__()
            self.down, self.right = down, right

    class Resized(Message):
        """Another number of rows and columns fits."""

    #: How many columns of the last window did fit.
    columns = 1
    #: What is shown, for tests and for copying.
    text = Text()

    @property
    def height(self) -> int:
        """How many rows fit, below two lines of headings."""
        return max(1, self.content_size.height - 2)

    @property
    def width(self) -> int:
        return max(1, self.content_size.width)

    def show(self, text: Text) -> None:
        """Show another text."""
        self.text = text
        self.update(text)

    def action_move(self, down: int, right: int) -> None:
        self.post_message(self.Moved(down, right))

    def action_page(self, down: int, right: int) -> None:
        self.post_message(self.Moved(down * self.height, right * self.columns))

    def action_end(self, down: int, right: int) -> None:
        self.post_message(self.Moved(down << 62, right << 62))

    def on_resize(self, _: Resize) -> None:
        self.post_message(self.Resized())


class TextPane(Static):
    """Shows a text."""

    text = Text()

    def show(self, text: Text) -> None:
        """Show another text."""
        self.text = text
        self.update(text)
