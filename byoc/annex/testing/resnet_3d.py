"""ResNet over clips: convolutions over time, height and width. Source: ``resnet_3d``; Hara et al. (2018)."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, conv3d, conv_kernel_layout, dense_add_bias, network
from byoc.annex.testing.resnet import EPSILON, plan
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import add, nn
from byoc.runtime.core.ndarray import NDArray


def residual_unit(
    data: RelayExpr,
    num_filter: int,
    stride: Sequence[int],
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
) -> RelayExpr:
    """Norm, relu and convolution, twice (thrice with a bottleneck), added to *data*. Source: ``residual_unit``."""
    axis, layouts = data_layout.index("C"), {"data_layout": data_layout, "kernel_layout": kernel_layout}
    inner, one = num_filter // 4, (1, 1, 1)
    # channels, kernel size and strides of each convolution
    steps = (
        [(inner, 1, stride), (inner, 3, one), (num_filter, 1, one)]
        if bottle_neck
        else [(num_filter, 3, stride), (num_filter, 3, one)]
    )
    body, shortcut = data, data
    for index, (channels, size, strides) in enumerate(steps, start=1):
        active = nn.relu(batch_norm_infer(body, epsilon=EPSILON, axis=axis, name=f"{name}_bn{index}"))
        if index == 1 and not dim_match:
            shortcut = conv3d(
                active, channels=num_filter, kernel_size=one, strides=stride, name=f"{name}_sc", **layouts
            )
        body = conv3d(
            active,
            channels=channels,
            kernel_size=(size,) * 3,
            strides=strides,
            padding=(size // 2,) * 3,
            name=f"{name}_conv{index}",
            **layouts,
        )
    return add(body, shortcut)


def _stem(data: RelayExpr, channels: int, height: int, layout: str) -> RelayExpr:
    axis, layouts = layout.index("C"), {"data_layout": layout, "kernel_layout": conv_kernel_layout(layout)}
    body = batch_norm_infer(data, epsilon=EPSILON, axis=axis, scale=False, name="bn_data")
    if height <= 32:
        return conv3d(body, channels=channels, kernel_size=(3, 3, 3), padding=(1, 1, 1), name="conv0", **layouts)
    body = conv3d(
        body, channels=channels, kernel_size=(3, 7, 7), strides=(1, 2, 2), padding=(1, 3, 3), name="conv0", **layouts
    )
    return nn.relu(batch_norm_infer(body, epsilon=EPSILON, axis=axis, name="bn0"))


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: object,
) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_classes]``; *image_shape* in *layout*. Source: ``get_net``.

    Raises UserError for a number of layers that there is no plan for.
    """
    data_shape, kernel_layout = (batch_size, *image_shape), conv_kernel_layout(layout)
    height = data_shape[layout.index("H")]
    stages = plan(num_layers, height)
    body = _stem(var("data", shape=data_shape, dtype=dtype), stages.filters[0], height, layout)
    for stage, count in enumerate(stages.units, start=1):
        for unit in range(1, count + 1):
            stride = (2, 2, 2) if stage > 1 and unit == 1 else (1, 1, 1)
            body = residual_unit(
                body,
                stages.filters[stage],
                stride,
                unit > 1,
                f"stage{stage}_unit{unit}",
                stages.bottle_neck,
                layout,
                kernel_layout,
            )
    body = nn.relu(batch_norm_infer(body, epsilon=EPSILON, axis=layout.index("C"), name="bn1"))
    flat = nn.batch_flatten(nn.adaptive_avg_pool3d(body, output_size=(1, 1, 1), layout=layout))
    return network(nn.softmax(dense_add_bias(flat, units=num_classes, name="fc1")))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: object,
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``resnet_3d.get_workload``."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
