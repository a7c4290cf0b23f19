"""Integers for the targets that compute on them: from a model to one whose quantized parts are ``relay.qnn``.

A model that quantizes itself (QuantizeLinear, DequantizeLinear, QLinearConv) is imported with ``qnn.quantize`` and
``qnn.dequantize`` around operators in floats. Where a target takes integers, what stands between becomes integer
operators before the plan is made (``FakeQuantizationToInteger``), so that patterns such as ``nn.pad`` +
``qnn.conv2d`` + ``nn.bias_add`` + ``qnn.requantize`` match. Invariants: what then stays on the host is lowered to what
ONNX says; a region rounds as its backend declares (``Backend.quantized``). Without such a target nothing of this
happens, and the host's code is what it always was.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.driver.pass_list import Pipeline
from byoc.driver.pipeline import INTEGERS_MADE, optimize
from byoc.ir.module import IRModule


def simplified(
    mod: IRModule, targets: Sequence[str], chosen: Pipeline | None = None, precision: str = "f32"
) -> IRModule:
    """*mod* after the stage ``simplify``; what it quantizes is integers where one of *targets* computes on these."""
    if not targets:
        return optimize(mod, chosen, precision)
    from byoc.driver.compiler.target_integers import integer_backends, with_integers

    backends = integer_backends(targets)
    mod = optimize(mod, chosen, precision, bool(backends))
    return with_integers(mod, backends) if backends else mod


def host_integers(mod: IRModule, products: bool = False) -> IRModule:
    """The partitioned *mod* with the integers that stayed on the host as ONNX's arithmetic, if they were made here.

    *products*: what is left in floats between dequantized tensors is multiplied on integers too.
    """
    if not mod.attrs.get(INTEGERS_MADE):
        return mod
    from byoc.driver.compiler.target_integers import as_onnx_arithmetic

    return as_onnx_arithmetic(mod, products)


def region_integers(mod: IRModule) -> IRModule:
    """The partitioned *mod* whose regions round as their backends declare, where their integers were made here."""
    if not mod.attrs.get(INTEGERS_MADE):
        return mod
    from byoc.driver.compiler.target_integers import rounded_as_declared

    return rounded_as_declared(mod)
