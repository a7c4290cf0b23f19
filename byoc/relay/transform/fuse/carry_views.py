"""CarryViews: reshapes and transposes are carried along as views, and stand only where something needs them.

Reshapes and transposes in a row become one reshape, one transpose and one reshape at most. What is elementwise behind a
view of a sum of products (``add(reshape(dense(x, w)), b)``) is computed over the sum's own axes, before the view, so
that it can be fused with the sum; a product of batches takes an operand's transpose as its flag; and the parts of a
split are slices, each for its reader. Requires typed functions; values with sizes known only at run time stay as they
are.

It walks by a loop of its own, since a value becomes a base and a view of it, no expression; that is made where one is
asked for, if at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, OpPattern
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.traits import OpKind, Scaling
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import calls, traits_of
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, TupleGetItem, constant
from byoc.relay.narrowing import as_call, tuple_type
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.fuse.views import View
from byoc.relay.traverse import post_order, typed_rebuild


@dataclass(frozen=True)
class _Carried:
    """A value as a *view* of a dense *base* of *shape*; *is_sum*: that is a sum of products, or pointwise of one."""

    base: RelayExpr
    shape: tuple[int, ...]
    view: View
    is_sum: bool = False

    @property
    def is_plain(self) -> bool:
        """True for a value that is its own base."""
        return self.view.shape == self.shape and self.view == View.of_shape(self.shape)


def _static_shape(expr: RelayExpr) -> tuple[int, ...] | None:
    """The shape of a tensor whose sizes are known and not 0; None for anything else."""
    ty = expr.checked_type_
    if not isinstance(ty, TensorType) or not ty.is_static or 0 in ty.shape:
        return None
    return tuple(map(int, ty.shape))


class _Carrier:
    def __init__(self, root: RelayExpr) -> None:
        self._uses = Counter(child for node in post_order(root, fusion_children) for child in fusion_children(node))
        self._root = root
        self._carried: dict[RelayExpr, _Carried] = {}
        self._real: dict[RelayExpr, RelayExpr] = {}
        self._made: dict[tuple[RelayExpr, View], RelayExpr] = {}

    def run(self) -> RelayExpr:
        """The root with views where they are needed."""
        for node in post_order(self._root, fusion_children):
            carried = self._visit(node)
            if carried is not None:
                self._carried[node] = carried
            else:
                inner = fusion_children(node)
                self._keep(node, typed_rebuild(node, [self._realized(c) for c in inner]) if inner else node)
        return self._realized(self._root)

    def _keep(self, node: RelayExpr, value: RelayExpr) -> None:
        self._real[node] = value
        shape = _static_shape(node)
        if shape is not None:
            is_sum = isinstance(node, Call) and isinstance(node.op, Op) and node.op.pattern == _SUM
            self._carried[node] = _Carried(value, shape, View.of_shape(shape), is_sum)

    def _realized(self, node: RelayExpr) -> RelayExpr:
        if node not in self._real:
            self._real[node] = self._dense(self._carried[node])
        return self._real[node]

    def _dense(self, carried: _Carried) -> RelayExpr:
        """The value of a view, made once."""
        key = carried.base, carried.view
        if key not in self._made:
            self._made[key] = moved = _moved(carried)
            infer_expr(moved)
        return self._made[key]

    def _visit(self, node: RelayExpr) -> _Carried | None:
        """What *node* is as a view; None where it is to be computed as it stands."""
        shape = _static_shape(node)
        if shape is None:
            return None
        if isinstance(node, TupleGetItem):
            return self._part(node, shape)
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return None
        if node.op.get_attr("TReshapeOp"):
            return self._reshaped(node, shape)
        rule = _rule_of(node.op)
        return rule(self, node, shape) if rule is not None else None

    def _reshaped(self, node: Call, shape: tuple[int, ...]) -> _Carried | None:
        carried = self._carried.get(node.args[0])
        if carried is None:
            return None
        view = carried.view.reshaped(shape)
        if view is None:  # a cut falls unevenly: start anew from the value itself
            before = carried.view.shape
            carried = _Carried(self._dense(carried), before, View.of_shape(before))
            view = carried.view.reshaped(shape)
        return None if view is None else replace(carried, view=view)

    def _transposed(self, node: Call, shape: tuple[int, ...]) -> _Carried | None:
        carried, axes = self._carried.get(node.args[0]), node.attrs["axes"]
        if carried is None:
            return None
        order = [a % len(shape) for a in axes] if axes else list(reversed(range(len(shape))))
        return replace(carried, view=carried.view.transposed(order))

    def _part(self, node: TupleGetItem, shape: tuple[int, ...]) -> _Carried | None:
        """A part of a split: a product with some rows of its weights, or a slice."""
        whole = node.tuple_value
        if not calls(whole, "split"):
            return None
        axis = int(whole.attrs["axis"]) % len(shape)
        before = sum(t.concrete_shape[axis] for t in tensor_types(tuple_type(whole))[: node.index])
        rows = slice(before, before + shape[axis])
        return self._part_of_product(whole, axis, rows) or self._slice(node, axis, rows, shape)

    def _slice(self, node: TupleGetItem, axis: int, rows: slice, shape: tuple[int, ...]) -> _Carried:
        whole = node.tuple_value
        made = call_op(
            "strided_slice",
            [self._realized(as_call(whole).args[0])],
            node.span or whole.span,
            begin=(rows.start,),
            end=(rows.stop,),
            strides=(1,),
            axes=(axis,),
        )
        return _Carried(made, shape, View.of_shape(shape))

    def _part_of_product(self, whole: Call, axis: int, rows: slice) -> _Carried | None:
        """The product with *rows* of constant weights, where nothing else reads the whole."""
        carried = self._carried.get(whole.args[0])
        if carried is None or not self._is_read_once(whole.args[0]):
            return None
        last = carried.view.axes[axis]
        if last != View.of_shape(carried.shape).axes[-1] or not last:
            return None
        base = rows_of_product(carried.base, rows)
        if base is None:
            return None
        part = View((*carried.view.axes[:axis], ((rows.stop - rows.start, 1),), *carried.view.axes[axis + 1 :]))
        shape = (*carried.shape[:-1], rows.stop - rows.start)
        view = View.of_shape(shape).reshaped(part.shape) if carried.view.is_dense else None
        return None if view is None else _Carried(base, shape, view, True)

    def _is_read_once(self, node: RelayExpr) -> bool:
        """True where a value, and what it is a view or biased sum of, has no other reader."""
        while self._uses[node] == 1:
            if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.pattern == _SUM:
                return True
            node = node.args[0]
        return False

    def _pointwise(self, node: Call, shape: tuple[int, ...]) -> _Carried | None:
        found = [self._carried.get(arg) for arg in node.args]
        carried = [c for c in found if c is not None]
        if len(carried) != len(found):
            return None
        for arg, lead in zip(node.args, carried, strict=True):
            if lead.is_sum and lead.view.shape == shape and self._may_go_before(arg, lead):
                args = self._over_base(lead, carried, node)
                if args is not None:
                    made = Call(node.op, args, node.attrs, node.type_args, node.span)
                    return replace(lead, base=made)
        if any(c.is_sum and c.is_plain and c.shape == shape for c in carried):
            made = Call(node.op, [self._realized(a) for a in node.args], node.attrs, node.type_args, node.span)
            return _Carried(made, shape, View.of_shape(shape), True)
        return None

    def _may_go_before(self, arg: RelayExpr, lead: _Carried) -> bool:
        """True where what reads *arg* may read its base instead: not where others read it transposed."""
        return not lead.is_plain and (lead.view.is_dense or self._uses[arg] == 1)

    def _over_base(self, lead: _Carried, carried: Sequence[_Carried], node: Call) -> list[RelayExpr] | None:
        """The arguments of *node* over the base's axes of *lead*; None where one cannot be had for nothing."""
        args = []
        for own in carried:
            if own.shape == lead.shape and own.view == lead.view:
                args.append(own.base)
                continue
            found = self._brought(lead, own)
            if found is None:
                return None
            args.append(found)
        return args

    def _brought(self, lead: _Carried, own: _Carried) -> RelayExpr | None:
        """The value of *own* over the base's axes of *lead*; None where it would be broadcast in part."""
        shape = own.view.shape
        if not shape:
            return own.base if not own.shape else self._dense(own)
        if not own.view.is_dense:
            own = _Carried(self._dense(own), shape, View.of_shape(shape))
        wide = (*(1 for _ in range(len(lead.view.shape) - len(shape))), *shape)
        target = lead.view.brings_back(lead.shape, wide)
        return None if target is None else self._dense(replace(own, view=View.of_shape(target)))

    def _bias_added(self, node: Call, shape: tuple[int, ...]) -> _Carried | None:
        """A bias over a view: an addition over the base's axes."""
        lead, bias = (self._carried.get(arg) for arg in node.args)
        if lead is None or bias is None or not lead.is_sum or not bias.view.is_dense:
            return None
        if lead.is_plain:
            made = Call(node.op, [lead.base, self._dense(bias)], node.attrs, node.type_args, node.span)
            return _Carried(made, shape, View.of_shape(shape), True)
        axis = int(node.attrs["axis"]) % len(shape)
        target = lead.view.brings_back(lead.shape, [d if k == axis else 1 for k, d in enumerate(shape)])
        if target is None:
            return None
        moved = self._dense(replace(bias, view=View.of_shape(target)))
        return replace(lead, base=call_op("add", [lead.base, moved], node.span))

    def _along_axis(self, node: Call, shape: tuple[int, ...]) -> _Carried | None:
        """What goes along one axis (softmax, a norm) over a view: along the axis of the base that this is."""
        lead = self._carried.get(node.args[0])
        if lead is None or not self._may_go_before(node.args[0], lead) or len(tensor_types(node.checked_type)) != 1:
            return None
        axis = lead.view.axes[int(node.attrs["axis"]) % len(shape)]
        whole = View.of_shape(lead.shape).axes
        if not axis or axis not in whole:
            return None
        attrs = replace(node.attrs, axis=whole.index(axis))
        args = [lead.base, *(self._realized(arg) for arg in node.args[1:])]
        return replace(lead, base=Call(node.op, args, attrs, node.type_args, node.span), is_sum=True)

    def _batch_product(self, node: Call, shape: tuple[int, ...]) -> _Carried | None:
        """A product of batches: an operand whose rows lie apart by one is taken transposed."""
        args: list[RelayExpr] = []
        flags = {}
        for arg, flag in zip(node.args, ("transpose_a", "transpose_b"), strict=True):
            own = self._carried.get(arg)
            if own is None:
                return None
            flags[flag] = bool(node.attrs[flag])
            if _steps(own.view, 2) > 1 == _steps(own.view, 1):
                own, flags[flag] = replace(own, view=own.view.transposed((0, 2, 1))), not flags[flag]
            args.append(self._dense(own))
        made = Call(node.op, args, replace(node.attrs, **flags), node.type_args, node.span)
        return _Carried(made, shape, View.of_shape(shape), True)


_SUM = OpPattern.OUT_ELEMWISE_FUSABLE
_Rule = Callable[[_Carrier, Call, tuple[int, ...]], "_Carried | None"]
_RULES: dict[str, _Rule] = {
    "transpose": _Carrier._transposed,
    "nn.bias_add": _Carrier._bias_added,
    "nn.batch_matmul": _Carrier._batch_product,
}


def _rule_of(op: Op) -> _Rule | None:
    """The rule of *op* itself, else that of what it is; None where its calls are computed as they stand."""
    if op.name in _RULES:
        return _RULES[op.name]
    if op.traits.kind is OpKind.ROWS and not op.traits.quantized:
        return _Carrier._along_axis
    return _Carrier._pointwise if op.traits.is_pointwise else None


def rows_of_product(product: RelayExpr, rows: slice) -> Call | None:
    """``dense(x, w) + b`` (or ``- b``) with *rows* of constants w and b alone; None for any other form."""
    sums: list[tuple[Call, Constant]] = []  # from the last to the first
    while (traits := traits_of(product)) is not None and traits.scaling is Scaling.SUM:
        total = as_call(product)
        product, bias = total.args
        if not isinstance(bias, Constant):
            return None
        sums.append((total, bias))
    if not calls(product, "nn.dense") or not isinstance(product.args[1], Constant):
        return None
    weight = product.args[1]
    if any(bias.data.shape[-1:] != weight.data.shape[:1] for _, bias in sums):
        return None
    attrs = replace(product.attrs, units=rows.stop - rows.start)
    part = constant(weight.data.numpy()[rows], span=weight.span)
    made = Call(product.op, [product.args[0], part], attrs, span=product.span)
    for total, bias in reversed(sums):
        part = constant(bias.data.numpy()[..., rows], span=bias.span)
        made = Call(total.op, [made, part], total.attrs, span=total.span)
    return made


def _steps(view: View, axis: int) -> int:
    """How far apart in the base neighbours along *axis* lie; 0 for an axis of one element."""
    factors = view.axes[axis]
    return factors[-1][1] if factors else 0


def _moved(carried: _Carried) -> RelayExpr:
    """The view's value from its base: a reshape, a transpose and a reshape, each where something changes."""
    value, span, shape = carried.base, carried.base.span, carried.view.shape
    if carried.is_plain:
        return value
    if not carried.view.is_dense:
        whole = carried.view.as_transpose(carried.shape)
        if whole is not None:
            return call_op("transpose", [value], span, axes=whole)
        first, order = carried.view.as_moves()
        if first != carried.shape:
            value = call_op("reshape", [value], span, newshape=first)
        value = call_op("transpose", [value], span, axes=order)
        if tuple(first[k] for k in order) == shape:
            return value
    return call_op("reshape", [value], span, newshape=shape)


def carry_views(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with reshapes and transposes where something needs them."""
    func = infer_function(func, mod)
    body = _Carrier(func.body).run()
    return func.over(func.params, body)


def CarryViews() -> FunctionPass:
    """The pass that carries reshapes and transposes along as views."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return carry_views(func, mod)

    return FunctionPass(
        run,
        PassInfo(
            "CarryViews",
            0,
            ("InferType",),
            needs=("unfused",),
            ends=REWRITES,
            law=Law("f(view(x)) = view(f(x)) where f works element by element", Numbers.ROUNDING),
        ),
    )
