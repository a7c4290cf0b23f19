"""An integration of cuBLAS in the style of TVM's: products, lowered by tensor expressions."""

import tvm
import tvm.ir
from tvm import te
from tvm.contrib import cublas
from tvm.relay import transform
from tvm.relay.build_module import bind_params_by_name

from ...dataflow_pattern import is_op, wildcard
from .register import register_pattern_table
from .te_target import lower_composite, relay_to_runtime

tvm._ffi.register_func("relay.ext.cublas", relay_to_runtime(tvm.target.cuda()))


def partition_for_cublas(mod, params=None):
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            transform.MergeComposite(pattern_table()),
            transform.AnnotateTarget("cublas"),
            transform.PartitionGraph(),
            transform.InferType(),
        ]
    )
    return seq(mod)


@register_pattern_table("cublas")
def pattern_table():
    def matmul_like(name):
        return is_op(name)(wildcard(), wildcard())

    def check_matmul_like(matched):
        left, right = (arg.checked_type.dtype for arg in matched.args)
        out = matched.attrs["out_dtype"] or left
        return (left, right, out) in (("float32",) * 3, ("float16",) * 3, ("int8", "int8", "int32"))

    names = ("matmul", "batch_matmul", "dense")
    return [(f"cublas.{name}", matmul_like(f"nn.{name}"), check_matmul_like) for name in names]


@lower_composite("cublas.matmul")
def _lower_matmul(op: tvm.relay.Call, inputs: list[te.Tensor]) -> te.Tensor:
    return cublas.matmul(
        inputs[0],
        inputs[1],
        transa=op.attrs["transpose_a"],
        transb=op.attrs["transpose_b"],
        dtype=op.checked_type.dtype,
    )


@lower_composite("cublas.dense")
def _lower_dense(op: tvm.relay.Call, inputs: list[te.Tensor]) -> te.Tensor:
    return cublas.matmul(inputs[0], inputs[1], transa=False, transb=True, dtype=op.checked_type.dtype)
