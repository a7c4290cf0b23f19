"""DenseNet of 121, 161, 169 or 201 layers. Source: ``relay.testing.densenet``; Huang et al. (2017).

Each layer reads all features before it in its block, as in the paper; TVM's network of this name reads the last alone.
"""

from __future__ import annotations

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, conv2d, dense_add_bias, network
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import concatenate, nn
from byoc.runtime.core.ndarray import NDArray

_BOTTLENECK = 4
# layers -> channels of the stem, channels that each layer adds, layers of each block
_SPECS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def _norm_relu_conv(data: RelayExpr, channels: int, size: int, norm: str, conv: str) -> RelayExpr:
    active = nn.relu(batch_norm_infer(data, name=norm))
    return conv2d(active, channels=channels, kernel_size=(size, size), padding=(size // 2, size // 2), name=conv)


def _dense_layer(data: RelayExpr, growth: int, index: str) -> RelayExpr:
    narrow = _norm_relu_conv(data, _BOTTLENECK * growth, 1, f"batch_1_{index}", f"conv2d_1_{index}")
    return _norm_relu_conv(narrow, growth, 3, f"batch_2_{index}", f"conv2d_2_{index}")


def _transition(data: RelayExpr, channels: int, index: int) -> RelayExpr:
    narrow = _norm_relu_conv(data, channels, 1, f"batch_t_{index}", f"conv_t_{index}")
    return nn.avg_pool2d(narrow, pool_size=(2, 2), strides=(2, 2))


def get_net(
    batch_size: int, image_shape: tuple[int, ...], num_classes: int, dtype: str, densenet_size: int = 121
) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_classes]``. Raises UserError for another size."""
    if densenet_size not in _SPECS:
        raise UserError(f"DenseNet has {', '.join(map(str, _SPECS))} layers, not {densenet_size}")
    channels, growth, blocks = _SPECS[densenet_size]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body: RelayExpr = conv2d(data, channels=channels, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1")
    body = nn.relu(batch_norm_infer(body, name="batch1"))
    body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for block, layers in enumerate(blocks):
        for layer in range(layers):
            body = concatenate((body, _dense_layer(body, growth, f"{block}_{layer}")), axis=1)
        channels += layers * growth
        if block < len(blocks) - 1:
            channels //= 2
            body = _transition(body, channels, block)
    body = nn.global_avg_pool2d(nn.relu(batch_norm_infer(body, name="batch_final")))
    return network(dense_add_bias(nn.batch_flatten(body), units=num_classes, name="fc"))


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``densenet.get_workload``."""
    return create_workload(get_net(batch_size, image_shape, classes, dtype, densenet_size))
