"""A compiled model in its parts: the regions of backends and the host's groups, in the order in which they run.

Each part is a function with what the reference gives it, so that it can be compiled and run alone, whatever stands
before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.contract.options import HOST_BACKEND
from byoc.driver.compiler.plan import simplify_and_plan
from byoc.driver.host import bind_constants
from byoc.driver.options import PlanRequest
from byoc.driver.pipeline import host_layout, prepare_host
from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TensorType
from byoc.relay.expr import Call, Constant, Function, Var
from byoc.relay.traverse import dataflow_children, post_order, substitute
from byoc.runtime.core.ndarray import dtype_name
from byoc.testing.core.case import Arrays, Case, function_of
from byoc.testing.core.reference import Data, Values, flat, narrowed, node_values

REGION, GROUP, OPERATOR = "region", "host's group", "operator"


@dataclass(frozen=True)
class Part:
    """A piece of a model: its name, the target that computes it, its ONNX nodes, and the case that it makes."""

    name: str
    target: str
    kind: str
    nodes: tuple[str, ...]
    case: Case


@dataclass(frozen=True)
class CutModel:
    """A model as the runtime will run it: main with fused groups and calls of regions."""

    mod: IRModule
    main: Function

    def values(self, arrays: Sequence[np.ndarray]) -> Values:
        """What the reference gives in float64, for each node of main."""
        return node_values(self.main, arrays, True, self.mod)

    def parts(self, values: Values) -> Iterator[Part]:
        """The parts in their order, each on the reference's *values*."""
        for node in post_order(self.main.body, _dataflow):
            if isinstance(node, Call):
                yield self._part(node, values)

    def _part(self, call: Call, values: Values) -> Part:
        callee = self.mod[call.op.name_hint] if isinstance(call.op, GlobalVar) else call.op
        if not isinstance(callee, Function):
            raise UserError(f"{', '.join(span_names(call.span)) or 'main'}: a call outside of groups and regions")
        function, args = bind_constants(callee, call.args)
        target = str(callee.attrs.get("Compiler", HOST_BACKEND))
        kind = REGION if isinstance(call.op, GlobalVar) else GROUP
        name = call.op.name_hint if isinstance(call.op, GlobalVar) else "_".join(operators(function))
        plain = function_of(function.params, function.body)
        nodes = span_names(call.span) or span_names(function.body.span)
        return Part(name, target, kind, nodes, Case(name, name, kind, plain, (given(args, values),)))


def cut_model(request: PlanRequest) -> CutModel:
    """The model of *request*, planned, cut, and its host's share fused. Raises UserError for what cannot be."""
    mod, plan = simplify_and_plan(request)
    prepared = prepare_host(host_layout({}), chosen=request.pipeline)(plan.apply(mod))
    main = prepared["main"]
    assert isinstance(main, Function)
    return CutModel(prepared, main)


def operator_parts(part: Part) -> Iterator[Part]:
    """Each operator, or composite, of a part alone, on what the reference gives it there."""
    function = part.case.function
    values = node_values(function, part.case.feeds[0], True)
    for node in post_order(function.body, dataflow_children):
        if isinstance(node, Call):
            name = node.op.name if isinstance(node.op, Op) else _composite(node)
            case = alone(node, values, name)
            yield Part(name, part.target, OPERATOR, span_names(node.span) or part.nodes, case)


def alone(call: Call, values: Values, name: str) -> Case:
    """*call* as a function of its own: constants stay, other arguments are parameters with their *values*."""
    params: list[Var] = []
    arrays: list[np.ndarray] = []
    replaced: dict[RelayExpr, RelayExpr] = {}
    for leaf in _leaves(call):
        if leaf in replaced:
            continue
        if not isinstance(leaf.checked_type, TensorType):
            var = Var(f"x{len(params)}", leaf.checked_type)
            arrays += flat(narrowed(values[leaf], leaf.checked_type))
        else:
            value = narrowed(values[leaf], leaf.checked_type)
            assert isinstance(value, np.ndarray)
            var = Var(f"x{len(params)}", TensorType(value.shape, dtype_name(value.dtype)))
            arrays.append(value)
        params.append(var)
        replaced[leaf] = var
    fresh = Call(call.op, [substitute(a, replaced) for a in call.args], call.attrs, None, call.span)
    return Case(name, name, OPERATOR, function_of(params, fresh), (tuple(arrays),))


def _leaves(call: Call) -> Iterator[RelayExpr]:
    """What *call* reads that is neither a constant nor a tuple made for it."""
    stack = list(reversed(call.args))
    while stack:
        node = stack.pop()
        if isinstance(node, Constant):
            continue
        fields = getattr(node, "fields", None)
        if fields is not None:
            stack.extend(reversed(fields))
        else:
            yield node


def given(args: Sequence[RelayExpr], values: Values) -> Arrays:
    """What a function is given: the reference's values in the types of *args*, tuples flattened."""
    found: list[Data] = [narrowed(values[a], a.checked_type) for a in args]
    return tuple(np.array(a, order="C") for value in found for a in flat(value))


def operators(function: Function) -> list[str]:
    """The names of the operators in *function*, in their order."""
    return [
        n.op.name if isinstance(n.op, Op) else _composite(n)
        for n in post_order(function.body, dataflow_children)
        if isinstance(n, Call)
    ]


def named_inputs(main: Function, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The arrays of *main*'s parameters in their order."""
    return [arrays[p.name_hint] for p in main.params]


def _composite(call: Call) -> str:
    return str(call.op.attrs.get("Composite", "function")) if isinstance(call.op, Function) else type(call.op).__name__


def _dataflow(node: RelayExpr) -> Sequence[RelayExpr]:
    if isinstance(node, Call):
        return node.args
    return () if isinstance(node, (Function, GlobalVar)) else dataflow_children(node)
