"""The analytic model: the time of a kernel from what it has to do and what its device can do.

A kernel takes its call, then its products at the rate that their sizes allow, its other steps at the rates of their
kinds, and the bytes that it reads and writes at the bandwidth of the memory that holds them. What follows a product
in its kernel costs its steps and no bytes. Source of the form: the roofline model (Williams and others, 2009), with
sums in place of the maximum, since one core hides little of either behind the other.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from byoc.contract.backend import Backend
from byoc.contract.registration import BACKENDS, get_backend
from byoc.errors import PartitionError
from byoc.ir.op import Op
from byoc.ir.passes.pass_context import PassContext
from byoc.partition.costs.kernels import KernelStep, PricedKernel, WorkOf, grouping_of, kernels_of, one_kernel
from byoc.partition.costs.model import (
    HOST,
    CostModel,
    Estimate,
    backend_of,
    described,
    float_of,
    inner_calls,
    precision_name,
    total,
    unit_calls,
)
from byoc.partition.costs.profile import PROFILES, Profile
from byoc.partition.costs.share import form_of, producers
from byoc.partition.costs.work import ProductWork, WorkKind, work_of
from byoc.partition.places.libraries import kernels_run_by
from byoc.relay.analysis.operator_calls import once_per_kind
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function, tensor_type

# The seconds of a product's multiply-adds, its matrices padded to what the processor computes side by side. A 3x3
# convolution takes the cheapest of these and Winograd's F(4x4, 3x3) and F(2x2, 3x3) (Lavin and Gray, "Fast Algorithms
# for Convolutional Neural Networks", 2016), where the profile has it.

ITEM = 4
# answers: places take turns with few sets of calls, in few precisions, and each has all composites
KEPT, KEPT_SHARES, KEPT_COMPOSITES = 4, 8, 1024
# of a process: a model that is planned again, for other targets or by another policy, has the same share of its host
KEPT_FORMS = 64
_PRICED: OrderedDict[Hashable, Sequence[float]] = OrderedDict()
WINOGRAD = (4, 2)  # results along an axis of a tile


def product_seconds(product: ProductWork, profile: Profile, dtype: str) -> float:
    """Seconds without those of the bytes from memory. *dtype* is that of the operands."""
    direct = _direct(product.batch, product.rows, product.columns, product.depth, profile, dtype)
    if product.convolution:
        direct /= profile.convolution
    if product.tiles is None or not profile.winograd or dtype != "float32":
        return direct
    return min(direct, *(_winograd(product, result, profile, dtype) for result in WINOGRAD))


def depthwise_seconds(product: ProductWork, profile: Profile) -> float:
    """Seconds of a convolution of each channel by itself."""
    results = product.batch * product.rows * product.columns
    return results * (product.depth + profile.window_overhead) / profile.depthwise


def _direct(batch: int, rows: int, columns: int, depth: int, profile: Profile, dtype: str) -> float:
    padded = math.ceil(columns / profile.lanes) * profile.lanes
    return batch * rows * padded * (depth + profile.overhead) / profile.rate_of(dtype)


def _winograd(product: ProductWork, result: int, profile: Profile, dtype: str) -> float:
    return sum(winograd_seconds(product, result, profile, dtype))


def winograd_seconds(product: ProductWork, result: int, profile: Profile, dtype: str) -> tuple[float, float]:
    """With tiles of *result* by *result* results: the seconds of their products, and of bringing numbers in and out."""
    assert product.tiles is not None  # those for whom the method is possible are asked alone
    images, height, width = product.tiles
    points = (result + 2) ** 2
    tiles = images * math.ceil(height / result) * math.ceil(width / result)
    channels = product.depth // 9
    sums = _direct(points, tiles, product.columns, channels, profile, dtype)
    weights = points * channels * product.columns * ITEM
    transformed = tiles * points * (channels + product.columns) / profile.transform
    return max(sums, weights / profile.memories[-1].rate), transformed


class AnalyticModel(CostModel):
    """Estimates from *profiles* of devices, by backend; for others *find* is asked once, and then the defaults."""

    name = "analytic"

    def __init__(
        self, profiles: Mapping[str, Profile] | None = None, find: Callable[[str], Profile | None] | None = None
    ):
        self._profiles = dict(profiles or {})
        self._find = find
        self._work_of = once_per_kind(work_of)
        self._kernels_of = functools.lru_cache(KEPT)(functools.partial(kernels_of, work=self._work_of))
        self._seconds_of = functools.lru_cache(KEPT_SHARES)(self._share)  # several places of a target compute alike
        self._text_of = functools.lru_cache(KEPT)(lambda target: repr(self.profile(target)))
        self._speaking = functools.lru_cache(KEPT)(speaking)
        self._kernels_in = functools.lru_cache(KEPT_COMPOSITES)(functools.partial(kernels_in, work=self._work_of))

    def profile(self, target: str) -> Profile:
        """What the device of *target* can do. Raises PartitionError where nobody has said it."""
        backend = backend_of(target)
        if backend not in self._profiles:
            found = self._find(backend) if self._find is not None else None
            self._profiles[backend] = found or default_profile(backend)
        return self._profiles[backend]

    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        return self.share(calls, (), target, precision)

    def share(
        self, calls: Sequence[Call], leaving: Collection[Call], target: str, precision: str = ""
    ) -> list[Estimate]:
        seconds = self._seconds_of(tuple(calls), frozenset(leaving), target, precision_name(precision))
        said = said_by_vendor(calls, self._speaking(target))
        return [said.get(call) or Estimate(own, self.name) for call, own in zip(calls, seconds, strict=True)]

    def _share(self, calls: tuple[Call, ...], leaving: frozenset[Call], target: str, dtype: str) -> Sequence[float]:
        """What :meth:`share` gives but for the vendor's own word, where products compute in *dtype*."""
        form = form_of(calls, leaving)
        if form is None:
            return self._priced(calls, leaving, target, dtype)
        key = form, target, self._text_of(target), dtype, PassContext.current().settings, Op.changes
        found = _PRICED.get(key)
        if found is None:
            found = _PRICED[key] = tuple(self._priced(calls, leaving, target, dtype))
            if len(_PRICED) > KEPT_FORMS:
                _PRICED.popitem(last=False)
        return found

    def _priced(self, calls: Sequence[Call], leaving: frozenset[Call], target: str, dtype: str) -> Sequence[float]:
        """The seconds of each of *calls*: those of its part of the kernels that are made of them."""
        profile = self.profile(target)
        seconds = dict.fromkeys(calls, 0.0)
        for kernel in self.kernels(calls, leaving, target):
            for step, spent in zip(kernel.steps, kernel_seconds(kernel, profile, dtype), strict=True):
                seconds[step.unit] += spent
        for call in calls:
            if not isinstance(call.op, Op):
                seconds[call] = self._function(call, target, dtype)
        return [seconds[call] for call in calls]

    def kernels(self, calls: Sequence[Call], leaving: Collection[Call], target: str) -> list[PricedKernel]:
        """The kernels of the operators among *calls* on *target*; the last answers are kept, since the same calls are
        priced for each target and each of its places.
        """
        grouping = grouping_of(target, self.profile(target).fuses)
        return self._kernels_of(tuple(calls), grouping, frozenset(leaving))

    def region(self, function: Function, target: str, precision: str = "") -> Estimate:
        profile, dtype = self.profile(target), precision_name(precision)
        if is_one_kernel(function):
            calls = unit_calls(function)
            return Estimate(sum(kernel_seconds(one_kernel(calls, self._work_of), profile, dtype)), self.name)
        results = [node for node in producers(function.body) if isinstance(node, Call)]
        return total(self.share(unit_calls(function), results, target, precision), self.name)

    def transfer(self, size: int, source: str, destination: str) -> Estimate:
        first, second = self.profile(source), self.profile(destination)
        if backend_of(source) == backend_of(destination):
            return Estimate(0.0, self.name)
        seconds = first.latency + size / first.download + second.latency + size / second.upload
        return Estimate(seconds, self.name)

    def launch(self, target: str) -> Estimate:
        return Estimate(self.profile(target).launch, self.name)

    def _function(self, call: Call, target: str, precision: str) -> float:
        """The seconds of a call of a function: of a composite one kernel, of a region its kernels."""
        function = as_function(call.op)
        if not is_one_kernel(function):
            return self.region(function, target, precision).seconds
        profile, dtype = self.profile(target), precision_name(precision)
        kernels = self._kernels_in(call, profile.fuses)
        return sum(sum(kernel_seconds(kernel, profile, dtype)) for kernel in kernels)


def kernels_in(call: Call, fuses: bool, work: WorkOf = work_of) -> list[PricedKernel]:
    """The kernels of a call of a composite function: one where the generator *fuses*, else one for each operator."""
    inner = inner_calls(call)
    if not inner:
        return []
    return [one_kernel(inner, work)] if fuses else kernels_of(inner, None, work=work)


def speaking(target: str) -> Backend | None:
    """The backend of *target* where it says itself what calls take; None for others."""
    try:
        backend = None if target == HOST else get_backend(target)
    except PartitionError:  # a target of a profile that the user gave, which need not be there
        return None
    return None if backend is None or type(backend).seconds is Backend.seconds else backend


def said_by_vendor(calls: Sequence[Call], backend: Backend | None) -> dict[Call, Estimate]:
    """What *backend* itself says that each of *calls* takes, where it says something.

    Raises PartitionError for what is no time.
    """
    if backend is None:
        return {}
    found: dict[Call, Estimate] = {}
    for call in calls:
        said: object = backend.seconds(call)
        if said is None:
            continue
        seconds = float_of(said)
        if seconds is None or not 0 <= seconds < math.inf:
            raise PartitionError(
                f"backend {backend.name!r} says that {described(call)} takes {said!r} seconds; its method seconds "
                "gives a number from 0, or None where it does not know"
            )
        found[call] = Estimate(seconds, f"said by {backend.name}")
    return found


def is_one_kernel(function: Function) -> bool:
    """True for a composite and for what FuseOps made; a region is as many kernels as it takes."""
    attrs = function.attrs
    return bool(attrs.get("Composite") or (attrs.get("Primitive") and not attrs.get("Compiler")))


def registered_profile(backend: str) -> Profile | None:
    """What is registered for the kind of device that stands behind *backend* here, else for *backend*, else None."""
    if any(name.startswith(f"{backend}/") for name in PROFILES):
        kind = get_backend(backend).device_kind()
        if f"{backend}/{kind}" in PROFILES:
            return PROFILES[f"{backend}/{kind}"]
    return PROFILES.get(backend)


def default_profile(backend: str) -> Profile:
    """What is registered for *backend*; one whose devices are the host's gets the host's, unfused.

    Raises PartitionError for another, whose device nobody described.
    """
    known = registered_profile(backend)
    if known is not None:
        return known
    found = get_backend(backend)
    runs = kernels_run_by(found)
    if runs and registered_profile(runs) is not None:
        return default_profile(runs)
    if set(found.devices) <= {"cpu"} and (backend in BACKENDS or runs):
        return PROFILES["json"]
    raise PartitionError(
        f"costs 'analytic' know nothing of the device of backend {backend!r}: give a table, 'measured', or call "
        "byoc.partition.costs.register_profile"
    )


def kernel_seconds(kernel: PricedKernel, profile: Profile, dtype: str = "") -> list[float]:
    """The seconds of each step of a *kernel*; the call of the kernel itself is paid by the heaviest."""
    if all(step.work.kind is WorkKind.VIEW for step in kernel.steps):
        return [0.0 for _ in kernel.steps]
    rate = profile.bandwidth(sum(step.reads + step.writes for step in kernel.steps))
    seconds = [_steps_seconds(s, profile, dtype) + (s.reads + s.writes) / rate for s in kernel.steps]
    heaviest = max(range(len(seconds)), key=seconds.__getitem__)
    seconds[heaviest] += profile.kernel
    return seconds


def _steps_seconds(step: KernelStep, profile: Profile, dtype: str) -> float:
    """The seconds of a call's steps, or of streaming its constants past them where that takes longer."""
    work = step.work
    streamed = step.constants / profile.memories[-1].rate
    if work.product is not None and work.kind is WorkKind.DEPTHWISE:
        return max(depthwise_seconds(work.product, profile), streamed)
    if work.product is not None:
        used = dtype or tensor_type(step.call.args[0]).dtype
        return max(product_seconds(work.product, profile, used), streamed)
    return max(work.elements * (work.cheap / RATES[work.kind](profile) + work.costly / profile.costly), streamed)


RATES: Mapping[WorkKind, Callable[[Profile], float]] = {
    WorkKind.VIEW: lambda p: float("inf"),
    WorkKind.MOVE: lambda p: p.move,
    WorkKind.POINTWISE: lambda p: p.pointwise,
    WorkKind.REDUCTION: lambda p: p.reduction,
    WorkKind.ROWS: lambda p: p.rows,
    WorkKind.WINDOW: lambda p: p.window,
    WorkKind.LIBRARY: lambda p: p.library,
}
