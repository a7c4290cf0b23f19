"""JoinGroups: groups that one kernel can do together, which FuseOps keeps apart.

Where nothing but the next group reads what a group gives, the two may be one. Joined are: a view (reshapes, transposes,
a slice) and the product that reads it, where each axis steps through the data evenly; a product and the transpose that
is its only reader, whose last reshape stays outside, where it moves nothing; a transpose and the convolution of few
channels behind it; what is pointwise, and the row reduction (softmax, a norm) behind it; a reduction of rows and what
is pointwise over them. Unless the option ``byoc.attention`` is off, also two products of batches with a softmax
between them, whose group is then what is known as attention: a schedule can go through it by blocks of rows and never
keep the whole of the scores. Requires FuseOps; a group keeps its result, so that joining never makes a cycle.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo, register_config_option
from byoc.ir.span import merge_spans
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import TensorType, TupleType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import calls, traits_of
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.relay.narrowing import as_call, as_function, operator_of, tensor_type
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.fuse.views import View
from byoc.relay.traverse import post_order, rewrite, substitute

ATTENTION = "byoc.attention"
register_config_option(ATTENTION, bool)

_MATRICES = (ProductForm.DENSE, ProductForm.MATRICES)
_CONVOLUTIONS = (ProductForm.CONVOLUTION, ProductForm.TRANSPOSED_CONVOLUTION)
# channels that do not fill a line of the cache: nothing is lost by reading them far apart
FEW_CHANNELS = 16


def is_group(expr: RelayExpr) -> TypeGuard[Call]:
    """True for the call of a fused function."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Function):
        return False
    return "Primitive" in expr.op.attrs and "Compiler" not in expr.op.attrs


@dataclass(frozen=True)
class _Group:
    """A fused function, seen by its operators in the order in which they run."""

    function: Function
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, function: Function) -> _Group:
        return cls(function, tuple(n for n in post_order(function.body) if isinstance(n, Call)))

    def names(self) -> list[str]:
        return [call.op.name for call in self.calls if isinstance(call.op, Op)]

    def traits(self) -> list[Traits]:
        return [call.op.traits for call in self.calls if isinstance(call.op, Op)]

    def batch_products(self) -> list[Call]:
        return [call for call in self.calls if isinstance(call.op, Op) and _is_batch_product(call)]

    def readers(self, value: RelayExpr) -> list[Call]:
        return [call for call in self.calls if value in call.args or value in tuple_fields(call)]


def tuple_fields(call: Call) -> tuple[RelayExpr, ...]:
    """The fields of the tuple that *call* takes; none where it takes none."""
    return tuple(call.args[0].fields) if call.args and isinstance(call.args[0], Tuple) else ()


def _operands(call: Call) -> Sequence[RelayExpr]:
    return tuple_fields(call) or call.args


def _is_batch_product(call: Call) -> bool:
    """Whether *call* multiplies batches of matrices: as ``nn.batch_matmul``, or of any rank as an Einstein sum."""
    if calls(call, "einsum"):
        from byoc.relay.op.numeric.einstein_sum import is_matrix_product

        return is_matrix_product(call.attrs, [tensor_type(f).ndim for f in tuple_fields(call)])
    return calls(call, "nn.batch_matmul")


Rule = Callable[[_Group, _Group, Var], bool]


def _are_pointwise(traits: Iterable[Traits]) -> bool:
    return all(t.kind is OpKind.POINTWISE for t in traits)


def _only_reader(group: _Group, value: RelayExpr) -> Call | None:
    """The one call of *group* that reads *value*."""
    readers = group.readers(value)
    return readers[0] if len(readers) == 1 else None


def _is_rows(reader: Call | None, value: RelayExpr) -> bool:
    """Whether *reader* runs over the rows of *value*: a softmax, a layer norm."""
    if reader is None or reader.args[0] is not value:
        return False
    traits = traits_of(reader)
    return traits is not None and traits.kind is OpKind.ROWS


def view_of(function: Function) -> View | None:
    """The view of its one parameter that *function* is, each axis in even steps; None where it is anything else."""
    chain: list[Call] = []
    node = function.body
    while isinstance(node, Call) and isinstance(node.op, Op):
        chain.append(node)
        node = node.args[0]
    if not isinstance(node, Var) or len(function.params) != 1:
        return None
    view, inner = View.of_shape(_shape(node)) if _is_static(node) else None, 0
    for call in reversed(chain):
        if view is None or not _is_static(call):
            return None
        name, shape = operator_of(call).name, _shape(call)
        if name == "transpose":
            axes = call.attrs["axes"]
            view = view.transposed([a % len(shape) for a in axes] if axes else list(reversed(range(len(shape)))))
        elif name == "strided_slice" and call is chain[-1]:
            cut = [k for k, (a, b) in enumerate(zip(_shape(node), shape, strict=True)) if a != b]
            view, inner = View.of_shape(shape), math.prod(shape[min(cut, default=0) :])
        elif operator_of(call).get_attr("TReshapeOp"):
            view = view.reshaped(shape)
        else:
            return None
    return view if view is not None and _is_even(view, inner) else None


def _is_even(view: View, inner: int) -> bool:
    """True where each axis is one factor, none across the border of rows of *inner* elements that lie apart."""
    if any(len(axis) > 1 for axis in view.axes):
        return False
    factors = [factor for axis in view.axes for factor in axis]
    return not inner or all(size * stride <= inner or stride % inner == 0 for size, stride in factors)


def _is_static(expr: RelayExpr) -> bool:
    ty = expr.checked_type_
    return isinstance(ty, TensorType) and ty.is_static and 0 not in ty.shape


def _shape(expr: RelayExpr) -> tuple[int, ...]:
    return tuple(int(d) for d in tensor_type(expr).shape)


def _view_into_product(producer: _Group, consumer: _Group, param: Var) -> bool:
    reader = _only_reader(consumer, param)
    into = reader is not None and operator_of(reader).traits.product in _MATRICES
    moves = any(t.only_moves and not t.is_view for t in producer.traits())
    return into and moves and view_of(producer.function) is not None


def _order_into_convolution(producer: _Group, consumer: _Group, param: Var) -> bool:
    """The transpose before a convolution of few channels, which reads each of them alone in any order."""
    reader = _only_reader(consumer, param)
    if producer.names() != ["transpose"] or reader is None:
        return False
    attrs = reader.attrs
    if operator_of(reader).traits.product not in _CONVOLUTIONS:
        return False
    if reader.args[0] is not param or attrs["groups"] != 1:
        return False
    channels = tensor_type(param).shape[str(attrs["data_layout"]).index("C")]
    return isinstance(channels, int) and channels < FEW_CHANNELS


def _product_into_view(producer: _Group, consumer: _Group, param: Var) -> bool:
    """A product of batches, with what is pointwise behind it, and the transpose of its result."""
    names = producer.names()
    if "nn.batch_matmul" not in names or "transpose" not in consumer.names() or len(consumer.function.params) != 1:
        return False
    last = len(names) - names[::-1].index("nn.batch_matmul")
    return _are_pointwise(producer.traits()[last:]) and view_of(without_reshape(consumer.function)) is not None


def _pointwise_into_rows(producer: _Group, consumer: _Group, param: Var) -> bool:
    return _is_rows(_only_reader(consumer, param), param) and _are_pointwise(producer.traits())


def _reduction_into_rows(producer: _Group, consumer: _Group, param: Var) -> bool:
    """A reduction of rows to one number each, and what is pointwise over the rows: an RMS norm, say."""
    traits, root = producer.traits(), producer.function.body
    if not isinstance(root, Call) or not isinstance(root.op, Op) or root.op.traits.kind is not OpKind.REDUCTION:
        return False
    from byoc.relay.op.numeric.reduce import ReduceAttrs, reduced_axes

    if not isinstance(root.attrs, ReduceAttrs) or not _is_static(root.args[0]):
        return False
    data, attrs = _shape(root.args[0]), root.attrs
    last = list(reduced_axes(attrs, len(data))) == [len(data) - 1] and not attrs.exclude
    rows = [p for p in consumer.function.params if _is_static(p) and _shape(p) == data]
    result = consumer.function.body
    same = _is_static(result) and _shape(result) == data and bool(rows)
    keeps = bool(last and attrs.keepdims)
    return keeps and same and _are_pointwise((*traits[:-1], *consumer.traits()))


def _scores_into_rows(producer: _Group, consumer: _Group, param: Var) -> bool:
    """A product of batches, with what is pointwise behind it, and the softmax over it."""
    reader, traits = _only_reader(consumer, param), producer.traits()
    rows = reader is not None and calls(reader, "nn.softmax") and reader.args[0] is param
    others = [t for t in traits if t.product is None]
    simple = all(t.kind is OpKind.POINTWISE or t.only_moves for t in others)
    return rows and len(producer.batch_products()) == 1 == len(traits) - len(others) and simple


def _rows_into_product(producer: _Group, consumer: _Group, param: Var) -> bool:
    """A softmax over scores, and the product of batches that weighs values by it."""
    reader = _only_reader(consumer, param)
    weighs = reader is not None and reader in consumer.batch_products() and _operands(reader)[0] is param
    return weighs and "nn.softmax" in producer.names() and len(producer.batch_products()) == 1


RULES: tuple[Rule, ...] = (
    _view_into_product,
    _order_into_convolution,
    _product_into_view,
    _pointwise_into_rows,
    _reduction_into_rows,
)
ATTENTION_RULES: tuple[Rule, ...] = (_scores_into_rows, _rows_into_product)


def without_reshape(function: Function) -> Function:
    """*function* without the reshape that ends it."""
    body = function.body
    while isinstance(body, Call) and isinstance(body.op, Op) and body.op.get_attr("TReshapeOp"):
        body = body.args[0]
    unchanged = body is function.body or isinstance(body, Var)
    return function if unchanged else _function(function.params, body, function)


def _function(params: Sequence[Var], body: RelayExpr, *sources: Function) -> Function:
    span = merge_spans([source.span for source in sources])
    made = Function(list(params), body, body.checked_type_, attrs={"Primitive": 1}, span=span)
    return infer_function(made)


class _Joiner:
    def __init__(self, root: RelayExpr, rules: Sequence[Rule]):
        self._root, self._rules = root, rules
        nodes = post_order(root, fusion_children)
        self._uses = Counter(child for node in nodes for child in fusion_children(node))
        self._before: dict[RelayExpr, RelayExpr] = {}

    def run(self) -> RelayExpr:
        """The root with groups joined."""
        return rewrite(self._root, self._rewritten, fusion_children)

    def _rewritten(self, before: RelayExpr, after: RelayExpr) -> RelayExpr:
        new = self._joined(self._with_fields(as_call(before), as_call(after))) if is_group(before) else after
        self._before.setdefault(new, before)
        return new

    def _with_fields(self, before: Call, call: Call) -> Call:
        """A product of a tuple's fields with a parameter for each of them, so that its neighbours are seen."""
        function = call.op
        assert isinstance(function, Function)
        wanted = {n.args[0] for n in _Group.of(function).calls if calls(n, "einsum")}
        params: list[Var] = []
        values: list[RelayExpr] = []
        bound: dict[RelayExpr, RelayExpr] = {}
        for param, value, given in zip(function.params, call.args, before.args, strict=True):
            types = param.checked_type
            if (
                not isinstance(value, Tuple)
                or not isinstance(types, TupleType)
                or param not in wanted
                or self._uses[given] != 1
            ):
                params.append(param)
                values.append(value)
                continue
            fields = [Var(f"{param.name_hint}_{k}", t, value.span) for k, t in enumerate(types.fields)]
            bound[param] = Tuple(fields, value.span)
            params += fields
            values += value.fields
        if not bound:
            return call
        return Call(_function(params, substitute(function.body, bound), function), values, span=call.span)

    def _joined(self, call: Call) -> RelayExpr:
        """*call* with the groups before it that it can take in; a reshape that then ends it stands outside."""
        given, place = call, 0
        while place < len(call.args):
            arg = call.args[place]
            if is_group(arg) and self._uses[self._before.get(arg, arg)] == 1:
                producer, consumer = _Group.of(as_function(arg.op)), _Group.of(as_function(call.op))
                if any(rule(producer, consumer, consumer.function.params[place]) for rule in self._rules):
                    call, place = self._merged(arg, call, place), -1
            place += 1
        return call if call is given else _split_reshape(call)

    def _merged(self, producer: Call, consumer: Call, place: int) -> Call:
        """The two groups as one; values that both read are one parameter."""
        first, second = as_function(producer.op), as_function(consumer.op)
        values: dict[RelayExpr, Var] = {}
        bound: dict[RelayExpr, RelayExpr] = {}
        read = [*zip(first.params, producer.args, strict=True), *zip(second.params, consumer.args, strict=True)]
        for param, value in read:
            if value is not producer:
                bound[param] = values.setdefault(value, Var(f"p{len(values)}", param.checked_type, value.span))
        bound[second.params[place]] = substitute(first.body, {p: bound[p] for p in first.params})
        body = substitute(second.body, bound)
        function = _function(list(values.values()), body, first, second)
        return Call(function, list(values), span=merge_spans([producer.span, consumer.span]))


def _split_reshape(call: Call) -> Call:
    """A group that ends in a reshape as the group and the reshape, which moves nothing."""
    function = as_function(call.op)
    inner, whole = without_reshape(function), function.body.checked_type
    if inner is function or not isinstance(whole, TensorType) or not whole.is_static:
        return call
    value = Call(inner, call.args, span=call.span)
    param = Var("p0", inner.body.checked_type, call.span)
    body = call_op("reshape", [param], call.span, newshape=tuple(int(d) for d in whole.shape))
    attrs = {"Primitive": 1, "relay.reshape_only": 1}
    return Call(infer_function(Function([param], body, whole, attrs=attrs, span=call.span)), [value], span=call.span)


def join_groups(func: Function, mod: IRModule | None = None, attention: bool = False) -> Function:
    """The fused *func* with groups joined, those of *attention* too where that is asked for."""
    func = infer_function(func, mod)
    body = _Joiner(func.body, (*RULES, *(ATTENTION_RULES if attention else ()))).run()
    return func.over(func.params, body)


def JoinGroups() -> FunctionPass:
    """The pass that joins groups, those of attention too unless the option ``byoc.attention`` is off."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return join_groups(func, mod, bool(ctx.config.get(ATTENTION, True)))

    return FunctionPass(
        run,
        PassInfo(
            "JoinGroups",
            0,
            ("InferType",),
            needs=("fused",),
            ends=REWRITES,
            law=Law("two functions, one of which reads the other, are one function of both bodies"),
        ),
    )
