"""A perceptron of three layers. Source: ``relay.testing.mlp``."""

from __future__ import annotations

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import dense_add_bias, network
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import nn
from byoc.runtime.core.ndarray import NDArray


def get_net(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_classes]``. Source: ``mlp.get_net``."""
    body = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for index, units in enumerate((128, 64), start=1):
        body = nn.relu(dense_add_bias(body, units=units, name=f"fc{index}"))
    return network(nn.softmax(dense_add_bias(body, units=num_classes, name="fc3")))


def get_workload(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``mlp.get_workload``."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
