"""A store in one line, and as HTML."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from blosc2 import _display
from blosc2._stores.shown import outline
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._stores.store import Store

# A directory with more files than this is not counted for one line of text.
_FEW_FILES = 2000


def one_line(store: Any) -> str:
    """Kind, path, mode, leaves and groups, sizes and ratio."""
    name = type(store._owner).__name__
    path = _display.printable(str(store._path or "in memory"))
    where = f"group {_display.printable(store._prefix)!r} of {path}" if store._prefix else path
    if store.closed:
        return f"<{name} {where}, closed>"
    return f"<{name} {where}: {', '.join([*_state(store), *_counts(store)])}>"


def _state(store: Any) -> list[str]:
    state = [f"mode {store.mode!r}"]
    if store.mmap_mode:
        state.append("mapped")
    if store._session.sharing is not None:
        state.append("locking")
    return state


def _counts(store: Any) -> list[str]:
    """How many leaves and groups there are, and their bytes; only that something waits, where counting takes long."""
    waiting = ["unpublished changes"] if store._unpublished else []
    try:
        if not lists_fast(store):
            return waiting
        sums = outline.totals(store, store._prefix)
    except (OSError, FormatError) as error:
        return [f"its keys cannot be listed: {type(error).__name__}", *waiting]
    found = _display.number(sums.leaves, "leaf", "leaves")
    if sums.groups and store._hidden_name:
        found += f" in {_display.number(sums.groups, 'group')}"
    return [found, *_sizes(store, sums), *waiting]


def _sizes(store: Any, sums: outline.Totals) -> list[str]:
    if sums.nbytes is not None and sums.cbytes is not None:
        return [_display.sizes_text(sums.nbytes, sums.cbytes)]
    size = None if store._prefix else _file_size(store)
    return [] if size is None else [f"{_display.human_size(size)} on disk"]


def _file_size(store: Any) -> int | None:
    """The bytes of the file; None if there is none, or more than one."""
    try:
        return os.path.getsize(store._path) if store._path and os.path.isfile(store._path) else None
    except OSError:
        return None


def lists_fast(store: Any) -> bool:
    """Whether listing the keys takes a moment only."""
    return store._backend.lists_cheaply or _has_few_files(store._path)


def _has_few_files(path: str) -> bool:
    """Whether a directory has few files, so that listing them takes a moment only."""
    left, folders = _FEW_FILES, [path] if os.path.exists(path) else []  # a new store may have published nothing
    while folders:
        with suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:  # a writer may remove folders
            for entry in entries:
                left -= 1
                if left < 0:
                    return False
                if not entry.is_dir(follow_symlinks=False):
                    continue
                folders.append(entry.path)
    return True


def html(store: Store) -> str:
    """What a notebook shows: a table, a bar of where the bytes are, and the tree."""
    name = type(store._owner).__name__
    if store.closed:
        return _display.page(f"{name}, closed", _display.definition_table([("path", store._path)]))
    root = outline.outline(store, store._prefix, most_in_group=outline.MOST_IN_GROUP)
    rows: list[tuple[str, object]] = [("path", store._path or "in memory")]
    if store._prefix:
        rows.append(("group", store._prefix))
    rows.append(("mode", ", ".join(_state(store)).removeprefix("mode ")))
    rows += [("contents", text) for text in _counts(store)[:1]]
    size = None if store._prefix else _file_size(store)
    if root.nbytes is not None and root.cbytes is not None:
        rows.append(("leaves", _display.sizes_text(root.nbytes, root.cbytes)))
    if size is not None:
        rows.append(("on disk", _display.human_size(size)))
    if store._unpublished:
        rows.append(("not published yet", "changes since the last flush()"))
    bar = ""
    if root.cbytes:
        bar = _display.byte_bar(
            [(child.name, child.cbytes) for child in root.children if child.is_group and child.cbytes], root.cbytes
        )
    return _display.page(name, _display.definition_table(rows), bar, _display.as_html(root))
