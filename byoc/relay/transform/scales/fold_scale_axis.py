"""FoldScaleAxis: a scale per channel beside a convolution or product goes into its weights, as an expression.

Backward: ``conv(x, w) * s`` is ``conv(x, w * s)``, also through biases (scaled too), sums of two such and, where s is
known to be positive, through relu; what has another reader is left. Forward: ``conv(x * s, w)`` is ``conv(x, s * w)``,
also through biases (divided) and relu, where every reader takes the scale. Constants are left for FoldConstant.
Requires: SimplifyInference. Source: ``relay.transform.{Backward,Forward,}FoldScaleAxis``.
"""

from __future__ import annotations

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo, Sequential
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.scales.backward import fold_backward
from byoc.relay.transform.scales.fold_constant_scales import FoldConstantScales
from byoc.relay.transform.scales.forward import fold_forward
from byoc.relay.transform.simplify.fold_constant import FoldConstant


def BackwardFoldScaleAxis() -> FunctionPass:
    """The pass that folds a scale into the weights before it."""

    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return fold_backward(infer_function(func, mod))

    return FunctionPass(
        fold,
        PassInfo(
            "BackwardFoldScaleAxis",
            3,
            ("InferType",),
            ends=REWRITES,
            law=Law("a scale of a product's result is one of its weights: s * (W x) = (s * W) x", Numbers.ROUNDING),
        ),
    )


def ForwardFoldScaleAxis() -> FunctionPass:
    """The pass that folds a scale into the weights after it."""

    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return fold_forward(infer_function(func, mod))

    return FunctionPass(
        fold,
        PassInfo(
            "ForwardFoldScaleAxis",
            3,
            ("InferType",),
            ends=REWRITES,
            law=Law("a scale of a product's input is one of its weights: W (s * x) = (W * s) x", Numbers.ROUNDING),
        ),
    )


def FoldScaleAxis() -> Sequential:
    """The passes that fold scales into the weights before and after them, and the constants that this leaves."""
    steps = [BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant(), FoldConstantScales()]
    return Sequential(steps, name="FoldScaleAxis")
