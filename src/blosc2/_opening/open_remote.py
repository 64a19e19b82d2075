"""Opening what is on a server: arrays, super-chunks and stores that are one object there."""

from __future__ import annotations

from typing import Any, Final

from blosc2 import _opening
from blosc2._core.frame.frame import Frame
from blosc2._files import remote_source
from blosc2._handles import FrameHandle, HandleOptions
from blosc2._opening.open_path import opened_object
from blosc2._options import RemotePath

# What archives begin with: a member, or the end of one that has none.
_ARCHIVES: Final = (b"PK\x03\x04", b"PK\x05\x06")


def opened_remote(
    path: RemotePath, offset: int, policy: str, how: dict[str, Any], store_how: dict[str, Any], cparams: Any
) -> Any:
    """What is at a URL, opened to be read. `how` and `store_how` are further options of handles and stores."""
    suffix = path.suffix if offset == 0 else ""
    if suffix == ".b2d":
        raise NotImplementedError(
            f"{path}: a .b2d is a folder of many files, which is not read from servers: pack it with "
            "DictStore.to_b2z, and upload that"
        )
    if suffix not in (".b2e", ".b2z"):
        source = remote_source(path)
        if offset == 0 and source.size >= 4 and source.read(0, 4) in _ARCHIVES:
            suffix = ".b2z"
        else:
            frame = Frame.open(source, offset)
            handle = FrameHandle(frame, HandleOptions("r", None, policy, **how), path)
            return opened_object(handle, "r", cparams)
    return _opening.opened_store(path, suffix, "r", None, policy, store_how, locking=False)
