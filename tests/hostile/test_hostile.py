"""Files broken on purpose: a clear error at the step that the manifest gives, no crash, no hang, little memory.

Each file is read in a worker process with 1 GiB of address space above what it has at the start, so that one that
crashes, hangs or asks for too much is a failing test that bears the file's name.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_kit import limits, manifest
from fixture_kit.drain import STEPS
from fixture_kit.isolated import Worker

import blosc2

# both are far above what any of these files justifies, and far below what they claim
MEMORY = 48 << 20
ADDRESS_SPACE = 256 << 20

ACTIVE = ("value_ext_unknown", "value_ext_cframe", "embed_remote")


@pytest.fixture(scope="module")
def reader() -> Iterator[Worker]:
    worker = Worker("fixture_kit.hostile_worker")
    yield worker
    worker.close()


@pytest.mark.parametrize("entry", manifest.HOSTILE, ids=[Path(e["path"]).name for e in manifest.HOSTILE])
def test_hostile(entry: dict[str, Any], source: str | None, reader: Worker) -> None:
    path = manifest.path_of(entry)
    answer = reader.ask({"path": str(path), "mmap_mode": source})
    what = f"{entry['what']}: {answer}"
    if path.name == "zip_leaf_deflated.b2z":  # it has no key; see `test_a_compressed_leaf_is_no_key`
        assert (answer["step"], answer["error"]) == ("read", None)
        return
    assert answer["error"] is not None, f"accepted; {what}"
    assert STEPS.index(answer["step"]) <= STEPS.index(entry["error_by"]), what

    own, *bases = answer["error"]
    message = answer["message"]
    assert own.startswith("blosc2."), what
    if path.name.startswith("kind_"):
        assert "builtins.NotImplementedError" in bases, what
        kind = path.stem.removeprefix("kind_")
        assert kind in message.lower() or answer["key"] or "lazy" in message.lower(), what
    elif any(name in path.name for name in ACTIVE):
        assert {"builtins.ValueError", "builtins.NotImplementedError"} & set(bases), what
    else:
        assert "builtins.RuntimeError" in bases, what
        assert "blosc2.exceptions.FormatError" in [own, *bases] or "builtins.FileNotFoundError" in bases, what

    assert path.name in message, f"the file is not named; {what}"
    assert answer["key"] is None or answer["key"].lstrip("/") in message, f"the key is not named; {what}"
    assert message.rpartition(path.name)[2].strip(" :,'\""), f"no reason; {what}"
    assert answer["memory"] < MEMORY, what
    assert answer["space"] < ADDRESS_SPACE, what


def test_a_kind_of_object_that_is_not_ours_is_described_and_copied(tmp_path: Path, source: str | None) -> None:
    for name in ("proxy-source", "b2o", "lazyarray", "listarray"):
        path = manifest.ROOT / "hostile" / f"kind_{name}.b2nd"
        x = blosc2.open(str(path), mmap_mode=source)
        assert x.to_cframe() == path.read_bytes()
        assert dict(x.meta)
        assert isinstance(repr(x), str)
        copy = tmp_path / f"{name}-{source}.b2nd"
        x.save(str(copy))
        assert blosc2.open(str(copy)).to_cframe() == path.read_bytes()
        with pytest.raises(NotImplementedError):
            x[0]


def test_a_refused_file_is_let_go(source: str | None) -> None:
    """No descriptor and no mapping is left behind by files that are refused."""
    if not limits.LINUX:
        pytest.skip("counts descriptors and mappings in /proc")

    def try_all() -> None:
        for entry in manifest.HOSTILE:
            if entry["error_by"] == "open":
                with pytest.raises((ValueError, RuntimeError, OSError)):
                    blosc2.open(str(manifest.path_of(entry)), mmap_mode=source)

    try_all()
    gc.collect()
    before = limits.descriptors(), limits.mappings()
    try_all()
    gc.collect()
    assert (limits.descriptors(), limits.mappings()) == before
