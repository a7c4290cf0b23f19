"""From a function to a placement problem: who can run what, at which cost, and what passes between.

Candidates at a target are the calls that its backend accepts and the matches of its patterns whose composites it
accepts, overlapping or not. At home everything runs, alone. A call in an inner scope stays at home.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.contract.backend import Backend
from byoc.contract.limits import Limits
from byoc.contract.verdict import Reason, Verdict, callee_name, refuse
from byoc.ir.span import span_names
from byoc.ir.types import TensorType
from byoc.partition.boundaries import BoundaryView
from byoc.partition.content.plan_origin import PlanInputs
from byoc.partition.costs.model import HOST, CostModel, Estimate
from byoc.partition.cut.casting import asks_for_casts
from byoc.partition.cut.decide import judged
from byoc.partition.cut.matches import CompositeMatch, matches_of
from byoc.partition.place import FLOATS
from byoc.partition.places import DataLayout, Place, Precision
from byoc.partition.places.score import backend_places
from byoc.partition.policy.dataflow import Dataflow, dataflow
from byoc.partition.problem import HOME, Bounds, Candidate, Problem, ProblemValue, Site
from byoc.relay import op
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function, Var

CandidateUnit = tuple[
    Call, tuple[int, ...], CompositeMatch | None
]  # a call or a match, and the numbers of the calls in it


@dataclass(frozen=True)
class SiteSpot:
    """What a site of the problem is: a target, and its place where the target has several, or one that is not as values
    come. Each level of calls (``dataflow.py``) has a site of its own.
    """

    target: str
    place: Place | None = None

    @property
    def name(self) -> str:
        """What the plan calls it."""
        return self.target if self.place is None else str(self.place)

    @property
    def precision(self) -> str:
        """What products compute in there; empty as they come."""
        return "" if self.place is None or self.place.precision is Precision.ANY else str(self.place.precision)

    @property
    def form(self) -> tuple[object, object]:
        """Precision and layout, where those that values have at home are nothing special; between two sites whose forms
        differ a value needs a cast.
        """
        place = self.place or Place(self.target, Precision.ANY, DataLayout.ANY)
        return (
            Precision.ANY if place.precision is Precision.FLOAT else place.precision,
            DataLayout.ANY if place.layout is DataLayout.NCHW else place.layout,
        )


def spots_of(backend: Backend) -> list[SiteSpot]:
    """The sites of a backend: its places in which floats are computed."""
    places = [p for p in backend_places(backend.name) if p.precision in FLOATS or p.precision is Precision.ANY]
    if len(places) <= 1 and not asks_for_casts([str(p) for p in places]):
        return [SiteSpot(backend.name)]
    return [SiteSpot(backend.name, place) for place in places]


@dataclass(frozen=True, eq=False)
class Placing:
    """A function's problem, and what its numbers mean.

    ``estimates`` belong to the problem's candidates; ``matches`` to those that are matches of patterns; ``verdicts``
    are those of every backend on every call, by number; ``spots`` say what the problem's sites are.
    """

    name: str
    func: Function
    flow: Dataflow
    problem: Problem
    estimates: tuple[Estimate, ...]
    matches: Mapping[int, CompositeMatch]
    verdicts: tuple[tuple[tuple[str, Verdict], ...], ...]
    spots: tuple[SiteSpot, ...]


def placing(name: str, func: Function, request: PlanInputs, costs: CostModel, view: BoundaryView) -> Placing:
    """The problem of placing the calls of *func*, which has types, over the host and the backends that *request* names,
    as *view* allows.
    """
    flow, backends = dataflow(func), request.backends
    matches = matches_of(name, func, backends, request.record, request.found)
    verdicts = [
        tuple((b.name, _verdict(b, call, _barred(flow, number), view)) for b in backends)
        for number, call in enumerate(flow.calls)
    ]
    builder = _Builder(flow, costs)
    forced = {
        k
        for k, call in enumerate(flow.calls)
        if (rule := view.forced(call)) is not None and any(v for t, v in verdicts[k] if t == rule.target)
    }
    builder.add_home(forced)
    spots, sites = [SiteSpot(HOST)], [Site(HOST, HOST)]
    for index, backend in enumerate(backends):
        alone: list[CandidateUnit] = [(flow.calls[k], (k,), None) for k, v in enumerate(verdicts) if v[index][1]]
        taken: list[CandidateUnit] = [
            (m.call, m.numbers, m) for m in matches if m.chosen.target == backend.name and _takes(m, flow, view)
        ]
        for spot, level in itertools.product(spots_of(backend), sorted(set(flow.levels)) or [0]):
            for units in (alone, taken):
                builder.add(len(spots), spot, [u for u in units if all(flow.levels[k] == level for k in u[1])])
            spots.append(spot)
            launch = costs.launch(backend.name).seconds
            sites.append(Site(spot.name, backend.name, launch, bounds_of(backend.limits), backend.name))
    for (number, target), why in builder.unbuilt.items():
        no = refuse(flow.calls[number], "not_built", "its code can be built", why)
        verdicts[number] = tuple((t, no if t == target else v) for t, v in verdicts[number])
    problem = Problem(
        len(flow.calls),
        flow.values,
        tuple(sites),
        tuple(builder.candidates),
        transfer_seconds(flow.values, spots, costs),
        tuple(" ".join((callee_name(c), *span_names(c.span)[:1])) for c in flow.calls),
    )
    return Placing(name, func, flow, problem, tuple(builder.estimates), builder.matches, tuple(verdicts), tuple(spots))


def _barred(flow: Dataflow, number: int) -> Reason | None:
    """Why a call stays at home whoever takes it."""
    if number in flow.inner:
        return Reason("scope", "a call inside of a branch, a loop or a let stays on the host")
    return Reason("unused", "no result depends on it") if number in flow.unused else None


def _verdict(backend: Backend, call: Call, barred: Reason | None, view: BoundaryView) -> Verdict:
    reason = barred or view.reason(backend.name, call)
    if reason is None:
        return judged(backend, call)
    return Verdict(False, callee_name(call), span_names(call.span), (reason,))


def _takes(match: CompositeMatch, flow: Dataflow, view: BoundaryView) -> bool:
    target = match.chosen.target
    if any(_barred(flow, number) is not None for number in match.numbers):
        return False
    if view.reason(target, match.call) is not None:
        return False
    allowed = all(view.reason(target, flow.calls[k]) is None for k in match.numbers)
    return allowed and bool(match.source.verdict)


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
        self.matches: dict[int, CompositeMatch] = {}
        self.unbuilt: dict[tuple[int, str], str] = {}

    def add_home(self, forced: Container[int]) -> None:
        """Each call at home but those *forced* elsewhere."""
        calls, flow = self._flow.calls, self._flow
        estimates = self._costs.share(calls, flow.leaving(range(len(calls))), HOST)
        for number, (call, estimate) in enumerate(zip(calls, estimates, strict=True)):
            if number in forced:
                continue
            self._append(call, (number,), HOME, estimate)

    def add(self, site: int, spot: SiteSpot, units: Sequence[CandidateUnit]) -> None:
        """*units* at *spot*, which is number *site*."""
        leaving = self._flow.leaving({k for _, numbers, _ in units for k in numbers})
        estimates = self._costs.share([call for call, _, _ in units], leaving, spot.target, spot.precision)
        for (call, numbers, match), estimate in zip(units, estimates, strict=True):
            if not math.isfinite(estimate.seconds):  # measured, and could not be built
                if match is None:
                    self.unbuilt[numbers[0], spot.target] = estimate.source
                continue
            if match is not None:
                self.matches[len(self.candidates)] = match
            self._append(call, numbers, site, estimate)

    def _append(self, call: Call, numbers: tuple[int, ...], site: int, estimate: Estimate) -> None:
        weights = self._flow.weights(call)
        self.candidates.append(Candidate(callee_name(call), numbers, site, estimate.seconds, weights))
        self.estimates.append(estimate)


def transfer_seconds(values: Sequence[ProblemValue], spots: Sequence[SiteSpot], costs: CostModel) -> np.ndarray:
    """``[t, p, q]``: the seconds to bring tensor t from spot p to spot q, casts included; between two regions of one
    target, what the path over the host takes.
    """
    known: dict[int, np.ndarray] = {}
    result = np.zeros((len(values), len(spots), len(spots)))
    forms = [spot.form for spot in spots]
    for number, value in enumerate(values):
        if value.weight:
            continue
        if value.bytes not in known:
            known[value.bytes] = _between(value.bytes, spots, forms, costs)
        result[number] = known[value.bytes]
    return result


def _between(size: int, spots: Sequence[SiteSpot], forms: Sequence[object], costs: CostModel) -> np.ndarray:
    """The row of :func:`transfer_seconds` for a tensor of *size* bytes; *forms* are those of *spots*."""
    targets = [spot.target for spot in spots]
    pairs = itertools.product(dict.fromkeys(targets), repeat=2)
    moved = {pair: costs.way(size, *pair) for pair in pairs}
    found = np.array([[moved[source, destination] for destination in targets] for source in targets])
    casts: dict[str, float] = {}  # by target: pricing one makes its kernel
    for p, q in itertools.product(range(len(spots)), repeat=2):
        if forms[p] != forms[q]:  # the value needs a cast between the two
            target = targets[p if q == HOME else q]
            if target not in casts:
                casts[target] = cast_seconds(size, target, costs)
            found[p, q] += casts[target]
    return found


def cast_seconds(size: int, target: str, costs: CostModel) -> float:
    """The seconds of a cast, on *target*, of a float32 tensor of *size* bytes."""
    data = Var("x", TensorType((max(size // 4, 1),), "float32"))
    call = op.cast(data, "float16")
    infer_expr(call)
    seconds = costs.units([call], target)[0].seconds
    return seconds if math.isfinite(seconds) else costs.units([call], HOST)[0].seconds
