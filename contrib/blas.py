"""The ``blas`` backend: matrix products by a library of kernels, called from a JSON graph.

An example of the shortest way to bring a kernel library: a table of kernels in the convention of
``byoc.runtime.kernels``, a pattern table that names what the library fuses, and constraints. numpy's BLAS plays the
library. It is found by the entry point ``byoc.backends``, as an installed package of a vendor would be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.codegen.json.backend import JsonBackend
from byoc.contract import EVERY, PatternEntry, callee_name, constraint, register_backend
from byoc.ir.types import tensor_types
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Call
from byoc.runtime.json import KernelTable

TABLE = KernelTable("blas")


@TABLE.kernel("nn.dense")
def dense(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """``data: f32[..., k], weight: f32[n, k] -> f32[..., n]``."""
    return np.asarray(data @ weight.T)


@TABLE.kernel("blas.dense_bias")
def dense_bias(data: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A dense layer with its bias."""
    return dense(data, weight) + bias


@TABLE.kernel("blas.dense_bias_relu")
def dense_bias_relu(data: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A dense layer with bias and relu."""
    return np.maximum(dense_bias(data, weight, bias), 0)


@TABLE.kernel("nn.batch_matmul")
def batch_matmul(
    tensor_a: np.ndarray, tensor_b: np.ndarray, *, transpose_a: bool = False, transpose_b: bool = True
) -> np.ndarray:
    """``f32[b, m, k] x f32[b, n, k] -> f32[b, m, n]``; each side may be transposed."""
    left = tensor_a.swapaxes(1, 2) if transpose_a else tensor_a
    return np.asarray(left @ (tensor_b.swapaxes(1, 2) if transpose_b else tensor_b))


@constraint("operator")
def in_the_library(call: Call) -> str | None:
    """the library has dense layers (with bias, with bias and relu) and batched products"""
    return None if callee_name(call) in TABLE else callee_name(call)


@constraint("dtype", of=EVERY)
def floats(call: Call) -> str | None:
    """float32 or float64, the same for all tensors"""
    dtypes = dict.fromkeys(t.dtype for value in (call, *call.args) for t in tensor_types(value.checked_type))
    return None if tuple(dtypes) in (("float32",), ("float64",)) else ", ".join(dtypes)


@register_backend
class BlasBackend(JsonBackend):
    """Matrix products by a BLAS, called from a JSON graph."""

    name = "blas"
    table = "blas"
    constraints = (in_the_library, floats)

    def patterns(self) -> Sequence[PatternEntry]:
        """A dense layer with its bias, and with a relu after it."""
        product = is_op("nn.dense")(wildcard(), wildcard())
        bias = is_op("nn.bias_add")(product, wildcard()) | is_op("add")(product, wildcard())
        return [
            PatternEntry("blas.dense_bias_relu", is_op("nn.relu")(bias)),
            PatternEntry("blas.dense_bias", bias),
        ]
