"""What is done to each kind of file and store, and what must be in it afterwards.

A `Play` does the steps of a story to a file or store and, side by side, to a model of it: a version is a dictionary of
values, or `ABSENT`. It notes when each version was being published and when its publication was over, so that for any
moment the versions are known that a reader may find (`Play.legal`).
"""

from __future__ import annotations

from dataclasses import replace

import blosc2
from faults import FULL
from faults.array_stories import (
    ArrayFile,
    ArrayStory,
    GrownFile,
    ListFile,
    SChunkFile,
    array_story,
    grown_story,
    list_story,
    schunk_story,
    transaction_story,
    vector_story,
)
from faults.paces import PACES
from faults.store_stories import (
    StoreStory,
    _store,
    crowd_story,
    hasty_story,
    ranges_story,
    store_story,
    upkeep_story,
)

Story = ArrayStory | StoreStory


def stories() -> dict[str, Story]:
    """The stories by name, each for one kind."""
    found: dict[str, Story] = {
        "array": array_story(ArrayFile("array.b2nd")),
        "vector": vector_story(ArrayFile("vector.b2nd")),
        "schunk": schunk_story(SChunkFile("items.b2frame")),
        "shared array": array_story(ArrayFile("shared.b2nd", locking=True)),
        "grown array": grown_story(GrownFile("grown.b2nd")),
        "shared grown array": grown_story(GrownFile("sharedgrown.b2nd", locking=True)),
        "array transactions": transaction_story(ArrayFile("blocks.b2nd")),
        "shared array transactions": transaction_story(ArrayFile("sharedblocks.b2nd", locking=True)),
        "sparse array transactions": transaction_story(ArrayFile("sparseblocks.b2nd"), contiguous=False),
        "unsynced array": array_story(ArrayFile("hasty.b2nd", durable=False)),
        "unsynced vector": vector_story(ArrayFile("hastyvector.b2nd", durable=False)),
        "unsynced schunk": schunk_story(SChunkFile("hasty.b2frame", durable=False)),
        "unsynced grown array": grown_story(GrownFile("hastygrown.b2nd", durable=False)),
        "unsynced array transactions": transaction_story(ArrayFile("hastyblocks.b2nd", durable=False)),
        "unsynced list of batches": list_story(ListFile("hasty.b2f", durable=False), blosc2.BatchArray),
        "unsynced array, slow": array_story(ArrayFile("slow.b2nd", durable=False, pace="slow")),
        "unsynced vector, slow": vector_story(ArrayFile("slowvector.b2nd", durable=False, pace="slow")),
        "unsynced vector, changing": vector_story(ArrayFile("changingvector.b2nd", durable=False, pace="changing")),
        "unsynced grown array, slow": grown_story(GrownFile("slowgrown.b2nd", durable=False, pace="slow")),
        "long header": schunk_story(SChunkFile("long.b2frame"), meta={"text": "x" * 700}),
        "sparse vector": vector_story(ArrayFile("row.b2nd"), contiguous=False),
        "sparse array": array_story(ArrayFile("sparse.b2nd"), contiguous=False),
        "sparse schunk": schunk_story(SChunkFile("sparse.b2frame"), contiguous=False),
    }
    for name, cls in (("values", blosc2.ObjectArray), ("batches", blosc2.BatchArray)):
        found[f"list of {name}"] = list_story(ListFile(f"{name}.b2f"), cls)
        found[f"sparse list of {name}"] = list_story(ListFile(f"sparse_{name}.b2f"), cls, contiguous=False)
    found["shared list of batches"] = list_story(ListFile("shared_batches.b2f", locking=True), blosc2.BatchArray)
    kinds = {
        "embed": _store("embed.b2e", blosc2.EmbedStore),
        "dict b2z": _store("dict.b2z", blosc2.DictStore),
        "dict b2d": _store("dict.b2d", blosc2.DictStore),
        "dict b2z tiers": _store("tiers.b2z", blosc2.DictStore, threshold=1000),
        "dict b2d tiers": _store("tiers.b2d", blosc2.DictStore, threshold=1000),
        "tree b2z": _store("tree.b2z", blosc2.TreeStore),
        "tree b2d": _store("tree.b2d", blosc2.TreeStore),
        "tree b2z tiers": _store("treetiers.b2z", blosc2.TreeStore, threshold=1000),
        "tree b2d tiers": _store("treetiers.b2d", blosc2.TreeStore, threshold=1000),
        "tree b2z embedded": _store("embedded.b2z", blosc2.TreeStore, threshold=None),
    }
    shared = {
        "shared embed": _store("sharedembed.b2e", blosc2.EmbedStore, locking=True),
        "shared b2z": _store("shared.b2z", blosc2.TreeStore, locking=True),
        "shared b2d": _store("shared.b2d", blosc2.TreeStore, locking=True, threshold=1000),
    }
    for name, kind in shared.items():
        found[name] = store_story(kind)
    for name, kind in kinds.items():
        found[name] = store_story(kind)
        found[f"{name}, upkeep"] = upkeep_story(kind)
    for name in ("embed", "dict b2d", "dict b2z"):
        found[f"{name}, crowd"] = crowd_story(kinds[name])
    for name in ("tree b2z", "tree b2z tiers"):
        found[f"{name}, ranges"] = ranges_story(kinds[name])
    for pace in PACES:
        for name, kind in kinds.items():
            if kind.at_once and pace != kind.pace:
                paced = replace(kind, pace=pace)
                found[f"{name}, {pace}"] = store_story(paced)
                found[f"{name}, upkeep, {pace}"] = upkeep_story(paced)
    return found


#: What a short run leaves out: a `DictStore` does what a `TreeStore` does with the same files, but for the attributes.
SIMILAR = ("dict b2z tiers", "dict b2d tiers", "tree b2z", "tree b2d", "dict b2z, upkeep", "dict b2d, upkeep",
           "dict b2z tiers, upkeep", "dict b2d tiers, upkeep", "tree b2z tiers, upkeep", "tree b2z tiers, ranges",
           "embed, crowd")  # fmt: skip
#: Of the stories at another pace, what a short run takes.
PACED = (
    "unsynced array, slow",
    "unsynced vector, changing",
    "unsynced grown array, slow",
    "embed, slow",
    "tree b2d, upkeep, changing",
    "tree b2d tiers, slow",
    "tree b2d tiers, upkeep, slow",
)


def chosen_stories() -> list[str]:
    """The names of the stories that this run is to take: all, or some."""
    return [
        name
        for name in stories()
        if FULL or name in PACED or not (name in SIMILAR or name.rpartition(", ")[2] in PACES)
    ]


def hasty_stories() -> dict[str, StoreStory]:
    """Stories that do not wait for the disk."""
    return {story.kind.name: hasty_story(story.kind) for story in stories().values() if isinstance(story, StoreStory)}
