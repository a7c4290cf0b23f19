"""Products on operands in half precision, with sums and all other arithmetic in float32.

A value in float32 is rounded to float16 where it is stored for a product (``Conversion.ALWAYS``) or for what moves or
chooses its elements on the way to one (``Conversion.FOLLOW``); the products' sums, their epilogues, and all that no
operator declares safe (``Conversion.NEVER``: norms, softmax, exponentials, sums) stay in float32. Borders keep their
types. So no result of elementwise arithmetic is rounded that is not stored, and nothing is summed in half precision.
What the traits cannot know, a value that leaves float16's range, the caller says by :class:`Beyond`.
Source: the rules of ``tvm.relay.transform.mixed_precision``; storage as MNN's ``Precision_Normal``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from byoc.ir.attrs import Attrs, changed
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, OpPattern
from byoc.ir.span import span_names
from byoc.ir.traits import Conversion, OpKind
from byoc.ir.types import TensorType, TupleType, Type, tensor_types
from byoc.relay import op
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple
from byoc.relay.op.core.builder import takes_dtypes
from byoc.relay.op.pointwise.sensitivity import STEP, sensitivities
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import InferType
from byoc.relay.transform.fuse.fuse_ops import DefuseOps
from byoc.relay.transform.mixed_precision import category_of
from byoc.relay.traverse import post_order, rebuild
from byoc.runtime.core.ndarray import NDArray

HALF, WIDE = "float16", "float32"
LARGEST = 65504.0  # of float16
SMALLEST = 2.0**-14  # the least that float16 holds with all of its 11 bits
USER = "the user keeps it in f32"
IN_ATTENTION = "belongs to an attention, which is one kernel whose weights stay in float32"
Key = tuple[str, tuple[str, ...]]  # an operator and its ONNX nodes, by which a call is known before and after a cut


@dataclass(frozen=True)
class Beyond:
    """What must stay in float32: *readers* and *values*, calls by their keys, each with the reason in words.

    A reader takes no operand in half precision; a value is not stored in it. *keep* are names of operators and ONNX
    nodes that the user keeps.
    """

    readers: Mapping[Key, str] = field(default_factory=dict)
    values: Mapping[Key, str] = field(default_factory=dict)
    keep: Collection[str] = ()


@dataclass(frozen=True)
class HalfProduct:
    """What became of a product: *reason* says why its operands stay in float32, empty where they are halves."""

    operator: str
    nodes: tuple[str, ...]
    reason: str = ""


def key_of(call: Call) -> Key:
    """By what a call is known on both sides of a cut."""
    return op_name(call) or "", span_names(call.span)


def out_of_range(largest: float) -> str | None:
    """Why numbers whose largest magnitude is *largest* are not held in float16, in words; None where they are.

    >>> out_of_range(1.0), out_of_range(7e4), out_of_range(1e-6)
    (None, 'reaches 7e+04, beyond float16', 'is at most 1e-06, below the normal numbers of float16')
    """
    if not math.isfinite(largest):
        return "is not finite"
    if largest > LARGEST:
        return f"reaches {largest:.3g}, beyond float16"
    if 0.0 < largest < SMALLEST:
        return f"is at most {largest:.3g}, below the normal numbers of float16"
    return None


def takes_half(call: RelayExpr) -> bool:
    """Whether *call* is a product of float32 that gains by operands in half precision."""
    if not (isinstance(call, Call) and isinstance(call.op, Op)) or category_of(call, HALF) != Conversion.ALWAYS:
        return False
    types = [*(t for a in call.args for t in tensor_types(a.checked_type)), *tensor_types(call.checked_type)]
    return all(t.dtype == WIDE for t in types) and hasattr(call.attrs, "out_dtype") and _is_taken(call, HALF)


def hands_on(call: RelayExpr) -> bool:
    """Whether *call* gives elements of its operands, chosen from them or averaged, so that halves may go through it."""
    if not (isinstance(call, Call) and isinstance(call.op, Op)) or category_of(call, HALF) != Conversion.FOLLOW:
        return False
    if call.op.pattern <= OpPattern.BROADCAST:  # elementwise arithmetic stays in float32, and is not stored for itself
        return False
    if any(getattr(call.attrs, name, "") in (HALF, WIDE) for name in ("dtype", "out_dtype")):
        return False
    return _is_wide(call.checked_type) and _is_taken(call, HALF)


def half_operands(function: Function, beyond: Beyond) -> tuple[Function, list[HalfProduct]]:
    """*function*, a region, with halves for its products, and what became of each of these.

    Composites become the operators that they hold. Requires a function without control flow.
    """
    plain = Function(function.params, function.body, None, function.type_params, None, function.span)
    mod = InferType()(DefuseOps()(InferType()(IRModule.from_expr(plain))))
    main = mod["main"]
    assert isinstance(main, Function)
    found = _Halves(main.body, beyond)
    made = Function(main.params, found.rewritten(), None, main.type_params, None, function.span)
    typed = InferType()(IRModule.from_expr(made))["main"]
    assert isinstance(typed, Function)
    return typed.with_attr(dict(function.attrs)), found.products


class _Halves:
    """Decides for one function which values are stored as halves, from the last readers to the first values."""

    def __init__(self, root: RelayExpr, beyond: Beyond):
        self.root, self.beyond = root, beyond
        self.order = list(post_order(root, fusion_children))
        self.users: dict[RelayExpr, list[RelayExpr]] = {}
        for node in self.order:
            for child in dict.fromkeys(fusion_children(node)):
                self.users.setdefault(child, []).append(node)
        self.products: list[HalfProduct] = []
        self.direct: set[RelayExpr] = set()  # calls on halves: products, and what hands on
        self._choose_products()
        self._choose_others()
        self.new: dict[RelayExpr, RelayExpr] = {}
        self.halves: dict[RelayExpr, RelayExpr] = {}
        self.wide: dict[RelayExpr, RelayExpr] = {}

    def _choose_products(self) -> None:
        for node in self.order:
            if isinstance(node, Call) and takes_half(node):
                reason = self._refusal(node)
                self.products.append(HalfProduct(*key_of(node), reason or ""))
                if reason is None:
                    self.direct.add(node)

    def _refusal(self, call: Call) -> str | None:
        key = key_of(call)
        if not {key[0], *key[1]}.isdisjoint(self.beyond.keep):
            return USER
        if key in self.beyond.readers:
            return self.beyond.readers[key]
        if self._is_in_attention(call):
            return IN_ATTENTION
        for k, arg in enumerate(call.args):
            if isinstance(arg, Constant):
                why = out_of_range(largest_of(arg.data.numpy()))
                if why is not None:
                    return f"its operand {k}, a constant, {why}"
        return None

    def _is_in_attention(self, call: Call) -> bool:
        """Whether *call*, of values that are both computed, gives a softmax its scores or takes its weights.

        As halves, the scores and the weights would lie in memory between kernels.
        """
        if any(isinstance(a, Constant) for a in call.args):
            return False
        return self._meets_rows(call.args, fusion_children) or self._meets_rows(
            self.users.get(call, ()), lambda node: self.users.get(node, ())
        )

    def _meets_rows(self, nodes: Sequence[RelayExpr], follow: Callable[[RelayExpr], Sequence[RelayExpr]]) -> bool:
        """Whether *follow* leads from *nodes*, through what is elementwise or moves, to an operator over rows."""
        waiting, seen = list(nodes), set(nodes)
        while waiting:
            node = waiting.pop()
            if not isinstance(node, Call) or not isinstance(node.op, Op):
                continue
            kind = node.op.traits.kind
            if kind is OpKind.ROWS and not node.op.traits.quantized and _is_wide(node.checked_type):
                return True
            if kind in (OpKind.POINTWISE, OpKind.VIEW, OpKind.MOVE):
                waiting += [n for n in follow(node) if n not in seen]
                seen.update(waiting)
        return False

    def _choose_others(self) -> None:
        """What hands elements on to products takes halves itself."""
        stored: set[RelayExpr] = set()
        for node in reversed(self.order):
            if self._is_wanted(node):
                stored.add(node)
                if node not in self.direct and hands_on(node) and self._refusal_of_mover(node) is None:
                    self.direct.add(node)
        self.stored = stored

    def _refusal_of_mover(self, call: RelayExpr) -> str | None:
        assert isinstance(call, Call)
        operands = [f for a in call.args for f in (a.fields if isinstance(a, Tuple) else (a,))]
        return next((why for o in operands if (why := self._value_refusal(o)) is not None), None)

    def _value_refusal(self, node: RelayExpr) -> str | None:
        if isinstance(node, Constant):
            return out_of_range(largest_of(node.data.numpy())) if node.data.dtype == WIDE else None
        return self.beyond.values.get(key_of(node)) if isinstance(node, Call) else None

    def _is_wanted(self, node: RelayExpr) -> bool:
        """Whether *node* is stored as halves: calls on halves read it, and beside them only what takes rounded numbers.

        A comparison, a cast to integers or a step would make another number of a rounded one, not a rounded number.
        """
        if not isinstance(node, Call) or not _is_wide(node.checked_type) or self._value_refusal(node) is not None:
            return False
        readers = self._readers(node)
        wanted = any(r in self.direct for r, _ in readers)
        return wanted and all(r in self.direct or takes_rounded(r, child) for r, child in readers)

    def _readers(self, node: RelayExpr) -> list[tuple[RelayExpr, RelayExpr]]:
        """The calls that read *node*, through tuples, each with the child that they read; the root reads as itself."""
        found = [(u, node) for u in self.users.get(node, ())]
        through = [pair for pair in found if isinstance(pair[0], Tuple) and pair[0] is not self.root]
        inner = [(r, t) for t, _ in through for r in self.users.get(t, ())]
        return [pair for pair in found if pair not in through] + inner

    def rewritten(self) -> RelayExpr:
        for node in self.order:
            self.new[node] = self._node(node)
        return self._widened(self.root)

    def _node(self, node: RelayExpr) -> RelayExpr:
        if node in self.direct:
            assert isinstance(node, Call)
            args = [self._half(a) for a in node.args]
            attrs = summed_wide(node.attrs) if takes_half(node) else node.attrs
            made: RelayExpr = Call(node.op, args, attrs, node.type_args, node.span)
            if not takes_half(node):
                infer_expr(made)
                gives = made.checked_type
                is_half = isinstance(gives, TensorType) and gives.dtype == HALF
                self.halves[node] = made if is_half else op.cast(made, HALF)
            return made
        inner = fusion_children(node)
        return rebuild(node, [self._widened(c) for c in inner]) if inner else node

    def _half(self, node: RelayExpr) -> RelayExpr:
        """*node*, or the fields of a tuple, in float16."""
        if isinstance(node, Tuple):
            return Tuple([self._half(f) for f in node.fields], node.span)
        if not _is_wide(node.checked_type):
            return self.new[node]
        if node not in self.halves:
            if isinstance(node, Constant):
                with np.errstate(over="ignore"):
                    made: RelayExpr = Constant(NDArray(node.data.numpy().astype(HALF)), node.span)
            else:
                cast = op.cast(self.new[node], HALF)
                made = Call(cast.op, cast.args, cast.attrs, cast.type_args, node.span)
            self.halves[node] = made
        return self.halves[node]

    def _widened(self, node: RelayExpr) -> RelayExpr:
        """*node* as readers in float32 take it."""
        if node not in self.stored:
            return self.new[node]
        if node not in self.wide:
            self.wide[node] = op.cast(self._half(node), WIDE)
        return self.wide[node]


def takes_rounded(node: RelayExpr, operand: RelayExpr) -> bool:
    """Whether *node* is elementwise and makes floats: what a rounded *operand* gives is the result, rounded. A tuple of
    results takes them too.

    A float of fewer bits is off by a part of itself, never 0 where the number is not, so that a divisor may be one.
    """
    if isinstance(node, Tuple):
        return True
    if not (isinstance(node, Call) and isinstance(node.op, Op) and node.op.pattern <= OpPattern.BROADCAST):
        return False
    if STEP in sensitivities(node, operand):
        return False
    return all(t.dtype.startswith(("float", "bfloat")) for t in tensor_types(node.checked_type))


def summed_wide(attrs: Attrs) -> Attrs:
    """The *attrs* of a product that sums and answers in float32."""
    return changed(attrs, out_dtype=WIDE)


def largest_of(array: np.ndarray) -> float:
    """The largest magnitude in *array*; NaN where it has one, 0 where it is empty."""
    return float(np.abs(array.astype("float64", copy=False)).max(initial=0.0))


def _is_wide(ty: Type) -> bool:
    return isinstance(ty, TensorType) and ty.dtype == WIDE


def _is_taken(call: Call, dtype: str) -> bool:
    """Whether the operator of *call* has a tensor expression for its operands with floats of *dtype*."""
    assert isinstance(call.op, Op)
    attrs = summed_wide(call.attrs) if hasattr(call.attrs, "out_dtype") else call.attrs
    return call.op.compute is not None and takes_dtypes(call.op, attrs, [_as(a.checked_type, dtype) for a in call.args])


def _as(ty: Type, dtype: str) -> Type:
    if isinstance(ty, TupleType):
        return TupleType([_as(f, dtype) for f in ty.fields])
    return TensorType(ty.shape, dtype) if isinstance(ty, TensorType) and ty.dtype == WIDE else ty
