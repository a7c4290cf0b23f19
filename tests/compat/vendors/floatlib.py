"""An integration as a float library's authors write it for Relay: patterns with checks, and its single operators."""

import numpy as np
import tvm
from tvm import relay
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.expr_functor import ExprVisitor

from ...dataflow_pattern import is_constant, is_op, wildcard
from .register import register_pattern_table

SUPPORTED = {"add": np.add, "multiply": np.multiply, "nn.relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}


def _register_external_op_helper(op_name):
    @tvm.ir.register_op_attr(op_name, "target.floatlib")
    def _func_wrapper(expr):
        return all(arg.checked_type.dtype == "float32" for arg in expr.args)

    return _func_wrapper


for _name in SUPPORTED:
    _register_external_op_helper(_name)


def dense_pattern(with_bias, activation):
    pattern = is_op("nn.dense")(wildcard(), is_constant())
    if with_bias:
        pattern = is_op("nn.bias_add")(pattern, is_constant())
    return pattern.optional(is_op(activation)) if activation else pattern


def check_dense(extract):
    call = extract
    while call.op.name != "nn.dense":
        call = call.args[0]
    if call.args[0].checked_type.dtype != "float32" or call.attrs.out_dtype not in ("", "float32"):
        return False
    return isinstance(call.args[1].checked_type.shape[0], tvm.tir.IntImm) and len(call.checked_type.shape) == 2


@register_pattern_table("floatlib")
def pattern_table():
    return [
        ("floatlib.dense_bias", dense_pattern(True, "nn.relu"), check_dense),
        ("floatlib.dense", dense_pattern(False, None), check_dense),
    ]


def partition_for_floatlib(mod, params=None):
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            transform.FoldConstant(),
            transform.MergeComposite(pattern_table()),
            transform.AnnotateTarget("floatlib"),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(),
        ]
    )
    with tvm.transform.PassContext(opt_level=3):
        return seq(mod)


class Steps(ExprVisitor):
    """Flattens a region into steps over numbered slots."""

    def __init__(self, func):
        super().__init__()
        self.steps, self.slots = [], {}
        for param in func.params:
            self.slots[param] = len(self.slots)
        self.visit(func.body)

    def visit_constant(self, const):
        self.slots[const] = len(self.slots)
        self.steps.append((self.slots[const], const.data.numpy, ()))

    def visit_call(self, call):
        for arg in call.args:
            self.visit(arg)
        run = composite(call.op) if isinstance(call.op, relay.Function) else SUPPORTED[call.op.name]
        self.slots[call] = len(self.slots)
        self.steps.append((self.slots[call], run, [self.slots[arg] for arg in call.args]))


def composite(func):
    """The one kernel of the library: x times the transposed weights, plus bias, and relu where the body ends in it."""
    relu = func.body.op.name == "nn.relu"
    bias_add = func.body.args[0] if relu else func.body
    if bias_add.op.name == "nn.dense":
        weights = bias_add.args[1].data.numpy()
        return lambda x: x @ weights.T
    weights, bias = bias_add.args[0].args[1].data.numpy(), bias_add.args[1].data.numpy()
    return lambda x: np.maximum(x @ weights.T + bias, 0) if relu else x @ weights.T + bias


class FloatlibModule(tvm.runtime.Module):
    type_key = "floatlib"

    def __init__(self, func):
        super().__init__()
        self.symbol = str(func.attrs["global_symbol"])
        self.symbols = (self.symbol,)
        self.plan = Steps(func)
        self.result = self.plan.slots[func.body]
        self.count = len(func.params)

    def get_function(self, name, query_imports=False):
        if name != self.symbol:
            return None

        def run(*arrays):
            values = {k: array.numpy() for k, array in enumerate(arrays[: self.count])}
            for slot, step, inputs in self.plan.steps:
                values[slot] = step(*(values[k] for k in inputs))
            arrays[-1].copyfrom(values[self.result])

        return run


@tvm.register_func("relay.ext.floatlib")
def floatlib_compiler(func):
    assert isinstance(func, relay.Function) and "Compiler" not in func.attrs
    return FloatlibModule(func)
