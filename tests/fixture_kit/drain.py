"""Read everything that a path holds, step by step, into one digest.

The steps are those of the manifest: open, keys, vlmeta, read. What was being read when an error came is kept,
so that a test can ask whether the message names it.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import blosc2

# above this an array may be one of special chunks that claim much and hold nothing: only its corners are read
WHOLE_LIMIT = 32 << 20
STEPS = ("open", "keys", "vlmeta", "read")


@dataclass
class Outcome:
    """How far the reading of a path came, and what it gave."""

    step: str = "open"
    key: str | None = None
    error: BaseException | None = None
    kind: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    digest: str | None = None


class Drain:
    """One reading of a path; `run` never raises for errors of the package."""

    def __init__(self, path: str, mmap_mode: str | None, *, whole_limit: int = WHOLE_LIMIT) -> None:
        self.path = path
        self.mmap_mode = mmap_mode
        self.whole_limit = whole_limit
        self.outcome = Outcome()
        self._sum = hashlib.sha256()

    def run(self) -> Outcome:
        """Go through all steps until one raises."""
        try:
            self._run()
            self.outcome.digest = self._sum.hexdigest()
        except Exception as error:  # noqa: BLE001 - which errors are right is for the tests to say
            error.__traceback__ = None
            self.outcome.error = error
        return self.outcome

    def _run(self) -> None:
        out = self.outcome
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            x = blosc2.open(self.path, mode="r", mmap_mode=self.mmap_mode)
            out.kind = type(x).__name__
            if not isinstance(x, blosc2.EmbedStore | blosc2.DictStore):
                out.facts = facts(x)
                out.step = "vlmeta"
                self._metadata(x)
                out.step = "read"
                self._data(x)
                return
            with x:
                out.step = "keys"
                keys = sorted(x.keys())
                self._add(keys)
                if isinstance(x, blosc2.TreeStore):
                    self._add(sorted(x.walk()))
                out.step = "vlmeta"
                if isinstance(x, blosc2.TreeStore):
                    self._add(x.vlmeta[:])
                out.step = "read"
                for key in keys:
                    out.key = key
                    leaf = x[key]
                    if isinstance(leaf, blosc2.TreeStore):
                        self._add(leaf.vlmeta[:])
                        continue
                    if isinstance(leaf, blosc2.NDArray | blosc2.SChunk) or hasattr(leaf, "nbytes"):
                        self._add(facts(leaf))
                        self._metadata(leaf)
                    self._leaf_data(leaf)
                out.key = None

    def _add(self, value: Any) -> None:
        """Put a value of metadata into the digest."""
        self._sum.update(_stable(value).encode("utf-8", "surrogatepass"))

    def _metadata(self, x: Any) -> None:
        self._add(dict(getattr(x, "schunk", x).meta))
        self._add(x.vlmeta[:])

    def _leaf_data(self, leaf: Any) -> None:
        """As `_data`; an opaque object in a store is no error of the store."""
        try:
            self._data(leaf)
        except NotImplementedError:
            self._add("opaque")

    def _data(self, x: Any) -> None:
        if isinstance(x, blosc2.NDArray):
            if x.nbytes <= self.whole_limit:
                self._sum.update(np.ascontiguousarray(x[()]).tobytes())
            else:
                corner = tuple(slice(0, 2) for _ in x.shape)
                self._sum.update(np.ascontiguousarray(x[corner]).tobytes())
                self._sum.update(np.ascontiguousarray(x[tuple(slice(-2, None) for _ in x.shape)]).tobytes())
        elif isinstance(x, blosc2.SChunk):
            if x.nbytes > self.whole_limit:
                self._sum.update(x.get_slice(0, 2) + x.get_slice(len(x) - 2, len(x)))
                return
            for n in range(x.nchunks):
                self._sum.update(x.decompress_chunk(n))
            self._sum.update(x[:])
        elif type(x).__name__ == "BatchArray":
            self._add([list(batch) for batch in x])
        elif type(x).__name__ == "ObjectArray":
            self._add(list(x))
        else:
            x[0]  # an opaque object, which must refuse


def facts(x: Any) -> dict[str, Any]:
    """What must survive damage to the payload."""
    schunk = getattr(x, "schunk", x)
    out = {"kind": type(x).__name__, "nbytes": int(x.nbytes), "nchunks": getattr(schunk, "nchunks", None)}
    if isinstance(x, blosc2.NDArray):
        out |= {"shape": list(x.shape), "dtype": str(x.dtype), "chunks": list(x.chunks), "blocks": list(x.blocks)}
    return out


def _stable(value: Any) -> str:
    """A text that is the same whenever the value is, NaN and the order of sets included."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_stable(k)}:{_stable(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return type(value).__name__ + "[" + ",".join(_stable(v) for v in value) + "]"
    if isinstance(value, set | frozenset):
        return "set[" + ",".join(sorted(_stable(v) for v in value)) + "]"
    if isinstance(value, np.ndarray):
        data = str(value.tolist()) if value.dtype == object else value.tobytes().hex()
        return f"ndarray({value.dtype},{value.shape},{data})"
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if hasattr(value, "to_cframe"):
        return value.to_cframe().hex()
    return repr(value)
