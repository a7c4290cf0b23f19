"""SimplifyInference: operators that matter in training only become arithmetic, or nothing.

``nn.batch_norm`` becomes ``x * scale + shift`` (of its three results the first; who reads the moving averages keeps the
operator), ``nn.dropout`` its input; ``nn.layer_norm``, ``nn.instance_norm``, ``nn.group_norm`` and ``nn.l2_normalize``
become means and variances, unless they are to be kept for code generators that have them whole. Source:
``relay.transform.SimplifyInference``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import get_op
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo, register_config_option
from byoc.ir.span import AnySpan
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.contents import contents_of
from byoc.relay.analysis.module_types import typed_expr
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, TupleGetItem, constant
from byoc.relay.narrowing import as_function, operator_of
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import rewrite

DECOMPOSE_NORMS = "relay.SimplifyInference.decompose_norms"
register_config_option(DECOMPOSE_NORMS, bool)


class Arithmetic:
    """Makes calls that all carry the span of the call which they replace."""

    def __init__(self, span: AnySpan | None, dtype: str):
        self.span, self.dtype = span, dtype

    def __call__(self, name: str, *args: RelayExpr | float, **attrs: object) -> Call:
        """The call of operator *name*; numbers become scalar constants."""
        op = get_op(name)
        operands = [a if isinstance(a, RelayExpr) else constant(a, self.dtype, self.span) for a in args]
        return Call(op, operands, op.attrs_type(**attrs) if op.attrs_type is not None else None, span=self.span)

    def along(self, vector: RelayExpr, axis: int, ndim: int) -> RelayExpr:
        """``f32[C]`` with the dimensions that let it broadcast along *axis* of a tensor of *ndim* dimensions."""
        after = ndim - axis % ndim - 1
        return self("expand_dims", vector, axis=1, num_newaxis=after) if after else vector

    def rsqrt(self, value: RelayExpr) -> RelayExpr:
        """``1 / sqrt(value)``."""
        return self("divide", 1.0, self("sqrt", value))


def _float_type(expr: RelayExpr) -> TensorType:
    return tensor_types(expr.checked_type)[0]


def decompose_batch_norm(call: Call) -> RelayExpr:
    """The first result of ``nn.batch_norm`` as ``data * scale + shift``."""
    data, gamma, beta, mean, var = call.args
    attrs = call.attrs
    ty = _float_type(data)
    make = Arithmetic(call.span, ty.dtype)
    scale = make.rsqrt(make("add", var, float(attrs["epsilon"])))
    if attrs["scale"]:
        scale = make("multiply", scale, gamma)
    shift = make("multiply", make("negative", mean), scale)
    if attrs["center"]:
        shift = make("add", shift, beta)
    axis = int(attrs["axis"])
    scaled = make("multiply", data, make.along(scale, axis, ty.ndim))
    return make("add", scaled, make.along(shift, axis, ty.ndim))


def _normalize(make: Arithmetic, data: RelayExpr, axes: Sequence[int], epsilon: float) -> RelayExpr:
    mean = make("mean", data, axis=tuple(axes), keepdims=True)
    variance = make("variance", data, mean, axis=tuple(axes), keepdims=True)
    return make("divide", make("subtract", data, mean), make("sqrt", make("add", variance, epsilon)))


def _affine(make: Arithmetic, call: Call, normal: RelayExpr, axis: int, ndim: int) -> RelayExpr:
    attrs = call.attrs
    if attrs["scale"]:
        normal = make("multiply", normal, make.along(call.args[1], axis, ndim))
    if attrs["center"]:
        normal = make("add", normal, make.along(call.args[2], axis, ndim))
    return normal


def decompose_layer_norm(call: Call) -> RelayExpr:
    """``nn.layer_norm`` by mean and variance over its axis."""
    ty = _float_type(call.args[0])
    make, axis = Arithmetic(call.span, ty.dtype), int(call.attrs["axis"])
    normal = _normalize(make, call.args[0], (axis,), float(call.attrs["epsilon"]))
    return _affine(make, call, normal, axis, ty.ndim)


def decompose_instance_norm(call: Call) -> RelayExpr:
    """``nn.instance_norm`` by mean and variance over all but the batch and the channel axis."""
    ty = _float_type(call.args[0])
    make, axis = Arithmetic(call.span, ty.dtype), int(call.attrs["axis"]) % ty.ndim
    axes = [k for k in range(1, ty.ndim) if k != axis]
    normal = _normalize(make, call.args[0], axes, float(call.attrs["epsilon"]))
    return _affine(make, call, normal, axis, ty.ndim)


def decompose_group_norm(call: Call) -> RelayExpr:
    """``nn.group_norm`` with the groups as an axis of their own; itself where a size is not known."""
    ty, attrs = _float_type(call.args[0]), call.attrs
    if not ty.is_static:
        return call
    make, axis = Arithmetic(call.span, ty.dtype), int(attrs["axis"]) % ty.ndim
    groups, shape = int(attrs["num_groups"]), ty.concrete_shape
    split = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    data = make("reshape", call.args[0], newshape=split)
    normal = _normalize(make, data, range(axis + 1, len(split)), float(attrs["epsilon"]))
    return _affine(make, call, make("reshape", normal, newshape=shape), axis, ty.ndim)


def decompose_l2_normalize(call: Call) -> RelayExpr:
    """``nn.l2_normalize`` as ``x / sqrt(max(sum(x * x), eps))``."""
    data = call.args[0]
    make = Arithmetic(call.span, _float_type(data).dtype)
    total = make("sum", make("multiply", data, data), axis=call.attrs["axis"], keepdims=True)
    floor = make("maximum", total, float(call.attrs["eps"]))
    return make("divide", data, make("sqrt", floor))


NORMS: dict[str, Callable[[Call], RelayExpr]] = {
    "nn.layer_norm": decompose_layer_norm,
    "nn.instance_norm": decompose_instance_norm,
    "nn.group_norm": decompose_group_norm,
    "nn.l2_normalize": decompose_l2_normalize,
}
# what the first field of a call's result becomes at inference
FIRST_FIELDS: dict[str, Callable[[Call], RelayExpr]] = {
    "nn.batch_norm": decompose_batch_norm,
    "nn.dropout": lambda call: call.args[0],
}


def _simplified(node: RelayExpr, decompose_norms: bool) -> RelayExpr:
    if isinstance(node, TupleGetItem) and node.index == 0 and calls(node.tuple_value, *FIRST_FIELDS):
        return FIRST_FIELDS[operator_of(node.tuple_value).name](node.tuple_value)
    if calls(node, "nn.dropout") and isinstance(node.checked_type_, TensorType):
        return node.args[0]
    if decompose_norms and calls(node, *NORMS):
        return NORMS[operator_of(node).name](node)
    return node


def simplify_inference(root: RelayExpr, mod: IRModule | None = None, decompose_norms: bool = False) -> RelayExpr:
    """*root* with what matters in training only replaced."""
    root = typed_expr(root, mod)
    if isinstance(root, Function):
        names = {op.name for op in contents_of(root).operators}
        if names.isdisjoint(FIRST_FIELDS) and names.isdisjoint(NORMS):
            return root

    def replaced(before: RelayExpr, new: RelayExpr) -> RelayExpr:
        if not isinstance(new, Function):
            infer_expr(new, mod)
        new = _simplified(new, decompose_norms)
        if not isinstance(new, (Function, Constant)):
            infer_expr(new, mod)
        return new

    return rewrite(root, replaced, fusion_children)


def SimplifyInference(decompose_norms: bool | None = None) -> FunctionPass:
    """The pass that makes norms arithmetic and drops dropouts.

    *decompose_norms* False keeps all norms but batch norms; None takes the option
    ``relay.SimplifyInference.decompose_norms`` of the context, which is True where it is not set.
    """

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        wanted = ctx.config.get(DECOMPOSE_NORMS, True) if decompose_norms is None else decompose_norms
        return as_function(simplify_inference(func, mod, bool(wanted)))

    return FunctionPass(
        run,
        PassInfo(
            "SimplifyInference",
            0,
            ("InferType",),
            ends=REWRITES,
            law=Law("at inference dropout is x, and a norm is a scale and a shift", Numbers.ROUNDING),
        ),
    )
