"""``byoc lint``: what to know of a model before it is compiled, for all steps at once.

Where each operator would run and what ties the rest to the host, every node that is not supported, free sizes, what
runs on numpy kernels instead of generated code, and for accelerators what makes the model slow there. Nothing is
compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from byoc.base.progress import silent
from byoc.driver.bytecode.control import external, part_of, with_externs, with_parts
from byoc.driver.bytecode.control_modules import straight_parts
from byoc.driver.compiler.compile import CompileOptions, host_main
from byoc.driver.compiler.integers import region_integers, simplified
from byoc.driver.compiler.module_plan import accelerators, named_targets, plan_module
from byoc.driver.host import lower_host
from byoc.driver.model import as_onnx, module_of
from byoc.driver.models.advice import SHOWN, Advice, advice
from byoc.driver.models.unsupported import Import, UnsupportedNode, imported
from byoc.driver.options import PlanRequest
from byoc.driver.pipeline import check_pass_names
from byoc.driver.precision import HostProducts
from byoc.errors import CompileError
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import Any, tensor_types
from byoc.options.entry import takes
from byoc.partition.boundaries import HOST
from byoc.partition.plan.plan import Plan
from byoc.relay.expr import Call, Function
from byoc.relay.frontend.onnx.load import load_model
from byoc.relay.op.sequence import element_of
from byoc.relay.traverse import post_order


@dataclass(frozen=True)
class Kept:
    """Operators of one name that stay where nobody wants them, for one *reason*; *nodes* are theirs of ONNX."""

    operator: str
    reason: str
    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.operator}{_listed(self.nodes)}: {self.reason}"


@dataclass(frozen=True)
class LintReport:
    """What there is to know of a model.

    ``unsupported``: every node that is refused. ``unseen``: how many nodes were not looked at, because they read what
    such a node gives. ``places``: how many operators each target takes. ``tied``: what stays on the host, and what
    each target says against it. ``free_sizes``: the named sizes, with the inputs and axes that have them. ``numpy``:
    what the host runs on numpy kernels. ``advice``: for the accelerators that were asked. ``uncompiled``: why the
    model would not compile.
    """

    targets: tuple[str, ...]
    unsupported: tuple[UnsupportedNode, ...] = ()
    unseen: int = 0
    operators: int = 0
    places: Mapping[str, int] | None = None
    tied: tuple[Kept, ...] = ()
    free_sizes: Mapping[str, Sequence[str]] | None = None
    numpy: tuple[Kept, ...] = ()
    advice: tuple[Advice, ...] = ()
    uncompiled: str = ""

    @property
    def ok(self) -> bool:
        """Whether the model would compile."""
        return not self.unsupported and not self.uncompiled

    def to_json(self) -> dict[str, object]:
        """The report as values that ``json.dumps`` takes."""
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        sizes = [f"{name}: {', '.join(places)}" for name, places in (self.free_sizes or {}).items()]
        placed = ", ".join(f"{count} on {place}" for place, count in (self.places or {}).items())
        unseen = f"; {self.unseen} nodes behind them were not looked at" if self.unseen else ""
        parts = [
            (f"not supported{unseen}", self.unsupported),
            ("would not compile", [self.uncompiled] if self.uncompiled else []),
            ("free sizes (--shape fixes them)", sizes),
            (f"tied to the host, as {', '.join(self.targets)} would have it", self.tied),
            ("on numpy kernels, for which no code is generated", self.numpy),
            (f"advice for {', '.join(self.targets)}", self.advice),
        ]
        lines = [f"{self.operators} operators after simplification{f': {placed}' if placed else ''}"]
        for title, rows in parts:
            if rows:
                lines += ["", f"{title}:", *(f"  {row}" for row in rows)]
        return "\n".join([*lines, "", "the model compiles" if self.ok else "the model does not compile as it is"])


@takes(PlanRequest, "byoc.lint")
def lint(asked: PlanRequest) -> LintReport:
    """What would run where, what is not supported and why, and what to change in the model; nothing is compiled.

    Returns:
        The report; where nodes are not supported it is of the model without them.

    Raises:
        UserError: a model that cannot be read at all, an unknown target.
    """
    check_pass_names(asked.pipeline)
    progress = asked.progress or silent
    targets = tuple(accelerators(named_targets(asked.target_list(), asked, asked.model)))
    progress("reading the model")
    found = _import(asked)
    if found.mod is None:
        return LintReport(targets, found.unsupported, found.unseen)
    progress("simplifying the graph")
    mod = simplified(found.mod, targets, asked.pipeline, asked.precision)
    progress("planning")
    plan = plan_module(mod, asked.target_list(), asked, asked.model if not found.unsupported else None, progress)
    progress("looking at the host's share")
    numpy, uncompiled = _host_share(mod, plan, asked, found.mod)
    main = found.mod["main"]
    assert isinstance(main, Function)
    return LintReport(
        targets,
        found.unsupported,
        found.unseen,
        len(plan.decisions),
        dict(Counter(d.target or HOST for d in plan.decisions).most_common()),
        tuple(_tied(plan)) if targets else (),
        _free_sizes(main),
        tuple(numpy),
        tuple(advice(mod, plan)) if targets else (),
        uncompiled,
    )


def _import(asked: PlanRequest) -> Import:
    if isinstance(asked.model, IRModule):
        return Import((), module_of(asked.model))
    return imported(load_model(as_onnx(asked.model), leave=True), asked.shapes)


def _tied(plan: Plan) -> list[Kept]:
    """What stays on the host, by operator and reasons."""
    found: dict[tuple[str, str], list[str]] = {}
    for decision in plan.host:
        said = [f"{target}: {reason}" for target, verdict in decision.verdicts for reason in verdict.why]
        reason = "; ".join(said) or "the plan leaves it there"
        found.setdefault((decision.operator, reason), []).extend(decision.nodes)
    return [Kept(operator, reason, _once(nodes)) for (operator, reason), nodes in found.items()]


def _host_share(mod: IRModule, plan: Plan, asked: PlanRequest, source: IRModule) -> tuple[list[Kept], str]:
    """The host's functions on numpy kernels, and why the host's share would not compile.

    *source* is the module before simplification, whose parts are looked at one by one where it has control flow, as
    they are compiled; *mod* is the simplified one, which *plan* cuts.
    """
    try:
        whole = with_externs(with_parts(source))
        if not external(whole):
            return _on_numpy(mod, plan, asked), ""
        found = _on_numpy(*_planned(whole, asked), asked)
        for var, function in straight_parts(whole).items():
            found += _on_numpy(*_planned(part_of(whole, var, function), asked), asked)
    except CompileError as error:
        return [], str(error)
    return found, ""


def _planned(mod: IRModule, asked: PlanRequest) -> tuple[IRModule, Plan]:
    """*mod*, simplified, and its plan."""
    targets = accelerators(named_targets(asked.target_list(), asked, None))
    mod = simplified(mod, targets, asked.pipeline, asked.precision)
    return mod, plan_module(mod, asked.target_list(), asked)


def _on_numpy(mod: IRModule, plan: Plan, asked: PlanRequest) -> list[Kept]:
    """The host's functions on numpy kernels of a module, whose external functions are other modules' matter."""
    cut = region_integers(plan.apply(mod))
    regions = {v: f for v, f in cut.functions.items() if isinstance(f, Function) and "Compiler" in f.attrs}
    main = host_main(cut, plan, CompileOptions(pipeline=asked.pipeline), HostProducts())
    functions = lower_host(main, {**regions, **external(cut)}).functions
    return [_kept(functions.interpreted[name], why) for name, why in functions.fallback_reasons.items()]


def _kept(function: Function, reason: str) -> Kept:
    calls = [node for node in post_order(function.body) if isinstance(node, Call) and isinstance(node.op, Op)]
    operators = _once(call.op.name for call in calls if isinstance(call.op, Op))
    return Kept(", ".join(operators), reason, _once(name for call in calls for name in span_names(call.span)))


def _free_sizes(main: Function) -> dict[str, list[str]]:
    """Each named size of the inputs, and where it is."""
    found: dict[str, list[str]] = {}
    for param in main.params:
        for ty in tensor_types(element_of(param.checked_type) or param.checked_type):
            for axis, dim in enumerate(ty.shape):
                if isinstance(dim, Any):
                    found.setdefault(dim.name or "(no name)", []).append(f"axis {axis} of {param.name_hint}")
    return found


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _listed(nodes: Sequence[str]) -> str:
    if not nodes:
        return ""
    more = f" and {len(nodes) - SHOWN} more" if len(nodes) > SHOWN else ""
    return f" ({', '.join(nodes[:SHOWN])}{more})"
