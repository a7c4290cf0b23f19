"""An integration of CMSIS-NN in the style of TVM's: int8 composites, and passes that its C++ registers."""

import tvm.ir
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.transform import AnnotateTarget, InferType, MergeComposite, PartitionGraph
from tvm.target import Target

from ...dataflow_pattern import is_constant, is_op, wildcard
from .register import register_pattern_table

tvm._ffi._init_api("relay.ext.cmsisnn.transform", __name__)


def enabled():
    return "cmsis-nn" in Target.list_kinds()


def partition_for_cmsisnn(mod, params=None, mod_name="default", **opts):
    assert enabled(), "CMSIS-NN is not enabled"
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            InferType(),
            MergeComposite(pattern_table()),
            AnnotateTarget("cmsis-nn"),
            PartitionGraph(mod_name=mod_name),
            GenerateCMSISNNConstants(),
            CMSISNNFusePads(),
            ScalarToTensorConstants(),
            ExtractConstantsFromPartitionedFunction(),
            InferType(),
        ]
    )
    return seq(mod)


@register_pattern_table("cmsis-nn")
def pattern_table():
    def qnn_conv2d_pattern(with_pad):
        data = is_op("nn.pad")(wildcard(), is_constant()) if with_pad else wildcard()
        qnn_conv2d = is_op("qnn.conv2d")(data, *[is_constant() for _ in range(5)])
        bias_add = qnn_conv2d.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))
        req = is_op("qnn.requantize")(bias_add, *[is_constant() for _ in range(4)])
        return req.optional(is_op("clip"))

    def check_qnn_conv2d(pattern):
        requantize = pattern.args[0] if str(pattern.op.name) == "clip" else pattern
        call = requantize.args[0]
        bias_add = None
        if str(call.op.name) == "nn.bias_add":
            bias_add, call = call, call.args[0]
        kernel_zp = call.args[3].data.numpy()
        is_zero = not kernel_zp.any()
        bias_is_int32 = bias_add is None or bias_add.args[1].checked_type.dtype == "int32"
        return (
            call.attrs.out_dtype == "int32"
            and requantize.attrs.out_dtype == "int8"
            and is_zero
            and bias_is_int32
            and call.args[0].checked_type.dtype == "int8"
            and call.args[1].checked_type.dtype == "int8"
        )

    def qnn_fully_connected_pattern():
        dense = is_op("qnn.dense")(wildcard(), *[is_constant() for _ in range(5)])
        return is_op("qnn.requantize")(dense, *[is_constant() for _ in range(4)])

    return [
        ("cmsis-nn.qnn_conv2d", qnn_conv2d_pattern(True), check_qnn_conv2d),
        ("cmsis-nn.qnn_conv2d", qnn_conv2d_pattern(False), check_qnn_conv2d),
        ("cmsis-nn.qnn_fully_connected", qnn_fully_connected_pattern(), lambda pattern: True),
    ]
