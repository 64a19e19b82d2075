"""The demo from start to end: write, open mapped, check, describe, time."""

from collections.abc import Iterator
from pathlib import Path

from blosc2._opening import open as open_path
from blosc2._tools.demo import convert, images, patches, report, timing
from blosc2._tools.demo.progress import Progress


def run(output: Path, *, count: int, seed: int) -> int:
    """Run the demo on a store at ``output``; return 0 when all that was read equals the source, 1 otherwise.

    Parameters
    ----------
    output : Path
        The ``.b2z`` file to write. A file that is there already is replaced only if this demo wrote it.
    count : int
        How many random patches to check.
    seed : int
        Makes the choice of patches repeatable.
    """
    convert.check_output(output)
    pictures = list(_load())
    convert.write(output, pictures, total=len(pictures))

    levels = {
        key: patches.Level(level, picture.spatial) for picture in pictures for key, level in convert.levels(picture)
    }
    with open_path(output, mode="r", mmap_mode="r") as store:
        wrong = patches.differences(store, levels, patches.choose(levels, count, seed))
        if wrong:
            print("\n".join(f"differs from the source: {what}" for what in wrong[:10]))
            print(f"{len(wrong)} differences in {len(levels)} arrays and {count} patches")
            return 1
        report.print_tree(output, store)
    print(f"{count} random patches of all levels (seed {seed}) are equal to the source, bit for bit")
    full_size = {key: level for key, level in levels.items() if key.endswith("/level0")}
    timing.print_rates(output, patches.choose(full_size, 1000, seed))
    print(f'open it with: blosc2.open("{output}", mmap_mode="r")')
    return 0


def _load() -> Iterator[images.Image]:
    with Progress("reading images", 1 + len(images.PHOTOGRAPHS)) as progress:
        yield images.load_scan()
        progress.step("scan")
        for name in images.PHOTOGRAPHS:
            yield images.load_photograph(name)
            progress.step(name)
