"""Make the drawings of the guide: python doc/images/diagrams.py"""

from __future__ import annotations

from drawing import Drawing, versions, write


def chunks(d: Drawing) -> None:
    """An array of 4 x 6 blocks in 2 x 2 chunks, and what a slice touches."""
    side, left, top, gap = 44, 24, 40, 8
    d.text(left, 26, "an array", bold=True)
    touched = {(row, column) for row in (0, 1) for column in (1, 2, 3)}
    for row in range(4):
        for column in range(6):
            x, y = left + column * side + gap * (column // 3), top + row * side + gap * (row // 2)
            hit = (row, column) in touched
            d.box(x + 1.5, y + 1.5, side - 3, side - 3, fill="one_fill" if hit else "plain", radius=2)
    for row in (0, 1):
        for column in (0, 1):
            d.box(left + column * (3 * side + gap), top + row * (2 * side + gap), 3 * side, 2 * side, fill="none",
                  line="ink", thick=2)  # fmt: skip
    d.box(
        left + 1.35 * side, top + 0.35 * side, 2.3 * side + gap, 1.2 * side, fill="none", line="two", thick=3, radius=1
    )
    x = left + 6 * side + gap + 30
    d.box(x, 52, 26, 22, fill="none", line="two", thick=3, radius=1)
    d.text(x + 38, 69, "the slice that you read")
    d.box(x, 96, 26, 22, fill="one_fill", radius=2)
    d.text(x + 38, 106, "blocks that it touches:")
    d.text(x + 38, 125, "only these are decoded", colour="muted")
    d.box(x, 148, 26, 22, fill="plain", radius=2)
    d.text(x + 38, 165, "blocks left alone")
    d.box(x, 196, 26, 22, fill="none", line="ink", thick=2)
    d.text(x + 38, 206, "a chunk: what is stored,")
    d.text(x + 38, 225, "and replaced, as a whole", colour="muted")


def mapping(d: Drawing) -> None:
    """The tree of a store, its file, and what one slice reads of it."""
    d.text(24, 28, "a store", bold=True)
    tree = [(0, "/patient"), (1, "007"), (1, "008"), (0, "/masks"), (1, "007"), (1, "... 997 more")]
    for number, (depth, name) in enumerate(tree):
        y = 56 + 24 * number
        if depth:
            d.path((36, y - (17 if number in (1, 4) else 29)), (36, y - 5), (48, y - 5))
        d.text(24 + 30 * depth, y, name, bold=not depth, colour="one" if number == 1 else "ink")
    d.text(210, 28, "its file, mapped once", bold=True)
    parts = [(210, 110, "one_fill"), (320, 70, "plain"), (390, 46, "plain"), (436, 22, "plain"), (458, 22, "plain"),
             (480, 22, "plain"), (502, 34, "two_fill")]  # fmt: skip
    for x, width, fill in parts:
        d.box(x, 44, width, 46, fill=fill, radius=0)
    for x, words in ((265, "007"), (355, "008"), (413, "007")):
        d.text(x, 72, words, anchor="middle", colour="one" if x == 265 else "ink")
    d.text(519, 72, "keys", size=12, anchor="middle")
    d.path((92, 75), (150, 75), (150, 108), (265, 108), (265, 92), colour="one", arrow=True)
    d.text(210, 134, "each leaf is a range of bytes in it", colour="muted")
    d.text(210, 176, 'store["/patient/007"][40:60]', colour="ink")
    for number in range(10):
        d.box(210 + 32.6 * number, 188, 32.6, 22, fill="one_fill" if number in (3, 4, 5) else "plain", radius=0)
    d.text(210, 232, "reads these blocks of one leaf, no others", colour="muted")


def transaction(d: Drawing) -> None:
    """A writer, the file, and two readers, from left to right in time."""
    d.text(24, 44, "writer", bold=True)
    d.box(110, 18, 236, 44, fill="none", line="two", thick=2, dashed=True)
    for number, words in enumerate(("add", "rename", "delete")):
        d.label(118 + 76 * number, 26, 70, 28, words, fill="two_fill", line="two")
    d.text(118, 82, "with store.transaction():", size=13, colour="muted")
    d.path((346, 40), (372, 40), (372, 108), colour="two", thick=2, arrow=True)
    d.text(382, 44, "published in one step", colour="two")
    d.text(24, 131, "the file", bold=True)
    d.label(110, 110, 260, 32, "version 1", fill="plain")
    d.label(372, 110, 164, 32, "version 2", fill="two_fill", line="two")
    d.text(24, 183, "a reader", bold=True)
    d.label(140, 162, 320, 32, "shows version 1", fill="plain")
    d.label(462, 162, 74, 32, "2", fill="two_fill", line="two")
    d.text(134, 183, "open", size=12, anchor="end", colour="muted")
    d.path((461, 222), (461, 198), colour="one", arrow=True)
    d.text(461, 238, "refresh()", anchor="middle", colour="one")
    d.text(24, 275, "a later one", bold=True)
    d.label(420, 254, 116, 32, "version 2", fill="two_fill", line="two")
    d.text(412, 275, "open", size=12, anchor="end", colour="muted")
    d.path((110, 306), (536, 306), arrow=True)
    d.text(536, 324, "time", anchor="end", size=13, colour="muted")


def requests(d: Drawing) -> None:
    """When requests are under way, one by one and together."""

    def row(y: float, x: float, width: float, words: str = "", fill: str = "one_fill") -> None:
        d.box(x, y, width, 18, fill=fill, line="one" if fill == "one_fill" else "line", radius=3)
        if words:
            d.text(x + width / 2, y + 13.5, words, size=12, anchor="middle")

    d.text(24, 28, 'blosc2.open("https://...")', bold=True)
    row(40, 24, 96, "end of the file", "two_fill")
    d.text(134, 54, "one to three requests, however many leaves", size=14, colour="muted")
    d.text(24, 98, "four slices, one by one", bold=True)
    for number in range(4):
        row(110, 24 + 126 * number, 104, "wait")
        row(110, 128 + 126 * number, 16, "", "plain")
    d.text(24, 168, "the same four by read_many", bold=True)
    for number in range(4):
        row(180 + 22 * number, 24, 104, "wait" if number == 0 else "")
    row(180, 130, 48, "", "plain")
    d.text(196, 194, "all are under way together,", size=14, colour="muted")
    d.text(196, 214, "and are decoded as they come", size=14, colour="muted")
    d.path((24, 288), (536, 288), arrow=True)
    d.text(536, 306, "time", anchor="end", size=13, colour="muted")


def loader(d: Drawing) -> None:
    """From the mapped file to the loop of a training."""
    d.label(20, 70, 104, 72, "store", "mapped once", fill="plain")
    for number in range(2):
        y = 40 + 78 * number
        d.label(170, y, 116, 54, f"thread {number + 1}", "reads, decodes", fill="one_fill", line="one", size=14)
        d.path((126, 106), (148, 106), (148, y + 27), (168, y + 27), arrow=True)
        d.path((288, y + 27), (310, y + 27), (310, 106), (330, 106), arrow=True)
    d.text(385, 36, "batches, ahead", anchor="middle", colour="muted", size=14)
    for number, words in enumerate(("batch 6", "batch 5", "batch 4")):
        d.label(334, 46 + 42 * number, 102, 36, words, fill="two_fill", line="two")
    d.path((438, 148), (466, 148), arrow=True)
    d.label(468, 112, 74, 72, "your", "loop", fill="plain")
    d.text(20, 214, "Samples are decoded straight into the batch. The order is the same with", size=14, colour="muted")
    d.text(20, 234, "any number of workers, and a state says where to go on.", size=14, colour="muted")


def formats(d: Drawing) -> None:
    """Which file to take, by three questions."""

    def question(y: float, *lines: str) -> None:
        d.box(20, y, 200, 54)
        for number, words in enumerate(lines):
            d.text(120, y + (32 if len(lines) == 1 else 23 + 19 * number), words, anchor="middle", bold=True)

    def answer(y: float, name: str, words: str) -> None:
        d.label(312, y, 64, 40, name, fill="one_fill", line="one")
        d.text(386, y + 17, words.partition("|")[0], size=13)
        d.text(386, y + 33, words.partition("|")[2], size=13, colour="muted")

    question(20, "How many arrays?")
    d.path((220, 47), (310, 47), arrow=True)
    d.text(262, 40, "one", size=13, anchor="middle", colour="muted")
    answer(27, ".b2nd", "one file, which can grow|plain bytes: .b2frame")
    d.path((120, 74), (120, 104), arrow=True)
    d.text(130, 94, "many", size=13, colour="muted")
    question(106, "Are large ones", "replaced often?")
    d.path((220, 133), (310, 133), arrow=True)
    d.text(262, 126, "yes", size=13, anchor="middle", colour="muted")
    answer(113, ".b2d", "a folder; a large array|is a file of its own")
    d.path((120, 160), (120, 190), arrow=True)
    d.text(130, 180, "no", size=13, colour="muted")
    question(192, "Small values that", "come a few at a time?")
    d.path((220, 219), (310, 219), arrow=True)
    d.text(262, 212, "yes", size=13, anchor="middle", colour="muted")
    answer(199, ".b2e", "one file; no groups|up to 100,000 values")
    d.path((120, 246), (120, 300), (310, 300), arrow=True)
    d.text(130, 270, "no", size=13, colour="muted")
    answer(280, ".b2z", "one file of any number of|arrays; the usual choice")


def append(d: Drawing) -> None:
    """What a change does to a file, and what a reader finds after a kill in each moment."""
    steps = [
        ("before", (), "the old version"),
        ("new data is appended", ("new",), "the old version"),
        ("and brought to the disk", ("new",), "the old version"),
        ("one small write publishes it", ("new", "end"), "the new version"),
    ]
    d.text(24, 26, "the file", bold=True)
    d.text(384, 26, "after a kill it shows", bold=True)
    for number, (words, parts, shown) in enumerate(steps):
        y = 62 + 62 * number
        d.text(24, y - 8, words, size=14, colour="muted")
        d.label(24, y, 150, 30, "old data", size=13)
        d.label(174, y, 40, 30, "end", fill="plain" if "end" in parts else "one_fill", size=13)
        if parts:
            d.label(214, y, 100, 30, "new data", fill="two_fill", line="two", size=13)
        if "end" in parts:
            d.label(314, y, 40, 30, "end", fill="one_fill", line="one", size=13)
        d.text(384, y + 20, shown, colour="one" if "end" in parts else "ink")


def turns(d: Drawing) -> None:
    """Three jobs that change one store in turns."""
    for number, start in enumerate((110, 130, 150)):
        y, turn = 30 + 56 * number, 110 + 116 * number
        d.text(24, y + 20, f"job {number + 1}", bold=True)
        if number:
            d.box(start, y, turn - start, 30, fill="none", dashed=True)
            d.text(start + 10, y + 20, "waits", size=13, colour="muted")
        d.label(turn, y, 112, 30, "its change", fill="two_fill", line="two", size=14)
        d.path((turn + 114, y + 32), (turn + 114, 202), colour="two", arrow=True)
    d.text(24, 224, "the file", bold=True)
    for number in range(4):
        width = 112 if number < 3 else 78
        d.label(
            110 + 116 * number, 204, width, 30, f"version {number + 1}", fill="one_fill" if number else "plain", size=14
        )
    d.path((110, 256), (536, 256), arrow=True)
    d.text(536, 274, "time", anchor="end", size=13, colour="muted")


PICTURES = {
    "chunks": ("A slice touches some blocks of some chunks", 252, chunks),
    "mapping": ("One mapping for a thousand leaves", 250, mapping),
    "transaction": ("A transaction and its readers", 334, transaction),
    "append": ("A change is appended, then published", 300, append),
    "turns": ("Jobs take turns", 284, turns),
    "requests": ("Requests to a server", 316, requests),
    "loader": ("The pipeline of a loader", 250, loader),
    "formats": ("Which format when", 340, formats),
}


def pictures() -> dict[str, str]:
    """All drawings, by the names of their files."""
    made: dict[str, str] = {}
    for name, (title, height, draw) in PICTURES.items():
        made |= versions(name, title, height, draw)
    return made


if __name__ == "__main__":
    write(pictures())
