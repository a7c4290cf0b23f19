"""ResNet with pre-activation, 18 to 269 layers, and for small images. Source: ``relay.testing.resnet``.

He et al., "Identity Mappings in Deep Residual Networks" (2016). The same plan of stages serves ``resnet_3d``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, conv2d, conv_kernel_layout, dense_add_bias, network
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import add, nn
from byoc.runtime.core.ndarray import NDArray

EPSILON = 2e-5

# layers -> residual units of each stage, for images taller than 28
UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}


@dataclass(frozen=True)
class Stages:
    """Residual units and channels of each stage (the first is the stem's), and whether units have a bottleneck."""

    units: tuple[int, ...]
    filters: tuple[int, ...]
    bottle_neck: bool


def plan(num_layers: int, height: int) -> Stages:
    """The stages of a network of *num_layers*. Raises UserError for a number of layers that there is no plan for."""
    if height <= 28:
        if (num_layers - 2) % 9 == 0 and num_layers >= 164:
            return Stages(((num_layers - 2) // 9,) * 3, (16, 64, 128, 256), True)
        if (num_layers - 2) % 6 == 0 and num_layers < 164:
            return Stages(((num_layers - 2) // 6,) * 3, (16, 16, 32, 64), False)
        raise UserError(f"a ResNet for height {height} has 6n+2 layers, or 9n+2 from 164 on, not {num_layers}")
    if num_layers not in UNITS:
        raise UserError(f"ResNet has {', '.join(map(str, UNITS))} layers, not {num_layers}")
    wide = num_layers >= 50
    filters = (64, 256, 512, 1024, 2048) if wide else (64, 64, 128, 256, 512)
    return Stages(UNITS[num_layers], filters, wide)


def residual_unit(
    data: RelayExpr,
    num_filter: int,
    stride: Sequence[int],
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
) -> RelayExpr:
    """Norm, relu and convolution, twice (thrice with a bottleneck), added to *data*. Source: ``residual_unit``."""
    axis, layouts = data_layout.index("C"), {"data_layout": data_layout, "kernel_layout": kernel_layout}
    inner = num_filter // 4
    # channels, kernel size and strides of each convolution
    steps = (
        [(inner, 1, stride), (inner, 3, (1, 1)), (num_filter, 1, (1, 1))]
        if bottle_neck
        else [(num_filter, 3, stride), (num_filter, 3, (1, 1))]
    )
    body, shortcut = data, data
    for index, (channels, size, strides) in enumerate(steps, start=1):
        active = nn.relu(batch_norm_infer(body, epsilon=EPSILON, axis=axis, name=f"{name}_bn{index}"))
        if index == 1 and not dim_match:
            shortcut = conv2d(
                active, channels=num_filter, kernel_size=(1, 1), strides=stride, name=f"{name}_sc", **layouts
            )
        body = conv2d(
            active,
            channels=channels,
            kernel_size=(size, size),
            strides=strides,
            padding=(size // 2, size // 2),
            name=f"{name}_conv{index}",
            **layouts,
        )
    return add(body, shortcut)


def _stem(data: RelayExpr, channels: int, height: int, layout: str) -> RelayExpr:
    axis, layouts = layout.index("C"), {"data_layout": layout, "kernel_layout": conv_kernel_layout(layout)}
    body = batch_norm_infer(data, epsilon=EPSILON, axis=axis, scale=False, name="bn_data")
    if height <= 32:
        return conv2d(body, channels=channels, kernel_size=(3, 3), padding=(1, 1), name="conv0", **layouts)
    body = conv2d(body, channels=channels, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv0", **layouts)
    body = nn.relu(batch_norm_infer(body, epsilon=EPSILON, axis=axis, name="bn0"))
    return nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: Sequence[int],
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """The network of the given stages. Source: ``resnet.resnet``. Raises UserError where *units* has another length."""
    if len(units) != num_stages:
        raise UserError(f"a ResNet of {num_stages} stages needs as many numbers of units, got {tuple(units)}")
    kernel_layout = conv_kernel_layout(layout)
    body = _stem(var("data", shape=data_shape, dtype=dtype), filter_list[0], data_shape[layout.index("H")], layout)
    for stage in range(1, num_stages + 1):
        for unit in range(1, units[stage - 1] + 1):
            stride = (2, 2) if stage > 1 and unit == 1 else (1, 1)
            body = residual_unit(
                body,
                filter_list[stage],
                stride,
                unit > 1,
                f"stage{stage}_unit{unit}",
                bottle_neck,
                layout,
                kernel_layout,
            )
    body = nn.relu(batch_norm_infer(body, epsilon=EPSILON, axis=layout.index("C"), name="bn1"))
    flat = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    return network(nn.softmax(dense_add_bias(flat, units=num_classes, name="fc1")))


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: object,
) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_classes]``; *image_shape* in *layout*. Source: ``get_net``.

    Raises UserError for a number of layers that there is no plan for.
    """
    data_shape = (batch_size, *image_shape)
    stages = plan(num_layers, data_shape[layout.index("H")])
    return resnet(
        stages.units, len(stages.units), stages.filters, num_classes, data_shape, stages.bottle_neck, layout, dtype
    )


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: object,
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``resnet.get_workload``."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
