"""A region with kernels in Python as a graph of nodes that are called one after the other.

Each call becomes a node named by its kernel; kernels of source among them are modules of their own, one function for
each call. Floats are converted around a kernel that computes in another float than its call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.codegen.json.kernel_attributes import attributes_inside
from byoc.codegen.json.serialize import JSONSerializer
from byoc.contract.region_steps import RegionSteps, Step
from byoc.contract.signature import signature_of
from byoc.ir.expr import RelayExpr
from byoc.ir.types import tensor_types
from byoc.kernels.c_region import c_module
from byoc.kernels.opencl_region import opencl_module
from byoc.partition.place import FLOATS, Precision, dtype_of, precision_of
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.source import CSource, OpenCLSource
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function, Tuple, TupleGetItem, Var
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.json.kernels_module import KernelsModule, RegionTable, SourceModule, converting
from byoc.runtime.json.table import NUMPY, table_of_kernels

AttributesInside = Callable[[Function], Mapping[str, object] | None]


def python_module(
    function: Function, region: RegionSteps, kernels: Sequence[Kernel], target: str, inside: AttributesInside
) -> KernelsModule:
    """The module of the typed *function*, whose *region* has a kernel for each step; *inside* gives what kernels of
    composites get of the operators in them, or None for what they declare.
    """
    names: dict[Call, str] = {}
    inner: dict[str, SourceModule] = {}
    for k, (step, kernel) in enumerate(zip(region.steps, kernels, strict=True)):
        names[step.call] = _name(kernel, step.call)
        if isinstance(kernel.run, (CSource, OpenCLSource)):
            names[step.call] = f"{kernel}#{k}"
            inner[names[step.call]] = _alone(f"{region.symbol}_kernel_{k}", region, step, kernel)
    renamed = infer_function(_renamed(function, names))
    declared = table_of_kernels(target) if any(callable(k.run) for k in kernels) else NUMPY
    table = RegionTable(declared, inner)
    serializer = JSONSerializer(
        region.symbol,
        lambda composite: attributes_inside(composite, table) if (own := inside(composite)) is None else own,
        table.__contains__,
        composite_constants=True,
        arity=table.arity,
    )
    graph = serializer.serialize(renamed)
    module = KernelsModule(
        {region.symbol: graph}, [signature_of(region.symbol, renamed, serializer.constants)], declared.name, inner
    )
    module.constant_arrays = serializer.constants
    return module


def _alone(symbol: str, region: RegionSteps, step: Step, kernel: Kernel) -> SourceModule:
    """The module of a kernel of source for one step."""
    count = len(step.inputs)
    results = tuple(range(count, count + len(step.outputs)))
    types = [region.types[n] for n in (*step.inputs, *step.outputs)]
    one = RegionSteps(symbol, count, {}, [Step(step.call, tuple(range(count)), results)], results, types)
    return (c_module if isinstance(kernel.run, CSource) else opencl_module)(one, [kernel])


def _name(kernel: Kernel, call: Call) -> str:
    """What the node of *call* is called; with the floats of the kernel and of the call where these differ."""
    if kernel.place.precision in FLOATS:
        wanted = dtype_of(Precision(kernel.place.precision))
        types = [t for value in (*call.args, call) for t in tensor_types(value.checked_type)]
        others = [t.dtype for t in types if precision_of(t.dtype) in FLOATS and t.dtype != wanted]
        if others:
            return converting(str(kernel), wanted, others[0])
    return str(kernel)


def _renamed(function: Function, names: Mapping[Call, str]) -> Function:
    """*function* with calls of composites that are named by *names*."""
    made: dict[RelayExpr, RelayExpr] = {}
    for node in post_order(function.body, _arguments):
        made[node] = node
        if isinstance(node, Call):
            made[node] = Call(_composite(node, names[node]), [made[arg] for arg in node.args], span=node.span)
        elif isinstance(node, Tuple):
            made[node] = Tuple([made[f] for f in node.fields])
        elif isinstance(node, TupleGetItem):
            made[node] = TupleGetItem(made[node.tuple_value], node.index)
    return Function(function.params, made[function.body], attrs=function.attrs)


def _composite(call: Call, name: str) -> Function:
    if isinstance(call.op, Function):
        return Function(call.op.params, call.op.body, attrs={**call.op.attrs, "Composite": name})
    params = [Var(f"in{k}", arg.checked_type) for k, arg in enumerate(call.args)]
    return Function(params, Call(call.op, params, call.attrs, call.type_args, call.span), attrs={"Composite": name})


def _arguments(expr: RelayExpr) -> Sequence[RelayExpr]:
    return expr.args if isinstance(expr, Call) else dataflow_children(expr)
