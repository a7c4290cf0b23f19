"""The operator registry: all that differs by operator stands on the operator.

``register_op`` is called once per operator, from the operator's own file. Types flow from inputs to outputs: a
type relation gets the types of the arguments (tuples unflattened) and the attributes, and returns the type of the
result, or raises :class:`byoc.errors.TypeInferenceError` with one sentence.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType
from typing import Any as Anything
from typing import TypeVar, cast

import numpy as np

from byoc.errors import RegistryError
from byoc.ir.attrs import BRINGERS, Attrs, as_ints
from byoc.ir.expr import RelayExpr
from byoc.ir.op_parts import Implementation, Inputs
from byoc.ir.op_parts import OpArgument as OpArgument
from byoc.ir.registry import DeferredRegistry, caller_location, get_global_func
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import Any, Type, dtype_bytes, tensor_types
from byoc.runtime.core.entry_points import caller_source, source_of


class OpPattern(enum.IntEnum):
    """How an operator may be fused. Source: ``relay.op.OpPattern``."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


# what an operator is that declares nothing, by how it may be fused: an injective one may compute, another be anything
_KINDS = {
    OpPattern.ELEMWISE: OpKind.POINTWISE,
    OpPattern.BROADCAST: OpKind.POINTWISE,
    OpPattern.COMM_REDUCE: OpKind.REDUCTION,
}
_BY_PATTERN = {pattern: Traits(_KINDS.get(pattern, OpKind.OTHER)) for pattern in OpPattern}


@dataclass(frozen=True)
class Cost:
    """What a call costs whatever runs it: floating-point (or integer) operations, and bytes read and written."""

    operations: int
    bytes: int


A = TypeVar("A", bound="Attrs | None")  # the attributes of one operator
R = TypeVar("R", bound=Type)  # the type of its result
E = TypeVar("E")  # byoc.te.Tensor, which this layer does not import

# the functions of an operator whose attributes are of one class, as register_op takes them
RelationOf = Callable[[Sequence[Type], A], Type]
ComputeOf = Callable[[A, Sequence[E], R], Sequence[E]]
CountOf = Callable[[A, Sequence[Type], R], int]

# The functions of an operator as they are kept, whatever its attributes are; register_op checks them against its class.
TypeRule = Callable[[Sequence[Type], "Attrs | None"], Type]
# (types of the inputs, None where unknown; type of the result or None; attributes) -> the same with what follows
InputInference = Callable[[Sequence["Type | None"], "Type | None", "Attrs | None"], Sequence["Type | None"]]
# (attributes, input tensors with tuples flattened, type of the result) -> output tensors; see byoc.te
TensorCompute = Callable[["Attrs | None", Sequence[object], Type], Sequence[object]]
# (dtypes of the input tensors, attributes) -> whether the tensor expression says what the numpy kernel computes
DtypePredicate = Callable[[Sequence[str], "Attrs | None"], bool]
OperationCount = Callable[["Attrs | None", Sequence[Type], Type], int]


@dataclass(frozen=True)
class Sample:
    """One call of an operator, from which its tests are generated.

    Each input is a shape, filled with seeded numbers of *dtype* in [*low*, *high*), or an array that is used as it
    is; a list of inputs is a tuple argument.
    """

    inputs: Sequence[object]
    attrs: dict[str, object] = field(default_factory=dict)
    dtype: str = "float32"
    low: float = -2.0
    high: float = 2.0

    def arrays(self, seed: int = 0) -> list[object]:
        """The inputs as numpy arrays; a tuple argument is a list of arrays."""
        rng = np.random.default_rng(seed)
        return [self._array(item, rng) for item in self.inputs]

    def _array(self, item: object, rng: np.random.Generator) -> object:
        if isinstance(item, np.ndarray):
            return item
        if isinstance(item, list):
            return [self._array(i, rng) for i in item]
        shape = as_ints(item)  # an input is an array, inputs or a shape
        if self.dtype == "bool":
            return np.asarray(rng.integers(0, 2, shape), bool)
        return np.asarray(rng.uniform(self.low, self.high, shape)).astype(self.dtype)


class Op(RelayExpr):
    """A primitive operator. There is one object per name, found by :func:`get_op`.

    Its ``set_…`` and ``add_…`` methods complete an operator that was made by ``relay.op.register``.
    """

    __slots__ = (
        "_attr_levels",
        "_attr_map",
        "_attr_owners",
        "attrs_type",
        "attrs_type_key",
        "code_for",
        "compute",
        "declared",
        "declared_traits",
        "description",
        "infer_inputs",
        "input_names",
        "kernel",
        "name",
        "operations",
        "pattern",
        "rel",
        "samples",
        "support_level",
        "variadic",
    )

    changes = 0  # how often attributes were set or reset: what was found out by them holds as long as this stays

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        self.description = ""
        self.input_names: tuple[str, ...] = ()
        self.variadic = False
        self.attrs_type: type[Attrs] | None = None
        self.rel: TypeRule | None = None
        self.pattern = OpPattern.OPAQUE
        self.compute: TensorCompute | None = None
        self.code_for: DtypePredicate | None = None
        self.operations: OperationCount | None = None
        self.kernel: str = name
        self.infer_inputs: InputInference | None = None
        self.samples: tuple[Sample, ...] = ()
        self.support_level = 10
        self.attrs_type_key = ""
        self.declared: tuple[OpArgument, ...] = ()
        self.declared_traits: Traits | None = None
        self._attr_map: dict[str, object] = {}
        self._attr_levels: dict[str, int] = {}
        self._attr_owners: dict[str, str] = {}

    @staticmethod
    def get(op_name: str) -> Op:
        """The operator *op_name*. Raises RegistryError with the nearest names. Source: ``tvm.ir.Op.get``."""
        return get_op(op_name)

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators. Source: ``tvm.ir.Op.list_op_names``."""
        return sorted(OPS)

    @property
    def num_inputs(self) -> int:
        return len(self.input_names)

    @property
    def traits(self) -> Traits:
        """What the operator is: as it was declared, else as far as its fusion pattern and attributes say it."""
        if self.declared_traits is not None:
            return self.declared_traits
        return _traits_of(self.pattern, self.attrs_type)

    def result_type(self, types: Sequence[Type], attrs: Attrs | None) -> Type:
        """The type of a call, by the operator's relation.

        Raises RegistryError for an operator without one, TypeInferenceError for inputs that it does not take.
        """
        if self.rel is None:
            raise RegistryError(f"the operator {self.name} has no type relation: give it one by add_type_rel")
        return self.rel(types, attrs)

    def count_operations(self, attrs: Attrs | None, types: Sequence[Type], out: Type) -> int:
        """The operations of one call, as the operator counts them. Raises RegistryError for one that does not."""
        if self.operations is None:
            raise RegistryError(f"the operator {self.name} does not count its operations")
        return self.operations(attrs, types, out)

    @property
    def arguments(self) -> tuple[OpArgument, ...]:
        """The inputs, as they were declared by :meth:`add_argument` or else by their names alone."""
        return self.declared or tuple(OpArgument(name) for name in self.input_names)

    def set_num_inputs(self, n: int) -> None:
        """Take *n* inputs, or any number where *n* is below 0. Source: ``Op.set_num_inputs``."""
        self.variadic = n < 0
        named = [argument.name for argument in self.declared[: max(n, 0)]]
        self.input_names = (*named, *(f"arg{k}" for k in range(len(named), n)))

    def add_argument(self, name: str, type: str, description: str) -> None:
        """Declare the next input: its name, what it is, and what for. Source: ``Op.add_argument``."""
        at = len(self.declared)
        self.declared = (*self.declared, OpArgument(name, type, description))
        if at < len(self.input_names):
            self.input_names = (*self.input_names[:at], name, *self.input_names[at + 1 :])

    def add_type_rel(self, rel_name: str, type_rel_func: TypeRule | None = None) -> None:
        """Give the operator its type relation, or the one that is called *rel_name*.

        The function takes the types of the inputs and the attributes and returns the type of the result. Raises
        RegistryError where it is not given and no relation has this name. Source: ``Op.add_type_rel``.
        """
        self.rel = type_rel_func or get_global_func(f"tvm.relay.type_relation.{rel_name}")

    def set_support_level(self, level: int) -> None:
        """Say how widely the operator is supported, from 1 (basic) to 10. Source: ``Op.set_support_level``."""
        self.support_level = level

    def set_attrs_type_key(self, key: str) -> None:
        """Name the class of the attributes: ``DictAttrs``, or ``relay.attrs.Conv2DAttrs``.

        Raises RegistryError for a class that no operator has. Source: ``Op.set_attrs_type_key``.
        """
        name = key.rpartition(".")[2]
        self.attrs_type_key = key
        self.attrs_type = None if name == "DictAttrs" else Attrs.class_named(name)

    def get_attr(self, key: str) -> Anything:
        """What was registered by :func:`register_op_attr`; None where nothing was. Source: ``Op.get_attr``."""
        return self._attr_map.get(key)

    def set_attr(self, key: str, value: object, plevel: int = 10, owner: str = "") -> None:
        """Set an attribute of this operator, unless it was set with a higher *plevel*. Source: ``Op.set_attr``.

        Raises RegistryError where it has another *owner* of the same level, who is not byoc.
        """
        before, level = self._attr_owners.get(key, ""), self._attr_levels.get(key, plevel)
        if owner and before and owner != before and plevel == level:
            raise RegistryError(
                f"attribute {key!r} of {self.name} is registered twice at level {plevel}: by {before} and by {owner}; "
                f"a higher level (level={plevel + 1}) takes its place, a lower one leaves it"
            )
        if plevel >= level:
            self._attr_map[key], self._attr_levels[key], self._attr_owners[key] = value, plevel, owner
            Op.changes += 1

    def attr_level(self, key: str) -> int | None:
        """The level with which an attribute was set; None where it is not there."""
        return self._attr_levels.get(key)

    def has_attr(self, key: str) -> bool:
        return key in self._attr_map

    def reset_attr(self, key: str) -> None:
        """Forget an attribute. Source: ``Op.reset_attr``."""
        Op.changes += 1
        for kept in (self._attr_map, self._attr_levels, self._attr_owners):
            kept.pop(key, None)

    def cost(self, attrs: Attrs | None, in_types: Sequence[Type], out_type: Type) -> Cost:
        """Operations and bytes of one call; a dynamic dimension counts as 1."""
        flat_in = [t for ty in in_types for t in tensor_types(ty)]
        out = tensor_types(out_type)
        elements = sum(_size(t.shape) for t in out)
        moved = sum(_size(t.shape) * dtype_bytes(t.dtype) for t in (*flat_in, *out) if t.dtype != "string")
        return Cost(self.operations(attrs, in_types, out_type) if self.operations else elements, moved)

    def __repr__(self) -> str:
        return f"Op({self.name})"

    def __str__(self) -> str:
        return self.name  # as its text: predicates compare str(call.op) with names


_DERIVED: dict[tuple[OpPattern, type[Attrs] | None], Traits] = {}


def _traits_of(pattern: OpPattern, attrs: type[Attrs] | None) -> Traits:
    """The traits of an operator that declares none; made once for each pattern and class of attributes."""
    if (pattern, attrs) not in _DERIVED:
        _DERIVED[pattern, attrs] = _with_axes(_BY_PATTERN[pattern], attrs)
    return _DERIVED[pattern, attrs]


def _with_axes(traits: Traits, attrs: type[Attrs] | None) -> Traits:
    """*traits* of an operator with the attributes *attrs*, which may name axes."""
    names = () if attrs is None else attrs.__dataclass_fields__
    return replace(traits, names_axes=True) if "axis" in names or "axes" in names else traits


def _size(shape: Iterable[int | Any]) -> int:
    size = 1
    for dim in shape:
        size *= 1 if isinstance(dim, Any) else dim
    return size


OPS: DeferredRegistry[Op] = DeferredRegistry("operator")
BRINGERS.append(OPS.load_all)
_COMPLETIONS: list[Callable[[Op], None]] = []


def for_each_operator(complete: Callable[[Op], None]) -> None:
    """Call *complete* with each operator that there is, and with those that :func:`register_op` makes; imports none."""
    _COMPLETIONS.append(complete)
    for op in OPS.loaded():
        complete(op)


def register_op(
    name: str,
    *,
    inputs: Sequence[str] | Inputs[A],
    rel: Callable[[Sequence[Type], A], Type],
    doc: str,
    attrs: type[A] | None = None,
    pattern: OpPattern = OpPattern.OPAQUE,
    compute: Callable[[A, Sequence[E], R], Sequence[E]] | Implementation[A, E, R] | None = None,
    operations: Callable[[A, Sequence[Type], R], int] | None = None,
    samples: Sequence[Sample] = (),
    traits: Traits | None = None,
) -> Op:
    """Register an operator whole and return it.

    *inputs* are names, or :class:`Inputs` where types follow for untyped ones or their number varies. *compute* is the
    tensor expression, or an :class:`Implementation` where it holds for some dtypes alone or the numpy kernel has
    another name; None where no code can be generated (data-dependent shapes). *traits* says what the operator is; None
    is what follows from *pattern*. Raises RegistryError for a taken name.
    """
    waiting = OPS.get(name)  # made empty by register_op_attr, which may come first
    op = waiting if waiting is not None and waiting.rel is None else Op(name)
    taken: Inputs[A] = inputs if isinstance(inputs, Inputs) else Inputs(inputs)
    made: Implementation[A, E, R] = compute if isinstance(compute, Implementation) else Implementation(compute)
    op.input_names, op.variadic, op.description = tuple(taken.names), taken.variadic, doc
    op.attrs_type, op.rel, op.pattern = cast("type[Attrs] | None", attrs), cast(TypeRule, rel), pattern
    op.compute = cast("TensorCompute | None", made.compute)
    op.code_for = cast("DtypePredicate | None", made.code_for)
    op.operations = cast("OperationCount | None", operations)
    op.kernel = made.kernel or name
    op.infer_inputs = cast("InputInference | None", taken.infer)
    op.samples = tuple(samples)
    op.declared_traits = None if traits is None else _with_axes(traits, op.attrs_type)
    op.set_attr("TOpPattern", int(pattern))
    if op.traits.is_view and op.num_inputs == 1:
        op.set_attr("TReshapeOp", True)
    OPS.register(name, op, where=caller_location(), override=op is waiting)
    for complete in _COMPLETIONS:
        complete(op)
    return op


def get_op(name: str) -> Op:
    """The operator *name*. Raises RegistryError with the nearest names. Source: ``relay.op.get``."""
    return OPS[name]


get = get_op  # as relay.op has it


def register_op_attr(op_name: str, attr_key: str, value: object | None = None, level: int = 10) -> Anything:
    """Attach *value* to an operator under *attr_key*, as a call or as a decorator.

    The way in which a backend says what it supports: ``@register_op_attr("nn.conv2d", "target.acme")`` over a
    predicate of the call. An operator that is not known yet is made empty, as in Relay. What was registered with a
    higher *level* stays, with a lower one is replaced; so is what byoc registers itself, and a function that is defined
    again. Raises RegistryError where another has registered it at the same level. Source: ``tvm.ir.register_op_attr``.
    """
    where, caller = caller_location(), caller_source()

    def register(v: object) -> object:
        if op_name not in OPS:
            OPS.register(op_name, Op(op_name), where=where)
        OPS[op_name].set_attr(attr_key, v, level, _owner(v, caller))
        return v

    return register(value) if value is not None else register


def _owner(value: object, caller: str) -> str:
    """Where a function or class is defined, else who registers the *value*; empty for byoc, which gives way."""
    if not isinstance(value, (FunctionType, MethodType, type)):
        return caller
    return "" if value.__module__.startswith("byoc.") else source_of(value)


def declare_op_attr(op: Op, attr_key: str, value: object) -> None:
    """Attach what an operator has of itself, at level 10, unless a user attached something at that level or above."""
    level = op.attr_level(attr_key)
    if level is None or level < 10:
        op.set_attr(attr_key, value)
