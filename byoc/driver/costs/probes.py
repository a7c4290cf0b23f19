"""What is measured to know a device: small functions, each a step that is repeated, so that only the step counts.

A step takes a tensor to one of the same type. The seconds of a step are the difference between many and few of them, so
that calls, launches and transfers are not in them; code is made once, since all steps are alike. Steps are kept apart
on the host by ``annotation.stop_fusion``; a code generator that computes what is pointwise where it is read is kept
from that by a pool of windows of one element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Constant, Function, Var
from byoc.relay.narrowing import as_tensor_type
from byoc.runtime.core.ndarray import NDArray

Step = Callable[[RelayExpr], RelayExpr]


@dataclass(frozen=True)
class Probe:
    """A step on a tensor of *shape*, done 1 and 1 + *more* times. *is_slight*: far less than the call of a function."""

    name: str
    shape: tuple[int, ...]
    step: Step
    more: int = 4
    dtype: str = "float32"
    is_slight: bool = False

    def function(self, steps: int, apart: Step) -> Function:
        """The function of so many steps, each kept from the next by *apart*."""
        data = Var("x", TensorType(self.shape, self.dtype))
        value: RelayExpr = data
        for _ in range(steps):
            value = apart(self.step(value))
        return Function([data], value)


def by_annotation(value: RelayExpr) -> RelayExpr:
    """*value*, which FuseOps leaves in a kernel of its own."""
    return relay.annotation.stop_fusion(value)


def by_pool(value: RelayExpr) -> RelayExpr:
    """*value* after a pool that changes nothing."""
    shape = as_tensor_type(infer_expr(value)).concrete_shape
    lanes = shape[-1] if len(shape) > 1 else TINY[0]
    image = relay.reshape(value, (1, 1, -1, lanes))
    return relay.reshape(relay.nn.max_pool2d(image, (1, 1), layout="NHWC"), shape)


def by_nothing(value: RelayExpr) -> RelayExpr:
    """*value*: for backends that take no pool, and whose steps may become one kernel."""
    return value


TINY, SMALL, MIDDLE = (16,), (1 << 16,), (1 << 19,)
LARGE = (1 << 24,)
CHAIN = 8  # pairs of cheap steps in one kernel
ROWS, WIDTH = 256, 512  # of the large product
NARROW = (4096, 32)  # a product with a short sum
VECTOR = 4096  # the side of a matrix that one row is multiplied by
IMAGE = (1, 56, 56, 64)  # images, height, width, channels
CHANNELS = (1, 28, 28, 256)
DEEP = (1, 28, 28, 32)
NORM = (256, 256)
SQUARE = (512, 512)


def probes(channels_last: bool = True) -> tuple[Probe, ...]:
    """All of them; images with their channels innermost, as the host's code has them, or in the order of models."""
    image, channels, deep = (s if channels_last else (s[0], s[3], s[1], s[2]) for s in (IMAGE, CHANNELS, DEEP))
    layout = "NHWC" if channels_last else "NCHW"
    return (
        Probe("kernel", TINY, relay.nn.relu, 64, is_slight=True),
        Probe("near", SMALL, relay.nn.relu, 16),
        Probe("middle", MIDDLE, relay.nn.relu),
        Probe("far", LARGE, relay.nn.relu, 2),
        Probe("pointwise", SMALL, _cheap),
        Probe("costly", SMALL, lambda x: relay.exp(relay.negative(x))),
        Probe("product", (ROWS, WIDTH), _dense(WIDTH)),
        Probe("narrow", NARROW, _dense(NARROW[1])),
        Probe("double", (ROWS, WIDTH // 2), _dense(WIDTH // 2, "float64"), dtype="float64"),
        Probe("bytes", (ROWS, WIDTH), _dense_of_bytes, dtype="int8"),
        Probe("stream", (1, VECTOR), _dense(VECTOR), 2),
        Probe("convolution", deep, _convolution(DEEP[3], 5, 1, layout)),
        Probe("winograd", image, _convolution(IMAGE[3], 3, 1, layout)),
        Probe("depthwise3", channels, _convolution(CHANNELS[3], 3, CHANNELS[3], layout)),
        Probe("depthwise5", channels, _convolution(CHANNELS[3], 5, CHANNELS[3], layout)),
        Probe("window", image, lambda x: relay.nn.max_pool2d(x, (3, 3), padding=(1, 1), layout=layout)),
        Probe("reduction", NORM, _centred if channels_last else _centred_as_it_is),
        Probe("rows", NORM, _norm),
        Probe("move", SQUARE, lambda x: relay.transpose(x, (1, 0))),
        Probe("library", SMALL, lambda x: relay.sort(x, axis=0)),
    )


def _cheap(x: RelayExpr) -> RelayExpr:
    for _ in range(CHAIN):
        x = relay.subtract(relay.abs(x), _constant(np.float32(0.5)))
    return x


def _dense(width: int, dtype: str = "float32") -> Step:
    return lambda x: relay.nn.dense(x, _constant(_weights((width, width), dtype)))


def _dense_of_bytes(x: RelayExpr) -> RelayExpr:
    sums = relay.nn.dense(x, _constant(_weights((WIDTH, WIDTH), "int8")), out_dtype="int32")
    return relay.cast(relay.right_shift(sums, _constant(np.int32(12))), "int8")


def _convolution(channels: int, size: int, groups: int, layout: str) -> Step:
    kernel = {"NCHW": "OIHW", "NHWC": "HWIO" if groups == 1 else "HWOI"}[layout]
    extents = {"O": channels, "I": channels // groups, "H": size, "W": size}
    weight = _weights(tuple(extents[axis] for axis in kernel), "float32")
    return lambda x: relay.nn.conv2d(
        x,
        _constant(weight),
        padding=(size // 2, size // 2),
        groups=groups,
        channels=channels,
        kernel_size=(size, size),
        data_layout=layout,
        kernel_layout=kernel,
    )


def _centred(x: RelayExpr) -> RelayExpr:
    return relay.add(x, relay.annotation.stop_fusion(relay.mean(x, axis=0, keepdims=True)))


def _centred_as_it_is(x: RelayExpr) -> RelayExpr:
    """For generators that join nothing to a reduction anyway, and whose backends take no annotation."""
    return relay.add(x, relay.mean(x, axis=0, keepdims=True))


def _norm(x: RelayExpr) -> RelayExpr:
    ones = np.linspace(0.5, 1.5, NORM[1], dtype="float32")
    return relay.nn.layer_norm(x, _constant(ones), _constant(ones))


def _weights(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Seeded numbers, so small that values neither grow nor vanish at once."""
    rng = np.random.default_rng(0)
    if dtype == "int8":
        return rng.integers(-16, 16, shape).astype("int8")
    return (rng.random(shape, "float32") / np.float32(np.prod(shape) / shape[-1])).astype(dtype)


def _constant(value: np.ndarray | np.generic) -> Constant:
    return Constant(NDArray(np.asarray(value)))


def nothing() -> Function:
    """A function of next to no work: what any call costs."""
    data = Var("x", TensorType(TINY, "float32"))
    return Function([data], relay.nn.relu(data))
