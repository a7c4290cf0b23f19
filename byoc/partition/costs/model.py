"""What every cost model answers: the seconds of operators, of regions, of transfers, of launches; estimates, places.

A *unit* is what a solver places: the call of an operator, or of a function (a composite, a region). Costs of units are
added up, so what units share, such as a kernel in which they are fused, is divided among them: :meth:`CostModel.units`
sees the calls of a graph together and may give a fused operator next to nothing. A target is the name of a backend;
``host`` is the host's own name, which is backend ``c``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeGuard

from byoc.contract.options import HOST_BACKEND as HOST_BACKEND
from byoc.contract.verdict import callee_name
from byoc.errors import PartitionError
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.partition.boundaries import HOST as HOST
from byoc.relay.expr import Call, Function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order

# An estimate: seconds, and where the number comes from. Whatever a cost model gives passes :func:`checked`.


@dataclass(frozen=True)
class Estimate:
    """So many *seconds*, as *source* says: ``analytic``, ``measured``, ``table acme.json``, or more than one of them.

    They are infinite for what was found impossible; *source* then says why.
    """

    seconds: float
    source: str

    def __add__(self, other: Estimate) -> Estimate:
        return total([self, other])


def total(estimates: Iterable[Estimate], nothing: str = "nothing to do") -> Estimate:
    """The sum, with each source once; that of none is 0 seconds from *nothing*.

    >>> total([Estimate(1.0, "measured"), Estimate(2.0, "analytic"), Estimate(0.5, "measured")])
    Estimate(seconds=3.5, source='measured, analytic')
    """
    kept = list(estimates)
    sources = dict.fromkeys(source for e in kept for source in e.source.split(", "))
    return Estimate(math.fsum(e.seconds for e in kept), ", ".join(sources) or nothing)


def float_of(value: object) -> float | None:
    """*value* as a float, infinite where it is beyond; None where it is no real number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def checked(seconds: object, backend: str, what: str, source: str) -> Estimate:
    """*seconds* as an estimate. Raises PartitionError for what is no number, negative, infinite or not a number.

    *what* is the operator with its node, or the transfer or launch, as the message shall name it.
    """
    value = float_of(seconds)
    if value is not None:
        if math.isfinite(value) and value >= 0:
            return Estimate(value, source)
        found = "a negative one" if value < 0 else repr(value)
    else:
        found = "nothing" if seconds is None else repr(seconds)
    raise PartitionError(
        f"backend {backend!r}: the cost of {what} by {source} must be a finite number of seconds from 0, got {found}"
    )


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


_SPELLINGS = {
    "f32": "float32",
    "float": "float32",
    "fp32": "float32",
    "f16": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "fp64": "float64",
    "any": "",
}


@dataclass(frozen=True)
class UnitPlace:
    """A target, and the dtype in which its products compute; empty as the unit is typed."""

    target: str
    precision: str = ""


def precision_name(precision: str) -> str:
    """The dtype that *precision* means, in any of its spellings.

    >>> precision_name("bf16"), precision_name("float"), precision_name("int8"), precision_name("")
    ('bfloat16', 'float32', 'int8', '')
    """
    return _SPELLINGS.get(str(precision), str(precision))
