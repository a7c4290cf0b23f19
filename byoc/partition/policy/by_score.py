"""The policy ``score``: Paddle Lite's grade of kernels at an ordered list of places, composites formed row by row."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.contract.backend import Backend
from byoc.contract.verdict import Reason, Verdict, accept, callee_name
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, TupleType, tensor_types
from byoc.partition.boundaries import HOST, BoundaryView
from byoc.partition.calls import Decision, calls_of, functions_of
from byoc.partition.content.plan_origin import PlanInputs
from byoc.partition.cut.decide import judged
from byoc.partition.places import Place, Placed, PlacementUnit, score_places
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.libraries import KernelLibrary
from byoc.partition.places.score import as_it_comes, backend_places, is_settled
from byoc.relay.expr import Call, Constant

OUTSCORED = "score"


def score(mod: IRModule, request: PlanInputs) -> list[Decision]:
    """A decision for each call of *mod*, which has its composites, by the places' scores.

    Raises PartitionError for a list that is empty or means nothing, and for a call that no place of it can run.
    """
    view = request.boundaries.on(mod)
    calls = [call for _, func in functions_of(mod) for call in calls_of(func)]
    units = [_unit(call, request.backends, view) for call in calls]
    placed = score_places(units, wish(request), formula=request.formula) if units else []
    return [_decision(unit, place) for unit, place in zip(units, placed, strict=True)]


def wish(request: PlanInputs) -> tuple[Place, ...]:
    """The places that are asked for, in order: those of *request*, else each target's own and then the host."""
    if request.valid_places:
        settled = {b.name for b in request.backends if is_settled(b)}
        return tuple(dict.fromkeys(as_it_comes(p) if p.target in settled else p for p in request.valid_places))
    own = (place for name in request.names for place in _usual_places(name))
    return tuple(dict.fromkeys((*own, *backend_places(HOST))))


def _usual_places(target: str) -> tuple[Place, ...]:
    """The places of *target* where none is requested: as tensors come, where it takes them so."""
    found = backend_places(target)
    return tuple(p for p in found if p == as_it_comes(p)) or found


def _unit(call: Call, backends: Sequence[Backend], view: BoundaryView) -> PlacementUnit:
    operator, nodes = callee_name(call), span_names(call.span)
    verdicts: dict[str, Verdict] = {}
    kernels: dict[str, tuple[Kernel, ...]] = {}
    for backend in backends:
        reason = view.reason(backend.name, call)
        verdicts[backend.name] = judged(backend, call) if reason is None else Verdict(False, operator, nodes, (reason,))
        if isinstance(backend, KernelLibrary):
            kernels[backend.name] = tuple(backend.fitting(call)) if reason is None and call.args else ()
            if kernels[backend.name]:
                verdicts[backend.name] = accept(call)
    inputs = [(dtype, isinstance(arg, Constant)) for arg in call.args for dtype in _dtypes(arg.checked_type)]
    return PlacementUnit(
        operator,
        verdicts,
        tuple(d for d, _ in inputs),
        tuple(_dtypes(call.checked_type)),
        frozenset(k for k, (_, constant) in enumerate(inputs) if constant),
        nodes,
        kernels,
    )


def _dtypes(ty: object) -> list[str]:
    return [t.dtype for t in tensor_types(ty)] if isinstance(ty, (TensorType, TupleType)) else []


def _decision(unit: PlacementUnit, placed: Placed) -> Decision:
    library = next((name for name, own in unit.kernels.items() if any(k.key == placed.kernel.key for k in own)), None)
    target = library or (None if placed.place.target == HOST else placed.place.target)
    verdicts: list[tuple[str, Verdict]] = []
    for name, verdict in unit.verdicts.items():
        if verdict and name != target:
            lower = Reason(OUTSCORED, "another place has the higher score", str(placed.place))
            verdict = Verdict(False, unit.operator, unit.nodes, (lower,))
        verdicts.append((name, verdict))
    return Decision(unit.operator, unit.nodes, target, tuple(verdicts), chosen=str(placed.place), detail=str(placed))
