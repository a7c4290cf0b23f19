"""Products, windows and norms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.relay.onnx_writer.rules import Rule, Written, needs


def conv(at: Written) -> str:
    """Channels first, with sums in the tensors' dtype."""
    _same_dtype(at)
    return at.value("Conv", *at.names, **windows(at))


def windows(at: Written) -> dict[str, object]:
    """The attributes of a convolution, channels first."""
    attrs, rank = at.attrs, len(at.type(0).shape) - 2
    _channels_first(at, rank, "OI")
    return {
        "strides": _each(attrs.strides, rank),
        "dilations": _each(attrs.dilation, rank),
        "pads": _pads(attrs.padding, rank),
        "group": int(attrs.groups),
    }


def conv_transpose(at: Written) -> str:
    """Channels first; the weight has its inputs first, as ONNX's."""
    attrs, rank = at.attrs, len(at.type(0).shape) - 2
    _channels_first(at, rank, "IO")
    _same_dtype(at)
    more, steps = _each(attrs.output_padding, rank), _each(attrs.strides, rank)
    needs(all(m < s for m, s in zip(more, steps, strict=True)), f"output_padding {more} with strides {steps}")
    return at.value(
        "ConvTranspose",
        *at.names,
        strides=_each(attrs.strides, rank),
        dilations=_each(attrs.dilation, rank),
        pads=_pads(attrs.padding, rank),
        output_padding=_each(attrs.output_padding, rank),
        group=int(attrs.groups),
    )


def dense(at: Written) -> str:
    """``data @ weight.T``."""
    _same_dtype(at)
    return at.value("MatMul", at.names[0], at.value("Transpose", at.names[1], perm=[1, 0]))


def matmul(at: Written) -> str:
    """A product of matrices whose last two axes may change places; what is broadcast is broadcast as numpy does."""
    _same_dtype(at)
    names = list(at.names)
    for attribute, number in (("transpose_a", 0), ("transpose_b", 1)):
        rank = len(at.type(number).shape)
        needs(rank >= 2, "a product with a vector")
        if getattr(at.attrs, attribute):
            names[number] = at.value("Transpose", names[number], perm=[*range(rank - 2), rank - 1, rank - 2])
    return at.value("MatMul", *names)


def max_pool(at: Written) -> str:
    """Channels first. What lies outside is the least number for both."""
    attrs, rank = at.attrs, len(at.type(0).shape) - 2
    _window(at, rank)
    return at.value(
        "MaxPool",
        at.names[0],
        kernel_shape=_each(attrs.pool_size, rank),
        strides=_each(attrs.strides, rank),
        dilations=_each(attrs.dilation, rank),
        pads=_pads(attrs.padding, rank),
    )


def avg_pool(at: Written) -> str:
    """Channels first, without dilation."""
    attrs, rank = at.attrs, len(at.type(0).shape) - 2
    _window(at, rank)
    needs(set(_each(attrs.dilation, rank)) == {1}, "an average over a dilated window")
    return at.value(
        "AveragePool",
        at.names[0],
        kernel_shape=_each(attrs.pool_size, rank),
        strides=_each(attrs.strides, rank),
        pads=_pads(attrs.padding, rank),
        count_include_pad=int(bool(attrs.count_include_pad)),
    )


def global_pool(at: Written) -> str:
    """Channels first."""
    _layout(at.attrs.layout, 2)
    _same_layout(at)
    average = at.operator == "nn.global_avg_pool2d"
    return at.value("GlobalAveragePool" if average else "GlobalMaxPool", at.names[0])


def softmax(at: Written) -> str:
    """Along one axis."""
    name = "Softmax" if at.operator == "nn.softmax" else "LogSoftmax"
    return at.value(name, at.names[0], axis=int(at.attrs.axis))


def layer_norm(at: Written) -> str:
    """Over the last axis."""
    rank = len(at.result.shape)
    needs(int(at.attrs.axis) % rank == rank - 1, f"a norm over axis {at.attrs.axis}")
    needs(at.attrs.center and at.attrs.scale, "a norm without its scale or its centre")
    return at.value("LayerNormalization", *at.names, axis=-1, epsilon=float(at.attrs.epsilon))


def instance_norm(at: Written) -> str:
    """Of each channel, channels first."""
    needs(int(at.attrs.axis) == 1, f"a norm of axis {at.attrs.axis}")
    needs(at.attrs.center and at.attrs.scale, "a norm without its scale or its centre")
    return at.value("InstanceNormalization", *at.names, epsilon=float(at.attrs.epsilon))


def _channels_first(at: Written, rank: int, kernel: str) -> None:
    attrs = at.attrs
    _layout(attrs.data_layout, rank)
    needs(attrs.out_layout in ("", None, attrs.data_layout), f"out_layout {attrs.out_layout}")
    wanted = kernel + _AXES[rank]
    needs(attrs.kernel_layout == wanted, f"kernel_layout {attrs.kernel_layout}")


_AXES = {1: "W", 2: "HW", 3: "DHW"}


def _layout(layout: str, rank: int) -> None:
    needs(layout == "NC" + _AXES[rank], f"layout {layout}")


def _same_layout(at: Written) -> None:
    out = at.attrs.out_layout
    needs(out in ("", None, at.attrs.layout), f"out_layout {out}")


def _window(at: Written, rank: int) -> None:
    """What ONNX Runtime asks of pools beside ONNX: a window that reaches further than what lies outside."""
    attrs = at.attrs
    _layout(attrs.layout, rank)
    _same_layout(at)
    needs(not attrs.ceil_mode, "ceil_mode")
    pads, window = _pads(attrs.padding, rank), _each(attrs.pool_size, rank)
    needs(all(pad < window[k % rank] for k, pad in enumerate(pads)), f"a pool of {window} with padding {pads}")


def _same_dtype(at: Written) -> None:
    dtypes = {at.type(0).dtype, at.type(1).dtype, at.result.dtype}
    needs(len(dtypes) == 1, f"a product of {at.type(0).dtype} and {at.type(1).dtype} in {at.result.dtype}")
    needs(at.result.dtype.startswith("float"), f"a product of {at.result.dtype}")


def _each(given: object, rank: int) -> list[int]:
    """A number for each axis, of which one may stand for all."""
    values = [int(v) for v in np.atleast_1d(np.asarray(given))]
    return values * rank if len(values) == 1 else values


def _pads(given: object, rank: int) -> list[int]:
    """Before and behind each axis: of one number, of one for each axis, or of both."""
    values = [int(v) for v in np.atleast_1d(np.asarray(given))]
    if len(values) == 2 * rank:
        return values
    return _each(values, rank) * 2


RULES: Mapping[str, Rule] = {
    "nn.conv1d": conv,
    "nn.conv2d": conv,
    "nn.conv3d": conv,
    "nn.conv1d_transpose": conv_transpose,
    "nn.conv2d_transpose": conv_transpose,
    "nn.conv3d_transpose": conv_transpose,
    "nn.dense": dense,
    "nn.matmul": matmul,
    "nn.batch_matmul": matmul,
    "nn.max_pool1d": max_pool,
    "nn.max_pool2d": max_pool,
    "nn.max_pool3d": max_pool,
    "nn.avg_pool1d": avg_pool,
    "nn.avg_pool2d": avg_pool,
    "nn.avg_pool3d": avg_pool,
    "nn.global_avg_pool2d": global_pool,
    "nn.global_max_pool2d": global_pool,
    "nn.softmax": softmax,
    "nn.log_softmax": softmax,
    "nn.layer_norm": layer_norm,
    "nn.instance_norm": instance_norm,
}
