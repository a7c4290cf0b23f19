"""A device's profile from the seconds of probes: each rate in turn, with those found before it taken off.

What cannot be built or timed leaves its default, and is named in the profile's source. A vendor's device is calibrated
as the host is, by regions that its backend would be given: what it refuses is not asked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from byoc.base.progress import Progress, silent
from byoc.driver.costs.borders import LEAST, doubled, multiplied, spread, summed, with_borders
from byoc.driver.costs.probes import (
    CHAIN,
    CHANNELS,
    DEEP,
    IMAGE,
    LARGE,
    MIDDLE,
    NARROW,
    NORM,
    ROWS,
    SMALL,
    SQUARE,
    TINY,
    VECTOR,
    WIDTH,
    Probe,
    Step,
    by_annotation,
    by_nothing,
    by_pool,
    probes,
)
from byoc.driver.costs.regions import as_region
from byoc.driver.costs.timing import TURNS, Build, Clock, Run, Turns, interleaved, ready
from byoc.errors import UserError
from byoc.partition.costs.analytic import winograd_seconds
from byoc.partition.costs.model import HOST_BACKEND
from byoc.partition.costs.profile import Memory, Profile
from byoc.partition.costs.work import ProductWork
from byoc.relay.expr import Function

ITEM = 4
FASTEST = 16.0  # times its default: more is not believed, the step was too short to be distinguished from nothing
ATTEMPTS = 4  # at timing the probes, before those that make no sense are left out
SENSIBLE = (0.25, 1.5)  # times the share of a function's seconds that its further steps should have
BUSY = "the machine was busy with something else"
REFUSED = "the backend does not take it"
LATE = "there was no time left"
NOTHING = "typical numbers alone: "
INCOMPLETE = (BUSY, LATE)  # what measuring again may help
TIMING = 0.2  # of the time that is left: for the probes that were built to be timed
BORDER_PROBES = "launches and transfers"
BORDERS = (2 << 20, 32 << 20)  # bytes of nearer memories where the machine reports none


@dataclass
class Sheet:
    """The seconds of a step by the name of its probe, and what could not be had, with the reason."""

    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def beyond(self, name: str, taken: float) -> float | None:
        """The seconds of a step of *name* without those *taken* by something else; None where it is not known."""
        found = self.seconds.get(name)
        return None if found is None else max(found - taken, LEAST)


class Calibrator:
    """What the device of *backend* can do, with *base* for what cannot be measured.

    *caches* are the bytes of its nearer memories. *progress* is called with the probe that is built, and with each
    round of timing; what is not built or timed at *until*, by *clock*, is left out.
    """

    progress: Progress = staticmethod(silent)
    until: float = math.inf

    def __init__(
        self,
        backend: str,
        build: Build,
        base: Profile,
        caches: Sequence[int] = (),
        threads: int | None = None,
        turns: Turns = TURNS,
        clock: Clock = time.perf_counter,
    ):
        self._backend, self._base, self._caches = backend, base, caches
        self._build, self._threads, self._turns, self._clock = build, threads, turns, clock
        self._sheet = Sheet()
        self._taken: dict[tuple[Probe, Step], bool] = {}
        threads_text = f" ({threads} thread{'s' if threads > 1 else ''})" if threads and backend == HOST_BACKEND else ""
        self._title = f"calibrating {backend}{threads_text}"

    def profile(self) -> Profile:
        """The profile. Where something else keeps the machine busy the probes are timed again. The source of the
        profile names what is as in *base*, and why: ``is_incomplete`` where that was no help, or the time was over.
        Raises UserError where nothing at all can be built.
        """
        start = self._clock()
        if start > self.until:
            return replace(self._base, device=self._backend, source=f"{NOTHING}{LATE}")
        sheet, host = self._sheet, self._backend == HOST_BACKEND
        asked = probes(channels_last=host)
        self.progress(f"{self._title}")
        runs = self._runs(asked, by_annotation if host else self._apart(asked))
        if not runs and LATE not in sheet.failed.values():
            why = next((why for why in sheet.failed.values() if why != REFUSED), "it takes none of the probes")
            raise UserError(f"backend {self._backend!r} cannot be calibrated: {why}")
        self.until = max(self.until, self._clock() + TIMING * (self.until - start))  # what was built is not in vain
        found: dict[str, float] = {}
        for attempt in range(1, ATTEMPTS + 1):
            again = self._timed(runs, f"timing {len(runs)} functions, attempt {attempt} of at most {ATTEMPTS}")
            found = {name: min(again.get(name, math.inf), found.get(name, math.inf)) for name in {**found, **again}}
            if not senseless(found, asked) or self._clock() > self.until:
                break
        late = [p.name for p in asked if p.name not in sheet.failed and not set(_both(p.name)) <= found.keys()]
        sheet.failed.update(dict.fromkeys(late, LATE))
        sheet.failed.update(dict.fromkeys(senseless(found, asked), BUSY))
        sheet.seconds.update(steps_of(found, [p for p in asked if p.name not in sheet.failed]))
        profile = solve(sheet, self._base, self._caches) if sheet.seconds else self._base
        if not host:
            profile = self._with_borders(profile)
        return replace(profile, device=self._backend, source=self._source())

    def _source(self) -> str:
        """What is lacking, and the reasons for which measuring it again may help."""
        failed = [name for name, why in self._sheet.failed.items() if why != REFUSED]
        reasons = [why for why in INCOMPLETE if why in self._sheet.failed.values()]
        if not self._sheet.seconds:
            return f"{NOTHING}{' and '.join(reasons)}"
        lacking = f", without {', '.join(failed)}" if failed else ""
        return f"calibrated{lacking}" + (f": {' and '.join(reasons)}" if reasons else "")

    def _timed(self, runs: Mapping[str, Run], what: str) -> dict[str, float]:
        self.progress(f"{self._title}: {what}")

        def report_step(step: str) -> None:
            self.progress(f"{self._title}: {what}, {step}")

        return interleaved(runs, self._turns, self._clock, self.until, report_step)

    def _runs(self, asked: Sequence[Probe], apart: Step) -> dict[str, Run]:
        """Each probe with one step and with many, ready; what could not be had is on the sheet with the reason."""
        runs: dict[str, Run] = {}
        now = self._clock()
        until = now + (1 - TIMING) * (self.until - now)
        for number, probe in enumerate(asked):
            if not self._takes_probe(probe, apart):
                self._sheet.failed[probe.name] = REFUSED
                continue
            if self._clock() > until:
                self._sheet.failed[probe.name] = LATE
                continue
            self.progress(f"{self._title}: {probe.name}, {number + 1} of {len(asked)}")
            try:
                pair = [self._ready(probe.function(n, apart)) for n in (1, 1 + probe.more)]
            except UserError as error:
                self._sheet.failed[probe.name] = str(error)
                continue
            runs.update(zip(_both(probe.name), pair, strict=True))
        return runs

    def _apart(self, asked: Sequence[Probe]) -> Step:
        """What keeps steps apart in a region: a pool, unless that costs probes."""
        return max((by_pool, by_nothing), key=lambda apart: sum(self._takes_probe(p, apart) for p in asked))

    def _takes_probe(self, probe: Probe, apart: Step) -> bool:
        if (probe, apart) not in self._taken:
            self._taken[probe, apart] = self._takes(probe.function(1, apart))
        return self._taken[probe, apart]

    def _takes(self, function: Function) -> bool:
        """Whether the backend would be given all of *function*: nothing else is built, as nothing else will run."""
        return self._backend == HOST_BACKEND or as_region(function, self._backend) is not None

    def _ready(self, function: Function) -> Run:
        mod = None if self._backend == HOST_BACKEND else as_region(function, self._backend)
        return ready(function, self._backend, self._build, self._threads, mod)

    def _with_borders(self, profile: Profile) -> Profile:
        """A launch, and transfers: of regions that get little, much or two things, or give much; the host's call off.
        Of *profile* itself where the backend does not take what would measure it.
        """
        kinds: tuple[Callable[..., Function], ...] = (summed, doubled, multiplied)
        little = next((f for f in kinds if self._takes(f(TINY))), None)
        if little is None:
            return profile
        asked = {"little": little(TINY)}
        if not math.isinf(profile.upload):
            asked.update({"much": little(MIDDLE), "two": little(TINY, 2), "given": spread()})
        if not all(map(self._takes, asked.values())):
            return profile
        if self._clock() > self.until:
            self._sheet.failed[BORDER_PROBES] = LATE
            return profile
        self.progress(f"{self._title}: {BORDER_PROBES}")
        try:
            runs: dict[str, Run] = {"host": ready(little(TINY), HOST_BACKEND, self._build, self._threads)}
            runs.update({name: self._ready(function) for name, function in asked.items()})
        except UserError:
            return profile
        found = self._timed(runs, BORDER_PROBES)
        if found.keys() != runs.keys():
            self._sheet.failed[BORDER_PROBES] = LATE
            return profile
        return with_borders(profile, found)


def is_incomplete(profile: Profile) -> bool:
    """Whether something of *profile* is a default that measuring it again may find."""
    return profile.source.endswith(INCOMPLETE)


def is_typical(profile: Profile) -> bool:
    """Whether nothing of *profile* could be measured."""
    return profile.source.startswith(NOTHING)


def _both(name: str) -> tuple[str, str]:
    """The names of a probe's two functions: with one step and with many."""
    return f"{name} 1", f"{name} n"


def senseless(found: Mapping[str, float], asked: Iterable[Probe]) -> list[str]:
    """The probes whose further steps took too small or too large a share of the time, or none at all."""
    names = []
    for probe in asked:
        if not set(_both(probe.name)) <= found.keys():
            continue
        once, often = (found[name] for name in _both(probe.name))
        least, most = (bound * probe.more / (1 + probe.more) for bound in SENSIBLE)
        share = (often - once) / often
        if not (0.0 if probe.is_slight else least) < share < most:
            names.append(probe.name)
    return names


def steps_of(found: Mapping[str, float], asked: Iterable[Probe]) -> dict[str, float]:
    """The seconds of one step of each probe that was timed with one and with many."""
    return {
        p.name: max((found[f"{p.name} n"] - found[f"{p.name} 1"]) / p.more, LEAST)
        for p in asked
        if set(_both(p.name)) <= found.keys()
    }


def solve(sheet: Sheet, base: Profile, caches: Sequence[int] = ()) -> Profile:
    """The profile that explains the seconds of *sheet*; what is missing there is as in *base*."""
    kernel, count = sheet.seconds.get("kernel", base.kernel), math.prod(SMALL)
    chain = sheet.beyond("pointwise", sheet.seconds["near"]) if "near" in sheet.seconds else None
    profile = replace(base, kernel=kernel, pointwise=_rate(chain, (2 * CHAIN - 1) * count, base.pointwise))
    profile = replace(profile, memories=_memories(sheet, profile, caches))
    for rule in (_products, _steps, _convolutions, _windows, _winograd):
        profile = rule(sheet, profile, base)
    return profile


def _moved(profile: Profile, elements: int, item: int = ITEM) -> float:
    """The seconds of a kernel that reads and writes *elements*."""
    return profile.kernel + 2 * item * elements / profile.bandwidth(2 * item * elements)


def _memories(sheet: Sheet, profile: Profile, caches: Sequence[int]) -> tuple[Memory, ...]:
    """Nearest first; a farther memory is no faster than a nearer one. The last is also where constants stream from."""
    borders = [*caches[-2:], *BORDERS[len(caches[-2:]) :], math.inf]
    made: list[Memory] = []
    for name, shape, border in zip(("near", "middle", "far"), (SMALL, MIDDLE, LARGE), borders, strict=True):
        seconds = sheet.beyond(name, profile.kernel + math.prod(shape) / profile.pointwise)
        rate = profile.memories[-1].rate if seconds is None else 2 * ITEM * math.prod(shape) / seconds
        if name == "far" and (stream := sheet.beyond("stream", profile.kernel)) is not None:
            rate = max(rate if seconds is not None else 0.0, VECTOR * VECTOR * ITEM / stream)
        made.append(Memory(border, min(rate, made[-1].rate) if made else rate))
    return tuple(made)


def _products(sheet: Sheet, profile: Profile, base: Profile) -> Profile:
    rates = dict(base.multiply_adds)
    for name, width, item, dtypes in (
        ("product", WIDTH, ITEM, ("float32",)),
        ("double", WIDTH // 2, 8, ("float64", "*")),
        ("bytes", WIDTH, 1, ("int8", "uint8")),
    ):
        seconds = sheet.beyond(name, _moved(profile, ROWS * width, item))
        if seconds is not None:
            rates.update(dict.fromkeys(dtypes, ROWS * width * width / seconds))
    if "bytes" not in sheet.seconds and sheet.failed.get("bytes") not in (BUSY, LATE):  # it cannot be built
        rates = {k: v for k, v in rates.items() if k not in ("int8", "uint8")}
    if "product" in sheet.seconds:  # operands of half the size, as far as they are known at all
        gain = base.multiply_adds.get("bfloat16", 0.0) / base.rate_of("float32")
        rates.update({"bfloat16": gain * rates["float32"]} if gain else {})
    profile = replace(profile, multiply_adds=rates)
    narrow = sheet.beyond("narrow", _moved(profile, math.prod(NARROW)))
    if narrow is None:
        return profile
    depth = narrow * rates["float32"] / (NARROW[0] * NARROW[1])
    return replace(profile, overhead=min(max(depth - NARROW[1], 0.0), float(NARROW[1])))


def _steps(sheet: Sheet, profile: Profile, base: Profile) -> Profile:
    """Rates of steps that are not products."""
    count, norm = math.prod(SMALL), math.prod(NORM)
    centring = profile.kernel + norm / profile.pointwise + ITEM * norm / profile.bandwidth(ITEM * norm)
    rules: Mapping[str, tuple[float, float]] = {
        "costly": (_moved(profile, count) + count / profile.pointwise, count),
        "reduction": (_moved(profile, norm) + centring, norm),
        "rows": (_moved(profile, norm), 4 * norm),
        "move": (_moved(profile, math.prod(SQUARE)), math.prod(SQUARE)),
        "library": (0.0, count * 4),
    }
    found = {
        name: _rate(sheet.beyond(name, taken), steps, getattr(base, name)) for name, (taken, steps) in rules.items()
    }
    make: Callable[..., Profile] = Profile  # the rules are named after its fields
    return make(**{**vars(profile), **found})


def _rate(seconds: float | None, steps: float, default: float) -> float:
    return default if seconds is None else min(steps / seconds, FASTEST * default)


def _convolutions(sheet: Sheet, profile: Profile, base: Profile) -> Profile:
    """What share of the rate of a product of matrices a convolution reaches."""
    seconds = sheet.beyond("convolution", _moved(profile, math.prod(DEEP)))
    depth = 25 * DEEP[3]
    sums = math.prod(DEEP) * (depth + profile.overhead) / profile.rate_of("float32")
    return profile if seconds is None else replace(profile, convolution=min(sums / seconds, 2.0))


def _windows(sheet: Sheet, profile: Profile, base: Profile) -> Profile:
    """Pools, and depthwise convolutions by a line through windows of nine and of twenty-five."""
    image, channels = math.prod(IMAGE), math.prod(CHANNELS)
    window = _rate(sheet.beyond("window", _moved(profile, image)), 9 * image, base.window)
    small, wide = (sheet.beyond(f"depthwise{n}", _moved(profile, channels)) for n in (3, 5))
    profile = replace(profile, window=window)
    if small is None or wide is None:
        return profile
    tap = max((wide - small) / 16, wide / 50)  # a tap takes half of its share at least
    return replace(profile, depthwise=channels / tap, window_overhead=min(max(small / tap - 9, 0.0), 25.0))


def _winograd(sheet: Sheet, profile: Profile, base: Profile) -> Profile:
    """The seconds of bringing an element into a tile and back, from a convolution that may be done by tiles."""
    _, height, width, count = IMAGE
    product = ProductWork(1, height * width, count, 9 * count, (1, height, width), True)
    seconds = sheet.beyond("winograd", _moved(profile, math.prod(IMAGE)))
    if seconds is None:
        return profile
    direct = product.multiply_adds / profile.rate_of("float32") / profile.convolution
    if not base.winograd or seconds > 0.8 * direct:
        return replace(profile, winograd=False)
    sums, transformed = winograd_seconds(product, 4, replace(profile, transform=1.0), "float32")
    return replace(profile, winograd=True, transform=_rate(max(seconds - sums, LEAST), transformed, base.transform))


__all__ = ["Calibrator", "Sheet", "solve", "steps_of", "with_borders"]
