"""The viewer, driven by keys as a person drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._arrays import read_picture
from blosc2.ndarray import NDArray

pytest.importorskip("textual")

from textual.widgets import Input

from blosc2._tools.viewer.app import Viewer

SCAN = (np.arange(40 * 300 * 200) % 1000).astype("i2").reshape(40, 300, 200)


class Driver:
    """Presses keys, and waits until all that they asked for is shown."""

    def __init__(self, app: Viewer, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    async def __call__(self, *keys: str) -> str:
        for key in keys:
            await self.pilot.press(key)
            if key != "down":
                await self.settle()
        await self.settle()
        return self.text()

    async def settle(self) -> None:
        """Wait until nothing is asked for any more: an answer may ask for more."""
        for _ in range(3):
            await asyncio.wait_for(self.app.workers.wait_for_complete(), 60)
            await self.pilot.pause(0.02)

    def text(self, name: str = "") -> str:
        pane: Any = self.app.query_one(f"#{name or self.app.pane}-pane")
        return str(pane.text.plain)

    def lines(self) -> list[str]:
        return [str(node.label) for node in self.app.branches.root.children]

    async def leaf(self, name: str) -> None:
        """Move to a leaf right below the root."""
        await self("1", "home")
        labels = self.lines()
        at = next(n for n, label in enumerate(labels) if label.startswith(name))
        await self(*["down"] * (at + 1))


def drive(
    path: Any, play: Callable[[Driver], Awaitable[None]], key: str = "", size: tuple[int, int] = (120, 30)
) -> None:
    """Open a store or array as the command does, and let a test play with it."""

    async def run() -> None:
        found = blosc2.open(str(path), mode="r", mmap_mode="r")
        app = Viewer(found, "data", key)
        app.animation_level = "none"  # else each key waits for it
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot)
            await driver.settle()
            await play(driver)
            assert app.is_running

    asyncio.run(run())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as tree:
        tree["/g/inner/x"], tree["/g/y"] = np.arange(5), np.arange(3)
        tree["/scan"] = blosc2.asarray(SCAN, chunks=(4, 100, 100), blocks=(2, 20, 20))
        tree["/g"].attrs["unit [red]"] = "mm"
        tree["/complex"], tree["/days"] = np.ones((4, 5), "c8"), np.array(["2020-01-02"], "M8[D]")
        tree["/empty"], tree["/zero"] = np.zeros((0, 3)), np.array(7.5)
        tree["/records"] = np.array([(1, b"a\x1b")], [("n", "i4"), ("[red]t", "S2")])
        tree["/text"] = np.array(["[bold]\n\x1b[31m", "日本語"])
        tree["/bytes"] = blosc2.SChunk(data=b"0123456789abcdef" * 4)
        values = blosc2.ObjectArray()
        values.extend([1, "two"])
        tree["/list"] = values
    return path


def test_the_tree_unfolds_when_asked(store: Path) -> None:
    async def play(press: Driver) -> None:
        assert "g/  2 leaves" in press.lines()
        group = press.app.branches.root.children[press.lines().index("g/  2 leaves")]
        assert not group.children
        text = await press(*["down"] * (press.lines().index("g/  2 leaves") + 1))
        assert "unit [red]" in text
        assert "mm" in text
        await press("enter")
        assert [str(node.label) for node in group.children] == ["inner/  1 leaf", "y  (3,) int64"]
        await press("down", "down")
        assert "(3,)" in press.text()
        assert "int64" in press.text()

    drive(store, play)


def numbers(text: str) -> list[list[int]]:
    """The items of a window, by its lines below the two headings."""
    return [[int(part) for part in line.split()[1:]] for line in text.splitlines()[2:]]


def shows(text: str, items: np.ndarray[Any, Any], row: int, column: int) -> tuple[int, int]:
    """Check that a window shows a part of a plane, and return its size."""
    found = np.array(numbers(text))
    height, width = found.shape
    np.testing.assert_array_equal(found, items[row : row + height, column : column + width])
    return height, width


def test_values_are_scrolled_in_any_plane(store: Path) -> None:
    async def play(press: Driver) -> None:
        await press.leaf("scan")
        height, width = shows(await press("2"), SCAN[20], 0, 0)
        assert height > 15
        assert width > 6
        shows(await press("down", "down", "right"), SCAN[20], 2, 1)
        shows(await press("pagedown"), SCAN[20], 2 + height, 1)
        assert "<21 of 40>" in await press(".")
        shows(press.text(), SCAN[21], 2 + height, 1)
        shows(await press(","), SCAN[20], 2 + height, 1)
        text = await press("ctrl+end", "end")
        np.testing.assert_array_equal(np.array(numbers(text)), SCAN[20, -height:, -len(numbers(text)[0]) :])
        shows(await press("ctrl+home", "home"), SCAN[20], 0, 0)
        text = await press("c")  # the first axis goes to the right, and the last is stepped through
        assert "[rows" not in text
        shows(text, SCAN[:, :, 0].T, 0, 0)
        shows(await press("t"), SCAN[:, :, 0], 0, 0)
        shows(await press(">"), SCAN[:, :, 10], 0, 0)
        await press("g")
        press.app.screen.query_one(Input).value = "3, 70, 5"
        shows(await press("enter"), SCAN[:, :, 5], 3, 70)

    drive(store, play)


def test_only_what_is_shown_is_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = NDArray.__getitem__

    def watched(array: Any, index: Any) -> Any:
        found = plain(array, index)
        read.append(int(np.size(found)))
        return found

    monkeypatch.setattr(NDArray, "__getitem__", watched)

    async def play(press: Driver) -> None:
        await press.leaf("scan")
        assert read == []  # the information needs no item
        await press("2")
        width, height = press.app.query_one("#values-pane").content_size
        assert 0 < sum(read) <= height * width // 5
        first = sum(read)
        await press("down")
        assert sum(read) <= 2 * first
        read.clear()
        await press("4")
        size = press.app.query_one("#picture-pane").content_size
        room = 2 * size.height * size.width
        assert 0 < sum(read) <= 16 * SCAN[0].size + room  # with a sample of planes, for their greys
        read.clear()
        await press(".")
        assert 0 < sum(read) <= room
        await press(",")
        read.clear()
        await press("3")
        assert sum(read) == SCAN[0].size

    drive(store, play)


def test_statistics_and_picture(store: Path) -> None:
    async def play(press: Driver) -> None:
        await press.leaf("scan")
        rows = dict(line.split(None, 1) for line in (await press("3")).splitlines()[1:6] if len(line.split()) > 1)
        assert rows["max"] == str(SCAN[20].max())
        assert float(rows["mean"]) == pytest.approx(SCAN[20].mean(), rel=1e-5)
        text = await press("4")
        assert text.count("▀") > 500
        pane: Any = press.app.query_one("#picture-pane")
        size = pane.content_size
        found = blosc2.asarray(SCAN)
        axes = [20, range(300), range(200)]
        picture = read_picture(found, axes, [1, 2], (2 * (size.height - 3), size.width))
        grey = int(picture.pixels[0, 0])
        assert picture.size() in text
        first = pane.text.get_style_at_offset(press.app.console, text.index("▀"))
        assert first.color.triplet.red == grey

    drive(store, play)


@pytest.mark.parametrize(("name", "values", "statistics", "picture"), [
    ("complex", "1+0j", "magnitude", "magnitudes"),
    ("days", "2020-01-02", "NaT", "no grey values"),
    ("empty", "no items", "items  0", "no plane"),
    ("zero", "7.5", "7.5", "no plane"),
    ("records", "[red]t", "[red]t: items", "records have no"),
    ("text", r"[bold]\n\x1b[31m", "longest", "no grey values"),
    ("bytes", "blosc2 cat", "blosc2 cat", "blosc2 cat"),
    ("list", "blosc2 cat", "blosc2 cat", "blosc2 cat"),
])  # fmt: skip
def test_leaves_of_all_kinds(store: Path, name: str, values: str, statistics: str, picture: str) -> None:
    async def play(press: Driver) -> None:
        await press.leaf(name)
        assert "codec" in press.text()
        assert values in await press("2")
        await press(*"rcat,.", "down", "right", "end", "ctrl+end", "pageup")
        assert statistics in await press("3")
        assert picture in await press("4")
        shown = "".join(str(strip.text) for strip in press.app.screen._compositor.render_strips())
        assert "\x1b" not in shown

    drive(store, play)


def test_a_damaged_leaf_is_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "s.b2d"
    items = np.arange(200_000, dtype="i8")
    with blosc2.TreeStore(str(folder), mode="w") as tree:
        tree["/bad"], tree["/good"] = np.arange(1000), np.arange(1000)
        tree["/half"] = blosc2.asarray(items, chunks=(100_000,), blocks=(10_000,))
    (folder / "bad.b2nd").write_bytes(b"no frame")
    file = folder / "half.b2nd"
    data = bytearray(file.read_bytes())
    middle = len(data) * 3 // 4
    data[middle - 400 : middle] = bytes(400)
    file.write_bytes(data)

    async def play(press: Driver) -> None:
        await press.leaf("bad")
        assert press.text().count("\n") == 0
        assert "bad" in press.text()
        for pane in "234":
            assert "b2nd" in await press(pane)
        await press.leaf("good")
        assert "+9" in await press("2")
        await press.leaf("half")
        assert "+9" in await press("2")
        error = await press("3")
        assert "half" in error
        assert error.count("\n") == 0

    drive(folder, play)


def test_a_large_group_shows_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as tree:
        tree.write_many((f"/l{n:06}", np.zeros(1, "u1")) for n in range(100_000))

    async def play(press: Driver) -> None:
        lines = press.lines()
        assert len(lines) == 501
        assert lines[-1] == "… 99,500 more leaves"
        await press("end", "enter")
        lines = press.lines()
        assert len(lines) == 1001
        assert lines[-1] == "… 99,000 more leaves"
        assert lines[999].startswith("l000999")

    drive(path, play)


def test_a_large_plane_is_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    blosc2.zeros((9000, 9000), dtype="u1", urlpath=str(path))

    async def play(press: Driver) -> None:
        assert "MiB to read, which is too much" in await press("3")
        assert "9,000 x 9,000" in await press("4")

    drive(path, play)


def test_an_array_or_a_part_of_a_store(store: Path, tmp_path: Path) -> None:
    blosc2.asarray(SCAN[0], urlpath=str(tmp_path / "a.b2nd"))

    async def array(press: Driver) -> None:
        assert "(300, 200)" in press.text()
        shows(await press("2"), SCAN[0], 0, 0)

    drive(tmp_path / "a.b2nd", array)

    async def group(press: Driver) -> None:
        assert press.lines() == ["inner/  1 leaf", "y  (3,) int64"]

    drive(store, group, "/g")

    async def leaf(press: Driver) -> None:
        assert press.lines() == []
        shows(await press("2"), SCAN[20], 0, 0)

    drive(store, leaf, "/scan")


@pytest.mark.parametrize(("cls", "suffix"), [(blosc2.DictStore, ".b2d"), (blosc2.EmbedStore, ".b2e")])
def test_other_stores(tmp_path: Path, cls: Any, suffix: str) -> None:
    path = tmp_path / f"s{suffix}"
    with cls(str(path), mode="w") as store:
        store["/g/x"], store["/y"] = np.arange(3), np.arange(4)

    async def play(press: Driver) -> None:
        assert "g/  1 leaf" in press.lines()
        await press("down", "enter", "down")
        assert "(3,)" in press.text()

    drive(path, play)


def test_objects_of_other_packages(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as tree:
        description = blosc2.SChunk()
        description.vlmeta["kind"] = "ctable"
        tree["/table/a"], tree["/x"], tree["/table/_meta"] = np.arange(3), np.arange(3), description

    async def play(press: Driver) -> None:
        assert any(label.startswith("table  ctable") for label in press.lines())
        await press.leaf("table")
        assert "ctable, an object of another package" in press.text()
        for pane in "234":
            assert "no items" in await press(pane)
        await press.leaf("x")
        assert "+2" in await press("2")

    drive(path, play)


@pytest.mark.parametrize("size", [(120, 30), (40, 12), (20, 6)])
def test_small_terminals(store: Path, size: tuple[int, int]) -> None:
    async def play(press: Driver) -> None:
        await press.leaf("scan")
        await press(*"234")
        await press.pilot.resize_terminal(100, 40)
        await press.settle()
        shows(await press("2"), SCAN[20], 0, 0)

    drive(store, play, size=size)


def test_q_ends_it(store: Path) -> None:
    async def run() -> None:
        app = Viewer(blosc2.open(str(store), mode="r", mmap_mode="r"), "data")
        async with app.run_test() as pilot:
            await pilot.press("q")
            await pilot.pause()
        assert app.return_code == 0

    asyncio.run(run())
