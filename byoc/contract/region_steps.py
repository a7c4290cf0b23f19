"""A region as a list of steps over numbered values: what a generator of code or of another graph begins with.

Tuples are gone: each tensor has a number of its own, inputs first, then constants, then what each step gives. A
composite is one step, which reads its arguments, then the constants that its pattern matched, in post-order. A value
that the pattern reads at two places is one argument, and two inputs.
:class:`~byoc.contract.RegionGenerator` goes through the same steps with a hook for each operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byoc.contract.verdict import callee_name, operator_in
from byoc.errors import CompileError, UnsupportedError
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import tuple_type
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.core.ndarray import NDArray


@dataclass(frozen=True)
class Step:
    """A call of an operator, or of a composite: the numbers of the values that it reads and of those that it gives.

    Of a composite ``inputs`` are its arguments, then the constants that its pattern matched. ``arguments`` are
    ``inputs`` with those that a composite reads at several places once.
    """

    call: Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arguments: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The operator's name, or the composite's."""
        return callee_name(self.call)

    def operator(self, name: str) -> Call:
        """This call, or the first of a composite, of the operator *name*. Raises CompileError where there is none."""
        return operator_in(self.call, name)


@dataclass(frozen=True)
class RegionSteps:
    """A region: how many inputs it has, its constants by name in their order, its steps, and which values it gives.

    ``types`` are those of the values, by their numbers; ``symbol`` is the name under which the region is called.
    """

    symbol: str
    inputs: int
    constants: Mapping[str, NDArray]
    steps: Sequence[Step]
    outputs: tuple[int, ...]
    types: Sequence[TensorType]


def steps_of(region: Function) -> RegionSteps:
    """The steps of *region*, as ``Backend.compile`` is given it.

    Raises:
        CompileError: it has no ``global_symbol``.
        UnsupportedError: it holds what is no dataflow (control flow, closures).
    """
    symbol = region.attrs.get("global_symbol")
    if not symbol:
        raise CompileError("a region needs the attribute global_symbol: run PartitionGraph")
    region = infer_function(region)
    nodes = list(post_order(region.body, _read))
    constants = [node for node in nodes if isinstance(node, Constant)]
    calls = [node for node in nodes if isinstance(node, Call)]
    numbers: dict[RelayExpr, tuple[int, ...]] = {}
    types: list[TensorType] = []
    for value in (*region.params, *constants, *calls):
        found = tensor_types(value.checked_type)
        numbers[value] = tuple(range(len(types), len(types) + len(found)))
        types += found
    for node in nodes:
        if isinstance(node, Tuple):
            numbers[node] = tuple(k for field in node.fields for k in numbers[field])
        elif isinstance(node, TupleGetItem):
            numbers[node] = _item(node, numbers[node.tuple_value])
        elif node not in numbers:
            raise UnsupportedError(
                f"{symbol}: a {type(node).__name__} is no step of a region; refuse it by a constraint"
            )
    return RegionSteps(
        str(symbol),
        sum(len(numbers[param]) for param in region.params),
        {f"{symbol}_const_{k}": constant.data for k, constant in enumerate(constants)},
        [
            Step(
                call,
                tuple(k for value in _read(call) for k in numbers[value]),
                numbers[call],
                tuple(k for value in (*call.args, *matched_constants(call)) for k in numbers[value]),
            )
            for call in calls
        ],
        numbers[region.body],
        types,
    )


def _read(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The values that *expr* reads; of a composite its arguments, once for each place that reads it, then constants."""
    if isinstance(expr, Call):
        return [*arguments_by_place(expr), *matched_constants(expr)]
    return expr.fields if isinstance(expr, Tuple) else (expr.tuple_value,) if isinstance(expr, TupleGetItem) else ()


def matched_constants(call: Call) -> list[Constant]:
    """The constants inside of a composite, in post-order; none of an operator."""
    inside = post_order(call.op.body) if isinstance(call.op, Function) else ()
    return [node for node in inside if isinstance(node, Constant)]


def arguments_by_place(call: Call) -> Sequence[RelayExpr]:
    """The arguments of *call*; of a composite once for each place inside that reads one, in order."""
    if not isinstance(call.op, Function):
        return call.args
    given: dict[RelayExpr, RelayExpr] = dict(zip(call.op.params, call.args, strict=True))
    inside = [node for node in post_order(call.op.body, dataflow_children) if not isinstance(node, (Var, Constant))]
    return [given[value] for node in inside for value in dataflow_children(node) if value in given]


def _item(item: TupleGetItem, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Those of a tuple's *numbers* that *item* takes; a field may be a tuple itself."""
    widths = [len(tensor_types(field)) for field in tuple_type(item.tuple_value).fields]
    before = sum(widths[: item.index])
    return numbers[before : before + widths[item.index]]
