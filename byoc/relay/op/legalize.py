"""What Legalize does with ``nn.conv2d`` of bytes on ARM: channels are padded to whole vectors, the result cut back.

Only under a target with the key ``arm_cpu``, so that nothing happens where no target says so. Source:
``conv2d_legalize`` of ``topi/arm_cpu/conv2d_alter_op.py`` and ``conv2d_alter_int8_common``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.op import register_op_attr
from byoc.ir.target import Target
from byoc.ir.types import TensorType, Type
from byoc.relay.op.attributes.convolution import Conv2DAttrs
from byoc.relay.op.core.builder import make_call

VECTOR = 8  # channels, of input and of output
BYTES = ("int8", "uint8")
LAYOUTS = ("NHWC", "HWIO")


def _lacking(channels: int) -> int:
    return -channels % VECTOR


def legalize_on_arm(attrs: Conv2DAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    """The convolution over whole vectors of channels; None where it stays.

    With the dot product as the only feature (``-mattr=+dotprod``) the input's channels are left.
    """
    target = Target.current()
    if target is None or "arm_cpu" not in target.keys or (attrs.data_layout, attrs.kernel_layout) != LAYOUTS:
        return None
    data, kernel, result = types
    assert isinstance(data, TensorType) and isinstance(kernel, TensorType) and isinstance(result, TensorType)
    same = data.dtype == kernel.dtype and data.dtype in BYTES
    if not same or attrs.groups != 1 or any(d != 1 for d in attrs.dilation) or not result.is_static:
        return None
    taken, made = (int(d) for d in kernel.concrete_shape[2:])
    more_in = 0 if target.mattr == ["+dotprod"] else _lacking(taken)
    more_out = _lacking(made)
    if not more_in and not more_out:
        return None
    from byoc.relay.op.movement.slice import strided_slice  # no other target needs them
    from byoc.relay.op.nn.pad import pad

    image, weight = inputs
    if more_in:
        image = pad(image, ((0, 0), (0, 0), (0, 0), (0, more_in)))
    weight = pad(weight, ((0, 0), (0, 0), (0, more_in), (0, more_out)))
    out = make_call("nn.conv2d", [image, weight], dataclasses.replace(attrs, channels=made + more_out))
    return strided_slice(out, [0] * result.ndim, list(result.concrete_shape)) if more_out else out


register_op_attr("nn.conv2d", "FTVMLegalize", legalize_on_arm, 1)  # a user's rule of a higher level is asked instead
