"""Print what a store holds."""

from pathlib import Path
from typing import Any


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**20:.2f} MiB" if nbytes >= 2**20 else f"{nbytes / 2**10:.1f} KiB"


def print_tree(output: Path, store: Any) -> None:
    """Print groups and leaves, indented by depth, and their sizes before and after compression."""
    raw = compressed = 0
    print(output)
    for path, _, leaves in store.walk("/"):
        depth = len([name for name in path.split("/") if name])
        if depth:
            _print_group(path, depth, dict(store.get_subtree(path).attrs[:]))
        for name in leaves:
            leaf = store[f"{path.rstrip('/')}/{name}"]
            raw += leaf.nbytes
            compressed += leaf.cbytes
            tiling = f"{leaf.shape} {leaf.dtype}, chunks {leaf.chunks}, blocks {leaf.blocks}"
            print(f"{'  ' * (depth + 1)}{name}  {tiling:<75} {_size(leaf.nbytes):>10} -> {_size(leaf.cbytes):>10}")
    print(
        f"raw {_size(raw)}, compressed {_size(compressed)}, ratio {raw / compressed:.2f}; "
        f"the file {_size(output.stat().st_size)}"
    )


def _print_group(path: str, depth: int, attributes: dict[str, Any]) -> None:
    facts = []
    if "source" in attributes:
        facts.append(attributes["source"])
    if "voxel_sizes" in attributes:
        sizes = " x ".join(f"{size:g}" for size in attributes["voxel_sizes"])
        facts.append(f"voxels {sizes} {attributes['voxel_unit']}")
    note = f"  ({'; '.join(facts)})" if facts else ""
    print(f"{'  ' * depth}{path.rsplit('/', 1)[1]}/{note}")
