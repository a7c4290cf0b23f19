"""SqueezeNet, versions 1.0 and 1.1. Source: ``relay.testing.squeezenet``; Iandola et al. (2016)."""

from __future__ import annotations

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import conv2d, network, parameter
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import concatenate, nn
from byoc.runtime.core.ndarray import NDArray

# version -> channels, kernel size and padding of the first convolution, and the squeezed channels of the fire
# modules between the max pools; each module expands its channels four times on either side
_STEM = {"1.0": (96, 7, 3), "1.1": (64, 3, 1)}
_FIRES = {
    "1.0": ((16, 16, 32), (32, 48, 48, 64), (64,)),
    "1.1": ((16, 16), (32, 32), (48, 48, 64, 64)),
}


def _conv_relu(data: RelayExpr, name: str, channels: int, size: int, padding: int, stride: int = 1) -> RelayExpr:
    convolved = conv2d(
        data,
        channels=channels,
        kernel_size=(size, size),
        strides=(stride, stride),
        padding=(padding, padding),
        name=name,
    )
    return nn.relu(nn.bias_add(convolved, parameter(name, "bias")))


def _fire(data: RelayExpr, squeezed: int, prefix: str) -> RelayExpr:
    narrow = _conv_relu(data, f"{prefix}_input", squeezed, 1, 0)
    left = _conv_relu(narrow, f"{prefix}_left", 4 * squeezed, 1, 0)
    right = _conv_relu(narrow, f"{prefix}_right", 4 * squeezed, 3, 1)
    return concatenate((left, right), axis=1)


def get_net(batch_size: int, image_shape: tuple[int, ...], num_classes: int, version: str, dtype: str) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_classes]``. Source: ``squeezenet.get_net``.

    Raises UserError for another version.
    """
    if version not in _STEM:
        raise UserError(f"SqueezeNet has the versions 1.0 and 1.1, not {version!r}")
    channels, size, padding = _STEM[version]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body, index = _conv_relu(data, "conv1", channels, size, padding, stride=2), 0
    for group in _FIRES[version]:
        body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2))
        for squeezed in group:
            index += 1
            body = _fire(body, squeezed, f"fire{index}")
    body = _conv_relu(nn.dropout(body, rate=0.5), "conv_final", num_classes, 1, 0)
    return network(nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(body))))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``squeezenet.get_workload``."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
