"""The generator of a deep convolutional GAN. Source: ``relay.testing.dcgan``; Radford et al. (2015)."""

from __future__ import annotations

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import batch_norm_infer, conv2d_transpose, network, parameter
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.relay.expr import Call, Function, var
from byoc.relay.op import nn, reshape, tanh, transpose
from byoc.runtime.core.ndarray import NDArray

_EPSILON = 1e-5 + 1e-12
_KERNEL, _STRIDE = 4, 2
_KERNEL_LAYOUTS = {"NCHW": "IOHW", "NHWC": "HWOI"}


def deconv2d(data: RelayExpr, channels: int, size: tuple[int, int], layout: str, name: str) -> Call:
    """A transposed convolution that doubles height and width to *size*. Source: ``dcgan.deconv2d``."""
    pad = (_KERNEL - 1) // 2
    adjust = tuple((extent + 2 * pad - _KERNEL) % _STRIDE for extent in size)
    return conv2d_transpose(
        data,
        kernel_size=(_KERNEL, _KERNEL),
        strides=(_STRIDE, _STRIDE),
        channels=channels,
        padding=(pad, pad),
        output_padding=adjust,
        data_layout=layout,
        kernel_layout=_KERNEL_LAYOUTS[layout],
        name=name,
    )


def deconv2d_bn_relu(data: RelayExpr, prefix: str, channels: int, size: tuple[int, int], layout: str) -> Call:
    """A transposed convolution, batch norm and relu. Source: ``dcgan.deconv2d_bn_relu``."""
    up = deconv2d(data, channels, size, layout, f"{prefix}_deconv")
    axis = layout.index("C")
    return nn.relu(batch_norm_infer(up, epsilon=_EPSILON, scale=False, axis=axis, name=f"{prefix}_batch_norm"))


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    code: RelayExpr | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """The network: ``data: [N, random_len] -> [N, *oshape]``, oshape 64 by 64. Source: ``dcgan.get_net``."""
    noise = code if code is not None else var("data", shape=(batch_size, random_len), dtype=dtype)
    body = nn.relu(nn.dense(noise, parameter("dense", "weight"), units=4 * 4 * ngf * 8))
    body = reshape(body, (-1, ngf * 8, 4, 4))
    if layout == "NHWC":
        body = transpose(body, (0, 2, 3, 1))
    for step, size in enumerate((8, 16, 32)):
        body = deconv2d_bn_relu(body, f"g{step + 2}", ngf * 4 // 2**step, (size, size), layout)
    return network(tanh(deconv2d(body, oshape[0], oshape[1:], layout, "g5_deconv")))


def get_workload(
    batch_size: int,
    oshape: tuple[int, int, int] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``dcgan.get_workload``."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, layout=layout, dtype=dtype))
