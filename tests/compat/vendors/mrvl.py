"""An integration of Marvell's inference processor in the style of TVM's: blocks in NHWC, and their sums."""

import os

import tvm
from tvm import relay
from tvm.contrib import mrvl as mrvl_contrib
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.expr_functor import ExprVisitor

from ...dataflow_pattern import is_constant, is_op, is_tuple_get_item, wildcard
from ..op_attrs import GlobalPool2DAttrs
from .register import register_pattern_table


@register_pattern_table("mrvl")
def mrvl_pattern_table():
    def conv2d_nhwc2nhwc():
        pattern = is_op("nn.conv2d")(wildcard(), is_constant())
        pattern = pattern.optional(lambda x: is_op("add")(x, is_constant()) | is_op("nn.bias_add")(x, is_constant()))
        return pattern.optional(is_op("nn.relu"))

    def sum_pattern():
        return is_op("add")(wildcard(), wildcard()).optional(is_op("nn.relu"))

    def fc_ni2no():
        pattern = is_op("nn.dense")(is_op("nn.batch_flatten")(wildcard()), is_constant())
        return pattern.optional(lambda x: is_op("add")(x, is_constant()) | is_op("nn.bias_add")(x, is_constant()))

    def pool(name):
        return is_op(name)(wildcard())

    def checked_conv(extract):
        call = extract
        while str(call.op) != "nn.conv2d":
            call = call.args[0]
        return call.attrs.data_layout == "NHWC" and call.checked_type.dtype == "float32"

    def checked_pool(extract):
        layout = extract.attrs.layout
        return layout == "NHWC" and (not isinstance(extract.attrs, GlobalPool2DAttrs) or len(extract.args) == 1)

    def checked_sum(extract):
        call = extract.args[0] if str(extract.op) == "nn.relu" else extract
        shapes = [tuple(arg.checked_type.shape) for arg in call.args]
        return shapes[0] == shapes[1] and len(shapes[0]) == 4

    return [
        ("mrvl.conv2d_nhwc2nhwc", conv2d_nhwc2nhwc(), checked_conv),
        ("mrvl.fc_ni2no", fc_ni2no(), lambda extract: True),
        ("mrvl.maxpool2d_nhwc2nhwc", pool("nn.max_pool2d"), checked_pool),
        ("mrvl.globalavgpool2d_nhwc2nhwc", pool("nn.global_avg_pool2d"), checked_pool),
        ("mrvl.sum", sum_pattern(), checked_sum),
    ]


class OpCounter(ExprVisitor):
    def __init__(self):
        super().__init__()
        self.names = []

    def visit_call(self, call):
        self.names.append(str(call.op) if isinstance(call.op, tvm.ir.Op) else "call")
        super().visit_call(call)


def partition_for_mrvl(mod, params=None, **kwargs):
    assert os.path.isdir(kwargs.get("working_dir", mrvl_contrib.get_working_dir()))
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    desired = {"nn.conv2d": ["NHWC", "OHWI"], "nn.max_pool2d": ["NHWC"], "nn.global_avg_pool2d": ["NHWC"]}
    seq = tvm.transform.Sequential(
        [
            relay.transform.InferType(),
            relay.transform.SimplifyInference(),
            relay.transform.FoldScaleAxis(),
            relay.transform.FoldConstant(),
            relay.transform.SimplifyExpr(),
            relay.transform.ConvertLayout(desired),
            relay.transform.FoldConstant(),
            relay.transform.InferType(),
            relay.transform.MergeComposite(mrvl_pattern_table()),
            relay.transform.AnnotateTarget("mrvl"),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
            relay.transform.InferType(),
        ]
    )
    with tvm.transform.PassContext(opt_level=3):
        return seq(mod)


def is_first_of_a_pair(expr):
    return is_tuple_get_item(wildcard(), 0).match(expr)
