"""Inception v3. Source: ``relay.testing.inception_v3``; Szegedy et al., "Rethinking the Inception Architecture" (2015).

A module is branches side by side, a branch is convolutions one after another: both are written as data.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, conv2d, dense_add_bias, network
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import concatenate, nn
from byoc.runtime.core.ndarray import NDArray

# channels and kernel size of a convolution; the last of a branch that halves the image has stride 2 and no padding
Step = tuple[int, tuple[int, int]]
Branch = Sequence[Step]

_ONE, _THREE, _FIVE, _WIDE, _TALL = (1, 1), (3, 3), (5, 5), (1, 7), (7, 1)


def conv_norm_relu(
    data: RelayExpr,
    num_filter: int,
    kernel: Sequence[int] = (1, 1),
    stride: Sequence[int] = (1, 1),
    pad: Sequence[int] = (0, 0),
    name: str = "",
) -> RelayExpr:
    """Convolution, batch norm without scale, relu. Source: ``inception_v3.Conv``."""
    convolved = conv2d(
        data, channels=num_filter, kernel_size=kernel, strides=stride, padding=pad, name=f"{name}_conv2d"
    )
    return nn.relu(batch_norm_infer(convolved, epsilon=2e-5, scale=False, name=f"{name}_batchnorm"))


def _branch(data: RelayExpr, steps: Branch, name: str, halve: bool = False) -> RelayExpr:
    for index, (channels, kernel) in enumerate(steps):
        last = halve and index == len(steps) - 1
        pad = (0, 0) if last else (kernel[0] // 2, kernel[1] // 2)
        data = conv_norm_relu(data, channels, kernel, (2, 2) if last else (1, 1), pad, f"{name}_conv_{index}")
    return data


def _mixed(data: RelayExpr, branches: Sequence[Branch], pooled: int, name: str, pool: str = "avg") -> RelayExpr:
    """Branches that keep height and width, and a pooled one."""
    outputs = [_branch(data, steps, f"{name}_{index}") for index, steps in enumerate(branches)]
    return concatenate((*outputs, _pooled(data, pooled, name, pool)), axis=1)


def _pooled(data: RelayExpr, channels: int, name: str, pool: str) -> RelayExpr:
    if pool == "max":
        small = nn.max_pool2d(data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1))
    else:
        small = nn.avg_pool2d(data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1), count_include_pad=True)
    return conv_norm_relu(small, channels, name=f"{name}_tower_pool")


def _halved(data: RelayExpr, branches: Sequence[Branch], name: str) -> RelayExpr:
    """Branches that halve height and width, and a max pool."""
    outputs = [_branch(data, steps, f"{name}_{index}", halve=True) for index, steps in enumerate(branches)]
    return concatenate((*outputs, nn.max_pool2d(data, pool_size=(3, 3), strides=(2, 2))), axis=1)


def _expanded(data: RelayExpr, name: str, pool: str) -> RelayExpr:
    """The last modules: two branches end in two convolutions side by side."""
    outputs = [_branch(data, [(320, _ONE)], f"{name}_0")]
    for index, steps in enumerate(([(384, _ONE)], [(448, _ONE), (384, _THREE)]), start=1):
        body = _branch(data, steps, f"{name}_{index}")
        for side, kernel in enumerate(((1, 3), (3, 1))):
            outputs.append(_branch(body, [(384, kernel)], f"{name}_{index}_side_{side}"))
    return concatenate((*outputs, _pooled(data, 192, name, pool)), axis=1)


def _small_kernels() -> list[Branch]:
    return [[(64, _ONE)], [(48, _ONE), (64, _FIVE)], [(64, _ONE), (96, _THREE), (96, _THREE)]]


def _long_kernels(inner: int) -> list[Branch]:
    return [
        [(192, _ONE)],
        [(inner, _ONE), (inner, _WIDE), (192, _TALL)],
        [(inner, _ONE), (inner, _TALL), (inner, _WIDE), (inner, _TALL), (192, _WIDE)],
    ]


def _stem(data: RelayExpr) -> RelayExpr:
    body = conv_norm_relu(data, 32, _THREE, (2, 2), name="conv")
    body = conv_norm_relu(body, 32, _THREE, name="conv_1")
    body = conv_norm_relu(body, 64, _THREE, pad=(1, 1), name="conv_2")
    body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2))
    body = conv_norm_relu(body, 80, name="conv_3")
    body = conv_norm_relu(body, 192, _THREE, name="conv_4")
    return nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2))


def get_net(batch_size: int, num_classes: int, image_shape: tuple[int, ...], dtype: str) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_classes]``. Source: ``inception_v3.get_net``."""
    body = _stem(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for index, pooled in enumerate((32, 64, 64)):
        body = _mixed(body, _small_kernels(), pooled, f"mixed_{index}")
    body = _halved(body, [[(384, _THREE)], [(64, _ONE), (96, _THREE), (96, _THREE)]], "mixed_3")
    for index, inner in enumerate((128, 160, 160, 192), start=4):
        body = _mixed(body, _long_kernels(inner), 192, f"mixed_{index}")
    long = [(192, _ONE), (192, _WIDE), (192, _TALL), (192, _THREE)]
    body = _halved(body, [[(192, _ONE), (320, _THREE)], long], "mixed_8")
    body = _expanded(_expanded(body, "mixed_9", "avg"), "mixed_10", "max")
    flat = nn.batch_flatten(nn.avg_pool2d(body, pool_size=(8, 8), strides=(1, 1)))
    return network(nn.softmax(dense_add_bias(flat, units=num_classes, name="fc1")))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 299, 299),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``inception_v3.get_workload``."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
