"""Copies of an array, with its metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

from blosc2._arrays.axis_view import ViewHandle
from blosc2._arrays.slabs import converted
from blosc2._arrays.spec import ArrayPlan
from blosc2._frames import PADDING, FrameUpdate, check_declared
from blosc2._handles import FrameHandle, HandleOptions, copy_frame


def copied(array: Any, dtype: Any, kwargs: dict[str, Any]) -> FrameHandle:
    """A copy of an array with these keywords of a constructor.

    Chunks are copied as they are stored, unless something asks for others; then they are made slab by slab.
    """
    handle = array._handle
    dtype = array.dtype if dtype is None else np.dtype(dtype)
    if isinstance(handle, ViewHandle):
        return handle.copied(dtype, kwargs)
    frame = handle.frame
    if kwargs.get("cparams") is None:
        check_declared(frame, array.dtype)
    plan = ArrayPlan(array.shape, dtype, kwargs, array)
    same = (
        dtype == array.dtype and plan.geometry.chunks == array.chunks and plan.geometry.blocks == array.blocks
        and kwargs.get("cparams") is None and "meta" not in kwargs
    )  # fmt: skip
    if same:
        options = HandleOptions(deserialize="full", dparams=plan.keywords.dparams, cparams=plan.cparams)
        return copy_frame(frame, plan.keywords.storage, options)
    source = array._snapshot()
    kept = {name: packed for name, packed in source.frame.metalayers().items() if name not in ("b2nd", PADDING)}
    plan.metalayers = {"b2nd": plan.metalayers["b2nd"], **kept, **plan.metalayers}
    return plan.write(converted(source, plan), vlmeta=FrameUpdate(source.frame).vlmeta)
