"""The deep Q-network for Atari games. Source: ``relay.testing.dqn``; Mnih et al., "Human-level control" (2015)."""

from __future__ import annotations

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import conv2d, conv_kernel_layout, dense_add_bias, network
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import nn
from byoc.runtime.core.ndarray import NDArray

# channels, kernel size and stride of each convolution
_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


def get_net(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_actions]``. Source: ``dqn.get_net``."""
    body: RelayExpr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for index, (channels, kernel, stride) in enumerate(_CONVOLUTIONS, start=1):
        convolved = conv2d(
            body,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            padding=(0, 0),
            channels=channels,
            name=f"conv{index}",
            data_layout=layout,
            kernel_layout=conv_kernel_layout(layout),
        )
        body = nn.relu(nn.bias_add(convolved, var(f"conv{index}_bias"), axis=layout.index("C")))
    hidden = nn.relu(dense_add_bias(nn.batch_flatten(body), units=512, name="dense1"))
    return network(dense_add_bias(hidden, units=num_actions, name="dense2"))


def get_workload(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``dqn.get_workload``."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
