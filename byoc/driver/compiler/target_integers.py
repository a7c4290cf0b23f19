"""What ``integers.py`` does where a target computes on integers: how they are made, and how each share rounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from byoc.contract.backend import Backend
from byoc.contract.checks import pattern_entries
from byoc.contract.registration import get_backend
from byoc.driver.pipeline import INTEGERS_MADE, at_least_level_3
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import OPS
from byoc.ir.passes.transform import Sequential
from byoc.relay import transform
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.dataflow_pattern.pattern_graph import graph_of
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.qnn.data_dtype import ChangeDataDtype
from byoc.relay.qnn.fake.fake_quantization_to_integer import FakeQuantizationToInteger
from byoc.relay.qnn.fake.rewriting import RULE, TRUNCATES
from byoc.relay.qnn.onnx_arithmetic import lowered
from byoc.relay.qnn.op.requantize import RequantizeAttrs
from byoc.relay.qnn.passes import QuantizedProducts, is_of_onnx
from byoc.relay.transform.simplify.dead_code import EliminateHostDeadCode
from byoc.relay.transform.simplify.fold_constant import FoldHostConstant
from byoc.relay.traverse import rewrite
from byoc.runtime.kernels.qnn.rounding import TOEVEN, UNSAID

REQUANTIZE = "qnn.requantize"


def takes_integers(backend: Backend) -> bool:
    """Whether *backend* says so, or a pattern of its holds an operator of ``relay.qnn``."""
    if backend.quantized is not None:
        return True
    operators = (op for row in pattern_entries(backend) for op in graph_of(row.pattern).operators)
    return any(op.traits.quantized for op in operators)


def integer_backends(targets: Sequence[str]) -> list[Backend]:
    """The backends among *targets* that compute on integers."""
    return [backend for backend in map(get_backend, targets) if takes_integers(backend)]


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
            mod = _rounded_in(mod, "main", TOEVEN, "float32").with_attr(INTEGERS_MADE, True)
        fold = (FoldHostConstant(fold_qnn=True), EliminateHostDeadCode(), transform.EliminateCommonSubexpr())
        return Sequential([*fold, transform.InferType()], name="with_integers")(mod)


def as_onnx_arithmetic(mod: IRModule, products: bool) -> IRModule:
    """What ``integers.host_integers`` gives for a module whose integers :func:`with_integers` made."""
    mod = transform.InferType()(mod)
    result = mod.shallow_copy()
    for var, function in mod.functions.items():
        if isinstance(function, Function) and "Compiler" not in function.attrs:
            result[var] = lowered(function, mod)
    result = transform.InferType()(result)
    return QuantizedProducts()(result) if products else result


def rounded_as_declared(mod: IRModule) -> IRModule:
    """What ``integers.region_integers`` gives for a module whose integers :func:`with_integers` made."""
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
