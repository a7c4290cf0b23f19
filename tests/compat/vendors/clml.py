"""An integration of OpenCL ML in the style of TVM's: padded blocks with batch norms, by what the driver has."""

import tvm
from tvm import relay
from tvm.ir import Op
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.expr_functor import ExprMutator, ExprVisitor

from ...dataflow_pattern import is_constant, is_op, is_tuple_get_item, wildcard
from .register import register_pattern_table


def is_clml_runtime_enabled():
    check_enabled = tvm.get_global_func("relay.op.is_clml_runtime_enabled", True)
    return check_enabled() if check_enabled else False


def clml_sdk_version():
    return int(tvm.support.libinfo().get("TVM_CLML_VERSION", 2) or 2)


class RemoveDropout(ExprMutator):
    def visit_tuple_getitem(self, op):
        visit = super().visit_tuple_getitem(op)
        if visit.index != 0:
            return visit
        value = visit.tuple_value
        if isinstance(value, relay.Call) and value.op.name == "nn.dropout":
            return value.args[0]
        return visit


@transform.function_pass(opt_level=0)
class RemoveDropoutPass:
    def transform_function(self, func, mod, _):
        return RemoveDropout().visit(func)


class HasHeavy(ExprVisitor):
    def __init__(self):
        super().__init__()
        self.found = False

    def visit_call(self, call):
        if isinstance(call.op, Op) and str(call.op.name) in ("nn.conv2d", "nn.dense"):
            self.found = True
        super().visit_call(call)


def partition_for_clml(mod, params=None, **opts):
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            RemoveDropoutPass(),
            transform.FoldConstant(),
            transform.MergeComposite(clml_pattern_table()),
            transform.AnnotateTarget("clml", False),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(),
        ]
    )
    return seq(mod)


@register_pattern_table("clml")
def clml_pattern_table():
    def conv_pattern():
        pattern = is_op("nn.pad")(wildcard(), is_constant()) | wildcard()
        pattern = is_op("nn.conv2d")(pattern, is_constant())
        pattern = pattern.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))
        pattern = pattern.optional(lambda x: is_op("add")(x, is_constant()))
        norm = is_op("nn.batch_norm")(pattern, is_constant(), is_constant(), is_constant(), is_constant())
        pattern = is_tuple_get_item(norm, 0) | pattern
        return pattern.optional(is_op("nn.relu")).optional(is_op("clip"))

    def check_conv(extract):
        call = extract
        while not isinstance(call, relay.Call) or call.op.name != "nn.conv2d":
            call = call.tuple_value if isinstance(call, relay.TupleGetItem) else call.args[0]
        attrs, args = call.attrs, call.args
        if attrs.data_layout != "NCHW" or args[0].checked_type.dtype not in ("float32", "float16"):
            return False
        return attrs.groups == 1 or clml_sdk_version() >= 2

    def dense_pattern():
        return is_op("nn.dense")(wildcard(), is_constant()).optional(lambda x: is_op("nn.bias_add")(x, is_constant()))

    return [
        ("clml.conv2d", conv_pattern(), check_conv),
        ("clml.dense", dense_pattern(), lambda extract: True),
        ("clml.global_avg_pool2d", is_op("nn.global_avg_pool2d")(wildcard()), lambda extract: True),
    ]


@tvm.ir.register_op_attr("add", "target.clml")
def add(expr):
    left, right = (arg.checked_type for arg in expr.args)
    return left.dtype == "float32" and tuple(left.shape) == tuple(right.shape)
