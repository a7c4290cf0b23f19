"""``relay.ext.dnnl``: regions of TVM's integration, computed by oneDNN where it is here and has their primitives.

What it does not compute (where it is not installed, float16 on a processor without it, quantized blocks) is generated C
where every operator of the region has a tensor expression, else a JSON graph over the numpy kernels; a warning says so,
with the reason. Source: ``relay.ext.dnnl`` of TVM, for what a region may hold.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from byoc.codegen.c.backend import CBackend
from byoc.codegen.json.backend import JsonBackend
from byoc.codegen.kernel.lower import unsupported_reason
from byoc.contrib.onednn.backend import OnednnBackend, problem_of
from byoc.contrib.onednn.relay.patterns import COMPILER, QUANTIZED_PRODUCTS
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, get_op
from byoc.relay.expr import Call, Function
from byoc.relay.functor import ExprMutator
from byoc.relay.op import cast, clip, round
from byoc.runtime.modules.module import Module

# composite of a quantized product without zero points -> the plain product that it is
_PLAIN = {f"{COMPILER}.{quantized}": (quantized, plain) for quantized, plain in QUANTIZED_PRODUCTS.items()}
# the integers of a dtype, by the greatest floats that are among them
_RANGES = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0), "int32": (-(2.0**31), 2.0**31 - 128)}


def compile_region(function: Function) -> Module:
    """The library of a region under its ``global_symbol``. Raises CompileError for a region without that attribute."""
    problem = problem_of(function)
    if problem is None:
        return OnednnBackend().compile(function, {})
    symbol = function.attrs.get("global_symbol", "a region")
    warnings.warn(
        f"relay.ext.dnnl: {symbol} is computed by byoc's own kernels: {problem}", RuntimeWarning, stacklevel=2
    )
    region = _QuantizedComposites().visit(function)
    assert isinstance(region, Function)
    backend = CBackend() if unsupported_reason(region) is None else JsonBackend()
    return backend.compile(region, {})


class _QuantizedComposites(ExprMutator):
    """Composites of quantized products as oneDNN computes them: the last cast rounds to the nearest and saturates."""

    def visit_function(self, fn: Function) -> RelayExpr:
        names = _PLAIN.get(str(fn.attrs.get("Composite")))
        if names is None:
            return super().visit_function(fn)
        last = fn.body
        assert isinstance(last, Call)
        value, dtype = _with_plain_product(last.args[0], *names), str(last.attrs.dtype)
        body = cast(clip(round(value), *_RANGES[dtype]), dtype) if dtype in _RANGES else cast(value, dtype)
        return Function(fn.params, body, fn.declared_ret_type, fn.type_params, fn.attrs, fn.span)


def _with_plain_product(body: RelayExpr, quantized: str, plain: str) -> RelayExpr:
    """*body* with the product *quantized*, whose zero points are 0, as the operator *plain* on the stored integers."""

    class Rewriter(ExprMutator):
        def visit_call(self, call: Call) -> RelayExpr:
            if isinstance(call.op, Op) and call.op.name == quantized:
                attrs = replace(call.attrs, out_dtype="int32")
                return Call(get_op(plain), [self.visit(arg) for arg in call.args[:2]], attrs)
            return super().visit_call(call)

    return Rewriter().visit(body)
