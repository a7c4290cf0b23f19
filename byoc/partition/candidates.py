"""From a function to a placement problem: who can run what, at which cost, and what passes between.

Candidates at a target are the calls that its backend accepts and the matches of its patterns whose composites it
accepts, overlapping or not. At home everything runs, alone. A call in an inner scope stays at home.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.codegen.backend import Backend, Limits, Reason, Verdict, callee_name, refuse
from byoc.ir.span import span_names
from byoc.partition.boundaries import BoundaryView
from byoc.partition.costs.estimate import Estimate
from byoc.partition.costs.model import HOST, CostModel
from byoc.partition.dataflow import Dataflow, dataflow
from byoc.partition.decide import judged
from byoc.partition.matches import Match, matches_of
from byoc.partition.measure import constant_bytes
from byoc.partition.problem import HOME, Bounds, Candidate, Problem, Site, Value
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.transform.merge_composite import CompositeRecord
from byoc.relay.traverse import post_order


@dataclass(frozen=True, eq=False)
class Placing:
    """A function's problem, and what its numbers mean.

    ``estimates`` belong to the problem's candidates; ``matches`` to those that are matches of patterns; ``verdicts`` are
    those of every backend on every call, by number.
    """

    name: str
    func: Function
    flow: Dataflow
    problem: Problem
    estimates: tuple[Estimate, ...]
    matches: Mapping[int, Match]
    verdicts: tuple[tuple[tuple[str, Verdict], ...], ...]


def placing(
    name: str,
    func: Function,
    backends: Sequence[Backend],
    costs: CostModel,
    view: BoundaryView,
    record: CompositeRecord,
) -> Placing:
    """The problem of placing the calls of *func*, which has types, over the host and *backends*, as *view* allows."""
    flow = dataflow(func)
    matches = matches_of(name, func, backends, record)
    verdicts = [
        tuple((b.name, _verdict(b, call, number in flow.inner, view)) for b in backends)
        for number, call in enumerate(flow.calls)
    ]
    builder = _Builder(flow, costs)
    forced = {
        k for k, call in enumerate(flow.calls)
        if (rule := view.forced(call)) is not None and any(v for t, v in verdicts[k] if t == rule.target)
    }
    builder.add_home(forced)
    for site, backend in enumerate(backends, 1):
        alone = [k for k, v in enumerate(verdicts) if v[site - 1][1]]
        builder.add(site, backend, [(flow.calls[k], (k,), None) for k in alone])
        mine = [m for m in matches if m.chosen.target == backend.name]
        taken = [m for m in mine if _takes(backend, m, flow, view)]
        builder.add(site, backend, [(m.call, m.numbers, m) for m in taken])
    for (number, target), why in builder.unbuilt.items():
        no = refuse(flow.calls[number], "not_built", "its code can be built", why)
        verdicts[number] = tuple((t, no if t == target else v) for t, v in verdicts[number])
    sites = (Site(HOST, HOST), *(_site(b, costs) for b in backends))
    problem = Problem(
        len(flow.calls), flow.values, sites, tuple(builder.candidates),
        transfer_seconds(flow.values, [HOST, *(b.name for b in backends)], costs),
        tuple(" ".join((callee_name(c), *span_names(c.span)[:1])) for c in flow.calls),
    )
    return Placing(name, func, flow, problem, tuple(builder.estimates), builder.matches, tuple(verdicts))


def _verdict(backend: Backend, call: Call, inner: bool, view: BoundaryView) -> Verdict:
    reason = view.reason(backend.name, call)
    if inner:
        reason = Reason("scope", "a call inside of a branch, a loop or a let stays on the host")
    if reason is None:
        return judged(backend, call)
    return Verdict(False, callee_name(call), span_names(call.span), (reason,))


def _takes(backend: Backend, match: Match, flow: Dataflow, view: BoundaryView) -> bool:
    if not flow.inner.isdisjoint(match.numbers):
        return False
    if view.reason(backend.name, match.call) is not None:
        return False
    allowed = all(view.reason(backend.name, flow.calls[k]) is None for k in match.numbers)
    return allowed and bool(judged(backend, match.call))


def _site(backend: Backend, costs: CostModel) -> Site:
    return Site(backend.name, backend.name, costs.launch(backend.name).seconds, bounds_of(backend.limits))


def bounds_of(limits: Limits) -> Bounds:
    """A backend's limits in the words of a problem, seconds instead of microseconds."""
    return Bounds(
        limits.max_operators, limits.max_bytes, limits.max_regions, limits.min_operators, limits.min_gain * 1e-6
    )


class _Builder:
    """Collects candidates with what they cost."""

    def __init__(self, flow: Dataflow, costs: CostModel):
        self._flow, self._costs = flow, costs
        self.candidates: list[Candidate] = []
        self.estimates: list[Estimate] = []
        self.matches: dict[int, Match] = {}
        self.unbuilt: dict[tuple[int, str], str] = {}

    def add_home(self, forced: Container[int]) -> None:
        """Each call at home but those *forced* elsewhere."""
        calls = self._flow.calls
        for number, (call, estimate) in enumerate(zip(calls, self._costs.units(calls, HOST), strict=True)):
            if number in forced:
                continue
            self.candidates.append(Candidate(callee_name(call), (number,), HOME, estimate.seconds, weights(call)))
            self.estimates.append(estimate)

    def add(
        self, site: int, backend: Backend, units: Sequence[tuple[Call, tuple[int, ...], Match | None]]
    ) -> None:
        estimates = self._costs.units([call for call, _, _ in units], backend.name)
        for (call, numbers, match), estimate in zip(units, estimates, strict=True):
            if not math.isfinite(estimate.seconds):  # measured, and could not be built
                if match is None:
                    self.unbuilt[numbers[0], backend.name] = estimate.source
                continue
            if match is not None:
                self.matches[len(self.candidates)] = match
            self.candidates.append(Candidate(callee_name(call), numbers, site, estimate.seconds, weights(call)))
            self.estimates.append(estimate)


def weights(call: Call) -> int:
    """The bytes of the constants that *call* reads, its composite's body included."""
    constants = [a for a in call.args if isinstance(a, Constant)]
    if isinstance(call.op, Function):
        constants += [n for n in post_order(call.op.body) if isinstance(n, Constant)]
    return sum(constant_bytes(c) for c in dict.fromkeys(constants))


def transfer_seconds(values: Sequence[Value], targets: Sequence[str], costs: CostModel) -> np.ndarray:
    """``[t, p, q]``: the seconds to bring tensor t from targets[p] to targets[q]; between two regions of one target,
    what the way over the host takes.
    """
    count = len(targets)
    known: dict[int, np.ndarray] = {}
    result = np.zeros((len(values), count, count))
    for number, value in enumerate(values):
        found = known.get(value.bytes)
        if found is None:
            found = np.zeros((count, count))
            for p in range(count):
                for q in range(count):
                    if p != q:
                        found[p, q] = costs.transfer(value.bytes, targets[p], targets[q]).seconds
            for p in range(1, count):
                found[p, p] = found[p, HOME] + found[HOME, p]
            known[value.bytes] = found
        result[number] = found
    return result
