"""The expressions of the graph language. Source: ``tvm.relay`` expressions.

Nodes are slotted, checked when made, and compared by identity; sharing a node is part of a graph's meaning. What a
node's sub-expressions are, and how it is made again from others, stands in ``byoc.relay.traverse``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from byoc.errors import UserError
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.expr import BaseFunc, GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import AnySpan
from byoc.ir.types import Dim, FuncType, IncompleteType, TensorType, Type, TypeVar, contains_type
from byoc.ir.virtual_device import UNCONSTRAINED, VirtualDevice
from byoc.relay.operator_overloads import ExprWithOp
from byoc.runtime.core.device import Device
from byoc.runtime.core.ndarray import NDArray

Expr = RelayExpr
VIRTUAL_DEVICE = "virtual_device"


def check_expr(value: object, what: str) -> RelayExpr:
    """*value* itself. Raises UserError for what is no expression."""
    if not isinstance(value, RelayExpr):
        raise UserError(f"{what} must be an expression, got {type(value).__name__}: {value!r}")
    return value


def is_complete(ty: Type) -> bool:
    """True when nothing inside *ty* is left to type inference."""
    return type(ty) is TensorType or not contains_type(ty, IncompleteType)


class Constant(ExprWithOp):
    """A tensor that is known when compiling."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: NDArray, span: AnySpan | None = None):
        super().__init__(span)
        self.data = data if isinstance(data, NDArray) else NDArray(np.asarray(data))
        self._checked_type = TensorType(self.data.shape, self.data.dtype)


class VarId:
    """The identity of a variable. Source: ``relay.Id``."""

    __slots__ = ("_var",)

    def __init__(self, var: Var):
        self._var = var

    @property
    def name_hint(self) -> str:
        """The name of the variable."""
        return self._var.name_hint

    @property
    def variable(self) -> Var:
        """The variable."""
        return self._var

    def same_as(self, other: object) -> bool:
        """True when *other* is the identity of the same variable. Source: ``Object.same_as``."""
        return self == other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarId) and other._var is self._var

    def __hash__(self) -> int:
        return id(self._var)


class Var(ExprWithOp):
    """A local variable: a parameter of a function or a name bound by ``let``. Identity makes it, not its name."""

    __slots__ = ("_annotation", "name_hint", "virtual_device_")

    def __init__(self, name_hint: str, type_annotation: Type | None = None, span: AnySpan | None = None):
        super().__init__(span)
        self.name_hint = str(name_hint)
        self.virtual_device_ = UNCONSTRAINED  # where its value is, after PlanDevices
        self._annotation = type_annotation
        if type_annotation is not None and is_complete(type_annotation):
            self._checked_type = type_annotation

    @property
    def type_annotation(self) -> Type | None:
        """The declared type; the inferred one where none is declared, or an incomplete one; None before inference."""
        declared, inferred = self._annotation, self._checked_type
        return declared if inferred is None or (declared is not None and is_complete(declared)) else inferred

    @property
    def vid(self) -> VarId:
        """What makes the variable in Relay: here its own identity and name."""
        return VarId(self)

    def __repr__(self) -> str:
        return f"Var({self.name_hint})"


class Call(ExprWithOp):
    """*op* (an operator, a function, a global name or any expression of function type) applied to *args*."""

    __slots__ = ("_type_args", "args", "attrs", "op")

    def __init__(
        self,
        op: RelayExpr,
        args: Sequence[RelayExpr],
        attrs: Attrs | DictAttrs | None = None,
        type_args: Sequence[Type] | None = None,
        span: AnySpan | None = None,
    ):
        self.span = span  # as RelayExpr.__init__ does: calls are made by the million
        self._checked_type = None
        self.op = op if isinstance(op, RelayExpr) else check_expr(op, "the callee of a call")
        self.args = tuple(args)
        for arg in self.args:
            if not isinstance(arg, RelayExpr):
                check_expr(arg, f"an argument of {op.name if isinstance(op, Op) else 'a call'}")
        self.attrs: Any = attrs  # None, or of the class that the operator names: attrs_of says so to type checkers
        self._type_args = tuple(type_args) if type_args else ()

    @property
    def type_args(self) -> tuple[Type, ...]:
        """The types that a generic callee is applied to; of an operator, after type inference, those of its inputs."""
        if isinstance(self.op, Op) and self._checked_type is not None:
            return tuple(arg.checked_type for arg in self.args)
        return self._type_args


class Tuple(ExprWithOp):
    """A tuple of expressions."""

    __slots__ = ("fields",)

    def __init__(self, fields: Iterable[RelayExpr], span: AnySpan | None = None):
        super().__init__(span)
        self.fields = tuple(check_expr(f, "a field of a tuple") for f in fields)

    def __getitem__(self, index: int) -> RelayExpr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[RelayExpr]:
        return iter(self.fields)


class TupleGetItem(ExprWithOp):
    """Field *index* of a tuple."""

    __slots__ = ("index", "tuple_value")

    def __init__(self, tuple_value: RelayExpr, index: int, span: AnySpan | None = None):
        super().__init__(span)
        self.tuple_value = check_expr(tuple_value, "the tuple of a projection")
        self.index = int(index)


class Function(BaseFunc):
    """Parameters and a body; attributes say what the function is for (``Composite``, ``Compiler``, ``Primitive``…)."""

    __slots__ = ("attrs", "body", "declared_ret_type", "facts", "found_ret_type", "params", "type_params")

    def __init__(
        self,
        params: Sequence[Var],
        body: RelayExpr,
        ret_type: Type | None = None,
        type_params: Sequence[TypeVar] | None = None,
        attrs: Mapping[str, object] | None = None,
        span: AnySpan | None = None,
    ):
        super().__init__(span)
        self.params = tuple(params)
        for param in self.params:
            if not isinstance(param, Var):
                raise UserError(f"a parameter of a function must be a Var, got {type(param).__name__}")
        self.body = check_expr(body, "the body of a function")
        self.declared_ret_type = ret_type
        self.found_ret_type: Type | None = None
        self.type_params = tuple(type_params or ())
        self.attrs = attrs if isinstance(attrs, DictAttrs) else DictAttrs(attrs)
        self.facts: dict[object, object] = {}  # what analyses keep of it: it does not change once it is made

    @property
    def ret_type(self) -> Type | None:
        """The type of the result: as declared, else as inferred, else as it was inferred before a rewrite, or None.

        What :meth:`over` hands on is recorded, as in Relay, but not required: inference finds the type of a body anew.
        """
        if self.declared_ret_type is not None:
            return self.declared_ret_type
        return self._checked_type.ret_type if isinstance(self._checked_type, FuncType) else self.found_ret_type

    def over(self, params: Sequence[Var], body: RelayExpr) -> Function:
        """This function over other parameters and another body that mean the same: what rewrites make of it."""
        made = Function(params, body, self.declared_ret_type, self.type_params, self.attrs, self.span)
        made.found_ret_type = self.ret_type
        return made

    @property
    def virtual_device_(self) -> VirtualDevice:
        """Where the result is, after PlanDevices: the attribute ``virtual_device``."""
        device = self.attrs.get(VIRTUAL_DEVICE, UNCONSTRAINED)
        assert isinstance(device, VirtualDevice)
        return device

    @virtual_device_.setter
    def virtual_device_(self, device: VirtualDevice | Device) -> None:
        given = VirtualDevice(device) if isinstance(device, Device) else device
        self.attrs = DictAttrs({**self.attrs, VIRTUAL_DEVICE: given})

    def with_attr(self, key_or_attrs: str | Mapping[str, object], value: object = None) -> Function:
        """A copy with one attribute, or a mapping of attributes, set. Source: ``BaseFunc.with_attr``."""
        new = {key_or_attrs: value} if isinstance(key_or_attrs, str) else key_or_attrs
        return self._with(DictAttrs({**self.attrs, **new}))

    def without_attr(self, key: str) -> Function:
        """A copy without one attribute. Source: ``BaseFunc.without_attr``."""
        return self._with(DictAttrs({k: v for k, v in self.attrs.items() if k != key}))

    def _with(self, attrs: DictAttrs) -> Function:
        copy = Function(self.params, self.body, self.declared_ret_type, self.type_params, attrs, self.span)
        copy._checked_type, copy.found_ret_type = self._checked_type, self.found_ret_type
        return copy

    def __call__(self, *args: RelayExpr) -> Call:
        return Call(self, args)


class Let(ExprWithOp):
    """``let variable = value; body``."""

    __slots__ = ("body", "value", "variable")

    def __init__(self, variable: Var, value: RelayExpr, body: RelayExpr, span: AnySpan | None = None):
        super().__init__(span)
        self.variable = variable
        self.value = check_expr(value, "the value of a let")
        self.body = check_expr(body, "the body of a let")

    @property
    def var(self) -> Var:
        """The variable that is bound. Source: ``Let.var``."""
        return self.variable


class If(ExprWithOp):
    """*true_branch* where the scalar boolean *cond* holds, else *false_branch*."""

    __slots__ = ("cond", "false_branch", "true_branch")

    def __init__(self, cond: RelayExpr, true_branch: RelayExpr, false_branch: RelayExpr, span: AnySpan | None = None):
        super().__init__(span)
        self.cond = check_expr(cond, "the condition of an if")
        self.true_branch = check_expr(true_branch, "the true branch of an if")
        self.false_branch = check_expr(false_branch, "the false branch of an if")


class RefCreate(ExprWithOp):
    """A new mutable reference that holds *value*."""

    __slots__ = ("value",)

    def __init__(self, value: RelayExpr, span: AnySpan | None = None):
        super().__init__(span)
        self.value = check_expr(value, "the value of a reference")


class RefRead(ExprWithOp):
    """What a reference holds."""

    __slots__ = ("ref",)

    def __init__(self, ref: RelayExpr, span: AnySpan | None = None):
        super().__init__(span)
        self.ref = check_expr(ref, "the reference to read")


class RefWrite(ExprWithOp):
    """Put *value* into a reference; the result is the empty tuple."""

    __slots__ = ("ref", "value")

    def __init__(self, ref: RelayExpr, value: RelayExpr, span: AnySpan | None = None):
        super().__init__(span)
        self.ref = check_expr(ref, "the reference to write")
        self.value = check_expr(value, "the value to write")


def var(
    name_hint: str,
    type_annotation: Type | None = None,
    shape: Sequence[Dim] | None = None,
    dtype: str = "float32",
    span: AnySpan | None = None,
) -> Var:
    """A variable, typed by *type_annotation* or by *shape* and *dtype*. Source: ``relay.var``.

    >>> var("x", shape=(1, 3)).type_annotation
    Tensor[(1, 3), float32]
    """
    if type_annotation is not None and shape is not None:
        raise UserError(f"var {name_hint!r}: give either a type annotation or a shape, not both")
    if shape is not None:
        type_annotation = TensorType(shape, dtype)
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), type_annotation)
    return Var(name_hint, type_annotation, span)


_NARROWED = {"float64": "float32", "int64": "int32"}


def const(value: object, dtype: str | TensorType | None = None, span: AnySpan | None = None) -> Constant:
    """A constant from a number, a list or an array. Source: ``relay.const``.

    Where no *dtype* is given, float64 becomes float32 and int64 int32, as in Relay, of arrays too; what must keep the
    dtype of an array is made by :func:`constant`. An ``NDArray`` is taken as it is. A tensor type stands for its dtype.
    """
    if isinstance(value, NDArray):
        return Constant(value, span)
    if dtype is None:
        value = np.asarray(value)
        dtype = _NARROWED.get(str(value.dtype))
    return constant(value, dtype, span)


def constant(value: object, dtype: str | TensorType | None = None, span: AnySpan | None = None) -> Constant:
    """A constant from a number, a list or an array, which keeps its dtype where none is given.

    Python floats become float32 and ints int32. A tensor type stands for its dtype.
    """
    if isinstance(value, NDArray):
        return Constant(value, span)
    if isinstance(dtype, TensorType):
        dtype = dtype.dtype
    array = np.asarray(value)
    if dtype is None and not isinstance(value, (np.ndarray, np.generic)):
        dtype = _NARROWED.get(str(array.dtype))
    return Constant(NDArray(np.array(array, dtype=dtype)), span)


def bind_span(expr: RelayExpr, span: AnySpan | None) -> RelayExpr:
    """Set where *expr* came from, unless it is known already; returns *expr*."""
    if expr.span is None:
        expr.span = span
    return expr


__all__ = [
    "Call",
    "Constant",
    "Expr",
    "Function",
    "GlobalVar",
    "If",
    "Let",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "Tuple",
    "TupleGetItem",
    "Var",
    "bind_span",
    "const",
    "constant",
    "var",
]


def scalar_type(dtype: str) -> TensorType:
    """The type of a scalar: a tensor of shape (). Source: ``relay.scalar_type``."""
    return TensorType((), dtype)
