"""An integration of CUTLASS in the style of TVM's: products and convolutions with the epilogues of its kernels."""

from functools import partial

import tvm
from tvm import relay
from tvm._ffi import register_func
from tvm.ir.transform import PassContext, Sequential
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name
from tvm.relay.op.contrib.register import register_pattern_table

from ...dataflow_pattern import is_constant, is_op, wildcard


def has_cutlass():
    return tvm.get_global_func("relay.ext.cutlass.create_c_source_module", True) is not None


def append_activation(pattern, activation):
    if activation in ("relu", "sigmoid"):
        return is_op("nn.relu" if activation == "relu" else "sigmoid")(pattern)
    if activation == "silu":
        return is_op("multiply")(pattern, is_op("sigmoid")(pattern))
    return pattern


def make_gemm_pattern(with_bias=True, activation=None):
    gemm = is_op("nn.dense")(wildcard(), wildcard())
    if with_bias:
        gemm = is_op("nn.bias_add")(gemm, wildcard()) | is_op("add")(gemm, wildcard())
    return append_activation(gemm, activation)


def make_conv2d_pattern(with_bias=False, activation=None):
    conv2d = is_op("nn.conv2d")(wildcard(), wildcard())
    if with_bias:
        conv2d = is_op("nn.bias_add")(conv2d, is_constant()) | is_op("add")(conv2d, is_constant())
    return append_activation(conv2d, activation)


def make_residual_block_pattern(tensor_op_out):
    residual_input = wildcard()
    out = is_op("add")(tensor_op_out, residual_input) | is_op("add")(residual_input, tensor_op_out)
    return is_op("nn.relu")(out)


def check_dtype(lhs, rhs):
    return (lhs.dtype, rhs.dtype) in (("float16",) * 2, ("float32",) * 2, ("int8",) * 2, ("uint8", "int8"))


def root_of(call, name):
    while not (isinstance(call, relay.Call) and isinstance(call.op, tvm.ir.Op) and call.op.name == name):
        found = [a for a in call.args if isinstance(a, relay.Call)]
        call = next(a for a in found if str(a.op) != "sigmoid")
    return call


def check_gemm(call):
    dense = root_of(call, "nn.dense")
    lhs, rhs = (arg.checked_type for arg in dense.args)
    return check_dtype(lhs, rhs)


def check_conv2d(call, layout):
    conv2d = root_of(call, "nn.conv2d")
    lhs, rhs = (arg.checked_type for arg in conv2d.args)
    return check_dtype(lhs, rhs) and conv2d.attrs.data_layout == layout and conv2d.attrs.groups == 1


@register_pattern_table("cutlass")
def pattern_table():
    check = partial(check_conv2d, layout="NHWC")
    acts = ("relu", "silu", "sigmoid")
    dense = [(f"cutlass.dense_bias_{act}", make_gemm_pattern(True, act), check_gemm) for act in acts]
    dense += [("cutlass.dense_bias", make_gemm_pattern(), check_gemm)]
    dense += [("cutlass.dense", make_gemm_pattern(False), check_gemm)]
    conv = [(f"cutlass.conv2d_bias_{act}", make_conv2d_pattern(True, act), check) for act in acts]
    conv += [("cutlass.conv2d_bias", make_conv2d_pattern(True), check)]
    conv += [("cutlass.conv2d", make_conv2d_pattern(), check)]
    block = make_residual_block_pattern(make_conv2d_pattern(True))
    residual = [("cutlass.conv2d_bias_residual_add_relu", block, check)]
    return residual + dense + conv


def num_cutlass_partitions(mod):
    return sum("cutlass" in var.name_hint for var in mod.get_global_vars())


def partition_for_cutlass(mod, params=None):
    if params is not None:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = Sequential(
        [
            transform.InferType(),
            transform.SimplifyInference(),
            transform.FoldScaleAxis(),
            transform.FoldConstant(),
            transform.ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"]}),
            transform.FoldConstant(),
            transform.InferType(),
            transform.MergeComposite(pattern_table()),
            transform.AnnotateTarget(["cutlass"], False),
            transform.PartitionGraph(bind_constants=False),
        ]
    )
    with PassContext(opt_level=3):
        return seq(mod)


@register_func("relay.ext.cutlass.target_options")
def target_options():
    target = tvm.target.Target.current() or tvm.target.Target("cutlass")
    return [target.attrs["sm"], target.attrs["use_3xtf32"], list(target.attrs["split_k_slices"])]
