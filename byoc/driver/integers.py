"""Integers for the targets that compute on them: from a model to one whose quantized parts are ``relay.qnn``.

A model that quantizes itself (QuantizeLinear, DequantizeLinear, QLinearConv) is imported with ``qnn.quantize`` and
``qnn.dequantize`` around operators in floats. Where a target takes integers, what stands between becomes integer
operators before the plan is made (``FakeQuantizationToInteger``), so that patterns such as ``nn.pad`` +
``qnn.conv2d`` + ``nn.bias_add`` + ``qnn.requantize`` match. Invariants: what then stays on the host is lowered to what
ONNX says; a region rounds as its backend declares (``Backend.quantized``). Without such a target nothing of this
happens, and the host's code is what it always was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from byoc.contract.backend import Backend
from byoc.contract.checks import pattern_entries
from byoc.contract.registration import get_backend
from byoc.driver.pass_list import Pipeline
from byoc.driver.pipeline import at_least_level_3, optimize
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, Op
from byoc.ir.passes.transform import Sequential
from byoc.relay import transform
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.dataflow_pattern.pattern_graph import pattern_post_order
from byoc.relay.dataflow_pattern.patterns import ExprPattern
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.qnn.data_dtype import ChangeDataDtype
from byoc.relay.qnn.fake.fake_quantization_to_integer import FakeQuantizationToInteger
from byoc.relay.qnn.fake.rewriting import RULE, TRUNCATES
from byoc.relay.qnn.onnx_arithmetic import is_of_onnx, lowered
from byoc.relay.qnn.op.requantize import RequantizeAttrs
from byoc.relay.qnn.quantized_products import QuantizedProducts
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant
from byoc.relay.traverse import rewrite
from byoc.runtime.kernels.qnn.rounding import TOEVEN, UNSAID

REQUANTIZE = "qnn.requantize"
MADE = "integers_of_onnx"  # the attribute of a module whose integers were made here


def takes_integers(backend: Backend) -> bool:
    """Whether *backend* says so, or a pattern of its holds an operator of ``relay.qnn``."""
    if backend.quantized is not None:
        return True
    parts = (part for row in pattern_entries(backend) for part in pattern_post_order(row.pattern))
    return any(isinstance(p, ExprPattern) and isinstance(p.expr, Op) and p.expr.traits.quantized for p in parts)


def integer_backends(targets: Sequence[str]) -> list[Backend]:
    """The backends among *targets* that compute on integers."""
    return [backend for backend in map(get_backend, targets) if takes_integers(backend)]


def simplified(
    mod: IRModule, targets: Sequence[str], chosen: Pipeline | None = None, precision: str = "f32"
) -> IRModule:
    """*mod* after the stage ``simplify``; what it quantizes is integers where one of *targets* computes on these."""
    backends = integer_backends(targets)
    mod = optimize(mod, chosen, precision, bool(backends))
    return with_integers(mod, backends) if backends else mod


def exact_operators() -> list[str]:
    """The operators whose form on integers rounds no more often than the model says."""
    return [name for name in OPS if OPS[name].has_attr(RULE) and not OPS[name].get_attr(TRUNCATES)]


def with_integers(mod: IRModule, backends: Sequence[Backend]) -> IRModule:
    """The simplified *mod* with what lies between its dequantized and quantized tensors as integers for *backends*."""
    mod = transform.InferType()(mod)
    main = mod["main"]
    of_onnx = is_of_onnx(main)
    declared = [b.quantized.operators if b.quantized is not None else () for b in backends]
    every = exact_operators() if any(not names for names in declared) else []
    only = [*every, *(name for names in declared for name in names)]
    with at_least_level_3():
        wanted = next((b.quantized.data for b in backends if b.quantized is not None), None)
        if wanted is not None:
            mod = Sequential([ChangeDataDtype(wanted), transform.InferType()], name="with_integers")(mod)
        mod = FakeQuantizationToInteger(only=only)(mod)
        if of_onnx:
            mod = _rounded_in(mod, "main", TOEVEN, "float32").with_attr(MADE, True)
        fold = (FoldHostConstant(fold_qnn=True), EliminateHostDeadCode(), transform.EliminateCommonSubexpr())
        return Sequential([*fold, transform.InferType()], name="with_integers")(mod)


def host_integers(mod: IRModule, products: bool = False) -> IRModule:
    """The partitioned *mod* with the integers that stayed on the host as ONNX's arithmetic, if they were made here.

    *products*: what is left in floats between dequantized tensors is multiplied on integers too.
    """
    if not mod.attrs.get(MADE):
        return mod
    mod = transform.InferType()(mod)
    result = mod.shallow_copy()
    for var, function in mod.functions.items():
        if isinstance(function, Function) and "Compiler" not in function.attrs:
            result[var] = lowered(function, mod)
    result = transform.InferType()(result)
    return QuantizedProducts()(result) if products else result


def region_integers(mod: IRModule) -> IRModule:
    """The partitioned *mod* whose regions round as their backends declare, where their integers were made here."""
    if not mod.attrs.get(MADE):
        return mod
    for var, function in list(mod.functions.items()):
        if isinstance(function, Function) and "Compiler" in function.attrs:
            how = get_backend(str(function.attrs["Compiler"])).quantized
            if how is not None:
                mod = _rounded_in(mod, var.name_hint, how.rounding, how.compute_dtype, TOEVEN)
    return mod


def _rounded_in(mod: IRModule, name: str, rounding: str, compute_dtype: str, before: str = UNSAID) -> IRModule:
    """*mod* where each requantization in function *name* that rounds as *before* says rounds otherwise."""

    def rounded(old: RelayExpr, new: RelayExpr) -> RelayExpr:
        if not (calls(new, REQUANTIZE) and isinstance(new, Call) and new.attrs.rounding == before):
            return new
        attrs: RequantizeAttrs = dataclasses.replace(new.attrs, rounding=rounding, compute_dtype=compute_dtype)
        return Call(new.op, new.args, attrs, new.type_args, new.span)

    result = mod.shallow_copy()
    result[name] = as_function(rewrite(as_function(mod[name]), rounded))
    return transform.InferType()(result)
