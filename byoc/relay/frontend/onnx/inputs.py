"""The parameters of ``main``: the graph's real inputs, with the shapes that the model or the user gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, TypeProto, ValueInfoProto

from byoc.errors import ImportModelError
from byoc.ir.types import Any, Dim, TensorType, Type, TypeCall
from byoc.relay.expr import Var
from byoc.relay.frontend.onnx.dtypes import check_dims, dtype_of
from byoc.relay.frontend.onnx.names import SizeNames
from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.derived_size import name_of, names_in, polynomial
from byoc.runtime.core.errors import ArtifactError

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
Shapes = Mapping[str, Sequence[int | str]]


@dataclass(frozen=True)
class InputDefaults:
    """The inputs of a graph that have an initialiser, which is their value where a caller gives none.

    ``inputs`` are those of them that stay inputs, ``overridable`` by their names; ``fixed`` become constants, as ONNX
    Runtime has it of all up to IR version 3, which lists every weight as an input.
    """

    inputs: list[ValueInfoProto]
    overridable: frozenset[str]
    fixed: tuple[str, ...]

    @property
    def all(self) -> frozenset[str]:
        """The names of all inputs that have an initialiser."""
        return self.overridable.union(self.fixed)

    @staticmethod
    def of(graph: GraphProto, overridable: frozenset[str], model_name: str) -> InputDefaults:
        """Those of *graph*. Raises ImportModelError for a name in *overridable* that is none of them."""
        made = {tensor.name for tensor in graph.initializer}
        found = [value for value in graph.input if value.name in made]
        names = [value.name for value in found]
        unknown = sorted(overridable.difference(names))
        if unknown:
            what = "an initialiser that is no input" if unknown[0] in made else "no initialiser of the model"
            raise ImportModelError(
                f"{model_name}: overridable= names {unknown[0]!r}, which is {what}; inputs with an initialiser are "
                f"{', '.join(map(repr, names)) or '(none)'}"
            )
        fixed = tuple(name for name in names if name not in overridable)
        return InputDefaults([v for v in found if v.name in overridable], overridable, fixed)


class InputTypes:
    """The types of the graph inputs; *shapes* replaces what the model says, and a size given once holds everywhere."""

    def __init__(
        self, inputs: Sequence[ValueInfoProto], shapes: Shapes | None, model_name: str, names: SizeNames | None = None
    ):
        self._names = names or SizeNames()
        self._model_name = model_name
        self._shapes = dict(shapes or {})
        known = [value.name for value in inputs]
        unknown = [name for name in self._shapes if name not in known]
        if unknown:
            raise ImportModelError(
                f"{model_name}: shapes= names {', '.join(map(repr, unknown))}, which is not an input; "
                f"the inputs are {', '.join(map(repr, known)) or '(none)'}"
            )
        self._sizes = self._given_sizes(inputs)
        self._plain = {d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim if _WORD.match(d.dim_param)}
        self._inputs = inputs

    def variables(self) -> list[Var]:
        """One variable for each input, in their order, called by its exact name."""
        return [Var(value.name, self._type(value)) for value in self._inputs]

    def _given_sizes(self, inputs: Sequence[ValueInfoProto]) -> dict[str, int]:
        """The free dimensions that *shapes* fixes: name to size."""
        sizes: dict[str, int] = {}
        for value in inputs:
            given = self._shapes.get(value.name)
            dims = value.type.tensor_type.shape.dim
            if given is None or len(given) != len(dims):
                continue
            for dim, size in zip(dims, given, strict=True):
                if dim.dim_param and isinstance(size, int) and sizes.setdefault(dim.dim_param, size) != size:
                    raise ImportModelError(
                        f"{self._model_name}: shapes= gives the dimension {dim.dim_param!r} both {size} and "
                        f"{sizes[dim.dim_param]}; it is one size wherever it occurs"
                    )
        return sizes

    def _type(self, value: ValueInfoProto) -> Type:
        where = f"{self._model_name}: input {value.name!r}"
        kind = value.type.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            return _data_type(value.type, where)
        if kind != "tensor_type":
            raise ImportModelError(
                f"{where} is a {kind or 'value without a type'}; tensors, sequences and optionals can be inputs"
            )
        tensor = value.type.tensor_type
        dtype = dtype_of(tensor.elem_type, where)
        check_dims([d.dim_value for d in tensor.shape.dim if d.dim_value > 0], where)
        given = self._shapes.get(value.name)
        if given is not None:
            if tensor.HasField("shape") and len(given) != len(tensor.shape.dim):
                raise ImportModelError(
                    f"{where} has {len(tensor.shape.dim)} dimensions, shapes= gives {len(given)}: {list(given)}"
                )
            return TensorType([self._given_dim(d, where) for d in given], dtype)
        if not tensor.HasField("shape"):
            raise ImportModelError(f"{where} has no shape; give one: shapes={{{value.name!r}: [...]}}")
        return TensorType([self._dim(value, axis) for axis in range(len(tensor.shape.dim))], dtype)

    def _given_dim(self, dim: int | str | Any, where: str) -> Dim:
        if isinstance(dim, str):
            return self._sizes[dim] if dim in self._sizes else Any(self._names(dim))
        if isinstance(dim, Any):
            return dim
        if isinstance(dim, bool) or int(dim) < 0:
            raise ImportModelError(f"{where}: a size in shapes= is a number from 0 on or a name, got {dim!r}")
        return int(dim)

    def _dim(self, value: ValueInfoProto, axis: int) -> Dim:
        dim = value.type.tensor_type.shape.dim[axis]
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            result: Dim = dim.dim_value
            return result
        if dim.dim_param:
            if dim.dim_param in self._sizes:
                return self._sizes[dim.dim_param]
            return self._computed(dim.dim_param) or Any(self._names(dim.dim_param))
        return Any(self._names(f"{value.name}_{axis}"))

    def _computed(self, text: str) -> Dim | None:
        """The size that a name like ``past_sequence_length + 1`` computes of those of other dimensions, which exporters
        write so; None for a name that is just a name.
        """
        if _WORD.match(text):
            return None
        try:
            size = polynomial(f"({text})")
        except ArtifactError:
            return None
        names = names_in(name_of(size)) if size.number is None else frozenset()
        if not names or not all(name in self._plain and self._names(name) == name for name in names):
            return None
        if any(name in self._sizes for name in names):
            fixed = all(name in self._sizes for name in names)
            return Sizes(self._sizes)[name_of(size)] if fixed else None
        return Any(name_of(size))


def _data_type(proto: TypeProto, where: str) -> Type:
    """The type of a sequence or an optional, whose elements have the sizes that the model says as numbers.

    Of elements without a shape nothing is known. Raises ImportModelError for elements of another kind.
    """
    from byoc.relay.op.sequence import OPTIONAL, SEQUENCE, UNKNOWN

    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.HasField("shape"):
            return UNKNOWN
        dims = [d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else Any() for d in tensor.shape.dim]
        return TensorType(dims, dtype_of(tensor.elem_type, where))
    if kind == "sequence_type":
        return TypeCall(SEQUENCE, (_data_type(proto.sequence_type.elem_type, where),))
    if kind == "optional_type":
        return TypeCall(OPTIONAL, (_data_type(proto.optional_type.elem_type, where),))
    raise ImportModelError(f"{where} holds a {kind or 'value without a type'}, which is not supported; use tensors")
