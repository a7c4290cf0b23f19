"""A region as a list of steps over numbered values: what a generator of code or of another graph begins with.

Tuples are gone: each tensor has a number of its own, inputs first, then constants, then what each step gives. A
composite is one step, which reads its arguments, then the constants that its pattern matched, in post-order. A value
that the pattern reads at two places is one argument, and two inputs. A constant that is read at two places (a model's
zero points are often one constant) is two of both: whether values are shared does not change what a kernel is given.
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

    Of a composite ``inputs`` are its arguments, then the constants that its pattern matched, each once for each place
    that reads it. ``arguments`` are ``inputs`` with arguments that a composite reads at several places once.
    """

    call: Call
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arguments: tuple[int, ...] = ()
    forms: tuple[tuple[int, ...], ...] = ()

    def given(self, count: int | None) -> tuple[int, ...]:
        """What it reads, as code that takes *count* tensors is given it; None where any number will do."""
        return next((form for form in self.forms if len(form) == count), self.arguments)

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
        [_step(call, numbers) for call in calls],
        numbers[region.body],
        types,
    )


def _step(call: Call, numbers: Mapping[RelayExpr, tuple[int, ...]]) -> Step:
    forms = [tuple(k for value in form for k in numbers[value]) for form in input_forms(call)]
    inputs = tuple(k for value in _read(call) for k in numbers[value])
    return Step(call, inputs, numbers[call], forms[0], tuple(forms))


def _read(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The values that *expr* reads; of a composite its arguments, then constants, once for each place."""
    if isinstance(expr, Call):
        return [*arguments_by_place(expr), *constants_by_place(expr)]
    return expr.fields if isinstance(expr, Tuple) else (expr.tuple_value,) if isinstance(expr, TupleGetItem) else ()


def input_forms(call: Call) -> list[list[RelayExpr]]:
    """The inputs of *call* in the forms in which code may take them, the most usual first; of an operator one form.

    What a composite reads at two places is given once or for each place: constants for each, arguments once; both for
    each; both once; arguments for each.
    """
    if not isinstance(call.op, Function):
        return [list(call.args)]
    places, constants = arguments_by_place(call), constants_by_place(call)
    once = list(dict.fromkeys(constants))
    return [[*arguments, *of] for of in (constants, once) for arguments in (call.args, places)]


def inputs_given(call: Call, count: int | None) -> list[RelayExpr]:
    """The inputs of the typed *call* in the form that has *count* tensors; the most usual where none has."""
    forms = input_forms(call)
    return next((form for form in forms if _tensors(form) == count), forms[0])


def _tensors(values: Sequence[RelayExpr]) -> int:
    return sum(len(tensor_types(value.checked_type)) for value in values)


def constants_by_place(call: Call) -> list[RelayExpr]:
    """The constants inside of a composite once for each place that reads one, in post-order; none of an operator."""
    found: list[RelayExpr] = []
    seen: set[RelayExpr] = set()
    left: list[RelayExpr] = [call.op.body] if isinstance(call.op, Function) else []
    while left:
        node = left.pop()
        if isinstance(node, Constant):
            found.append(node)
        elif node not in seen:
            seen.add(node)
            left += reversed(dataflow_children(node))
    return found


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
