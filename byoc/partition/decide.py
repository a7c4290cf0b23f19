"""Who takes which operator: composites are formed and every call gets the verdict of each target that was asked.

Invariant: a call is numbered by its place in post-order over the functions of the module, annotations not counted; the
number survives annotation and merging, so that decisions can be kept apart from expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from byoc.codegen.backend import Backend, Reason, Verdict, accept, callee_name, refuse
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.partition.exclusions import Exclusions
from byoc.relay.analysis.region_graph import open_children
from byoc.relay.expr import Call, Function
from byoc.relay.op.annotation import is_begin, is_end
from byoc.relay.transform.infer_type import InferType, is_optimizable
from byoc.relay.transform.merge_composite import CompositeRecord, MergeComposite
from byoc.relay.traverse import post_order
from byoc.relay.typed_rewrite import typed_rewrite


@dataclass(frozen=True)
class Alternative:
    """Another way to run an operator, alone or as part of a composite: its target, its name and its seconds."""

    target: str
    name: str
    seconds: float


@dataclass(frozen=True)
class Decision:
    """Where one call goes (None is the host), and what each target that was asked said.

    *precision* is that of the host's product where another than the model's was asked for, and *precision_reason* why
    it is not that one. Where regions were planned and not merged, *region* is the number of the call's own; where costs
    were asked, *seconds* is the call's by its cost model, *source* says where that number is from, and *alternatives*
    what else could have run it.
    """

    operator: str
    nodes: tuple[str, ...]
    target: str | None
    verdicts: tuple[tuple[str, Verdict], ...] = ()
    precision: str = ""
    precision_reason: str = ""
    region: int | None = None
    seconds: float | None = None
    source: str = ""
    alternatives: tuple[Alternative, ...] = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """Why the call is on the host, as codes of reasons, by target; empty where it is not."""
        if self.target is not None:
            return ()
        return tuple(f"{t}:{r.code}" for t, v in self.verdicts for r in v.reasons) or ("no_target",)

    @property
    def place(self) -> str:
        """``c/bf16``, ``c/f32: why``: where the host computes it; empty where no precision was asked for."""
        if not self.precision:
            return ""
        return f"place c/{self.precision}{f': {self.precision_reason}' if self.precision_reason else ''}"


def functions_of(mod: IRModule) -> Iterator[tuple[GlobalVar, Function]]:
    """The functions that may be partitioned, by name."""
    for var, func in mod.functions.items():
        if is_optimizable(func):
            yield var, func  # type: ignore[misc]


def is_composite(call: Call) -> bool:
    """True for the call of a composite function."""
    return isinstance(call.op, Function) and "Composite" in call.op.attrs


def calls_of(func: Function) -> Iterator[Call]:
    """The calls of operators and of composites in *func*, in post-order, without annotations."""
    for node in post_order(func, open_children):
        if isinstance(node, Call) and not is_begin(node) and not is_end(node):
            if isinstance(node.op, Op) or is_composite(node):
                yield node


def inner_calls(call: Call) -> list[Call]:
    """The calls of operators that *call* stands for: itself, or those in the composite's body."""
    if not isinstance(call.op, Function):
        return [call]
    return [n for n in post_order(call.op.body) if isinstance(n, Call) and isinstance(n.op, Op)]


def names_of(call: Call) -> set[str]:
    """The names by which a user may mean *call*: operators, ONNX nodes, the composite."""
    names = {callee_name(call), *span_names(call.span)}
    for inner in inner_calls(call):
        names.add(callee_name(inner))
        names.update(span_names(inner.span))
    return names


def known_names(mod: IRModule) -> set[str]:
    """Every name by which a user may mean a call of *mod*."""
    return {name for _, func in functions_of(mod) for call in calls_of(func) for name in names_of(call)}


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
    mod: IRModule, backends: Sequence[Backend], exclusions: Exclusions, record: CompositeRecord
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
        refused = [
            n
            for n, call in enumerate(found)
            if exclusions.covers(backend.name, names_of(call)) or not judged(backend, call)
        ]
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


def decide(mod: IRModule, backends: Sequence[Backend], exclusions: Exclusions) -> list[Decision]:
    """A decision for each call of *mod*: the first backend, in order, that takes it (policy ``order``)."""
    return [_decision(call, backends, exclusions) for _, func in functions_of(mod) for call in calls_of(func)]


def _decision(call: Call, backends: Sequence[Backend], exclusions: Exclusions) -> Decision:
    operator, nodes = callee_name(call), span_names(call.span)
    excluded = Verdict(False, operator, nodes, (Reason("excluded", "the user excluded it"),))
    names = names_of(call)
    asked: list[tuple[str, Verdict]] = []
    for backend in backends:
        verdict = excluded if exclusions.covers(backend.name, names) else judged(backend, call)
        asked.append((backend.name, verdict))
        if verdict:
            return Decision(operator, nodes, backend.name, tuple(asked))
    return Decision(operator, nodes, None, tuple(asked))
