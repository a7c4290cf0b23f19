"""FakeQuantizationToInteger: floats between ``qnn.dequantize`` and ``qnn.quantize`` become integers.

The rules that it follows, and what they are made of, have here the names of Relay's module. Source:
``relay.transform.FakeQuantizationToInteger`` and ``relay/qnn/fake/fake_quantization_to_integer.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byoc.ir.affine_type import TensorAffineType, TupleAffineType
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.op.op import (
    register_fake_quantization_to_integer,
    register_optional_fake_quantization_to_integer,
)
from byoc.relay.qnn.fake.elementwise_rules import (
    get_binary_types,
    register_binary_identity,
    register_binary_qnn,
    register_unary_qnn,
)
from byoc.relay.qnn.fake.identity_rules import register_unary_identity
from byoc.relay.qnn.fake.parameters import approx_equal, fold_constant, get_zeros, infer_shape
from byoc.relay.qnn.fake.qat import turn_dequantized
from byoc.relay.qnn.fake.rewriting import ChosenOperators, rewrite_regions
from byoc.relay.transform.base.infer_type import FunctionPass


def FakeQuantizationToInteger(
    hard_fail: bool = False,
    use_qat: bool = False,
    optional_qnn_ops: Sequence[str] | None = None,
    only: Iterable[str] | None = None,
) -> FunctionPass:
    """The pass that turns regions of floats between dequantized tensors and a quantize into integers.

    A region with an operator that has no rule, or whose rule refuses, stays; with *hard_fail* the pass raises what went
    wrong. *use_qat* also turns operators on dequantized tensors that no quantize follows. *optional_qnn_ops* names
    operators whose rules are off by default (``nn.softmax``). *only* names the operators that may turn, besides those
    that carry numbers; Relay's pass turns all. Requires types; ensures that no type changes.
    """
    optional = ChosenOperators.of(optional_qnn_ops or (), only)

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        new = rewrite_regions(infer_function(func, mod), optional, hard_fail)
        if use_qat:
            new = turn_dequantized(infer_function(as_function(new), mod), optional)
        return as_function(new)

    return FunctionPass(
        run,
        PassInfo(
            "FakeQuantizationToInteger",
            0,
            ("InferType",),
            ends=REWRITES,
            law=Law("an operator between dequantize and quantize is one over the integers", Numbers.NEAR),
        ),
    )


__all__ = [
    "FakeQuantizationToInteger",
    "TensorAffineType",
    "TupleAffineType",
    "approx_equal",
    "fold_constant",
    "get_binary_types",
    "get_zeros",
    "infer_shape",
    "register_binary_identity",
    "register_binary_qnn",
    "register_fake_quantization_to_integer",
    "register_optional_fake_quantization_to_integer",
    "register_unary_identity",
    "register_unary_qnn",
]
