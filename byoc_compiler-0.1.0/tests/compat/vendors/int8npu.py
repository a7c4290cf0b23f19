"""An integration as the authors of an int8 NPU write it: one fused block, and limits on layout, shape and weights."""

import numpy as np
import tvm
from tvm import relay
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
from tvm.relay.op.contrib.register import get_pattern_table, register_pattern_table
from tvm.relay.op.strategy.generic import is_depthwise_conv2d

MAX_CHANNELS = 64


def qblock():
    conv = is_op("nn.conv2d")(wildcard(), is_constant()).has_attr({"out_dtype": "int32", "data_layout": "NCHW"})
    shifted = is_op("right_shift")(conv, is_constant())
    return is_op("cast")(is_op("clip")(shifted)).has_attr({"dtype": "int8"})


class QBlock:
    """The parts of a matched block."""

    def __init__(self, cast):
        self.cast, self.clip = cast, cast.args[0]
        self.shift = self.clip.args[0]
        self.conv = self.shift.args[0]
        self.data, self.weights = self.conv.args

    def is_valid(self):
        ifm, kernel = self.data.checked_type, self.weights.checked_type
        bounds = (self.clip.attrs.a_min, self.clip.attrs.a_max)
        if (ifm.dtype, kernel.dtype) != ("int8", "int8") or bounds != (-128, 127):
            return False
        if int(ifm.shape[0]) != 1 or int(self.conv.checked_type.shape[1]) > MAX_CHANNELS:
            return False
        attrs = self.conv.attrs
        layouts = (attrs.data_layout, kernel.shape, attrs.kernel_layout)
        if is_depthwise_conv2d(ifm.shape, *layouts, attrs.groups) or attrs.groups != 1:
            return False
        return tuple(attrs.dilation) == (1, 1) and attrs.get_int_tuple("strides") in ((1, 1), (2, 2))


@register_pattern_table("int8npu")
def pattern_table():
    return [("int8npu.qblock", qblock(), lambda pattern: QBlock(pattern).is_valid())]


def partition_for_int8npu(mod, params=None, **opts):
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            relay.transform.InferType(),
            relay.transform.MergeComposite(get_pattern_table("int8npu")),
            relay.transform.AnnotateTarget("int8npu", include_non_call_ops=False),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(opts.get("mod_name", "default")),
        ]
    )
    return seq(mod)


def conv(x, w, strides, padding):
    top, left, bottom, right = padding
    x = np.pad(x.astype(np.int32), ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]
    return np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int32))


class Npu(tvm.runtime.Module):
    type_key = "int8npu"

    def __init__(self, symbol, blocks):
        super().__init__()
        self.symbols, self.blocks = (symbol,), blocks

    def get_function(self, name, query_imports=False):
        def run(data, out):
            value = data.numpy()
            for weights, shift, strides, padding in self.blocks:
                value = np.clip(conv(value, weights, strides, padding) >> shift, -128, 127).astype(np.int8)
            tvm.nd.array(value).copyto(out)

        return run if name in self.symbols else None


@tvm._ffi.register_func("relay.ext.int8npu")
def compile_npu(ref):
    blocks = []

    def visit(node):
        if isinstance(node, relay.Call) and isinstance(node.op, relay.Function):
            assert node.op.attrs["Composite"] == "int8npu.qblock"
            block = QBlock(node.op.body)
            attrs = block.conv.attrs
            shift = int(block.shift.args[1].data.numpy())
            blocks.append((block.weights.data.numpy(), shift, attrs.strides, attrs.get_int_tuple("padding")))

    relay.analysis.post_order_visit(ref.body, visit)
    return Npu(str(ref.attrs["global_symbol"]), blocks)
