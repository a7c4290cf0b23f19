"""An integration of the Arm Compute Library in the style of TVM's: NHWC and OHWI, padded and activated convolutions."""

import tvm
from tvm import relay
from tvm._ffi import register_func
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.expr import const

from ...dataflow_pattern import is_constant, is_op, wildcard
from ..strategy.generic import is_depthwise_conv2d
from .register import register_pattern_table

QNN_ZERO = (-128, 127)


def is_arm_compute_runtime_enabled():
    check_enabled = tvm.get_global_func("relay.op.is_arm_compute_runtime_enabled", True)
    return check_enabled() if check_enabled else False


def partition_for_arm_compute_lib(mod, params=None, disabled_ops=("concatenate",), **opts):
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            transform.MergeComposite(arm_compute_lib_pattern_table(disabled_ops)),
            transform.AnnotateTarget("arm_compute_lib", False),
            transform.PartitionGraph(),
        ]
    )
    return seq(mod)


@register_func("relay.ext.arm_compute_lib.optimize")
def preprocess_module(mod):
    """Channels innermost, as the library wants them; weights are transposed once."""

    def convert_layout_conv2d(conv2d_function):
        def convert_conv(attrs, inputs, tinfos, desired_layouts):
            new_attrs = dict(attrs)
            data_info, weight_info = tinfos
            desired_data_layout, desired_kernel_layout = map(str, desired_layouts)
            new_attrs["data_layout"] = desired_data_layout
            new_attrs["kernel_layout"] = desired_kernel_layout
            if is_depthwise_conv2d(
                data_info.shape, attrs["data_layout"], weight_info.shape, attrs["kernel_layout"], attrs["groups"]
            ):
                new_attrs["kernel_layout"] = {"OHWI": "IHWO"}.get(desired_kernel_layout, desired_kernel_layout)
            return conv2d_function(*inputs, **new_attrs)

        return convert_conv

    from tvm.relay.testing.temp_op_attr import TempOpAttr

    with TempOpAttr("nn.conv2d", "FTVMConvertOpLayout", convert_layout_conv2d(relay.nn.conv2d)):
        seq = tvm.transform.Sequential(
            [
                transform.ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"], "nn.max_pool2d": ["NHWC"]}),
                transform.FoldConstant(),
            ]
        )
        return seq(mod)


@register_pattern_table("arm_compute_lib")
def arm_compute_lib_pattern_table(disabled_ops=("concatenate",)):
    def conv_pattern():
        pattern = is_op("nn.pad")(wildcard(), wildcard()) | wildcard()
        pattern = is_op("nn.conv2d")(pattern, is_constant())
        pattern = pattern.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))
        return pattern.optional(is_op("nn.relu"))

    def qnn_conv_pattern():
        pattern = is_op("nn.pad")(wildcard(), wildcard()) | wildcard()
        pattern = is_op("qnn.conv2d")(pattern, *[is_constant() for _ in range(5)])
        pattern = pattern.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))
        pattern = pattern.optional(is_op("nn.relu"))
        return is_op("qnn.requantize")(pattern, *[wildcard() for _ in range(4)])

    def dense_pattern():
        pattern = is_op("nn.dense")(wildcard(), is_constant())
        return pattern.optional(lambda x: is_op("nn.bias_add")(x, is_constant()))

    def check(name, dtype):
        def checked(extract):
            call = extract
            while call.op.name != name:
                call = call.args[0]
            attrs, data = call.attrs, call.args[0].checked_type
            if data.dtype not in dtype or (attrs.out_dtype not in ("", *dtype, "int32")):
                return False
            return "conv2d" not in name or (len(data.shape) == 4 and int(data.shape[0]) == 1)

        return checked

    return [
        ("arm_compute_lib.conv2d", conv_pattern(), check("nn.conv2d", ("float32",))),
        ("arm_compute_lib.qnn_conv2d", qnn_conv_pattern(), check("qnn.conv2d", ("uint8", "int8"))),
        ("arm_compute_lib.dense", dense_pattern(), check("nn.dense", ("float32",))),
    ]


@tvm.ir.register_op_attr("nn.max_pool2d", "target.arm_compute_lib")
def max_pool2d(expr):
    attrs, args = expr.attrs, expr.args
    return attrs.layout in ("NHWC", "NCHW") and args[0].checked_type.dtype in ("float32", "uint8", "int8")


@tvm.ir.register_op_attr("add", "target.arm_compute_lib")
def add(expr):
    return all(arg.checked_type.dtype == "float32" for arg in expr.args) and const is not None
