"""Reading selections of many leaves of a store in one call, such as a data loader's batch from many volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from blosc2._core.ndim.grid_read import work_of
from blosc2._core.ndim.grid_read_many import ReadMany, ReadTogether
from blosc2._indexing import Items, Reader, Selection, Version, basic_selection, check_out, planned, reading
from blosc2._options import get_nthreads, run, worth_threads
from blosc2._stores.leaves.ask_ahead import ask_for_heads
from blosc2.ndarray import NDArray

if TYPE_CHECKING:
    from blosc2._stores.store import Store


class _Leaf:
    """The selections of one array that a batch reads.

    Attributes
    ----------
    key : str
    version : tuple
        Geometry, dtype and frame.
    positions : list of int
        The numbers of its items in the batch.
    shapes : dict
        The shape of each, by that number.
    """

    def __init__(self, key: str, version: Version, positions: list[int], selections: list[Any], nthreads: int) -> None:
        self.key, self.version, self.positions = key, version, positions
        geometry, _, frame = version
        self.operation = ReadMany(frame, geometry, selections, self._selection)
        left_out = set(self.operation.others)
        self.shapes = {
            position: self.operation.shape_of(i) for i, position in enumerate(positions) if i not in left_out
        }
        self.readers: dict[int, Reader] = {
            positions[i]: reading(version, selections[i], nthreads) for i in self.operation.large
        }
        for i in left_out:
            shape, reader = named(positions[i], key, planned, version, selections[i], nthreads)
            self.shapes[positions[i]], self.readers[positions[i]] = shape, reader

    def _selection(self, number: int, key: Any) -> Selection | None:
        found: Selection | None = named(self.positions[number], self.key, basic_selection, key, self.version[0].shape)
        return found


def named(number: int, key: str, function: Any, *arguments: Any) -> Any:
    """Call a function. Its errors name the item of the batch and its key."""
    try:
        return function(*arguments)
    except (IndexError, TypeError, ValueError) as error:
        where = f"item {number} of the batch, a selection of {key!r}"
        if type(error) not in (IndexError, TypeError, ValueError):  # its constructor may take other arguments
            error.add_note(where)
            raise
        raise type(error)(f"{where}: {error}") from error


def read_selections(
    store: Store, items: list[Any], out: Items | None, nthreads: int | None = None
) -> Items | list[Items]:
    """The items of pairs of key and selection; see `Store.read_many`."""
    nthreads = get_nthreads() if nthreads is None else nthreads
    leaves = _leaves(store, items, nthreads)
    shapes: dict[int, tuple[int, ...]] = {}
    dtypes: dict[int, np.dtype[Any]] = {}
    for leaf in leaves:
        shapes.update(leaf.shapes)
        dtypes.update(dict.fromkeys(leaf.positions, leaf.version[1]))
    unlike = [i for i in range(len(items)) if shapes[i] != shapes[0] or dtypes[i] != dtypes[0]]
    if out is not None:
        if unlike:
            i = unlike[0]
            raise ValueError(
                f"item {i} of the batch, of {items[i][0]!r}, has shape {shapes[i]} and dtype {dtypes[i]}, and item 0, "
                f"of {items[0][0]!r}, {shapes[0]} and {dtypes[0]}: they do not fit into one array"
            )
        check_out(out, (len(items), *shapes[0]), dtypes[0])
    elif not unlike:
        out = np.empty((len(items), *shapes[0]), dtypes[0])
    rows = [np.empty(shapes[i], dtypes[i]) if out is None else out[i, ...] for i in range(len(items))]
    _read(leaves, rows, nthreads)
    return rows if out is None else out


def _leaves(store: Store, items: list[Any], nthreads: int) -> list[_Leaf]:
    """The selections of each array, in the order of their first items. Nothing is decoded yet."""
    wanted: dict[int, tuple[str, NDArray, list[int]]] = {}
    ask_for_heads(store, items)
    for number, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2 or not isinstance(item[0], str):
            raise TypeError(f"item {number} of the batch is no pair of a key and a selection")
        key = item[0]
        try:
            leaf = store[key]
        except Exception as error:
            error.add_note(f"item {number} of the batch")
            raise
        if not isinstance(leaf, NDArray):
            raise TypeError(f"item {number} of the batch: {key!r} is a {type(leaf).__name__}, not an array")
        # While a leaf is held, all its keys give the same object; `wanted` holds it.
        wanted.setdefault(id(leaf), (key, leaf, []))[2].append(number)
    found = []
    for key, leaf, positions in wanted.values():
        version: Version = leaf._handle.array  # type: ignore[assignment]  # set by `_of`
        found.append(_Leaf(key, version, positions, [items[position][1] for position in positions], nthreads))
    return found


def read_parts(parts: list[tuple[str, Version, Any]], rows: list[Items], nthreads: int) -> None:
    """Read selections of many arrays, each into an array of its own of any strides.

    Parameters
    ----------
    parts : list of tuple
        A name for errors, the version of an array (geometry, dtype, frame), and what is selected.
    rows : list of ndarray
        One for each part, of the shape of the selection and the dtype of the array.
    """
    wanted: dict[int, tuple[str, Version, list[int]]] = {}
    for position, (name, version, _) in enumerate(parts):
        wanted.setdefault(id(version[2]), (name, version, []))[2].append(position)
    leaves = [
        _Leaf(name, version, positions, [parts[position][2] for position in positions], nthreads)
        for name, version, positions in wanted.values()
    ]
    _read(leaves, rows, nthreads)


def _read(leaves: list[_Leaf], rows: list[Items], nthreads: int) -> None:
    """Read: all threads share an array that is most of the work; others are read side by side."""
    prepared: list[tuple[int, _Leaf]] = []
    for leaf in leaves:
        operation, count = leaf.operation, len(leaf.positions)
        operation.into_rows([rows[position] for position in leaf.positions])
        first = operation.prepare(0)
        while first < count:  # more than fits into memory at a time
            run(operation, work_of(operation.touched_nbytes, leaf.version[2]), nthreads)
            first = operation.prepare(first)
        prepared.append((work_of(operation.touched_nbytes, leaf.version[2]), leaf))
    total = sum(work for work, _ in prepared)
    threads = nthreads if worth_threads(total) else 1
    alone = [leaf for work, leaf in prepared if threads > 1 and work * threads > total]
    for leaf in alone:
        leaf.operation.run(threads)
        leaf.operation.finish()
    # The largest first, so that no thread begins a large one when the others end.
    prepared.sort(key=lambda pair: -pair[0])
    together = ReadTogether([leaf.operation for _, leaf in prepared if leaf not in alone])
    together.run(threads)
    together.finish()
    for leaf in leaves:
        for position, reader in leaf.readers.items():
            reader(rows[position][...])
