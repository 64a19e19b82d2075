"""Asking for a part of a key, or for a place, and choosing among what was found."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from blosc2._display import printable
from blosc2._tools.viewer.branches import Hits


class Ask(ModalScreen[str | None]):
    """One line to type."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "cancel")]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Label(Text(self._question))
            yield Input()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class Choose(ModalScreen[str | None]):
    """The keys that were found."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "cancel")]

    def __init__(self, hits: Hits) -> None:
        super().__init__()
        self._hits = hits

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            found = f"{len(self._hits.keys):,} found"
            yield Label(Text(f"{found}; {self._hits.note}" if self._hits.note else found))
            yield OptionList(*(Option(Text(printable(key))) for key in self._hits.keys))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._hits.keys[event.option_index])
