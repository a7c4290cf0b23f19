"""An ONNX graph under construction: values have names, each node gives new ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from byoc.errors import UnsupportedError
from byoc.ir.expr import GlobalVar
from byoc.ir.op import Op
from byoc.ir.types import Any, TensorType, TupleType, Type, TypeCall
from byoc.relay.expr import Call, Function
from byoc.relay.onnx_writer.source import OPSET, SourceModel
from byoc.relay.op.sequence import UNKNOWN, element_of, is_any_rank, is_optional
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.movement.transform import VIEWS

BEYOND = 2**31 - 1  # an end that no axis reaches


def element_type(dtype: str) -> int:
    """ONNX's number of a dtype; bfloat16 and what is smaller are dtypes of numpy's through ml_dtypes."""
    return (
        int(TensorProto.STRING)
        if dtype == "string"
        else int(helper.np_dtype_to_tensor_dtype(np.dtype(numpy_dtype(dtype))))
    )


class UnwritableError(UnsupportedError):
    """What has no rule, or a form that ONNX does not have; *nodes* are the source's, of which it was made."""

    def __init__(self, message: str, nodes: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.nodes = frozenset(nodes)


Port = TensorType | TypeCall  # a tensor, one whose rank only the run knows, a sequence, an optional


def ports_of(ty: Type) -> list[Port]:
    """The values in *ty*, tuples flattened. Raises UnwritableError for a function and what else is none."""
    if isinstance(ty, TupleType):
        return [port for field in ty.fields for port in ports_of(field)]
    if isinstance(ty, TensorType) or (isinstance(ty, TypeCall) and (is_any_rank(ty) or element_of(ty) is not None)):
        return [ty]
    raise UnwritableError(f"a value of the type {ty}, which is no tensor")


def elements_of(ty: Type) -> TensorType | None:
    """A tensor of the dtype of *ty*; None for a sequence of which nothing is known."""
    while isinstance(ty, TypeCall):
        ty = ty.args[0]
    return ty if isinstance(ty, TensorType) else None


def value_info(name: str, ty: Port) -> ValueInfoProto:
    """The type of the value *name*; of unknown rank by its elements alone."""
    return helper.make_value_info(name, _type_proto(ty))


def _type_proto(ty: Type) -> TypeProto:
    if isinstance(ty, TensorType):
        shape = [(d.name or None) if isinstance(d, Any) else d for d in ty.shape]
        return helper.make_tensor_type_proto(element_type(ty.dtype), shape)
    if isinstance(ty, TypeCall) and is_any_rank(ty):
        elements = elements_of(ty)
        assert elements is not None
        return helper.make_tensor_type_proto(element_type(elements.dtype), None)
    inner = element_of(ty)
    if inner is None or inner == UNKNOWN:
        raise UnwritableError(f"a value of the type {ty}, of whose elements nothing is known")
    make = helper.make_optional_type_proto if is_optional(ty) else helper.make_sequence_type_proto
    return make(_type_proto(inner))


def _without_names(ty: Port) -> Port:
    """*ty* with sizes that are numbers alone: names hold for a whole model."""
    if isinstance(ty, TypeCall):
        return ty
    return TensorType([d if isinstance(d, int) else Any() for d in ty.shape], ty.dtype)


class GraphWriter:
    """Nodes and constants in order. Every name is new, and none of *taken*.

    *functions* are those that a call may name. A graph inside a node (:meth:`inside`) reads what is around it; its
    constants stand in the outermost graph.
    """

    def __init__(
        self, taken: Iterable[str] = (), of_model: bool = False, functions: Mapping[GlobalVar, Function] | None = None
    ) -> None:
        self.of_model, self.functions = of_model, dict(functions or {})
        self.after = SourceModel()
        self.opsets: dict[str, int] = {}  # of other domains
        self.kept_outputs: set[str] = set()  # what nodes of the source give
        self.problems: list[UnwritableError] = []  # of a whole model: all that is not written
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.unchecked: dict[str, str] = {}  # indices before they were looked at, by those behind
        self.made: dict[str, tuple[Call, Sequence[str]]] = {}  # calls that were written, with the names of arguments
        self.holds: dict[str, bool] = {}  # conditions of the branches that the graph stands in
        self._sizes: dict[str, tuple[str, int]] = {}  # a value that has a size of a name, and along which axis
        self._names = itertools.count(1)
        self._taken = frozenset(taken)

    def inside(self) -> GraphWriter:
        """A graph that stands in a node of this one."""
        inner = GraphWriter(self._taken, self.of_model, self.functions)
        inner.constants, inner._names = self.constants, self._names
        inner.after, inner.opsets = self.after, self.opsets
        inner.kept_outputs, inner.problems = self.kept_outputs, self.problems
        inner.holds = dict(self.holds)
        inner.unchecked, inner.made, inner._sizes = dict(self.unchecked), dict(self.made), dict(self._sizes)
        return inner

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators that is written: the source's, where that is new enough."""
        return max(OPSET, self.after.opset)

    def as_graph(
        self, name: str, inputs: Sequence[tuple[str, Port]], outputs: Sequence[tuple[str, Port]]
    ) -> GraphProto:
        """What was written as a graph inside a node: of its inputs it says how many axes they have, of outputs less."""
        first = [value_info(n, _without_names(ty)) for n, ty in inputs]
        last = [value_info(n, _without_names(ty)) for n, ty in outputs]
        for value in last:  # whose sizes ONNX finds
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
        return helper.make_graph(self.nodes, self.name(name), first, last)

    def source(self, value: str) -> str:
        """What *value* is, but for its shape."""
        while value in self.made:
            call, names = self.made[value]
            if not isinstance(call.op, Op) or call.op.name not in VIEWS:
                break
            value = names[0]
        return value

    def name(self, stem: str) -> str:
        """A name that nothing has."""
        return next(name for name in (f"{stem}_{k}" for k in self._names) if name not in self._taken)

    def constant(self, value: np.ndarray | Sequence[int]) -> str:
        """A constant; a sequence of ints is a vector of int64."""
        array = value if isinstance(value, np.ndarray) else np.asarray(value, "int64")
        made = numpy_helper.from_array(np.asarray(array, order="C"), self.name("const"))
        self.constants.append(made)
        return str(made.name)

    def note(self, value: str, ty: Type, anew: bool = False) -> None:
        """Remember that *value* has the free sizes of *ty*; with *anew* their names stand for others from here on."""
        for axis, dim in enumerate(ty.shape if isinstance(ty, TensorType) else ()):
            if isinstance(dim, Any) and dim.name and (anew or dim.name not in self._sizes):
                self._sizes[dim.name] = (value, axis)

    def size(self, dim: Any) -> str | None:
        """A vector of int64 that holds a free size alone; None where no value before has it."""
        if dim.name not in self._sizes:
            return None
        value, axis = self._sizes[dim.name]
        return self.value("Shape", value, start=axis, end=axis + 1)

    def scalar(self, value: float, dtype: str) -> str:
        """A constant of no dimension."""
        return self.constant(np.asarray(value, numpy_dtype(dtype)))

    def node(self, operator: str, inputs: Sequence[str], outputs: int = 1, **attributes: object) -> list[str]:
        """The values that a new node gives; attributes that are None are left out."""
        names = [self.name(operator.lower()) for _ in range(outputs)]
        node = helper.make_node(operator, list(inputs), names)
        given = {key: value for key, value in attributes.items() if value is not None}
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(given.items()))
        self.nodes.append(node)
        return names

    def value(self, operator: str, *inputs: str, **attributes: object) -> str:
        """The one value of a new node."""
        return self.node(operator, inputs, 1, **attributes)[0]
