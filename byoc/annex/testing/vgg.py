"""VGG of 11, 13, 16 or 19 layers. Source: ``relay.testing.vgg``; Simonyan and Zisserman (2014)."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, conv2d, dense_add_bias, network, parameter
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Function, var
from byoc.relay.op import nn
from byoc.runtime.core.ndarray import NDArray

_LAYERS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_FILTERS = (64, 128, 256, 512, 512)


def get_feature(
    internal_layer: RelayExpr, layers: Sequence[int], filters: Sequence[int], batch_norm: bool = False
) -> RelayExpr:
    """The convolutions, a max pool after each group. Source: ``vgg.get_feature``."""
    body = internal_layer
    for group, count in enumerate(layers, start=1):
        for layer in range(1, count + 1):
            name = f"conv{group}_{layer}"
            body = conv2d(body, kernel_size=(3, 3), padding=(1, 1), channels=filters[group - 1], name=name)
            body = nn.bias_add(body, parameter(name, "bias"))
            if batch_norm:
                body = batch_norm_infer(body, name=f"bn{group}_{layer}")
            body = nn.relu(body)
        body = nn.max_pool2d(body, pool_size=(2, 2), strides=(2, 2))
    return body


def get_classifier(input_data: RelayExpr, num_classes: int) -> RelayExpr:
    """The dense layers. Source: ``vgg.get_classifier``."""
    body: RelayExpr = nn.batch_flatten(input_data)
    for name in ("fc6", "fc7"):
        body = nn.dropout(nn.relu(dense_add_bias(body, units=4096, name=name)), rate=0.5)
    return dense_add_bias(body, units=num_classes, name="fc8")


def get_net(
    batch_size: int,
    image_shape: tuple[int, ...],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """The network: ``data: [N, *image_shape] -> [N, num_classes]``. Source: ``vgg.get_net``.

    Raises UserError for a number of layers that VGG does not have.
    """
    if num_layers not in _LAYERS:
        raise UserError(f"VGG has {', '.join(map(str, _LAYERS))} layers, not {num_layers}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    features = get_feature(data, _LAYERS[num_layers], _FILTERS, batch_norm)
    return network(nn.softmax(get_classifier(features, num_classes)))


def get_workload(
    batch_size: int,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``vgg.get_workload``."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
