"""The regions of a partitioned module, measured: operators, borders, constants, operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc.contract.verdict import callee_name
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TupleType
from byoc.partition.calls import is_composite
from byoc.partition.costs.work import Boundary, boundaries, call_operations, constant_bytes
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.traverse import post_order

if TYPE_CHECKING:
    from byoc.relay.transform.cut.partition_graph import OutlinedFunction


@dataclass(frozen=True)
class PlannedRegion:
    """One region: its function's name, its target, its operators and ONNX nodes, its borders and what it costs.

    *composites* are the names of the patterns in it; *operations* is None where the operators cannot be counted;
    *calls* are the numbers of its decisions in the plan.
    """

    symbol: str
    target: str
    operators: tuple[str, ...]
    composites: tuple[str, ...]
    nodes: tuple[str, ...]
    inputs: tuple[Boundary, ...]
    outputs: tuple[Boundary, ...]
    constant_bytes: int
    operations: int
    calls: tuple[int, ...] = ()

    @property
    def input_bytes(self) -> int:
        """Bytes that enter; a dynamic dimension counts as 1."""
        return sum(b.bytes for b in self.inputs)

    @property
    def output_bytes(self) -> int:
        """Bytes that leave; a dynamic dimension counts as 1."""
        return sum(b.bytes for b in self.outputs)

    @property
    def dynamic(self) -> bool:
        """True when a size at the border is known only at run time."""
        return any(b.dynamic for b in (*self.inputs, *self.outputs))


def regions_of_cut(annotated: IRModule, numbers: Sequence[int], mod_name: str) -> Iterator[PlannedRegion]:
    """The regions of *annotated* when it is partitioned under *mod_name*, in the order of their functions.

    *numbers* has the number of the decision for each call of *annotated*, in order.
    """
    from byoc.partition.cut.annotate import outlined_calls
    from byoc.relay.transform.cut.partition_graph import PartitionGraph

    outlined: list[OutlinedFunction] = []
    mod = PartitionGraph(mod_name, record=outlined)(annotated)
    functions = [f for f in mod.functions.values() if isinstance(f, Function) and "Compiler" in f.attrs]
    calls = [tuple(numbers[k] for k in region) for region in outlined_calls(outlined)]
    before = len(functions) - len(calls)  # functions that were regions before
    for number, func in enumerate(functions):
        yield _region_of(func, calls[number - before] if number >= before else ())


def _region_of(func: Function, numbers: tuple[int, ...]) -> PlannedRegion:
    nodes = list(post_order(func))
    calls = [n for n in nodes if isinstance(n, Call) and isinstance(n.op, Op)]
    composites = [callee_name(n) for n in nodes if isinstance(n, Call) and is_composite(n)]
    names = dict.fromkeys(name for call in calls for name in span_names(call.span))
    body = func.body.checked_type
    outputs = list(body.fields) if isinstance(body, TupleType) else [body]
    return PlannedRegion(
        str(func.attrs["global_symbol"]),
        str(func.attrs["Compiler"]),
        tuple(callee_name(call) for call in calls),
        tuple(composites),
        tuple(names),
        tuple(b for p in func.params for b in boundaries(p.name_hint, p.checked_type)),
        tuple(b for k, ty in enumerate(outputs) for b in boundaries(f"out{k}", ty)),
        sum(constant_bytes(n) for n in nodes if isinstance(n, Constant)),
        sum(map(call_operations, calls)),
        numbers,
    )
