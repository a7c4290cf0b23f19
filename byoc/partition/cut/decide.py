"""The policy ``order``: composites are formed row by row, and every call goes to the first target that takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from byoc.contract.backend import Backend
from byoc.contract.verdict import Verdict, asked, callee_name, calls_in, refuse
from byoc.errors import vendors_line
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, TupleType, Type
from byoc.partition.boundaries import Boundaries, BoundaryView
from byoc.partition.calls import Decision, calls_of, functions_of, is_composite
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.expr import Call
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.transform.cut.merge_composite import CompositeRecord, MergeComposite
from byoc.relay.traverse import typed_rewrite
from byoc.runtime.core.small_types import SMALL

PRIORITY = "priority"  # the code of a target that would take a call which one before it takes


def judged(backend: Backend, call: Call) -> Verdict:
    """The verdict of *backend* on *call*; a backend that raises has refused, and the error is the reason."""
    if not call.args:
        return refuse(call, "no_inputs", "a call without inputs is a constant, which the host computes")
    if is_composite(call) and callee_name(call).partition(".")[0] != backend.name:
        return refuse(call, "composite", f"only composites of {backend.name}", callee_name(call))
    unnamed = _unnamed_dtype(backend, call)
    if unnamed is not None:
        return refuse(call, "dtype", f"{unnamed} is for backends that name it: small_dtypes, or dtypes(...)", unnamed)
    try:
        verdict = asked(backend.supports, call, backend.name)
    except Exception as error:
        return refuse(call, "error", f"the backend failed when asked: {vendors_line(error)}")
    if verdict or verdict.reasons:
        return verdict
    return refuse(call, "unexplained", f"{backend.name} gave no reason")


def _unnamed_dtype(backend: Backend, call: Call) -> str | None:
    """An element type of 8 bits or less in *call*, or in a composite, that *backend* does not name."""
    small = _small_dtypes([call] if isinstance(call.op, Op) else [call, *calls_in(call)])
    if not small:
        return None
    named = {*backend.small_dtypes, *(dtype for condition in backend.constraints for dtype in condition.dtypes)}
    return next((dtype for dtype in small if dtype not in named), None)


def _small_dtypes(calls: Sequence[Call]) -> list[str]:
    """The element types of 8 bits or less of *calls* and of what they read."""
    small: list[str] = []
    for call in calls:
        for value in (call, *call.args):
            ty = value._checked_type
            if type(ty) is not TensorType:
                small += [dtype for dtype in _dtypes(ty) if dtype in SMALL]
            elif ty.dtype in SMALL:
                small.append(ty.dtype)
    return small


def _dtypes(ty: Type | None) -> Iterator[str]:
    """The element types of the tensors in *ty*; none of what is neither a tensor nor a tuple."""
    if isinstance(ty, TensorType):
        yield ty.dtype
    elif isinstance(ty, TupleType):
        for part in ty.fields:
            yield from _dtypes(part)


def form_composites(
    mod: IRModule, backends: Sequence[Backend], boundaries: Boundaries, record: CompositeRecord
) -> tuple[IRModule, dict[str, tuple[int, ...]]]:
    """*mod* with the composites of each backend in turn; those that it refuses, or that hold an excluded operator, are
    dissolved, so that their operators are judged one by one. Also the numbers of the dissolved, by target.
    """
    dissolved: dict[str, tuple[int, ...]] = {}
    for backend in backends:
        from byoc.contract.checks import pattern_entries

        rows = [(e.name, e.pattern, e.check) for e in pattern_entries(backend)]
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
        result[var] = typed_rewrite(
            func,
            lambda before, after: _inlined(after) if before in calls and isinstance(after, Call) else after,
            open_children,
        )
    return InferType()(result)


def _inlined(call: Call) -> Call:
    function = as_function(call.op)
    values = dict[RelayExpr, RelayExpr](zip(function.params, call.args, strict=True))
    return as_call(typed_rewrite(function.body, lambda before, after: values.get(before, after)))


Order = Callable[[Call], tuple[Sequence[Backend], str]]  # the backends as a call prefers them, and why so


def decide(
    mod: IRModule, backends: Sequence[Backend], boundaries: Boundaries, order: Order | None = None
) -> list[Decision]:
    """A decision for each call of *mod*: the first backend that takes it, in *order* (else the one given; policy
    ``order``). Those after it are asked too: one that would take the call says that another comes before it.
    """
    view = boundaries.on(mod)
    calls = (call for _, func in functions_of(mod) for call in calls_of(func))
    return [_decision(call, *(order(call) if order is not None else (backends, "")), view) for call in calls]


def _decision(call: Call, backends: Sequence[Backend], why: str, view: BoundaryView) -> Decision:
    operator, nodes = callee_name(call), span_names(call.span)
    said: list[tuple[str, Verdict]] = []
    target: str | None = None
    for backend in backends:
        reason = view.reason(backend.name, call)
        verdict = judged(backend, call) if reason is None else Verdict(False, operator, nodes, (reason,))
        if verdict and target is not None:
            verdict = refuse(call, PRIORITY, f"{target} comes before it {why or 'in the order of targets'}")
        elif verdict:
            target = backend.name
        said.append((backend.name, verdict))
    return Decision(operator, nodes, target, tuple(said))


def next_in_order(decision: Decision) -> Decision:
    """*decision*, which a limit sent home, at the next target that would take it, where there is one."""
    if decision.target is not None:
        return decision
    later = next((t for t, v in decision.verdicts if any(r.code == PRIORITY for r in v.reasons)), None)
    if later is None:
        return decision
    taken = Verdict(True, decision.operator, decision.nodes)
    verdicts = tuple((t, taken if t == later else v) for t, v in decision.verdicts)
    return replace(decision, target=later, verdicts=verdicts, region=None)
