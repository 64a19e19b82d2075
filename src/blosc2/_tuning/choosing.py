"""The search: filters first, with a fast codec; then levels and codecs for the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from blosc2._core.codec.codec import Encoder
from blosc2._core.io.sharing import item_of
from blosc2._options import FILTER_SLOTS, GOALS, Codec, Encoding, Filter, encoding_of
from blosc2._tuning.costs import ENCODING, read_time
from blosc2._tuning.samples import CHECKED, SAMPLE, Sample, bytes_sample
from blosc2.storage import AutoCParams, CParams, SplitMode, TunedCParams

#: The widest item that BYTEDELTA takes.
_WIDEST: Final = 127
#: Items up to which blocks are split into a stream for each of their bytes.
_WIDEST_SPLIT: Final = 16
#: Bytes that are tried with the slowest level.
_SLOW: Final = 96 << 10
#: The second best pipeline is tried with it only where it is so close.
_CLOSE: Final = 0.96
#: Pipelines that are tried with the default level, and with slower ones.
_SHORTLIST, _FINALISTS = 4, 2
#: What is not this much smaller is not worth another choice.
_GAIN: Final = 0.995
#: The part of the speed of reading that stays, by goal; the model has errors of a fifth.
_KEPT: Final = {"balanced": 0.8, "size": 0.58}
#: What slower levels have to save with "balanced": 7 takes four times as long to write, 9 twenty times.
_WORTH: Final = {7: 0.985, 9: 0.96}
#: From this part of the bytes on, data count as noise, and are stored; the default would be as large.
_NOISE: Final = 0.995
#: The speed of what is stored as it is: that of memory.
_STORED: Final = 1e10
#: Below this part there is nothing to gain.
_EMPTY: Final = 1 / 400

#: Ratios are alike up to this difference.
_ALIKE: Final = 0.1
#: Kinds of data whose choices are kept, and choices of each.
_MOST_KINDS, _MOST_CHOICES = 256, 4

#: About what the C library takes for a block of bytes.
_BYTES_BLOCK: Final = 128 << 10

Filters = tuple[tuple[Filter, ...], tuple[int, ...]]


class Trial(NamedTuple):
    """What was tried, and what it gave for the sample.

    Attributes
    ----------
    codec, clevel, filters, filters_meta, splitmode
        As in `blosc2.CParams`, without empty slots.
    ratio : float
        Uncompressed bytes divided by compressed bytes.
    read : float
        Bytes that are decoded in a second by one core, as the model says.
    write : float
        Bytes that are compressed in a second, roughly.
    """

    codec: Codec
    clevel: int
    filters: tuple[Filter, ...]
    filters_meta: tuple[int, ...]
    splitmode: SplitMode
    ratio: float = 0.0
    read: float = 0.0
    write: float = 0.0

    @property
    def name(self) -> str:
        """The codec, its level and the filters."""
        if self.clevel == 0:
            return "stored as it is"
        names = [
            one.name.lower() + (f"({meta})" if meta else "")
            for one, meta in zip(self.filters, self.filters_meta, strict=True)
        ]
        return f"{self.codec.name.lower()} {self.clevel}, {' + '.join(names) or 'no filter'}"

    def encoding(self, typesize: int, blocksize: int) -> Encoding:
        """Return the encoding of the candidate for the codec of the C library."""
        filters, metas = self.slots
        return Encoding(
            self.codec.value, 0, self.clevel, False, typesize, blocksize, self.splitmode.value,
            tuple(one.value for one in filters), metas,
        )  # fmt: skip

    @property
    def slots(self) -> Filters:
        """The filters with their empty slots, in front of them as in the defaults."""
        empty = FILTER_SLOTS - len(self.filters)
        return (Filter.NOFILTER,) * empty + self.filters, (0,) * empty + self.filters_meta


class Table(tuple[Trial, ...]):
    """What was tried, as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        rows = [
            f"{trial.ratio:8.2f}x {trial.read / 1e9:9.2f} {trial.write / 1e6:9.0f}  {trial.name}"
            for trial in sorted(self, key=lambda trial: -trial.ratio)
        ]
        return "\n".join([f"{'ratio':>9} {'read GB/s':>9} {'write MB/s':>10}  compressed by", *rows])


class _Search:
    """Trials with one sample, each made once; those with parameters that this build lacks are left out."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.made: dict[Trial, Trial] = {}

    def trial(
        self, codec: Codec, clevel: int, filters: Filters, split: SplitMode = SplitMode.AUTO_SPLIT
    ) -> Trial | None:
        """What these parameters give."""
        asked = Trial(codec, clevel, *filters, split)
        if asked not in self.made:
            size, time = self._measured(self.sample, asked)
            if size is None:
                return None
            self.made[asked] = self._with(asked, size / len(self.sample.data), time)
        return self.made[asked]

    def slow_trial(self, fast: Trial, smaller: Sample) -> Trial | None:
        """What a slow level gives, from a part of the sample and a trial of all of it."""
        asked = fast._replace(clevel=9, ratio=0.0, read=0.0, write=0.0)
        if asked not in self.made:
            size, time = self._measured(smaller, asked)
            other, before = self._measured(smaller, fast)
            if size is None or other is None:
                return None
            whole = len(self.sample.data) * 1e9 / fast.read
            self.made[asked] = self._with(asked, size / other / fast.ratio, whole * time / before)
        return self.made[asked]

    def _with(self, asked: Trial, part: float, time: float) -> Trial:
        speed = 1e9 / ENCODING.get((asked.codec, asked.clevel), ENCODING[Codec.ZSTD, 5])
        return asked._replace(ratio=1 / part, read=len(self.sample.data) * 1e9 / time, write=speed)

    def _measured(self, sample: Sample, asked: Trial) -> tuple[int | None, float]:
        """Compressed bytes and nanoseconds of reading; None where the build lacks the codec or a filter."""
        typesize = sample.default.typesize
        encoding = asked.encoding(typesize, sample.blocksize)
        try:
            chunk = Encoder(encoding).encode_bytes(sample.data)
        except (ValueError, RuntimeError, NotImplementedError):
            return None, 0.0
        time = read_time(chunk, asked.codec.value, encoding.filters, encoding.filters_meta, typesize)
        return len(chunk), time


def default_of(sample: Sample) -> tuple[Codec, int, Filters, SplitMode]:
    """The default of a sample, as `_Search.trial` takes it."""
    given = sample.default
    used = [(Filter(one), meta) for one, meta in zip(given.filters, given.filters_meta, strict=True) if one]
    filters = tuple(one for one, _ in used), tuple(meta for _, meta in used)
    return Codec(given.codec), given.clevel, filters, SplitMode(given.splitmode)


def _pipelines(sample: Sample) -> Iterator[Filters]:
    """Filters that every Blosc2 program has, for items of these widths."""
    itemsize = sample.default.typesize
    yield (), ()
    yield (Filter.BITSHUFFLE,), (0,)
    for width in sample.widths:
        meta = 0 if width == itemsize else width
        if width == 1:
            yield (Filter.BYTEDELTA,), (1,)
            continue
        yield (Filter.SHUFFLE,), (meta,)
        if width <= _WIDEST:
            yield (Filter.SHUFFLE, Filter.BYTEDELTA), (meta, width)


def choose(asked: AutoCParams, sample: Sample, remark: str = "") -> TunedCParams | None:
    """The parameters for these data, or None for the default ones.

    What is taken is never larger than the default, as far as the sample tells. A remark is added to the line that tells
    why.
    """
    remark = remark and f"; {remark}"
    search = _Search(sample)
    if _is_noise(sample):
        stored = Trial(Codec.ZSTD, 0, (), (), SplitMode.AUTO_SPLIT, 1.0, _STORED, _STORED)
        return _tuned(asked, stored, stored, search, f"nothing compresses it{remark}")
    default = search.trial(*default_of(sample)) if sample.data else None
    if default is None:
        return None
    if default.ratio * _EMPTY > 1:
        return _tuned(asked, default, default, search, f"there is nearly nothing to compress{remark}")
    quick = _quick(search)
    fast = asked.goal in ("read", "write") or asked.max_size is not None or asked.min_read is not None
    trials = [*_fast_trials(search, quick), *quick] if fast else quick
    if asked.goal not in ("read", "write"):
        trials = [*trials, *_slower(search, quick, default, _kept(asked))]
    best, reason = _best(asked, sample, trials, default)
    return _tuned(asked, best, default, search, reason + remark)


def _is_noise(sample: Sample) -> bool:
    """Whether nothing compresses a little of each block."""
    thin = sample.thin()
    if not thin.data:
        return False
    search = _Search(thin)
    return all(trial.ratio * _NOISE < 1 for trial in (search.trial(*default_of(thin)), *_quick(search)) if trial)


def _kept(asked: AutoCParams) -> float:
    """The part of the default's speed of reading that has to stay."""
    limited = asked.max_size is not None or asked.min_read is not None
    return 0.0 if limited else item_of(_KEPT, asked.goal) or 0.0


def _quick(search: _Search) -> list[Trial]:
    """Each pipeline with the fastest level, the smallest first."""
    found = [search.trial(Codec.ZSTD, 1, filters) for filters in _pipelines(search.sample)]
    return sorted((trial for trial in found if trial is not None), key=lambda trial: -trial.ratio)


def _split(search: _Search, trial: Trial) -> SplitMode:
    """Streams of their own for each byte of shuffled items, also with the levels that do not split by themselves."""
    shuffled = (Filter.SHUFFLE, 0) in zip(trial.filters, trial.filters_meta, strict=True)
    splits = shuffled and search.sample.default.typesize <= _WIDEST_SPLIT
    return SplitMode.ALWAYS_SPLIT if splits else SplitMode.AUTO_SPLIT


def _slower(search: _Search, quick: list[Trial], default: Trial, kept: float) -> Iterator[Trial]:
    """The default level for the best pipelines, and slower ones for the best of these."""
    usual = [search.trial(Codec.ZSTD, 5, (trial.filters, trial.filters_meta)) for trial in quick[:_SHORTLIST]]
    better = sorted((trial for trial in (default, *usual) if trial is not None), key=lambda trial: -trial.ratio)
    yield from better
    # What is slow to read now stays so with another level.
    better = [trial for trial in better if trial.read >= kept * default.read]
    seen: list[Filters] = []
    best = 0.0
    for trial in better:
        filters = trial.filters, trial.filters_meta
        if filters in seen or trial.codec is not Codec.ZSTD:
            continue
        seen.append(filters)
        if len(seen) > _FINALISTS:
            break
        slow = search.trial(Codec.ZSTD, 7, filters, _split(search, trial))
        if slow is None:
            continue
        yield slow
        if slow.ratio < _CLOSE * best:
            continue
        best = max(best, slow.ratio)
        slower = search.slow_trial(slow, search.sample.part(_SLOW))
        if slower is not None:
            yield slower


def _fast_trials(search: _Search, quick: Iterable[Trial]) -> Iterator[Trial]:
    """Codecs that are faster than zstd, with the filters that suit them."""
    for filters in ((trial.filters, trial.filters_meta) for trial in quick):
        if Filter.BYTEDELTA in filters[0]:  # it makes no matches, which is all that they find
            continue
        for codec, level in ((Codec.LZ4, 5), (Codec.LZ4HC, 9)):
            found = search.trial(codec, level, filters)
            if found is not None:
                yield found


def _best(asked: AutoCParams, sample: Sample, trials: Iterable[Trial], default: Trial) -> tuple[Trial, str]:
    """The best trial for a goal, and why."""
    found = list(dict.fromkeys((default, *trials)))
    if asked.min_read is not None:
        enough = [trial for trial in found if trial.read >= asked.min_read]
        if not enough:
            return max(found, key=lambda trial: trial.read), f"none reaches {asked.min_read / 1e9:g} GB/s"
        return max(enough, key=lambda trial: trial.ratio), f"the smallest of {asked.min_read / 1e9:g} GB/s and more"
    if asked.max_size is not None:
        part = asked.max_size if asked.max_size <= 1 else asked.max_size / max(sample.whole, 1)
        small = [trial for trial in found if 1 / trial.ratio <= part]
        if not small:
            return max(found, key=lambda trial: trial.ratio), f"none is as small as {part:.3g} of the data"
        return max(small, key=lambda trial: trial.read), f"the fastest to read of {part:.3g} of the data and less"
    if asked.goal in ("read", "write"):
        speeds = [getattr(trial, asked.goal) for trial in found]
        near = [trial for trial, speed in zip(found, speeds, strict=True) if speed >= 0.85 * max(speeds)]
        return max(near, key=lambda trial: trial.ratio), GOALS[asked.goal]
    readable = [trial for trial in found if trial.read >= _kept(asked) * default.read or trial is default]
    best = max(readable, key=lambda trial: trial.ratio)
    if asked.goal == "balanced":
        best = max((trial for trial in readable if trial.clevel <= 5), key=lambda trial: trial.ratio)
        for level, worth in _WORTH.items():
            slow = max((one for one in readable if one.clevel == level), key=lambda one: one.ratio, default=best)
            best = slow if best.ratio < worth * slow.ratio else best
    if default.ratio > _GAIN * best.ratio:
        return default, "nothing is smaller"
    return best, GOALS[asked.goal]


def _tuned(asked: AutoCParams, best: Trial, default: Trial, search: _Search, reason: str) -> TunedCParams:
    """Parameters of a trial, with the line that tells of them."""
    if best is default:
        name = best.name if best.clevel == 0 else f"the default, {best.name}"
        why = f"{asked.goal}: {name}, ratio {best.ratio:.2f} ({reason})"
    else:
        size, speed = default.ratio / best.ratio - 1, best.read / default.read
        why = (
            f"{asked.goal}: {best.name}, ratio {best.ratio:.2f}, {size:+.0%} bytes and {speed:.2g}x the speed of "
            f"reading of the default ({reason})"
        )
    filters, metas = best.slots
    return TunedCParams(
        codec=best.codec, clevel=best.clevel, typesize=search.sample.default.typesize, nthreads=asked.nthreads,
        splitmode=best.splitmode, filters=list(filters), filters_meta=list(metas), why=why, for_size=_kept(asked) > 0,
        tried=Table(search.made.values()),
    )  # fmt: skip


def chosen(asked: AutoCParams, kind: Any, sampled: Callable[[int], Sample]) -> TunedCParams | None:
    """The parameters for these data; what was chosen before for such a kind of data is tried first.

    `sampled` gives a sample of so many bytes.
    """
    known: list[TunedCParams] = asked.learned.get(kind, [])
    if known:
        small = sampled(CHECKED)
        for found in known:
            if _suits(found, small):
                return found
    new = choose(asked, sampled(SAMPLE))
    if new is not None:
        if len(asked.learned) >= _MOST_KINDS:
            asked.learned.clear()
        asked.learned[kind] = [new, *known[: _MOST_CHOICES - 1]]
    return new


def chosen_for_bytes(asked: AutoCParams, view: memoryview, default: CParams) -> CParams:
    """The parameters for bytes that are compressed as one buffer, or as chunks of a super-chunk."""
    encoding = encoding_of(default, default.typesize, default.blocksize)
    return choose(asked, bytes_sample(view, default.blocksize or _BYTES_BLOCK, encoding)) or default


def _suits(found: TunedCParams, sample: Sample) -> bool:
    """Whether a choice for other data suits these: both ratios are what they were, within a tenth, in two trials."""
    search = _Search(sample)
    mine = _of_parameters(found)
    now = [search.trial(*one) for one in (mine, default_of(sample))] if sample.data else []
    before = [one for one in found.tried if one[:5] == (mine[0], mine[1], *mine[2], mine[3])], found.tried[:1]
    if len(now) < 2 or not before[0]:
        return False
    return all(one is not None and abs(one.ratio / old[0].ratio - 1) < _ALIKE for one, old in zip(now, before))


def _of_parameters(found: TunedCParams) -> tuple[Codec, int, Filters, SplitMode]:
    """Parameters as `_Search.trial` takes them."""
    used = [(one, meta) for one, meta in zip(found.filters, found.filters_meta, strict=True) if one.value]
    return found.codec, found.clevel, (tuple(one for one, _ in used), tuple(meta for _, meta in used)), found.splitmode
