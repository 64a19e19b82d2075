"""How data is compressed, decompressed and stored: the parameters, their defaults and their checks.

A parameter object is always valid: its fields are checked when it is made, not when the C library uses them. The
functions ``*_from`` take what callers may pass (such an object, a dictionary, or nothing) and return a new, checked
object.
"""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import Enum
from textwrap import indent
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, TypedDict, TypeVar

from blosc2 import _options
from blosc2._core.io.sharing import free_in_child, item_of, remembered
from blosc2._options import (
    FILTER_SLOTS,
    check_modes,
    check_nthreads,
    get_nthreads,
    keep_in_step,
    new_path,
    shares_by_environment,
)
from blosc2._options import Codec as Codec
from blosc2._options import DeserializeMode as DeserializeMode
from blosc2._options import Filter as Filter
from blosc2.exceptions import ParameterError, UnexpectedKeywordError

# Limits of the format and of C-Blosc2, in bytes where they are sizes.
MAX_TYPESIZE = 536866816
MAX_BLOCKSIZE = 536866816
MAX_BUFFERSIZE = 2147483615
MAX_OVERHEAD = 32
MIN_HEADER_LENGTH = 16
EXTENDED_HEADER_LENGTH = 32
MAX_DIM = 16
# Last codec id of each range: of the library itself, of its registered plugins, of users.
DEFINED_CODECS_STOP = 31
GLOBAL_REGISTERED_CODECS_STOP = 159
USER_REGISTERED_CODECS_STOP = 255


class SplitMode(Enum):
    """When to split a block into one stream for each byte of an item."""

    ALWAYS_SPLIT = 1
    NEVER_SPLIT = 2
    AUTO_SPLIT = 3
    FORWARD_COMPAT_SPLIT = 4


class SpecialValue(Enum):
    """Kinds of chunks without stored data."""

    NOT_SPECIAL = 0
    ZERO = 1
    NAN = 2
    VALUE = 3
    UNINIT = 4


class Tuner(Enum):
    """How parameters that are not given are chosen. Only STUNE, the fixed rules of C-Blosc2, is available."""

    STUNE = 0
    BTUNE = 32


_EnumT = TypeVar("_EnumT", bound=Enum)


def _enum(kind: type[_EnumT], value: object, name: str) -> _EnumT:
    if isinstance(value, kind):
        return value
    if isinstance(value, (bool, Enum)) or not hasattr(value, "__index__"):
        meant = value.upper() if isinstance(value, str) else ""
        example = f"{kind.__name__}.{meant if meant in kind.__members__ else list(kind)[1].name}"
        raise TypeError(f"{name} must be a member of blosc2.{kind.__name__} (for instance {example}), not {value!r}")
    try:
        return kind(operator.index(value))
    except ValueError:
        known = ", ".join(f"{member.value} {member.name}" for member in kind)
        raise ParameterError(f"{value} is no {name}; there are {known}") from None


def _integer(value: object, name: str, low: int, high: int) -> int:
    if type(value) is int and low <= value <= high:  # as nearly all are
        return value
    if isinstance(value, (bool, Enum)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    number = operator.index(value)
    if not low <= number <= high:
        raise ParameterError(f"{name} can only be in the {low}-{high} range, not {number}")
    return number


def _sequence(value: object, name: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} must be a list, not {value!r}")
    if len(value) > FILTER_SLOTS:
        raise ValueError(f"the number of {name} exceeds {FILTER_SLOTS}: {len(value)}")
    return list(value)


_TAKING_TYPESIZE: Final = tuple(item for item in Filter if item.facts.takes_typesize)


# An attribute of an enumeration takes its time to be found.
_NOFILTER: Final = Filter.NOFILTER
_STUNE: Final = Tuner.STUNE
_DEFAULT_FILTERS: Final = [_NOFILTER] * (FILTER_SLOTS - 1) + [Filter.SHUFFLE]


def _default_filters() -> list[Filter]:
    return _DEFAULT_FILTERS.copy()


def _default_filters_meta() -> list[int]:
    return [0] * FILTER_SLOTS


#: Fields that are shown where they are used.
_RARE: Final = ("codec_meta", "use_dict", "initial_mapping_size", "meta", "mmap_mode", "locking", "durable")


class _Parameters:
    """What classes of parameters have."""

    def __str__(self) -> str:
        """A line for each field that is not what nobody asked for."""
        given: Any = self
        shown = []
        for item in fields(given):
            value = getattr(self, item.name)
            if item.name == "filters":
                metas = getattr(self, "filters_meta", [0] * len(value))
                value = ", ".join(
                    str(getattr(one, "name", one)) + (f" ({meta})" if meta else "")
                    for one, meta in zip(value, metas, strict=False)
                    if one != Filter.NOFILTER
                )
            if item.name in ("filters_meta", "tuner") or (item.name in _RARE and not value):
                continue
            shown.append(f"{item.name} {getattr(value, 'name', value)}".rstrip())
        return "\n".join(shown)


@dataclass
class CParams(_Parameters):
    """Compression parameters.

    Parameters
    ----------
    codec : Codec or int
    codec_meta : int
        What it is, the table of `Codec` says. Negative numbers are stored as their byte.
    clevel : int
        0 (store only) to 9.
    use_dict : bool
        Let blocks of a chunk share a dictionary.
    typesize : int or None
        Bytes of an item; for arrays, their item size. None means the item size of the data, or 8 if there are no data.
    nthreads : int
    blocksize : int
        In bytes; 0 chooses a size.
    splitmode : SplitMode or int
    filters : list of Filter or int
        Up to six, applied first to last; missing ones are NOFILTER.
    filters_meta : list of int
        One for each filter, 0 to 127; what they are, the table of `Filter` says.
    tuner : Tuner or int

    Raises
    ------
    TypeError, ValueError
        A value is invalid. This is raised when the object is made.

    Examples
    --------
    >>> CParams(codec=Codec.LZ4, filters=[Filter.BITSHUFFLE]).filters[:2]
    [<Filter.BITSHUFFLE: 2>, <Filter.NOFILTER: 0>]
    """

    # Whether they are those of a frame: its array can be copied, even if its codec keeps nothing.
    is_declared = False
    codec: Codec = Codec.ZSTD
    codec_meta: int = 0
    clevel: int = 5
    use_dict: bool = False
    typesize: Any = 8  # an int, or None in what a user gives
    nthreads: int = field(default_factory=get_nthreads)
    blocksize: int = 0
    splitmode: SplitMode = SplitMode.AUTO_SPLIT
    filters: list[Filter] = field(default_factory=_default_filters)
    filters_meta: list[int] = field(default_factory=_default_filters_meta)
    tuner: Tuner = Tuner.STUNE

    def __post_init__(self) -> None:
        # Fields that have what they are to have are left alone: these objects are made for each array.
        if type(self.codec) is not Codec:
            self.codec = _enum(Codec, self.codec, "codec")
        self.codec_meta = _integer(self.codec_meta, "codec_meta", -128, 255) & 0xFF
        self.clevel = _integer(self.clevel, "clevel", 0, 9)
        if self.use_dict not in (False, True):
            raise ValueError(f"use_dict must be True or False, not {self.use_dict!r}")
        self.use_dict = bool(self.use_dict)
        if self.typesize is not None:
            self.typesize = _integer(self.typesize, "typesize", 1, MAX_TYPESIZE)
        self.nthreads = check_nthreads(self.nthreads)
        self.blocksize = _integer(self.blocksize, "blocksize", 0, MAX_BLOCKSIZE)
        if type(self.splitmode) is not SplitMode:
            self.splitmode = _enum(SplitMode, self.splitmode, "splitmode")
        if self.tuner is not _STUNE:
            self.tuner = _enum(Tuner, self.tuner, "tuner")
        if self.tuner is not _STUNE:
            raise ValueError(f"the tuner {self.tuner.name} is not part of this package; use Tuner.STUNE")
        self._set_filters()

    def _set_filters(self) -> None:
        filters = [
            item if type(item) is Filter else _enum(Filter, item, "filter")
            for item in _sequence(self.filters, "filters")
        ]
        # Above 127 C-Blosc2 writes frames that it cannot open again: it reads the byte as a signed one.
        metas = [
            item if type(item) is int and 0 <= item <= 127 else _integer(item, "filters_meta", 0, 127)
            for item in _sequence(self.filters_meta, "filters_meta")
        ]
        if len(filters) > len(metas):
            raise ValueError(
                f"the number of filters cannot exceed number of filters meta: {len(filters)} and {len(metas)}"
            )
        filters += [_NOFILTER] * (FILTER_SLOTS - len(filters))
        metas += [0] * (FILTER_SLOTS - len(metas))
        for slot, item in enumerate(filters):
            if item is not _NOFILTER and item in _TAKING_TYPESIZE and metas[slot] == 0 and self.typesize is not None:
                metas[slot] = _integer(self.typesize, f"typesize under the filter {item.name}", 1, 127)
        self.filters, self.filters_meta = filters, metas


@dataclass
class AutoCParams(CParams):
    """Compression parameters that are chosen from the data, as ``cparams="auto"`` and dictionaries with a goal ask for.

    Other fields are those of `CParams`. They hold where there are no data to choose from, and for what a choice
    leaves open, such as `nthreads`.

    Parameters
    ----------
    goal : {"balanced", "size", "read", "write"}
        Or one of their other names, "auto", "smallest" and "fastest".
    min_read : str or float, optional
        Bytes a second that reading reaches at least, such as "2 GB/s", on one core of the machine that
        `blosc2.tune` was calibrated on; the smallest such choice is taken.
    max_size : str or float, optional
        Compressed bytes at most, such as "10 MB", or up to 1 a part of the uncompressed ones; what is fastest to read
        among these is taken.
    precision : float, str or dict, optional
        The largest error that decoded numbers may have; by default they are exact. See `blosc2.tune`.

    Examples
    --------
    >>> cparams_from("smallest").goal
    'size'
    """

    goal: str = "balanced"
    min_read: Any = None
    max_size: Any = None
    precision: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.goal = _options.goal_named(self.goal)
        if self.min_read is not None and self.max_size is not None:
            raise ValueError("give either min_read or max_size: the other one is what is chosen")
        if self.min_read is not None:
            self.min_read = _options.bytes_of_text(self.min_read, "min_read", per_second=True)
        if self.max_size is not None:
            self.max_size = _options.bytes_of_text(self.max_size, "max_size")
        self.precision = _options.precision_of(self.precision)
        #: What was chosen before for such arrays, by their dtype and shape.
        self.learned: dict[Any, Any] = {}


@dataclass
class TunedCParams(CParams):
    """Compression parameters that were chosen from data; other fields are those of `CParams`.

    Parameters
    ----------
    why : str
        What was chosen, in one line.
    tried : tuple
        What was tried, with `ratio`, and the speeds `read` and `write` in bytes a second; printed, it is a table.
    chunks, blocks : tuple of int, optional
        The shapes that go with it.
    for_size : bool
        Whether chunks that would be smaller with the default parameters get these.
    precision : optional
        How numbers are rounded; by default they are exact.
    """

    why: str = ""
    for_size: bool = False
    tried: Any = field(default=(), repr=False)
    chunks: Any = None
    blocks: Any = None
    precision: Any = None


@dataclass
class DParams(_Parameters):
    """Decompression parameters.

    Parameters
    ----------
    nthreads : int
        The number of threads for large reads.
    """

    nthreads: int = field(default_factory=get_nthreads)

    def __post_init__(self) -> None:
        self.nthreads = check_nthreads(self.nthreads)


@dataclass
class Storage(_Parameters):
    """Where data is stored, and how it is opened.

    Parameters
    ----------
    contiguous : bool, optional
        Whether all chunks lie in one buffer; by default True if there is a file.
    urlpath : str, bytes or path, optional
        The file, in a folder that exists; without it, data is in memory.
    mode : {'r', 'a', 'w', 'x'}
        'w' replaces a file that exists; 'a' and 'x' refuse to. `ObjectArray(...)` and `BatchArray(...)` alone open one,
        to read ('r') or to change ('a').
    mmap_mode : {None, 'r', 'r+', 'w+', 'c'}
        Map the file. It determines `mode`, in this order: r, a, w, a.
    initial_mapping_size : int, optional
        Bytes to map at first, for a mapping that is written.
    locking : bool
        Take an advisory lock around changes, and follow those of other programs. ``BLOSC_LOCKING=1`` in the
        environment asks for it, too, for files that are not mapped.
    meta : dict, optional
        Metalayers, fixed at creation.
    durable : bool
        Whether creating the file, and each change of it, waits for the disk. By default `NDArray.flush` and the end of
        a `NDArray.transaction` do: a process that dies loses nothing, but a power cut may take the changes since then,
        or leave a file that is refused until `salvage` gives back what was flushed. Directories (``contiguous=False``)
        always wait.

    Raises
    ------
    TypeError, ValueError
        When built.
    """

    contiguous: bool | None = None
    urlpath: str | None = None
    mode: str = "a"
    mmap_mode: str | None = None
    initial_mapping_size: int | None = None
    locking: bool = False
    meta: dict[str, Any] | None = None
    durable: bool = False

    def __post_init__(self) -> None:
        self.urlpath = None if self.urlpath is None else new_path(self.urlpath)
        self.contiguous = self.urlpath is not None if self.contiguous is None else bool(self.contiguous)
        self.mode = check_modes(self.mode, self.mmap_mode, self.initial_mapping_size)
        self.locking = bool(self.locking) or (
            not isinstance(self.urlpath, _options.RemotePath) and shares_by_environment(self.urlpath, self.mmap_mode)
        )
        self.durable = bool(self.durable)
        if self.meta is not None and not isinstance(self.meta, dict):
            raise TypeError(f"meta must be a dictionary of names and values, not {self.meta!r}")


# What is used for anything that a caller's keywords or partial dictionary leave out. Users may change these.
_defaults = CParams()
cparams_dflts: dict[str, Any] = {item.name: getattr(_defaults, item.name) for item in fields(CParams)}
dparams_dflts: dict[str, Any] = {}
storage_dflts: dict[str, Any] = {
    item.name: False if item.name == "contiguous" else item.default for item in fields(Storage)
}
keep_in_step(cparams_dflts)
keep_in_step(dparams_dflts)
for _table in (cparams_dflts, dparams_dflts, storage_dflts):  # each compression copies and compares them
    free_in_child(_table)


def cparams_from(
    value: CParams | Mapping[str, Any] | str | None, *, unless_given: Mapping[str, Any] | None = None, **overrides: Any
) -> CParams:
    """Give checked compression parameters, in a new object.

    What a dictionary leaves out comes from `unless_given`, or else from `cparams_dflts`; an object leaves nothing out.
    A text is the goal of a choice: see `AutoCParams`. `overrides` are so whatever the value says, such as the typesize
    of an array.
    """
    if isinstance(value, AutoCParams):
        return replace(value, **overrides)
    if isinstance(value, str):
        if value not in (*_options.GOALS, *_options.ALIASES):
            known = ", ".join(map(repr, _options.ALIASES))
            raise TypeError(f"cparams must be a blosc2.CParams, a dictionary, or a goal such as {known}, not {value!r}")
        value = {"goal": value}
    if isinstance(value, CParams):
        kind = CParams
        given = {item.name: getattr(value, item.name) for item in fields(CParams)}
        # A meta that a filter took from the typesize follows it.
        if overrides.get("typesize", value.typesize) != value.typesize:
            given["filters_meta"] = [
                0 if item.facts.takes_typesize and meta == value.typesize else meta
                for item, meta in zip(value.filters, value.filters_meta, strict=False)
            ]
    else:
        kind = AutoCParams if value is not None and _asks(value) else CParams
        partial = _mapping(value, "cparams", kind)
        given = {**cparams_dflts, **(unless_given or {}), **partial}
        if "filters" in partial and "filters_meta" not in partial:
            given["filters_meta"] = _default_filters_meta()
    made = {**given, **overrides}
    if made["typesize"] is None:
        made["typesize"] = (unless_given or {}).get("typesize") or cparams_dflts["typesize"] or 8
    found = kind(**made)
    found.is_declared = getattr(value, "is_declared", False)
    return found


def asked_for(value: Any) -> AutoCParams | None:
    """The choice that compression parameters ask for; None where they say how to compress."""
    if value is None:
        return None
    if isinstance(value, CParams):
        return value if isinstance(value, AutoCParams) else None
    if isinstance(value, str) or _asks(value):
        found = cparams_from(value)
        assert isinstance(found, AutoCParams)
        return found
    return None


def _asks(value: Any) -> bool:
    """Whether this is a dictionary that asks for a choice."""
    return (type(value) is dict or isinstance(value, Mapping)) and not _GOAL_FIELDS.isdisjoint(value)


#: Keys of a dictionary that ask for a choice.
_GOAL_FIELDS = frozenset({"goal", "min_read", "max_size", "precision"})


def dparams_from(value: DParams | Mapping[str, Any] | None, **overrides: Any) -> DParams:
    """Give checked decompression parameters, in a new object; see `cparams_from`."""
    if isinstance(value, DParams):
        return replace(value, **overrides)
    return DParams(**{**dparams_dflts, **_mapping(value, "dparams", DParams), **overrides})


def storage_from(value: Storage | Mapping[str, Any] | None, **overrides: Any) -> Storage:
    """Give checked storage parameters, in a new object; see `cparams_from`."""
    for name in overrides.keys() - Storage.__dataclass_fields__.keys():
        raise unexpected_keyword(name)
    if isinstance(value, Storage):
        return replace(value, **overrides)
    given = {**_mapping(value, "storage", Storage), **overrides}
    # The default of `contiguous` follows from the path, so it is not the one of the dictionary.
    defaults = {name: default for name, default in storage_dflts.items() if name != "contiguous"}
    return Storage(**{**defaults, **given})


@remembered(8)
def _names_of(kind: type) -> tuple[str, ...]:
    """The names of the fields of a class of parameters."""
    return tuple(item.name for item in fields(kind))


def _mapping(value: object, name: str, kind: type) -> dict[str, Any]:
    """Check that every key of a dictionary names a field."""
    if value is None:
        return {}
    if type(value) is not dict and not isinstance(value, Mapping):
        shown = "CParams" if kind is AutoCParams else kind.__name__
        raise TypeError(f"{name} must be a blosc2.{shown} or a dictionary, not {value!r}")
    known = _names_of(kind)
    for key in value:
        if key in ("chunks", "blocks"):
            raise ValueError(f"{key} cannot be passed in {name}; use the `{key}` argument instead")
        if key in _RENAMED:
            raise NameError(f"`{key}` has been {_RENAMED[key]}")
        if key not in known:
            raise TypeError(f"{key!r} is not a field of {name}; there are {', '.join(sorted(known))}")
    return dict(value)


_RENAMED = {"compcode": "renamed to `codec`", "shuffle": "substituted by `filters`"}


def cparams_of(frame: Any, nthreads: int | None = None) -> CParams:
    """Give the parameters that a frame declares.

    They describe what another program may have written, so they are not checked: codecs and filters that
    are not known here stay the numbers that they are.
    """
    described = CParams(nthreads=get_nthreads() if nthreads is None else nthreads)
    described.is_declared = True
    for name in ("codec_meta", "clevel", "use_dict", "typesize", "blocksize"):
        setattr(described, name, getattr(frame, name))
    described.use_dict = bool(frame.use_dict)
    described.codec = _known(Codec, frame.codec)
    described.splitmode = _known(SplitMode, frame.splitmode)
    described.filters = [_known(Filter, item) for item in frame.filters]
    described.filters_meta = list(frame.filters_meta)
    return described


def _known(kind: type[_EnumT], number: int) -> Any:
    try:
        return kind(number)
    except ValueError:
        return number


# ------------------------------------------------------------------ keywords that many functions take
_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C")


class SChunkKeywords(TypedDict, total=False):
    """What every constructor takes."""

    cparams: CParams | dict[str, Any] | str | None
    dparams: DParams | dict[str, Any] | None
    contiguous: bool | None
    urlpath: Any
    mode: str
    mmap_mode: str | None
    initial_mapping_size: int | None
    locking: bool
    meta: dict[str, Any] | None
    durable: bool
    storage: Storage | dict[str, Any] | None


class ArrayKeywords(SChunkKeywords, total=False):
    """What functions take that make arrays."""

    chunks: int | Sequence[int] | None
    blocks: int | Sequence[int] | None
    layout: str | tuple[Any, ...] | None


SCHUNK_KEYWORDS: Final = tuple(SChunkKeywords.__annotations__)
ARRAY_KEYWORDS: Final = ("chunks", "blocks", "layout", *SCHUNK_KEYWORDS)


class NoKeywords(TypedDict):
    """What a function takes that only explains keywords of others."""


class OpenKeywords(TypedDict, total=False):
    """What is rarely needed to open something.

    Parameters
    ----------
    cparams : CParams or dict, optional
        How to compress what is written from now on.
    dparams : DParams or dict, optional
        How many threads decompress.
    locking : bool
        Change a file or a store together with other programs; see `NDArray.holding_lock` and `DictStore`.
    durable : bool
        Whether each change of an array waits for the disk; see `blosc2.Storage`.
    exclusive : bool
        False changes it without a lock, on file systems without locks.
    timeout : float, optional
        How many seconds to wait for another writer, until `StoreLockedError` names it: an array waits when it is
        changed, with `locking` also when it is opened or read, by default without limit; for stores see `DictStore`.
    initial_mapping_size : int, optional
        Bytes to map at first, for a mapping that is written.
    """

    cparams: CParams | dict[str, Any] | None
    dparams: DParams | dict[str, Any] | None
    locking: bool
    durable: bool
    exclusive: bool
    timeout: float | None
    initial_mapping_size: int | None


_OF_ARRAYS: Final = """\
chunks, blocks : int or sequence of int, optional
    Shapes of the boxes that are compressed one by one, and of those in them that are decompressed alone. By default
    both follow from shape and dtype.
layout : str or tuple, optional
    How the array will be read, instead of `chunks` and `blocks`; see `compute_chunks_blocks`.
"""
_PARAMETERS: Final = """\
cparams : CParams, dict or str, optional
    How to compress. "auto" and other goals of `tune` choose from the data.
dparams : DParams or dict, optional
    How many threads decompress.
"""
_STORAGE: Final = """\
storage : Storage or dict, optional
    The fields from `contiguous` to `durable` together.
"""


def _entries(kind: type[Any]) -> str:
    """What a docstring says of keywords."""
    if kind is ArrayKeywords:
        return _OF_ARRAYS + _entries(SChunkKeywords)
    if kind is SChunkKeywords:
        return _PARAMETERS + _entries(Storage) + _STORAGE
    found = re.search(r"-{10}\n(.*?)\n *(\n *Raises|$)", kind.__doc__ or "", re.DOTALL)
    return "" if found is None else inspect.cleandoc("\n" + found[1]) + "\n"


# What a docstring says of keywords in general.
_ENTRY: Final = re.compile(r"^( *)\*\*kwargs\n(?:\1 +.*\n)+", re.MULTILINE)
#: The functions that take such keywords, by their code and its name, which equal codes may differ in: what they are
#: called, and all that they take.
_taking: dict[tuple[CodeType, str], tuple[str, list[str]]] = {}


def _key_of(code: CodeType) -> tuple[CodeType, str]:
    return code, code.co_qualname


def takes(keywords: type[Any], **defaults: Any) -> Callable[[_F], _F]:
    """Decorate a function whose ``**kwargs`` are these keywords, or the fields of a dataclass: `help` shows each."""
    shared: dict[str, Any] = {field.name: field.default for field in fields(Storage)} | defaults
    if is_dataclass(keywords):
        shared = {field.name: ... if field.default is MISSING else field.default for field in fields(keywords)}
    # Types as short as in the texts: without what is in them.
    types = {
        name: re.sub(r"\[\w+, [^]]*\]+", "", getattr(one, "__forward_arg__", str(one)))
        for name, one in keywords.__annotations__.items()
    }
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=shared.get(name), annotation=types[name]
        )
        for name in (ARRAY_KEYWORDS if keywords is ArrayKeywords else types)
    ]  # fmt: skip
    text = _entries(keywords)

    def decorate(described: _F) -> _F:
        function: Any = vars(described)["__init__"] if isinstance(described, type) else described
        signature = inspect.signature(function)
        own = [each for name, each in signature.parameters.items() if not name.startswith(("_", "kwargs"))]
        more = [each for each in parameters if each.name not in signature.parameters]
        function.__signature__ = signature.replace(parameters=sorted(own + more, key=operator.attrgetter("kind")))
        names = [each.name for each in own + more if each.name != "self" and each.kind != each.VAR_KEYWORD]
        _taking[_key_of(function.__code__)] = function.__qualname__.removesuffix(".__init__"), names
        described.__doc__ = _ENTRY.sub(lambda found: indent(text, found[1]), described.__doc__ or "")
        return described

    return decorate


def documented_as(other: type[Any]) -> Callable[[type[_C]], type[_C]]:
    """Decorate a class that takes what another one takes: errors of wrong arguments name the one that was called."""

    def decorate(described: type[_C]) -> type[_C]:
        described.__doc__ = _ENTRY.sub(lambda found: indent(_entries(other), found[1]), described.__doc__ or "")
        inherited: Any = vars(other)["__init__"]
        # Python takes the name in its errors from the code of a function.
        code = inherited.__code__.replace(co_qualname=f"{described.__qualname__}.__init__")
        own: Any = FunctionType(code, inherited.__globals__, "__init__", inherited.__defaults__, inherited.__closure__)
        own.__kwdefaults__, own.__annotations__ = inherited.__kwdefaults__, inherited.__annotations__
        own.__signature__, own.__qualname__ = inherited.__signature__, code.co_qualname
        _taking[_key_of(code)] = described.__name__, _taking[_key_of(inherited.__code__)][1]
        type.__setattr__(described, "__init__", own)
        return described

    return decorate


def unexpected_keyword(
    name: str, names: Iterable[str] = (), hint: str = "", more: Iterable[str] = ()
) -> UnexpectedKeywordError:
    """The error about a keyword that is not among these: which public function was called, and what is like it.

    `more` are those that it hands on to another package.
    """
    called, taken = _called(sys._getframe(1)) or ("the function", list(names))
    taken = [*taken, *more]
    if not hint:
        close = closest(name, taken)
        hint = f"; {close}" if close else "."
    if name in CParams.__dataclass_fields__:
        hint = f": it belongs into cparams={{{name!r}: ...}}."
    if name == "storage_options":
        hint = ": for what is written to a server, it belongs into the configuration of fsspec, fsspec.config.conf."
    return UnexpectedKeywordError(f"{called}() has no keyword {name!r}{hint} It takes {', '.join(taken)}")


def closest(name: str, names: Iterable[str]) -> str:
    """Ask whether another one of these names was meant; nothing if none is like it."""
    import difflib  # for errors only

    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else ""


def _called(frame: FrameType | None) -> tuple[str, list[str]] | None:
    """The outermost of the functions of this package that are under way, and what it takes."""
    found = None
    while frame is not None and frame.f_globals.get("__name__", "").startswith("blosc2"):
        found = item_of(_taking, _key_of(frame.f_code)) or found
        frame = frame.f_back
    return found
