"""The program for the terminal. What takes time runs in other threads; what is no longer wanted is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Label, Static, TabbedContent, TabPane, Tree
from textual.widgets.tree import TreeNode

from blosc2._arrays import check_dtype, decoded_bytes, read_picture, sample_of_planes
from blosc2._display import colour_picture, grey, human_size, number, one_line, printable
from blosc2._stores import Store, has_leaf
from blosc2._tools.viewer import values
from blosc2._tools.viewer.values import WIDEST, Cells, Page, Rows
from blosc2.ndarray import NDArray

# ------------------------------------------------------------------ text
#: A picture decodes at most so many bytes.
MOST_DECODED = 256 << 20
_TALLEST_STRIP = 16


def table_of(rows: Rows, title: str = "") -> Text:
    found = Text()
    if title:
        found.append(printable(title) + "\n", "bold")
    width = min(WIDEST, max((cell_len(printable(name)) for name, _ in rows), default=0))
    for name, value in rows:
        found.append(fitted(printable(name), max(width, cell_len(printable(name)))), "dim")
        found.append("  " + printable(value) + "\n")
    return found


def information(thing: Any, name: str) -> Text:
    found = table_of(values.properties(thing), name)
    rows = values.attributes(thing)
    if rows:
        found.append("\n")
        found.append_text(table_of(rows, "Attributes"))
    return found


def fitted(text: str, width: int) -> str:
    """A text in so many columns of the terminal, with an ellipsis where it is cut."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, max(0, width - 1)) + "…"


def window_text(cells: Cells, width: int, kind: str) -> tuple[Text, int]:
    """A window of values as aligned columns, and how many columns fit."""
    side = max(map(cell_len, cells.rows), default=0)
    columns = list(zip(*cells.texts, strict=True))
    widths: list[int] = []
    used = side
    for heading, column in zip(cells.columns, columns, strict=True):
        need = min(WIDEST, max(cell_len(heading), *map(cell_len, column)))
        if widths and used + 2 + need > width:
            break
        widths.append(min(need, max(1, width - used - 2)))
        used += 2 + widths[-1]
    found = Text(no_wrap=True)
    line = "".join("  " + _aligned(text, size, kind) for text, size in zip(cells.columns, widths))
    found.append(" " * side + line + "\n", "bold")
    for label, texts in zip(cells.rows, cells.texts, strict=True):
        found.append(label.rjust(side), "dim")
        found.append("".join("  " + _aligned(text, size, kind) for text, size in zip(texts, widths)) + "\n")
    return found, max(1, len(widths))


def _aligned(text: str, width: int, kind: str) -> str:
    if kind in "biufcmM" and cell_len(text) <= width:
        return " " * (width - cell_len(text)) + text
    return fitted(text, width)


#: What was seen of the planes of an array, by the axes that are shown.
Samples = dict[Any, Any]


def picture_text(array: NDArray, page: Page, box: tuple[int, int], samples: Samples) -> Text:
    """The plane of a page with half blocks, and what it shows; what is no picture says why."""
    if array.dtype.kind != "c":
        check_dtype(array.dtype)
    if page.is_empty or page.rows is None:
        raise ValueError("this array has no plane to draw")
    axes = page.pictured()
    place = tuple(page.sides)
    if place not in samples:
        samples[place] = sample_of_planes(array, axes, page.sides)
    picture = read_picture(array, axes, page.sides, box, most=MOST_DECODED, sample=samples[place])
    pixels = picture.pixels
    if len(page.sides) == 1:
        pixels = _line(picture.items, picture.low, picture.high, min(box[0], _TALLEST_STRIP))
    found = Text.from_ansi(colour_picture(pixels))
    found.no_wrap = True
    what = "magnitudes, " if array.dtype.kind == "c" else ""
    found.append(f"\n{picture.size()} items, {what}{picture.scale()}", "dim")
    return found


def _line(items: Any, low: float, high: float, height: int) -> Any:
    """Items of one axis as columns of pixels, the higher the larger."""
    tall = np.round(grey(items, low, high) / 255 * (height - 1)).astype(int)
    shown = np.arange(height)[::-1, None] <= tall
    return np.where(shown, 200, 0).astype(np.uint8)


# ------------------------------------------------------------------ panes and questions
class TextPane(Static):
    """Shows a text."""

    #: What is shown, for tests and for copying.
    text = Text()

    def show(self, text: Text) -> None:
        self.text = text
        self.update(text)


class ValuesPane(TextPane):
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

    @property
    def height(self) -> int:
        """How many rows fit, below two lines of headings."""
        return max(1, self.content_size.height - 2)

    @property
    def width(self) -> int:
        return max(1, self.content_size.width)

    def action_move(self, down: int, right: int) -> None:
        self.post_message(self.Moved(down, right))

    def action_page(self, down: int, right: int) -> None:
        self.post_message(self.Moved(down * self.height, right * self.columns))

    def action_end(self, down: int, right: int) -> None:
        self.post_message(self.Moved(down << 62, right << 62))

    def on_resize(self, _: Resize) -> None:
        self.post_message(self.Resized())


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


# ------------------------------------------------------------------ the program
#: Statistics decode at most so many bytes.
MOST_COUNTED = 64 << 20
_PANES = {"information": "Information", "values": "Values", "statistics": "Statistics", "picture": "Picture"}

_NAMES = tuple(_PANES)


class Branch(NamedTuple):
    """What a line of the tree stands for: a group or leaf, or the rest of a group."""

    key: str
    is_group: bool
    is_rest: bool = False


class Viewer(App[None]):
    """Shows the tree of a store from a group on, and its arrays, or the one of a key. It only reads."""

    TITLE = "blosc2 view"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #tree { width: 36%; max-width: 60; border-right: solid $panel; }
    TabbedContent, ContentSwitcher, TabPane { height: 1fr; }
    TabPane { padding: 0 1; }
    ValuesPane, #picture-pane { height: 1fr; }
    ValuesPane:focus { background: $boost; }
    Ask { align: center middle; }
    #box { width: 80%; max-width: 90; height: auto; max-height: 80%; border: solid $accent; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("1", "pane('information')", "Panes", key_display="1-4"),
        *(Binding(str(n), f"pane('{_NAMES[n - 1]}')", _NAMES[n - 1], show=False) for n in (2, 3, 4)),
        Binding("comma", "step(-1)", "Plane", key_display=", ."),
        Binding("full_stop", "step(1)", "next plane", show=False),
        Binding("less_than_sign", "step(-10)", "ten planes back", show=False),
        Binding("greater_than_sign", "step(10)", "ten planes on", show=False),
        Binding("a", "axis('next_other')", "Axis"),
        Binding("r", "axis('next_rows')", "Rows"),
        Binding("c", "axis('next_columns')", "Columns"),
        Binding("t", "axis('transposed')", "Transpose", show=False),
        Binding("g", "go", "Go to"),
    ]

    def __init__(self, found: Any, name: str, key: str = "") -> None:
        super().__init__()
        self._found, self._path, self._root = found, name, key
        self._branch = Branch(key, False)
        self.thing: Any = None
        self.source: NDArray | None = None
        self.page = Page.of((), np.dtype(float))
        # Where the window is in arrays of one axis, and in lists: the row and the column.
        self.top = self.left = 0
        self._samples: Samples = {}
        self._shown: dict[int, set[str]] = {}
        # The window that is being read, and the one that is shown: each is read once, however often it is asked for.
        self._asked: tuple[Any, ...] | None = None
        self._done: tuple[Any, ...] | None = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Tree(Text(printable(self._path + self._root)), self._branch, id="tree")
            with TabbedContent(id="panes"):
                for name, title in _PANES.items():
                    with TabPane(title, id=name):
                        if name == "values":
                            yield ValuesPane(id="values-pane", markup=False)
                        elif name == "picture":
                            yield TextPane(id="picture-pane", markup=False)
                        else:
                            with VerticalScroll():
                                yield TextPane(id=f"{name}-pane", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.branches.auto_expand = False
        store = self._found
        is_group = isinstance(store, Store) and not (self._root and has_leaf(store, self._root))
        self._branch = Branch(self._root, is_group)
        self.branches.root.data = self._branch
        self.branches.root.allow_expand = is_group
        self.branches.focus()
        if is_group:
            self.branches.root.expand()
        self._in_turn(partial(self._select, self._branch))

    @property
    def branches(self) -> Tree[Branch]:
        found: Tree[Branch] = self.query_one("#tree", Tree)
        return found

    @property
    def pane(self) -> str:
        return self.query_one("#panes", TabbedContent).active

    def _in_turn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do what the right side waits for, in place of what it waited for."""
        self.run_worker(work, group="right", exclusive=True)

    # ------------------------------------------------------------------ the tree
    async def on_tree_node_expanded(self, event: Tree.NodeExpanded[Branch]) -> None:
        if id(event.node) not in self._shown:
            self.run_worker(partial(self._fill, event.node))

    async def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[Branch]) -> None:
        branch = event.node.data
        if branch is not None and not branch.is_rest and branch != self._branch:
            self._in_turn(partial(self._select, branch))

    async def on_tree_node_selected(self, event: Tree.NodeSelected[Branch]) -> None:
        branch = event.node.data
        if branch is not None and branch.is_rest and event.node.parent is not None:
            self.run_worker(partial(self._fill, event.node.parent))
        elif event.node.allow_expand:
            event.node.toggle()

    async def _fill(self, node: TreeNode[Branch]) -> None:
        """Add the next children of a group."""
        branch = node.data
        assert branch is not None
        known = self._shown.setdefault(id(node), set())
        try:
            found, more = await asyncio.to_thread(values.children, self._found, branch.key, len(known))
        except Exception as error:  # noqa: BLE001 - a line of the tree says it
            node.add_leaf(Text(one_line(error), "red"), Branch(branch.key, False, is_rest=True))
            return
        for child in list(node.children):
            if child.data is not None and child.data.is_rest:
                child.remove()
        for item in found:
            if item.name not in known:
                known.add(item.name)
                text = number(item.leaves or 0, "leaf", "leaves") if item.is_group else item.text
                label = Text(printable(item.name) + ("/" if item.is_group else ""))
                label.append(f"  {text}" if text else "", "dim")
                below = Branch(f"{branch.key}/{item.name}", item.is_group)
                node.add(label, below, allow_expand=item.is_group)
        if more:
            node.add_leaf(Text(more, "italic"), Branch(branch.key, False, is_rest=True))

    # ------------------------------------------------------------------ what is chosen
    async def _select(self, branch: Branch) -> None:
        """Open a leaf or group, and show it."""
        self._branch = branch
        self.thing = self.source = self._asked = self._done = None
        self.top = self.left = 0
        self._samples = {}
        try:
            self.thing = await asyncio.to_thread(self._open, branch)
            if isinstance(self.thing, NDArray):
                self.source = self.thing
                self.page = Page.of(self.source.shape, self.source.dtype, self.source.vlmeta)
        except Exception as error:  # noqa: BLE001 - each pane says it
            for name in _PANES:
                self._show(name, Text(one_line(error), "red"))
            return
        await self._refresh()

    def _open(self, branch: Branch) -> Any:
        if not isinstance(self._found, Store) or not branch.key:
            return self._found
        if branch.is_group and not self._found._hidden_name:
            return f"the group {branch.key}"
        return self._found[branch.key]

    def _show(self, name: str, text: Text) -> None:
        pane = self.query_one(f"#{name}-pane")
        assert isinstance(pane, TextPane)
        pane.show(text)

    async def _refresh(self) -> None:
        """Read what the pane in front shows."""
        name = self.pane
        if self.thing is None:
            return
        try:
            await {"information": self._information, "values": self._values, "statistics": self._statistics,
                   "picture": self._picture}[name]()  # fmt: skip
        except Exception as error:  # noqa: BLE001 - the pane says it, and the viewer lives on
            self._show(name, Text(one_line(error), "red"))

    async def _information(self) -> None:
        if isinstance(self.thing, str):
            self._show("information", Text(printable(self.thing)))
            return
        text = await asyncio.to_thread(information, self.thing, self._path + self._branch.key)
        self._show("information", text)

    def _title(self) -> Text:
        return Text(printable(self._branch.key or self._path) + " " + self.page.text() + "\n", "bold", no_wrap=True)

    def _needs_source(self, name: str) -> NDArray | None:
        if self.source is None:
            self._show(name, Text("no items of an array; 'blosc2 cat' prints lists and super-chunks"))
        return self.source

    async def _values(self) -> None:
        pane = self.query_one("#values-pane", ValuesPane)
        source = self._needs_source("values")
        place = self._place()
        if source is None or not pane.content_size.height or self._done == place:
            return
        self._asked, width = place, pane.width
        try:
            count = values.columns_that_may_fit(source, width)
            cells = await asyncio.to_thread(
                values.read_cells, source, self.page, self.top, self.left, pane.height, count
            )
        finally:
            self._asked = self._done = None
        text, pane.columns = window_text(cells, width, source.dtype.kind)
        pane.show(self._title().append_text(text if cells.texts else Text("no items", "dim")))
        self._done = place

    def _place(self) -> tuple[Any, ...]:
        return self.page, self.top, self.left, self.query_one("#values-pane", ValuesPane).content_size

    async def _picture(self) -> None:
        pane = self.query_one("#picture-pane", TextPane)
        source = self._needs_source("picture")
        size = pane.content_size
        if source is None or not size.height:
            return
        box = 2 * max(1, size.height - 3), max(1, size.width)
        text = await asyncio.to_thread(picture_text, source, self.page, box, self._samples)
        pane.show(self._title().append_text(text))

    async def _statistics(self) -> None:
        source = self._needs_source("statistics")
        if source is None:
            return
        axes = self.page.plane()
        size = decoded_bytes(source, axes)
        if size > MOST_COUNTED:
            self._show("statistics", Text(f"The plane takes {human_size(size)} to read, which is too much."))
            return
        rows = await asyncio.to_thread(values.statistics, source, axes)
        self._show("statistics", self._title().append_text(table_of(rows)))

    # ------------------------------------------------------------------ keys
    def _changed(self) -> None:
        self._in_turn(self._refresh)

    async def on_tabbed_content_tab_activated(self, _: TabbedContent.TabActivated) -> None:
        self.call_after_refresh(self._activated)

    def _activated(self) -> None:
        if self.pane != "values" or self._place() not in (self._asked, self._done):
            self._changed()

    async def on_values_pane_resized(self, _: ValuesPane.Resized) -> None:
        if self._place() not in (self._asked, self._done):
            self._changed()

    async def on_values_pane_moved(self, event: ValuesPane.Moved) -> None:
        pane, source = self.query_one("#values-pane", ValuesPane), self.source
        if source is None:
            return
        before = self.page, self.top, self.left
        if self.page.columns is not None:
            self.page = self.page.scrolled(event.down, event.right, pane.height, pane.columns)
        else:
            rows, columns = values.rows_and_columns(source, self.page)
            self.top = max(0, min(self.top + event.down, rows - pane.height))
            self.left = max(0, min(self.left + event.right, columns - pane.columns))
        if before != (self.page, self.top, self.left):
            self._changed()

    def action_pane(self, name: str) -> None:
        self.query_one("#panes", TabbedContent).active = name
        if name == "values":
            self.query_one("#values-pane").focus()
        else:
            self.branches.focus()

    def action_step(self, by: int) -> None:
        self._move(self.page.stepped(by))

    def action_axis(self, name: str) -> None:
        self._move(getattr(self.page, name)())

    def _move(self, page: Page) -> None:
        if self.source is not None and page != self.page:
            self.page = page
            self._changed()

    def action_go(self) -> None:
        if self.source is not None and self.page.shape:
            self.push_screen(
                Ask(f"Index in {self.page.shape}, such as {', '.join('0' * len(self.page.shape))}:"), self._go
            )

    def _go(self, text: str | None) -> None:
        if not text or self.source is None:
            return
        try:
            page = self.page.went([int(part) for part in text.split(",")])
        except (ValueError, IndexError) as error:
            self.notify(one_line(error), severity="error", markup=False)
            return
        if page.columns is None and page.rows is not None:
            rows, _ = values.rows_and_columns(self.source, page)
            self.top = page.at[page.rows] * rows // max(1, page.shape[page.rows])
        self.page = page
        self._changed()
