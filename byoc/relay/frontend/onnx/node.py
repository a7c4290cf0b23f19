"""One ONNX node as its converter sees it: inputs as expressions, attributes by type, and what is known of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, TensorProto

from byoc.errors import ImportModelError
from byoc.ir.dims import are_numbers
from byoc.ir.expr import RelayExpr
from byoc.ir.types import Any, Dim, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Constant, constant
from byoc.relay.frontend.onnx.attributes import NodeAttributes
from byoc.relay.frontend.onnx.subgraphs import InnerFunctions, InnerGraph, InnerSizes, TakenDecision


class BranchesDifferError(ImportModelError):
    """A decision of the run between values of different types.

    Args:
        message: what is said where the model cannot be imported for it.
        condition: bool[], what decides.
        size: the name of the size that is 1 under the condition; "" for another decision.
        assumed: what is taken for granted, and looked at by the run, where nothing holds both; None for a refusal.
        both: that there are too many decisions to try both values is a refusal.
    """

    def __init__(
        self,
        message: str,
        condition: RelayExpr | None = None,
        size: str = "",
        assumed: bool | None = None,
        both: bool = False,
    ) -> None:
        super().__init__(message)
        self.condition, self.size, self.assumed, self.both = condition, size, assumed, both
        self.node: OnnxNode | None = None
        self.path: tuple[int, ...] = ()  # from the node to the one that decides, where that is inside of it

    def at(self, node: OnnxNode, message: str) -> BranchesDifferError:
        """The same decision, which *node* has."""
        made = BranchesDifferError(message, self.condition, self.size, self.assumed, self.both)
        made.node, made.path = node, self.path
        return made


@dataclass(frozen=True)
class SingleSlice:
    """A slice of *data* from *start* to one behind it along *axis*: it has one element there, or none."""

    data: RelayExpr
    axis: int
    start: RelayExpr


class GraphServices:
    """What a node may ask of the import that it is part of."""

    weights: Mapping[RelayExpr, np.ndarray]
    sizes: InnerSizes
    functions: InnerFunctions
    single_slices: dict[RelayExpr, SingleSlice]  # what Slices gave
    is_inner: bool  # whether the node stands in a loop's body or a branch
    ones: Mapping[str, bool]  # sizes by name: whether they are 1 where the node stands

    def tensor(self, tensor: TensorProto) -> np.ndarray:
        """The data of a tensor of the model."""
        raise NotImplementedError

    def declared_rank(self, name: str) -> int | None:
        """The rank that the graph declares its value *name* to have, or None."""
        raise NotImplementedError

    def dims(self, expr: RelayExpr) -> tuple[int | Any | None, ...] | None:
        """The sizes that *expr*, a shape that the graph computes, is known to hold, or None."""
        raise NotImplementedError

    def fold(self, expr: RelayExpr) -> RelayExpr:
        """*expr* as a constant where it depends on constants alone and is small, else as it is."""
        raise NotImplementedError

    def subgraph(self, graph: GraphProto, taken: Sequence[TakenDecision] = ()) -> list[RelayExpr]:
        """The outputs of a branch in the place of the node, by the decisions that are *taken* for those inside.

        Raises BranchesDifferError for a decision behind these.
        """
        raise NotImplementedError

    def leave_out(self, name: str) -> None:
        """Let the value *name* be an optional that has no element."""
        raise NotImplementedError

    def inlined(self, graph: GraphProto, given: Sequence[RelayExpr]) -> list[RelayExpr]:
        """The outputs of a sub-graph over *given* in the place of its inputs, where the node stands."""
        raise NotImplementedError

    def inner(self, graph: GraphProto, given: Sequence[RelayExpr]) -> InnerGraph:
        """A sub-graph over *given* in the place of its inputs, whose values stay inside of it."""
        raise NotImplementedError

    def branch(self, graph: GraphProto) -> InnerGraph:
        """A branch whose values stay inside of it. Raises BranchesDifferError for a decision that does not."""
        raise NotImplementedError


class OnnxNode:
    """A node under conversion. Its converter returns one expression, or one for each output."""

    def __init__(
        self,
        name: str,
        op_type: str,
        opset: int,
        inputs: Sequence[RelayExpr | None],
        outputs: Sequence[str],
        attrs: NodeAttributes,
        services: GraphServices,
    ):
        self.name, self.op_type, self.opset = name, op_type, opset
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.attrs, self.services = attrs, services
        self.taken: tuple[TakenDecision, ...] = ()  # decisions of the run for which it is imported

    def over(self, inputs: Sequence[RelayExpr | None], opset: int | None = None) -> OnnxNode:
        """The same node over other inputs, under another opset where one is given."""
        opset = self.opset if opset is None else opset
        made = OnnxNode(self.name, self.op_type, opset, inputs, self.outputs, self.attrs, self.services)
        made.taken = self.taken
        return made

    def __getitem__(self, index: int) -> RelayExpr:
        """Input *index*. Raises ImportModelError where the node does not have it."""
        value = self.optional(index)
        if value is None:
            raise self.error(f"input {index} is missing")
        return value

    def optional(self, index: int) -> RelayExpr | None:
        """Input *index*, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def required_inputs(self) -> list[RelayExpr]:
        """Every input of a variadic operator. Raises ImportModelError where one is left out."""
        return [self[i] for i in range(len(self.inputs))]

    def has_output(self, index: int) -> bool:
        """True when someone asked for output *index*."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def error(self, message: str) -> ImportModelError:
        """An error at this node."""
        return ImportModelError(f"node {self.name} ({self.op_type}): {message}")

    @property
    def place(self) -> str:
        """What an error of the run begins with where this node found it."""
        return f"node {self.name} ({self.op_type})"

    def type_of(self, expr: RelayExpr) -> TensorType:
        """The type of a tensor. Raises ImportModelError for a tuple."""
        ty = infer_expr(expr)
        if not isinstance(ty, TensorType):
            raise self.error(f"a tensor is expected, got {ty}")
        return ty

    def shape(self, expr: RelayExpr) -> tuple[Dim, ...]:
        """The shape of a tensor; dynamic dimensions are Any."""
        return self.type_of(expr).shape

    def rank(self, expr: RelayExpr) -> int:
        """How many dimensions a tensor has."""
        return self.type_of(expr).ndim

    def dtype(self, expr: RelayExpr) -> str:
        """The element type of a tensor."""
        return self.type_of(expr).dtype

    def axis(self, axis: int, rank: int) -> int:
        """*axis* counted from the front. Raises ImportModelError where it is out of range."""
        if not -rank <= axis < max(rank, 1):
            raise self.error(f"axis {axis} is out of range for {rank} dimensions")
        return axis + rank if axis < 0 else axis

    def static_dims(self, expr: RelayExpr, what: str) -> tuple[int, ...]:
        """The shape of *expr* as ints. Raises ImportModelError, which says *what* needs it, for a dynamic one."""
        shape = self.shape(expr)
        if not are_numbers(shape):
            raise self.error(f"{what} needs a static shape, got {self.type_of(expr)}; fix the sizes with shapes=")
        return shape

    def static_dims_of(self, expr: RelayExpr, axes: Sequence[int], what: str) -> tuple[int, ...]:
        """The sizes of some axes of *expr* as ints. Raises ImportModelError, which says *what* needs them."""
        sizes = tuple(self.shape(expr)[axis] for axis in axes)
        if not are_numbers(sizes):
            raise self.error(f"{what} needs known sizes, got {self.type_of(expr)}; fix them with shapes=")
        return sizes

    def value(self, index: int) -> np.ndarray | None:
        """Input *index* where it is known when importing, else None."""
        expr = self.optional(index)
        if isinstance(expr, Constant):
            return expr.data.numpy()
        return self.services.weights.get(expr) if expr is not None else None

    def known(self, index: int, what: str) -> np.ndarray:
        """Input *index*, which must be known when importing. Raises ImportModelError, naming *what* it is."""
        value = self.value(index)
        if value is None:
            self[index]
            raise self.error(f"{what} (input {index}) must be a constant: it cannot depend on the model's inputs")
        return value

    def ints(self, index: int, attribute: str, default: Sequence[int] | None = None) -> list[int]:
        """A list that was attribute *attribute* in old opsets and is input *index* in new ones.

        Raises ImportModelError where it is neither given nor has a *default*, or is not a constant.
        """
        if self.optional(index) is not None:
            return [int(v) for v in self.known(index, attribute).reshape(-1)]
        if default is None:
            return self.attrs.ints(attribute)
        return self.attrs.ints(attribute, default)

    def fold(self, expr: RelayExpr) -> RelayExpr:
        """*expr* as a constant where it depends on constants alone and is small, else as it is."""
        return self.services.fold(expr)

    def constant(self, value: object, dtype: str) -> Constant:
        """A constant of *dtype*."""
        return constant(value, dtype)

    def like(self, value: object, expr: RelayExpr) -> Constant:
        """A constant of the element type of *expr*."""
        return constant(value, self.dtype(expr))
