"""What the C library was built with, and a description of the processor."""

from __future__ import annotations

import os
import platform
from typing import Any, Final

from blosc2._core.codec.codec import compressor_names, library_info
from blosc2._core.io.sharing import item_of
from blosc2._frames import bytes_of
from blosc2._functions.buffers import OLD_HEADER
from blosc2._options import PLUGIN_FORMAT, Support
from blosc2.exceptions import FormatError, UnsupportedValueError
from blosc2.storage import Codec

# Plugins that are part of the C library itself.
_PLUGINS: Final = tuple(codec for codec in Codec if codec.facts.support is Support.ARRAY)
# Format bits of a chunk's flags -> the first codec of that format.
_FORMATS: Final = {codec.facts.format: codec for codec in reversed(Codec) if codec.facts.support is Support.BLOCK}
_NEWEST_VERSION: Final = 6
_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"
_CACHE_NAMES: Final = {("1", "Data"): "l1_data_cache_size", ("2", "Unified"): "l2_cache_size",
                       ("3", "Unified"): "l3_cache_size"}  # fmt: skip

_compressor = Codec.BLOSCLZ


def compressor_list(plugins: bool = False) -> list[Codec]:
    """Return the available codecs.

    Parameters
    ----------
    plugins : bool
        Whether to include codecs that work on the blocks of arrays.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.Codec.ZSTD in blosc2.compressor_list()
    True
    """
    names = compressor_names()
    codecs = [codec for codec in Codec if codec.name.lower() in names]
    return [*codecs, *_PLUGINS] if plugins else codecs


def clib_info(codec: Codec) -> tuple[bytes, bytes]:
    """Return name and version of the library of a codec; the version is ``b"unknown"`` if it has none.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.clib_info(blosc2.Codec.LZ4HC)[0]
    b'LZ4'
    """
    name = _member(codec).name.lower()
    library, version = library_info(name) or (name, "unknown")
    return library.encode(), version.encode()


def get_clib(bytesobj: Any) -> str:
    """Return the name of the library that compressed a chunk.

    Parameters
    ----------
    bytesobj : buffer
        A chunk, or the first 16 bytes of one (32 of one made by a plugin).

    Raises
    ------
    FormatError
        There are fewer bytes, or they are not the header of a chunk.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_clib(blosc2.compress2(bytes(range(200)), codec=blosc2.Codec.LZ4))
    'LZ4'
    """
    header = bytes_of(bytesobj)
    if len(header) < OLD_HEADER or not 1 <= header[0] <= _NEWEST_VERSION:
        raise FormatError("Cannot get the info for the compressor: the bytes do not start with the header of a chunk")
    codec = item_of(_FORMATS, header[2] >> 5)
    if codec is None and header[2] >> 5 == PLUGIN_FORMAT and len(header) > 22:
        codec = next((known for known in Codec if known.value == header[22]), None)
    if codec is None:
        raise FormatError("Cannot get the info for the compressor: the chunk names none that is known")
    return clib_info(codec)[0].decode()


def get_compressor() -> str:
    """Return the name of the codec given to `set_compressor`; initially ``"blosclz"``.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_compressor()
    'blosclz'
    """
    return _compressor.name.lower()


def set_compressor(codec: Codec) -> int:
    """Set the codec that `get_compressor` returns, and return its id.

    It has no other effect: the functions that compress take the codec as a parameter.

    Raises
    ------
    ValueError
        The codec does not compress buffers.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.set_compressor(blosc2.Codec.LZ4), blosc2.get_compressor()
    (1, 'lz4')
    >>> blosc2.set_compressor(blosc2.Codec.BLOSCLZ)
    0
    """
    global _compressor
    if _member(codec) not in compressor_list():
        names = ", ".join(known.name for known in compressor_list())
        raise ValueError(f"{codec.name} does not compress buffers; there are {names}")
    _compressor = codec
    return int(codec.value)


def _member(codec: object) -> Codec:
    if not isinstance(codec, Codec):
        raise UnsupportedValueError(f"codec must be a member of blosc2.Codec, not {codec!r}")
    return codec


def get_cpu_info() -> dict[str, Any]:
    """Describe the processor: ``arch``, ``count``, and the bytes of its caches if the system reports them.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.get_cpu_info()["count"] >= 1
    True
    """
    info: dict[str, Any] = {"arch": platform.machine(), "count": os.cpu_count() or 1}
    number = 0
    while os.path.isdir(f"{_CACHES}/index{number}"):
        level, kind, size = (_first_line(f"{_CACHES}/index{number}/{name}") for name in ("level", "type", "size"))
        number += 1
        name = item_of(_CACHE_NAMES, (level, kind))
        if name is not None and size[:-1].isdigit() and size[-1] in "KM":
            info[name] = int(size[:-1]) << (10 if size[-1] == "K" else 20)
    return info


def _first_line(path: str) -> str:
    """What a file of the kernel says; nothing where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    except OSError:
        return ""
