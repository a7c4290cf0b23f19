"""An integration of Core ML in the style of TVM's: every operator that the converter knows."""

import tvm.ir
from tvm import relay
from tvm.contrib.target.coreml import _convert_map
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name

from ...expr import Constant


def _register_coreml_op(op_name):
    def _check_supported(expr):
        attrs, args = expr.attrs, expr.args
        if op_name == "nn.conv2d":
            return isinstance(args[1], Constant) and attrs["kernel_layout"] in ["HWIO", "OIHW"]
        return True

    tvm.ir.register_op_attr(op_name, "target.coremlcompiler", _check_supported)


for op in _convert_map:
    _register_coreml_op(op)


def partition_for_coreml(mod, params=None):
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            transform.SimplifyInference(),
            transform.FoldConstant(),
            relay.transform.AnnotateTarget("coremlcompiler"),
            transform.MergeCompilerRegions(),
            transform.PartitionGraph(),
        ]
    )
    return seq(mod)
