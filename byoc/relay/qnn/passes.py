"""The pipeline's passes over quantized models: each loads what it does where a function has something for it."""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import TensorType
from byoc.relay.analysis.contents import contents_of
from byoc.relay.analysis.module_types import typed_expr
from byoc.relay.analysis.operator_calls import op_name, traits_of
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order

AS_ONNX_SAYS = Law("a quantized operator of ONNX is its definition in plain arithmetic", Numbers.ROUNDING)
OVER_INTEGERS = Law("a product between dequantize and quantize is one over its integers", Numbers.ROUNDING)
NARROW = Law("a sum of products of small integers is the same over narrow operands")
SUM = "int32"  # the dtype of the sums of integer products


def quantized_calls(func: RelayExpr) -> list[Call]:
    """The calls of operators of ``relay.qnn`` in *func*."""
    if isinstance(func, Function) and not any(op.traits.quantized for op in contents_of(func).operators):
        return []
    nodes = post_order(func, fusion_children)
    return [n for n in nodes if isinstance(n, Call) and isinstance(n.op, Op) and n.op.traits.quantized]


def is_of_onnx(func: RelayExpr) -> bool:
    """Whether what is quantized in *func* came from an ONNX model: whatever rounds does so to even."""
    calls = quantized_calls(func)
    if not calls:
        return False
    from byoc.relay.qnn.onnx_arithmetic import RULES  # which a model in floats never asks for
    from byoc.runtime.kernels.qnn.rounding import OF_ONNX

    def is_onnx(call: Call) -> bool:
        if hasattr(call.attrs, "rounding"):
            return call.attrs.rounding in OF_ONNX
        traits = traits_of(call)  # what gives sums or floats does not round
        return traits is not None and traits.zero_of_data is not None and op_name(call) in RULES

    return all(map(is_onnx, calls))


def LowerOnnxQuantization() -> FunctionPass:
    """The pass that makes ONNX's arithmetic of quantized operators, in functions where these are all ONNX's."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if not is_of_onnx(func):
            return func
        from byoc.relay.qnn.onnx_arithmetic import lowered

        return lowered(func, mod)

    return FunctionPass(run, PassInfo("LowerOnnxQuantization", 0, ("InferType",), ends=REWRITES, law=AS_ONNX_SAYS))


def QuantizedProducts() -> FunctionPass:
    """The pass that multiplies the integers of dequantized operands. Requires a typed module before lowering."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        from byoc.relay.qnn.quantized_products import integer_products

        return integer_products(func, mod)

    return FunctionPass(run, PassInfo("QuantizedProducts", 1, ("InferType",), ends=REWRITES, law=OVER_INTEGERS))


def NarrowIntegerProducts() -> FunctionPass:
    """The pass that lets integer products over bytes compute on bytes."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        typed = as_function(typed_expr(func, mod))
        if not any(_sums_integers(node) for node in post_order(typed, fusion_children)):
            return typed
        from byoc.relay.qnn.narrow_integers import narrowed

        return narrowed(typed, mod)

    return FunctionPass(run, PassInfo("NarrowIntegerProducts", 1, ("InferType",), ends=REWRITES, law=NARROW))


def _sums_integers(node: RelayExpr) -> bool:
    """Whether *node* is a product of integers with sums of 32 bits."""
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.traits.product is None:
        return False
    ty = node.checked_type
    return isinstance(ty, TensorType) and ty.dtype == SUM
