"""Guided fuzzing by atheris (libFuzzer). `guided.sh TARGET [seconds]` builds what it needs and runs this.

python tests/fuzz/guided.py seeds TARGET FOLDER       the bytes to begin with, and those of the corpus
python tests/fuzz/guided.py run TARGET [libFuzzer's options and folders]
python tests/fuzz/guided.py case TARGET FILE          the case of an input, to be played by run.py
python tests/fuzz/guided.py pack TARGET FOLDER        the inputs of a folder become the corpus
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "fuzz"

SEED_NAME = "seed"


def write_seeds(name: str, folder: Path) -> None:
    from . import targets

    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(targets.TARGETS[name].seeds()):
        (folder / f"{SEED_NAME}-{number:04}").write_bytes(data)
    kept = targets.GUIDED / f"{name}.tar.xz"
    for number, data in enumerate(targets.read_corpus(kept) if kept.exists() else []):
        (folder / f"corpus-{number:04}").write_bytes(data)


def pack(name: str, folder: Path) -> None:
    """What begins with the seeds is in the project already, or made anew."""
    from . import targets

    inputs = [path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(SEED_NAME)]
    kept = targets.GUIDED / f"{name}.tar.xz"
    targets.write_corpus(kept, inputs)
    print(f"{kept}: {len(inputs)} inputs, {sum(map(len, inputs)):,} bytes, {kept.stat().st_size:,} packed")


def write_case(name: str, path: Path) -> None:
    from . import targets

    made = path.with_name(f"{path.name}.case")
    made.write_bytes(targets.TARGETS[name].case(path.read_bytes()).dump())
    print(made)


def run(name: str, options: list[str]) -> None:
    import atheris

    # Metadata and maps are read by Python, whose branches count as well.
    with atheris.instrument_imports(include=["blosc2"]):
        import blosc2
    from . import cases, targets
    from .run import workplace

    blosc2.set_nthreads(1)
    target, folder = targets.TARGETS[name], workplace()

    def one_input(data: bytes) -> None:
        cases.play(target.case(data), folder, lambda call, what: None)

    def changed(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.4:
            return bytes(atheris.Mutate(data, most))
        new = bytearray(data)
        target.mutate(new, rng)
        return bytes(new[:most])

    atheris.Setup([sys.argv[0], *options], one_input, custom_mutator=changed)
    atheris.Fuzz()


def main() -> None:
    what, name, *rest = sys.argv[1:]
    if what == "run":
        run(name, rest)
    else:
        {"seeds": write_seeds, "pack": pack, "case": write_case}[what](name, Path(rest[0]))


if __name__ == "__main__":
    main()
