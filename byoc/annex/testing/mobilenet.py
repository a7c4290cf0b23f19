"""MobileNet, of depthwise separable convolutions. Source: ``relay.testing.mobilenet``; Howard et al. (2017)."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, conv2d, conv_kernel_layout, dense_add_bias, network
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import nn
from byoc.runtime.core.ndarray import NDArray

# output channels of each separable block, and whether it halves height and width
_HEAD = ((64, False), (128, True), (128, False), (256, True), (256, False), (512, True))
_DEEP = (*((512, False),) * 5, (1024, True), (1024, False))
_SHALLOW = ((1024, True), (1024, False))


def conv_block(
    data: RelayExpr,
    name: str,
    channels: int,
    kernel_size: Sequence[int] = (3, 3),
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
) -> RelayExpr:
    """Convolution, batch norm and relu. Source: ``mobilenet.conv_block``."""
    convolved = conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        data_layout=layout,
        kernel_layout=conv_kernel_layout(layout),
        name=f"{name}_conv",
    )
    return nn.relu(batch_norm_infer(convolved, epsilon=epsilon, axis=layout.index("C"), name=f"{name}_bn"))


def separable_conv_block(
    data: RelayExpr,
    name: str,
    depthwise_channels: int,
    pointwise_channels: int,
    kernel_size: tuple[int, ...] = (3, 3),
    downsample: bool = False,
    padding: Sequence[int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> RelayExpr:
    """A convolution of each channel alone, then one across channels. Source: ``mobilenet.separable_conv_block``."""
    shape = (*kernel_size, depthwise_channels, 1) if layout == "NHWC" else (depthwise_channels, 1, *kernel_size)
    axis = layout.index("C")
    depthwise = conv2d(
        data,
        var(f"{name}_depthwise_weight", shape=shape, dtype=dtype),
        channels=depthwise_channels,
        groups=depthwise_channels,
        kernel_size=kernel_size,
        strides=(2, 2) if downsample else (1, 1),
        padding=padding,
        data_layout=layout,
        kernel_layout=conv_kernel_layout(layout, True),
    )
    active = nn.relu(batch_norm_infer(depthwise, epsilon=epsilon, axis=axis, name=f"{name}_bn1"))
    pointwise = conv2d(
        active,
        channels=pointwise_channels,
        kernel_size=(1, 1),
        padding=(0, 0),
        data_layout=layout,
        kernel_layout=conv_kernel_layout(layout),
        name=f"{name}_conv2",
    )
    return nn.relu(batch_norm_infer(pointwise, epsilon=epsilon, axis=axis, name=f"{name}_bn2"))


def mobile_net(
    num_classes: int = 1000,
    data_shape: Sequence[int] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """The network, of channels times *alpha*; a shallow one leaves five blocks out. Source: ``mobile_net``."""
    data = var("data", shape=data_shape, dtype=dtype)
    channels = int(32 * alpha)
    body = conv_block(data, "conv_block_1", channels, strides=(2, 2), layout=layout)
    for index, (width, downsample) in enumerate((*_HEAD, *(_SHALLOW if is_shallow else _DEEP)), start=1):
        body = separable_conv_block(
            body,
            f"separable_conv_block_{index}",
            channels,
            int(width * alpha),
            downsample=downsample,
            layout=layout,
            dtype=dtype,
        )
        channels = int(width * alpha)
    flat = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    return network(nn.softmax(dense_add_bias(flat, units=num_classes, name="fc")))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters; *image_shape* in *layout*. Source: ``mobilenet.get_workload``."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
