"""A small network of the parts of large ones, for fast tests. Source: ``relay.testing.synthetic``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, network
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import add, nn, reshape, reshape_like
from byoc.runtime.core.ndarray import NDArray


def _block(data: RelayExpr, like: RelayExpr, shape: Sequence[int], wtype: str, names: tuple[str, str]) -> RelayExpr:
    """A dense layer over the last axis and a convolution, side by side and added."""
    features, channels = shape[3], shape[1]
    weight = var(f"{names[0]}_weight", shape=(features, features), dtype=wtype)
    dense = nn.relu(nn.dense(reshape(data, (-1, features)), weight))
    kernel = var(f"{names[1]}_weight", shape=(channels, channels, 3, 3), dtype=wtype)
    convolved = nn.softmax(nn.conv2d(data, kernel, padding=1, kernel_size=3))
    return add(reshape_like(dense, like), convolved)


def get_net(
    input_shape: tuple[int, ...] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> Function:
    """The network: ``data: [*input_shape] -> [*input_shape]``, weights of *wtype*. Source: ``synthetic.get_net``."""
    data, wtype = var("data", shape=input_shape, dtype=dtype), wtype or dtype
    first = _block(data, data, input_shape, wtype, ("dense", "conv"))
    biased = nn.bias_add(first, var("bias", shape=(input_shape[1],), dtype=wtype))
    normal = batch_norm_infer(biased, name="batch_norm")
    return network(_block(normal, data, input_shape, wtype, ("dense2", "conv2")))


def get_workload(
    input_shape: tuple[int, ...] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``synthetic.get_workload``."""
    return create_workload(get_net(input_shape, dtype, wtype))
