"""A backend with a fused convolution and relu, right but for one planted mistake in the fused kernel alone.

The operators by themselves are right: what is planted shows in composites, in large results, or where inputs are no
numbers. Other mistakes are in what the backend says of itself.
"""

import dataclasses

import numpy as np

from byoc.codegen.json.backend import JsonBackend
from byoc.contract import BACKENDS, Constraint, PatternEntry, register_backend
from byoc.contract.constraints import operators
from byoc.ir.op import get_op
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.relay.traverse import dataflow_children, rewrite
from byoc.runtime.core.ndarray import NDArray

NAME, COMPOSITE = "fused", "fused.conv_relu"
BIG = 4000  # elements from which on the mistake "big" shows
IS_WRONG = {  # where the fused kernel gives zeros
    "strides": lambda conv: max(conv.attrs.strides) > 1,
    "groups": lambda conv: conv.attrs.groups > 1,
    "dilation": lambda conv: max(conv.attrs.dilation) > 1,
    "big": lambda conv: np.prod(conv.checked_type.concrete_shape) > BIG,
}


def _fused_body(fault, body):
    """The body of a composite, relu of a convolution, as the fused kernel with this mistake computes it."""
    conv = body.args[0]
    top, left, bottom, right = (*conv.attrs.padding * 4,)[:4] if len(conv.attrs.padding) != 4 else conv.attrs.padding
    if fault == "padding":
        swapped = dataclasses.replace(conv.attrs, padding=(top, right, bottom, left))
        return Call(body.op, [Call(conv.op, conv.args, swapped)], body.attrs)
    if fault == "relu" and max(conv.attrs.strides) > 1:
        return conv
    if fault in IS_WRONG and IS_WRONG[fault](conv):
        zero = Constant(NDArray(np.zeros((), conv.checked_type.dtype)))
        return Call(get_op("multiply"), [body, zero])
    return body


def _with_mistake(fault, function):
    def over(before, after):
        if isinstance(after, Call) and isinstance(after.op, Function) and after.op.attrs.get("Composite") == COMPOSITE:
            inner = after.op
            return Call(Function(inner.params, _fused_body(fault, inner.body), attrs=inner.attrs), after.args)
        if isinstance(after, Call) and after.op is get_op("nn.max_pool2d") and fault == "NaN":
            data, dtype = after.args[0], before.checked_type.dtype
            if not dtype.startswith("float"):
                return after
            least = Constant(NDArray(np.array(-1e30 if dtype != "float16" else -6e4, dtype)))
            kept = Call(get_op("where"), [Call(get_op("isnan"), [data]), least, data])
            return Call(after.op, [kept], after.attrs)
        return after

    body = rewrite(function.body, over, dataflow_children)
    return infer_function(Function(function.params, body, attrs=function.attrs))


def register(fault):
    """Register the backend with this mistake, and return its name; :func:`forget` takes it away."""

    def asked(call):
        if fault == "raises":
            return call.attrs.no_such
        if fault == "int8":
            return call.checked_type.dtype
        return False if fault == "truth" else None

    taken = ("nn.relu", "nn.max_pool2d", *(() if fault == "refused" else (COMPOSITE, "nn.conv2d")))

    class Fused(JsonBackend):
        """A backend for tests, with a fused kernel."""

        name = NAME
        constraints = (operators(*taken), Constraint("planted", "what is planted", asked, ("nn.conv2d",)))

        def patterns(self):
            args = (wildcard(),) if fault == "arity" else (wildcard(), wildcard())
            last = is_op("nn.conv2d")(*args)
            return [PatternEntry(COMPOSITE, is_op("nn.relu")(last))]

        def compile(self, function, options):
            if fault == "loader":
                raise RuntimeError(f"no device at {id(function):#x}")
            return super().compile(_with_mistake(fault, function), options)

    register_backend(Fused, override=True)
    return NAME


def forget():
    """Take the backend away again."""
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister(NAME)
    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{NAME}")
