"""Predicates of calls that TVM's strategies use; strategies themselves are below the graph.

Source: ``relay.op.strategy.generic``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.compat.tvm.below import Missing

_LAYOUTS = {("NCHW", "OIHW"), ("NHWC", "HWOI"), ("NHWC", "HWIO")}


def is_depthwise_conv2d(
    data_shape: Sequence[object], data_layout: str, kernel_shape: Sequence[int], kernel_layout: str, groups: int
) -> bool:
    """Whether each channel is convolved alone: as many groups as input and output channels.

    Of layouts, NCHW with OIHW and NHWC with HWOI or HWIO are known: any other is not depthwise. Source:
    ``strategy.generic.is_depthwise_conv2d``.
    """
    if (data_layout, kernel_layout) not in _LAYOUTS:
        return False
    channels = data_shape[data_layout.index("C")]
    # of a depthwise kernel one of O and I is 1, and which one differs by who wrote the layout
    outputs = [kernel_shape[kernel_layout.index(axis)] for axis in "OI"]
    return bool(channels == groups and outputs[0] * outputs[1] == groups)


def __getattr__(name: str) -> Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"tvm.relay.op.strategy.generic.{name}")
