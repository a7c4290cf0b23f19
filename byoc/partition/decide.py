"""The policy ``order``: composites are formed row by row, and every call goes to the first target that takes it."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.backend import Backend, Verdict, accept, callee_name, refuse
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.partition.boundaries import Boundaries, BoundaryView
from byoc.partition.calls import calls_of, functions_of, is_composite
from byoc.partition.decision import Decision
from byoc.relay.analysis.region_graph import open_children
from byoc.relay.expr import Call
from byoc.relay.transform.infer_type import InferType
from byoc.relay.transform.merge_composite import CompositeRecord, MergeComposite
from byoc.relay.typed_rewrite import typed_rewrite


def judged(backend: Backend, call: Call) -> Verdict:
    """The verdict of *backend* on *call*; a backend that raises has refused, and the error is the reason."""
    if not call.args:
        return refuse(call, "no_inputs", "a call without inputs is a constant, which the host computes")
    if is_composite(call) and callee_name(call).partition(".")[0] != backend.name:
        return refuse(call, "composite", f"only composites of {backend.name}", callee_name(call))
    try:
        verdict = backend.supports(call)
    except Exception as error:
        return refuse(call, "error", f"the backend failed when asked: {type(error).__name__}: {error}")
    if isinstance(verdict, Verdict):
        return verdict
    return accept(call) if verdict else refuse(call, "predicate", f"{backend.name} does not take it")


def form_composites(
    mod: IRModule, backends: Sequence[Backend], boundaries: Boundaries, record: CompositeRecord
) -> tuple[IRModule, dict[str, tuple[int, ...]]]:
    """*mod* with the composites of each backend in turn; those that it refuses, or that hold an excluded operator, are
    dissolved, so that their operators are judged one by one. Also the numbers of the dissolved, by target.
    """
    dissolved: dict[str, tuple[int, ...]] = {}
    for backend in backends:
        rows = [(e.name, e.pattern, e.check) for e in backend.patterns()]
        if not rows:
            continue
        mod = MergeComposite(rows, record)(mod)
        found = composites_of(mod, backend.name)
        view = boundaries.on(mod)
        refused = [n for n, call in enumerate(found) if view.reason(backend.name, call) or not judged(backend, call)]
        if refused:
            dissolved[backend.name] = tuple(refused)
            mod = dissolve(mod, {found[n] for n in refused})
    return mod, dissolved


def composites_of(mod: IRModule, target: str) -> list[Call]:
    """The calls of composites of *target*, in order."""
    calls = (call for _, func in functions_of(mod) for call in calls_of(func))
    return [call for call in calls if is_composite(call) and callee_name(call).partition(".")[0] == target]


def dissolve(mod: IRModule, calls: set[Call]) -> IRModule:
    """*mod* where each of *calls* is its composite's body over its arguments."""
    result = mod.shallow_copy()
    for var, func in functions_of(mod):
        result[var] = typed_rewrite(  # type: ignore[assignment]
            func, lambda before, after: _inlined(after) if before in calls else after, open_children  # type: ignore[arg-type]
        )
    return InferType()(result)


def _inlined(call: Call) -> Call:
    values = dict(zip(call.op.params, call.args, strict=True))  # type: ignore[attr-defined]
    return typed_rewrite(call.op.body, lambda before, after: values.get(before, after))  # type: ignore


def decide(mod: IRModule, backends: Sequence[Backend], boundaries: Boundaries) -> list[Decision]:
    """A decision for each call of *mod*: the first backend, in order, that takes it (policy ``order``)."""
    view = boundaries.on(mod)
    return [_decision(call, backends, view) for _, func in functions_of(mod) for call in calls_of(func)]


def _decision(call: Call, backends: Sequence[Backend], view: BoundaryView) -> Decision:
    operator, nodes = callee_name(call), span_names(call.span)
    asked: list[tuple[str, Verdict]] = []
    for backend in backends:
        reason = view.reason(backend.name, call)
        verdict = judged(backend, call) if reason is None else Verdict(False, operator, nodes, (reason,))
        asked.append((backend.name, verdict))
        if verdict:
            return Decision(operator, nodes, backend.name, tuple(asked))
    return Decision(operator, nodes, None, tuple(asked))
