"""The analytic model: the time of a kernel from what it has to do and what its device can do.

A kernel takes its call, then its products at the rate that their sizes allow, its other steps at the rates of their
kinds, and the bytes that it reads and writes at the bandwidth of the memory that holds them. What follows a product
in its kernel costs its steps and no bytes. Source of the form: the roofline model (Williams and others, 2009), with
sums in place of the maximum, since one core hides little of either behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.contract.registration import BACKENDS, get_backend
from byoc.errors import PartitionError
from byoc.ir.op import Op
from byoc.partition.costs.estimate import Estimate, total
from byoc.partition.costs.kernels import Kernel, Step, kernels_of, one_kernel
from byoc.partition.costs.model import CostModel, backend_of, inner_calls, unit_calls
from byoc.partition.costs.place import precision_name
from byoc.partition.costs.products import depthwise_seconds, product_seconds
from byoc.partition.costs.profile import PROFILES, Profile
from byoc.partition.costs.work import Kind, Work, work_of
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import tensor_type


class AnalyticModel(CostModel):
    """Estimates from *profiles* of devices, by backend; for others *find* is asked once, and then the defaults."""

    name = "analytic"

    def __init__(
        self, profiles: Mapping[str, Profile] | None = None, find: Callable[[str], Profile | None] | None = None
    ):
        self._profiles = dict(profiles or {})
        self._find = find
        self._works: dict[Call, Work] = {}
        self._last: tuple[list[Call], bool, list[Kernel]] = ([], False, [])

    def profile(self, target: str) -> Profile:
        """What the device of *target* can do. Raises PartitionError where nobody has said it."""
        backend = backend_of(target)
        if backend not in self._profiles:
            found = self._find(backend) if self._find is not None else None
            self._profiles[backend] = found or default_profile(backend)
        return self._profiles[backend]

    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        profile, dtype = self.profile(target), precision_name(precision)
        seconds: dict[Call, float] = {}
        for kernel in self._kernels([c for c in calls if isinstance(c.op, Op)], profile.fuses):
            seconds.update(kernel_seconds(kernel, profile, dtype))
        for call in calls:
            if not isinstance(call.op, Op):
                seconds[call] = self._function(call, profile, dtype)
        return [Estimate(seconds[call], self.name) for call in calls]

    def _kernels(self, calls: list[Call], fuses: bool) -> list[Kernel]:
        """The kernels of *calls*; the last answer is kept, since one target after the other is asked about them."""
        if self._last[:2] != (calls, fuses):
            self._last = calls, fuses, kernels_of(calls, fuses, self._work)
        return self._last[2]

    def _work(self, call: Call) -> Work:
        """The work of *call*, which is found once."""
        known = self._works.get(call)
        if known is None:
            known = self._works[call] = work_of(call)
        return known

    def region(self, function: Function, target: str, precision: str = "") -> Estimate:
        profile, dtype = self.profile(target), precision_name(precision)
        if is_one_kernel(function):
            calls = unit_calls(function)
            return Estimate(sum(kernel_seconds(one_kernel(calls), profile, dtype).values()), self.name)
        return total(self.units(unit_calls(function), target, precision), self.name)

    def transfer(self, size: int, source: str, destination: str) -> Estimate:
        first, second = self.profile(source), self.profile(destination)
        if backend_of(source) == backend_of(destination):
            return Estimate(0.0, self.name)
        seconds = first.latency + size / first.download + second.latency + size / second.upload
        return Estimate(seconds, self.name)

    def launch(self, target: str) -> Estimate:
        return Estimate(self.profile(target).launch, self.name)

    def _function(self, call: Call, profile: Profile, dtype: str) -> float:
        """The seconds of a call of a function: of a composite one kernel, of a region its kernels."""
        inner = inner_calls(call)
        if not inner:
            return 0.0
        whole = profile.fuses and is_one_kernel(call.op)  # type: ignore[arg-type]
        kernels = [one_kernel(inner, self._work)] if whole else kernels_of(inner, profile.fuses, self._work)
        return sum(sum(kernel_seconds(kernel, profile, dtype).values()) for kernel in kernels)


def is_one_kernel(function: Function) -> bool:
    """True for a composite and for what FuseOps made; a region is as many kernels as it takes."""
    attrs = function.attrs
    return bool(attrs.get("Composite") or (attrs.get("Primitive") and not attrs.get("Compiler")))


def default_profile(backend: str) -> Profile:
    """What is registered for *backend*; one whose devices are the host's gets the host's, unfused.

    Raises PartitionError for another, whose device nobody described.
    """
    known = PROFILES.get(backend)
    if known is not None:
        return known
    if set(get_backend(backend).devices) <= {"cpu"} and backend in BACKENDS:
        return PROFILES["json"]
    raise PartitionError(
        f"costs 'analytic' know nothing of the device of backend {backend!r}: give a table, 'measured', or call "
        "byoc.partition.costs.register_profile"
    )


def kernel_seconds(kernel: Kernel, profile: Profile, dtype: str = "") -> dict[Call, float]:
    """The seconds of each call of a *kernel*; the call of the kernel itself is paid by the heaviest."""
    if all(step.work.kind is Kind.VIEW for step in kernel):
        return {step.call: 0.0 for step in kernel}
    rate = profile.bandwidth(sum(step.reads + step.writes for step in kernel))
    seconds = {s.call: _steps_seconds(s, profile, dtype) + (s.reads + s.writes) / rate for s in kernel}
    heaviest = max(seconds, key=seconds.__getitem__)
    seconds[heaviest] += profile.kernel
    return seconds


def _steps_seconds(step: Step, profile: Profile, dtype: str) -> float:
    """The seconds of a call's steps, or of streaming its constants past them where that takes longer."""
    work = step.work
    streamed = step.constants / profile.memories[-1].rate
    if work.kind is Kind.PRODUCT:
        used = dtype or tensor_type(step.call.args[0]).dtype
        return max(product_seconds(work.product, profile, used), streamed)  # type: ignore[arg-type]
    if work.kind is Kind.DEPTHWISE:
        return max(depthwise_seconds(work.product, profile), streamed)  # type: ignore[arg-type]
    return max(work.elements * (work.cheap / RATES[work.kind](profile) + work.costly / profile.costly), streamed)


RATES: Mapping[Kind, Callable[[Profile], float]] = {
    Kind.VIEW: lambda p: float("inf"),
    Kind.MOVE: lambda p: p.move,
    Kind.POINTWISE: lambda p: p.pointwise,
    Kind.REDUCTION: lambda p: p.reduction,
    Kind.ROWS: lambda p: p.rows,
    Kind.WINDOW: lambda p: p.window,
    Kind.LIBRARY: lambda p: p.library,
}
