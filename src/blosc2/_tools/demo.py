"""Convert real images to a store, read it back memory-mapped, check every patch, and time it.

The images are a 4-D brain scan (from the nibabel package) and photographs (from the scikit-image package). Each becomes
a pyramid of tiles: the image itself, and copies of half the size until they are small.
"""

import importlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from blosc2._display import as_text, human_size
from blosc2._functions import asarray
from blosc2._opening import open as open_path
from blosc2._stores import outline
from blosc2.tree_store import TreeStore


class DemoError(Exception):
    """The demo cannot start; the message says what to do about it."""


# ------------------------------------------------------------------ images of installed packages: nothing is downloaded
# Functions of skimage.data that read a photograph from scikit-image's own wheel.
PHOTOGRAPHS = (
    "astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "hubble_deep_field",
    "immunohistochemistry", "moon", "retina", "rocket",
)  # fmt: skip


@dataclass(frozen=True)
class Image:
    """An image and where it goes: its axes are ``spatial`` axes of space first, then channels or time."""

    key: str
    data: np.ndarray[Any, Any]
    spatial: int
    attributes: dict[str, Any] = field(default_factory=dict)


def _required(name: str, distribution: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise DemoError(
            f"the images of the demo are inside the package {distribution!r}, which is not installed; "
            "run: pip install 'python-blosc2[demo]'"
        ) from error


def load_scan() -> Image:
    """Read the 4-D MRI volume that nibabel's tests use: (x, y, z, time), 16-bit integers as stored."""
    nibabel = _required("nibabel", "nibabel")
    path = Path(str(nibabel.__file__)).parent / "tests" / "data" / "example4d.nii.gz"
    if not path.is_file():
        raise DemoError(f"this build of nibabel has no example volume at {path}; install it from PyPI")
    scan = nibabel.load(path)
    step = [float(size) for size in scan.header.get_zooms()]
    length_unit, time_unit = scan.header.get_xyzt_units()
    return Image(
        key="/mri",
        data=np.ascontiguousarray(scan.dataobj.get_unscaled()),
        spatial=3,
        attributes={
            "source": f"nibabel {nibabel.__version__}, tests/data/{path.name}",
            "axes": ["x", "y", "z", "time"],
            "voxel_sizes": step[:3],
            "voxel_unit": length_unit,
            "time_step": step[3],
            "time_unit": time_unit,
            "affine": [[float(number) for number in row] for row in scan.affine],
        },
    )


def load_photograph(name: str) -> Image:
    skimage = _required("skimage", "scikit-image")
    read: Callable[[], np.ndarray[Any, Any]] = getattr(_required("skimage.data", "scikit-image"), name)
    data = np.ascontiguousarray(read())
    return Image(
        key=f"/photos/{name}",
        data=data,
        spatial=2,
        attributes={
            "source": f"scikit-image {skimage.__version__}, skimage.data.{name}()",
            "axes": ["row", "column", "colour"][: data.ndim],
        },
    )


# ------------------------------------------------------------------ an image at all sizes, and its tiles
# A pyramid ends with the first level none of whose spatial axes is longer than this.
SMALLEST = 32

# Longest edge of a chunk and of a block along a spatial axis, by the number of spatial axes. A block is what
# a reader decompresses at least, so it has about the size of a patch: 4096 pixels, 4096 voxels.
CHUNK_EDGE = {2: 256, 3: 48}
BLOCK_EDGE = {2: 64, 3: 16}


def halve(image: np.ndarray[Any, Any], spatial: int) -> np.ndarray[Any, Any]:
    """Average neighbours in pairs along each spatial axis; integers, rounded half up.

    A last plane without a neighbour is averaged with itself; an axis of length 1 stays.
    """
    total = image.astype(np.int64)
    count = 1
    for axis in range(spatial):
        length = total.shape[axis]
        if length == 1:
            continue
        if length % 2:
            total = np.concatenate([total, total.take([-1], axis)], axis)
        before = (slice(None),) * axis
        total = total[(*before, slice(0, None, 2))] + total[(*before, slice(1, None, 2))]
        count *= 2
    return ((total + count // 2) // count).astype(image.dtype)


def pyramid(image: np.ndarray[Any, Any], spatial: int) -> Iterator[np.ndarray[Any, Any]]:
    yield image
    while max(image.shape[:spatial]) > SMALLEST:
        image = halve(image, spatial)
        yield image


def tiles(shape: tuple[int, ...], spatial: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a chunk and of a block for a level of this shape.

    Colours are read together, so they share a block. Volumes in time are read one at a time, so each has
    its own chunks.
    """
    other = shape[spatial:] if spatial == 2 else (1,) * (len(shape) - spatial)
    chunk = tuple(min(length, CHUNK_EDGE[spatial]) for length in shape[:spatial])
    block = tuple(min(length, BLOCK_EDGE[spatial]) for length in chunk)
    return chunk + other, block + other


# ------------------------------------------------------------------ progress
# Seconds between two lines.
_INTERVAL = 5.0


class Progress:
    def __init__(self, task: str, total: int) -> None:
        self._task, self._total, self._done = task, total, 0
        self._shown = time.monotonic()

    def step(self) -> None:
        self._done += 1
        now = time.monotonic()
        if self._done == self._total or now - self._shown > _INTERVAL:
            self._shown = now
            print(f"{self._task}: {self._done} of {self._total}", file=sys.stderr, flush=True)


# ------------------------------------------------------------------ writing
# Marks a store as this program's own, which it may replace when it is run again.
WRITTEN_BY = "python -m blosc2 demo"


def levels(image: Image) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for number, level in enumerate(pyramid(image.data, image.spatial)):
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
    progress = Progress("writing pyramids", total)
    with TreeStore(str(output), mode="w") as store:
        store.attrs["written_by"] = WRITTEN_BY
        for image in images:
            for key, level in levels(image):
                chunks, blocks = tiles(level.shape, image.spatial)
                store[key] = asarray(level, chunks=chunks, blocks=blocks)
            group = store.get_subtree(image.key)
            for name, value in image.attributes.items():
                group.attrs[name] = value
            progress.step()


# ------------------------------------------------------------------ random patches: what a training loop reads
# Edges of a patch along the spatial axes, by their number; the other axes are read in full.
EDGES = {2: (64, 64), 3: (16, 16, 16)}

Box = tuple[slice, ...]


class Level(NamedTuple):
    """What a leaf of the store has to contain, computed from the source image."""

    data: np.ndarray[Any, Any]
    spatial: int


def choose(levels: Mapping[str, Level], count: int, seed: int) -> list[tuple[str, Box]]:
    """Choose patches: each leaf is as likely as any other, each position in it too."""
    rng = np.random.default_rng(seed)
    keys = list(levels)
    chosen = []
    for number in rng.integers(len(keys), size=count):
        level = levels[keys[number]]
        edges = EDGES[level.spatial]
        starts = (int(rng.integers(max(1, length - edge + 1))) for length, edge in zip(level.data.shape, edges))
        chosen.append((keys[number], tuple(slice(start, start + edge) for start, edge in zip(starts, edges))))
    return chosen


def differences(store: Any, levels: Mapping[str, Level], chosen: list[tuple[str, Box]]) -> list[str]:
    """Read patches, compare each with its source bit for bit, and name those that differ; keys too."""
    stored = {f"{path.rstrip('/')}/{name}" for path, _, names in store.walk("/") for name in names}
    wrong = [f"{key}: missing or unexpected" for key in sorted(stored ^ levels.keys())]
    progress = Progress("checking patches", len(chosen))
    for key, box in chosen:
        truth = levels[key].data[box]
        patch = store[key][box] if key in stored else None
        if patch is None or patch.dtype != truth.dtype or patch.tobytes() != truth.tobytes():
            wrong.append(f"{key}[{', '.join(f'{edge.start}:{edge.stop}' for edge in box)}]")
        progress.step()
    return wrong


# ------------------------------------------------------------------ what a store holds
def print_tree(output: Path, store: Any) -> None:
    print(output)
    print(as_text(outline(store)))
    for path, _, _ in store.walk("/"):
        attributes = store.get_subtree(path).attrs[:]
        facts = [attributes["source"]] if "source" in attributes else []
        if "voxel_sizes" in attributes:
            sizes = " x ".join(f"{size:g}" for size in attributes["voxel_sizes"])
            facts.append(f"voxels {sizes} {attributes['voxel_unit']}")
        if facts:
            print(f"{path}: {'; '.join(facts)}")
    total = store.stats("/", 0)[0]
    print(
        f"raw {human_size(total.nbytes)}, compressed {human_size(total.cbytes)}, ratio {total.cratio:.2f}; "
        f"the file {human_size(output.stat().st_size)}"
    )


# ------------------------------------------------------------------ the time of reading
# Rounds alternate between mapped and not, so that both meet the same conditions.
ROUNDS = 7
SECONDS_A_ROUND = 0.25


def _rate(store: Any, chosen: list[tuple[str, Box]]) -> float:
    """Return how many patches a second are read, the look-up of their keys included."""
    start = time.perf_counter()
    for count, (key, box) in enumerate(itertools.cycle(chosen), 1):
        store[key][box]
        if (spent := time.perf_counter() - start) >= SECONDS_A_ROUND:
            return count / spent
    raise ValueError("no patches to read")


def print_rates(output: Path, chosen: list[tuple[str, Box]]) -> None:
    """Read the same patches through a mapping and through a file descriptor; print the medians and the spread."""
    mapped, unmapped = [], []
    with open_path(output, mode="r", mmap_mode="r") as mapped_store, open_path(output, mode="r") as unmapped_store:
        for _ in range(ROUNDS):
            mapped.append(_rate(mapped_store, chosen))
            unmapped.append(_rate(unmapped_store, chosen))
    for mmap_mode, rates in (("'r'", mapped), ("None", unmapped)):
        print(
            f"mmap_mode={mmap_mode:4} {statistics.median(rates):9,.0f} patches a second "
            f"({min(rates):,.0f} to {max(rates):,.0f} in {ROUNDS} rounds)"
        )


# ------------------------------------------------------------------ all of it
def run(output: Path, *, count: int, seed: int) -> int:
    """Run the demo on a ``.b2z`` at ``output``, where nothing may be but what the demo wrote; check ``count`` patches.

    It returns 0 when all that was read equals the source, 1 otherwise.
    """
    check_output(output)
    pictures = [load_scan(), *map(load_photograph, PHOTOGRAPHS)]
    write(output, pictures, total=len(pictures))

    truths = {key: Level(level, picture.spatial) for picture in pictures for key, level in levels(picture)}
    with open_path(output, mode="r", mmap_mode="r") as store:
        wrong = differences(store, truths, choose(truths, count, seed))
        if wrong:
            print("\n".join(f"differs from the source: {what}" for what in wrong[:10]))
            print(f"{len(wrong)} differences in {len(truths)} arrays and {count} patches")
            return 1
        print_tree(output, store)
    print(f"{count} random patches of all levels (seed {seed}) are equal to the source, bit for bit")
    full_size = {key: level for key, level in truths.items() if key.endswith("/level0")}
    print_rates(output, choose(full_size, 1000, seed))
    print(f'open it with: blosc2.open("{output}", mmap_mode="r")')
    return 0
