"""The kernels of the ``blas`` backend: what an artefact of it needs to run, without the compiler.

They stand apart from ``blas.py``, which is for the compiler. The entry point ``blas`` of the group ``byoc.runtime``
brings them in the process that runs the artefact.
"""

from __future__ import annotations

import numpy as np

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
