"""What every cost model answers: the seconds of operators, of regions, of transfers and of launches at a place.

A *unit* is what a solver places: the call of an operator, or of a function (a composite, a region). Costs of units are
added up, so what units share, such as a kernel in which they are fused, is divided among them: :meth:`CostModel.units`
sees the calls of a graph together and may give a fused operator next to nothing. A target is the name of a backend;
``host`` is the host's own name, which is backend ``c``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import TypeGuard

from byoc.contract.verdict import callee_name
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.partition.costs.estimate import Estimate, total
from byoc.relay.expr import Call, Function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order

HOST = "host"
HOST_BACKEND = "c"
NAMED = 3
WHOLE = ("Composite", "Compiler", "Primitive")  # attributes of functions that are one unit


class CostModel(ABC):
    """Seconds, and where they come from. Every method raises PartitionError where the model has no number."""

    name: str = ""

    @abstractmethod
    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        """The seconds of each of *calls*, given in topological order, when all of them run on *target*.

        *precision* is the dtype or precision in which products compute (``float32``, ``bf16``); empty is as typed.
        """

    def share(
        self, calls: Sequence[Call], leaving: Collection[Call], target: str, precision: str = ""
    ) -> list[Estimate]:
        """As :meth:`units`, where the results of *leaving* are also read by something else than *calls*.

        What is read elsewhere is stored, and ends its kernel. A model that does not know of kernels need not care.
        """
        return self.units(calls, target, precision)

    @abstractmethod
    def transfer(self, size: int, source: str, destination: str) -> Estimate:
        """The seconds of bringing *size* bytes from the device of one target to that of another."""

    @abstractmethod
    def launch(self, target: str) -> Estimate:
        """The seconds of starting one region on *target*, beside its work."""

    def way(self, size: int, source: str, destination: str) -> float:
        """The seconds of bringing *size* bytes to another region: between two of one target, over the host."""
        if source != destination:
            return self.transfer(size, source, destination).seconds
        return 0.0 if source == HOST else self.way(size, source, HOST) + self.way(size, HOST, source)

    def unit(self, call: Call, target: str, precision: str = "") -> Estimate:
        """The seconds of *call* by itself."""
        return self.units([call], target, precision)[0]

    def region(self, function: Function, target: str, precision: str = "") -> Estimate:
        """The seconds of a region: the sum of its units, where a model knows no better."""
        return total(self.units(unit_calls(function), target, precision))


def unit_calls(function: Function) -> list[Call]:
    """The calls of operators and of functions in *function*, in topological order, without what those hold."""
    return [node for node in post_order(function.body, fusion_children) if is_unit(node)]


def is_unit(node: object) -> TypeGuard[Call]:
    """True for what is placed as one: the call of an operator, or of a function that is compiled as a whole."""
    if not isinstance(node, Call):
        return False
    return isinstance(node.op, Op) or (isinstance(node.op, Function) and any(node.op.attrs.get(k) for k in WHOLE))


def inner_calls(call: Call) -> list[Call]:
    """The calls of operators that *call* stands for: itself, or those in its function, at any depth."""
    if isinstance(call.op, Op):
        return [call]
    return [n for n in post_order(call.op) if isinstance(n, Call) and isinstance(n.op, Op)]


def described(call: Call) -> str:
    """What messages call a unit: its operator and the ONNX nodes that it comes from."""
    names = span_names(call.span)
    more = ", ..." if len(names) > NAMED else ""
    return f"{callee_name(call)} (node {', '.join(names[:NAMED])}{more})" if names else callee_name(call)


def backend_of(target: str) -> str:
    """The backend's name of a target: that of the host is ``c``."""
    return HOST_BACKEND if target == HOST else target
