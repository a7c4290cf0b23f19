"""Regions without composites: their bodies in place, and functions that oneDNN has whole as composites of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from byoc.contrib.endings import gelu_pattern, swish_pattern
from byoc.contrib.onednn.algorithms import GELU, SWISH
from byoc.errors import ByocError
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.bind import bind
from byoc.relay.dataflow_pattern import DFPattern, DFPatternCallback, rewrite, wildcard
from byoc.relay.dataflow_pattern.rewriting import NodeMap
from byoc.relay.expr import Call, Function, Var
from byoc.relay.functor import ExprMutator
from byoc.relay.interpreter import evaluate
from byoc.relay.narrowing import tensor_type
from byoc.relay.traverse import substitute
from byoc.runtime.core.ndarray import numpy_dtype

POINTS = np.linspace(-3, 3, 7, dtype="float32")
ACTIVATIONS: Mapping[str, tuple[Callable[[DFPattern], DFPattern], Callable[[float], float]]] = {
    GELU: (gelu_pattern, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    SWISH: (swish_pattern, lambda x: x / (1 + math.exp(-x))),
}


class _Inlined(ExprMutator):
    """Composites as their bodies."""

    def visit_call(self, call: Call) -> RelayExpr:
        if not isinstance(call.op, Function):
            return super().visit_call(call)
        given = dict(zip(call.op.params, [self.visit(a) for a in call.args], strict=True))
        return bind(self.visit(call.op.body), given)


class _Activation(DFPatternCallback):
    """A function of one tensor, written as several operators, as one composite."""

    def __init__(self, name: str):
        super().__init__(rewrite_once=True)  # its own result matches too
        self.name, self.data = name, wildcard()
        self.pattern = ACTIVATIONS[name][0](self.data)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """The composite; *post* where its constants make it another function."""
        data = node_map[self.data][0]
        if not computes(post, data, self.name):
            return post
        param = Var("data", data.checked_type if isinstance(data.checked_type, TensorType) else None)
        body = substitute(post, {data: param})
        return Call(Function([param], body, attrs={"Composite": self.name}), [data])


def computes(expr: RelayExpr, data: RelayExpr, name: str) -> bool:
    """Whether *expr* is the function *name* of *data*, by its values at some points."""
    dtype = tensor_type(data).dtype
    point = Var("data", TensorType(POINTS.shape, dtype))
    try:
        function = infer_function(Function([point], substitute(expr, {data: point})))
        found = np.asarray(evaluate(function, [POINTS.astype(numpy_dtype(dtype))])).astype("float64")
    except ByocError:  # constants of a shape that goes with no other tensor
        return False
    wanted = [ACTIVATIONS[name][1](float(x)) for x in POINTS]
    near = 1e-5 if dtype == "float32" else 1e-2  # a number that is rounded to the 8 bits of a bfloat16
    return found.shape == POINTS.shape and np.allclose(found, wanted, rtol=near, atol=near)


def inlined(function: Function) -> Function:
    """*function* of operators, and of composites for what oneDNN has whole."""
    flat = infer_function(_function_with(function, _Inlined().visit(function.body)))
    body = rewrite([_Activation(name) for name in ACTIVATIONS], flat.body)
    return infer_function(_function_with(flat, body))


def _function_with(function: Function, body: RelayExpr) -> Function:
    return Function(function.params, body, None, function.type_params, function.attrs, function.span)
