"""How each operator is written: a rule by its name, which refuses what ONNX says otherwise or not at all.

One rule answers for a verdict and for the writing: :func:`unwritable` runs it on a graph that is thrown away.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto

from byoc.errors import UnsupportedError, in_one_line
from byoc.ir.op import Op
from byoc.ir.types import TensorType, Type, tensor_types
from byoc.relay.expr import Call, Constant
from byoc.relay.onnx_writer.graph import GraphWriter, UnwritableError, element_type, elements_of, ports_of

SINCE: Mapping[int, int] = {  # the first opset with elements of a type
    TensorProto.FLOAT8E4M3FN: 19,
    TensorProto.FLOAT8E4M3FNUZ: 19,
    TensorProto.FLOAT8E5M2: 19,
    TensorProto.FLOAT8E5M2FNUZ: 19,
    TensorProto.INT4: 21,
    TensorProto.UINT4: 21,
    TensorProto.FLOAT4E2M1: 23,
    TensorProto.FLOAT8E8M0: 24,
    TensorProto.INT2: 25,
    TensorProto.UINT2: 25,
}
FAMILIES = ("pointwise", "movement", "neural", "reductions")
OF_MODELS = (
    "arithmetic",
    "indexing",
    "integers",
    "recurrent",
    "sizes",
)  # further ones, with which no region for a library is written


@dataclass(frozen=True)
class Written:
    """A typed *call* of an operator that is being written into *graph*.

    *inputs* are the names of its arguments, those of a tuple in one list.
    """

    call: Call
    graph: GraphWriter
    inputs: Sequence[str | Sequence[str]]

    @property
    def attrs(self) -> Any:
        return self.call.attrs

    @property
    def operator(self) -> str:
        """The operator's name."""
        assert isinstance(self.call.op, Op)
        return self.call.op.name

    @property
    def names(self) -> list[str]:
        """The names of its arguments, tuples flattened."""
        return [name for given in self.inputs for name in ([given] if isinstance(given, str) else given)]

    def type(self, number: int) -> TensorType:
        """The type of an argument, which is a tensor."""
        ty = self.call.args[number].checked_type
        assert isinstance(ty, TensorType)
        return ty

    @property
    def result(self) -> TensorType:
        """The type of the result; of a tuple the first."""
        return tensor_types(self.call.checked_type)[0]

    def value(self, operator: str, *inputs: str, **attributes: object) -> str:
        """The one value of a new node of the graph."""
        return self.graph.value(operator, *inputs, **attributes)

    def constant(self, number: int) -> Constant:
        """An argument that must be constant. Raises UnwritableError."""
        found = self.call.args[number]
        if not isinstance(found, Constant):
            raise UnwritableError(f"{self.operator}: argument {number} that is not constant")
        return found


Rule = Callable[[Written], str | list[str]]  # the names of its result's tensors


def needs(condition: object, what: str) -> None:
    """Raise UnwritableError for *what*, unless *condition* holds."""
    if not condition:
        raise UnwritableError(what)


def static(ty: Type) -> tuple[int, ...]:
    """The shape of a tensor of static shape. Raises UnwritableError for another."""
    needs(isinstance(ty, TensorType) and ty.is_static, f"a tensor of free sizes, {ty}")
    assert isinstance(ty, TensorType)
    return ty.concrete_shape


def write_call(
    call: Call, graph: GraphWriter, inputs: Sequence[str | Sequence[str]], of_model: bool = False
) -> list[str]:
    """Write the typed *call* of an operator; the names of its result's tensors. Raises UnwritableError.

    *of_model* is for a whole model, for which there are more rules (:data:`OF_MODELS`) than for regions.
    """
    needs(isinstance(call.op, Op), f"a call of a {type(call.op).__name__}")
    assert isinstance(call.op, Op)
    known = rules(of_model)
    needs(call.op.name in known, f"{call.op.name} has no rule")
    for port in [p for value in (call, *call.args) for p in ports_of(value.checked_type)]:
        elements = elements_of(port)
        if elements is not None:
            _check_dtype(elements.dtype, graph.opset)
    found = known[call.op.name](Written(call, graph, inputs))
    names = [found] if isinstance(found, str) else found
    graph.made[names[0]] = (call, Written(call, graph, inputs).names)
    for name, ty in zip(names, ports_of(call.checked_type), strict=True):
        graph.note(name, ty)
    return names


def _check_dtype(dtype: str, opset: int) -> None:
    """Raise UnwritableError for a dtype that ONNX does not have at *opset*."""
    try:
        number = element_type(dtype)
    except (KeyError, ValueError, TypeError) as error:
        raise UnwritableError(f"a tensor of {dtype}") from error
    since = SINCE.get(number, 1)
    needs(opset >= since, f"a tensor of {dtype}, which ONNX has from opset {since} on")


@functools.cache
def rules(of_model: bool = False) -> Mapping[str, Rule]:
    """All rules, by operator: the tables ``RULES`` of the families; those for models too where it is one."""
    families = (*FAMILIES, *OF_MODELS) if of_model else FAMILIES
    tables = [importlib.import_module(f"byoc.relay.onnx_writer.{family}").RULES for family in families]
    return {name: rule for table in tables for name, rule in table.items()}


def unwritable(call: Call) -> str | None:
    """Why the typed *call* of an operator cannot be written as ONNX; None where it can."""
    inputs: list[str | list[str]] = []
    for number, arg in enumerate(call.args):
        types = tensor_types(arg.checked_type)
        one = isinstance(arg.checked_type, TensorType)
        inputs.append(f"x{number}" if one else [f"x{number}.{k}" for k in range(len(types))])
    try:
        write_call(call, GraphWriter(), inputs)
    except UnsupportedError as error:
        return in_one_line(error)
    return None
