"""Write the pyramids of all images into one store."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from blosc2._functions import asarray
from blosc2._tools.demo import pyramid
from blosc2._tools.demo.errors import DemoError
from blosc2._tools.demo.images import Image
from blosc2._tools.demo.progress import Progress
from blosc2.tree_store import TreeStore

# Marks a store as this program's own, which it may replace when it is run again.
WRITTEN_BY = "python -m blosc2 demo"


def levels(image: Image) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the key and the content of each level of an image."""
    for number, level in enumerate(pyramid.levels(image.data, image.spatial)):
        yield f"{image.key}/level{number}", level


def check_output(output: Path) -> None:
    """Raise `DemoError` unless the store may be written at this path."""
    if output.suffix != ".b2z":
        raise DemoError(f"--output must end in .b2z: {output}")
    if not output.parent.is_dir():
        raise DemoError(f"there is no directory {output.parent}")
    if output.exists() and not _is_ours(output):
        raise DemoError(f"{output} exists and was not written by this demo: move it, or use --output")


def _is_ours(output: Path) -> bool:
    try:
        with TreeStore(str(output), mode="r") as store:
            return bool(store.attrs.get("written_by") == WRITTEN_BY)
    except (ValueError, RuntimeError, OSError):
        return False


def write(output: Path, images: Iterable[Image], *, total: int) -> None:
    """Write a store with a group for each image: its levels, and in the group's attributes where it comes from."""
    with TreeStore(str(output), mode="w") as store, Progress("writing pyramids", total) as progress:
        store.attrs["written_by"] = WRITTEN_BY
        for image in images:
            for key, level in levels(image):
                chunks, blocks = pyramid.tiles(level.shape, image.spatial)
                store[key] = asarray(level, chunks=chunks, blocks=blocks)
            group = store.get_subtree(image.key)
            for name, value in image.attributes.items():
                group.attrs[name] = value
            progress.step(image.key)
