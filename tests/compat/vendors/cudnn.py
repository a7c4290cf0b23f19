"""An integration of cuDNN in the style of TVM's: convolutions with a bias and relu, softmax, by tensor expressions."""

from typing import Callable, List, Tuple  # noqa: UP035 - as such files write them

import tvm
import tvm.ir
from tvm import relay, te
from tvm.contrib import cudnn
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name

from ...dataflow_pattern import is_constant, is_op, wildcard
from .register import register_pattern_table
from .te_target import lower_composite, relay_to_runtime

tvm._ffi.register_func("relay.ext.cudnn", relay_to_runtime(tvm.target.cuda()))


def partition_for_cudnn(mod: tvm.IRModule, params=None) -> tvm.IRModule:
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            transform.MergeComposite(pattern_table()),
            transform.AnnotateTarget("cudnn"),
            transform.PartitionGraph(),
            transform.InferType(),
        ]
    )
    return seq(mod)


@register_pattern_table("cudnn")
def pattern_table() -> List[Tuple[str, relay.Pattern, Callable[[relay.Call], bool]]]:  # noqa: UP006
    def softmax_pattern() -> relay.Pattern:
        return is_op("nn.softmax")(wildcard())

    def conv2d_pattern() -> relay.Pattern:
        return is_op("nn.conv2d")(wildcard(), is_constant())

    def conv2d_bias_act_pattern() -> relay.Pattern:
        conv2d = is_op("nn.conv2d")(wildcard(), is_constant())
        return is_op("nn.relu")(is_op("nn.bias_add")(conv2d, is_constant()))

    def check_softmax(matched: relay.Call) -> bool:
        return matched.args[0].checked_type.dtype in ("float64", "float32", "float16")

    def check_conv2d(matched: relay.Call) -> bool:
        if matched.args[0].checked_type.dtype not in ("float32", "float16"):
            return False
        if matched.attrs["data_layout"] != "NCHW" or matched.attrs["kernel_layout"] != "OIHW":
            return False
        padding = matched.attrs["padding"]
        return padding[0] == padding[2] and padding[1] == padding[3]

    def check_conv2d_bias_act(matched: relay.Call) -> bool:
        return check_conv2d(matched.args[0].args[0])

    return [
        ("cudnn.softmax", softmax_pattern(), check_softmax),
        ("cudnn.conv2d_bias_act", conv2d_bias_act_pattern(), check_conv2d_bias_act),
        ("cudnn.conv2d", conv2d_pattern(), check_conv2d),
    ]


@lower_composite("cudnn.softmax")
def _lower_softmax(op: relay.Call, inputs: List[te.Tensor]) -> te.Tensor:  # noqa: UP006
    return cudnn.softmax(inputs[0], axis=op.attrs["axis"])


@lower_composite("cudnn.conv2d_bias_act")
def _lower_conv2d_bias_act(op: relay.Call, inputs: List[te.Tensor]) -> te.Tensor:  # noqa: UP006
    shape = cudnn.conv_output_shape(0, op.attrs["padding"], op.attrs["strides"], op.attrs["dilation"])
    return te.extern(shape, inputs, lambda ins, outs: tvm.tir.call_packed("tvm.contrib.cudnn.conv2d+bias+act.forward"))
