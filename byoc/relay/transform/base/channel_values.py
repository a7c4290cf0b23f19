"""Constants that hold one number for each channel."""

from __future__ import annotations

import numpy as np

from byoc.ir.types import TensorType
from byoc.relay.expr import Constant


def channel_values(constant: Constant, axis: int, result: TensorType) -> np.ndarray | None:
    """*constant* as one number per channel along *axis* of *result*, or None where it varies elsewhere.

    A scalar is every channel's number. The size of the channel axis must be known. An infinite scale or a NaN is left
    where it is: in the weights, what is infinite is added up before the product and not after it, and may be a NaN.
    """
    channels = result.shape[axis]
    data = constant.data.numpy()
    if not isinstance(channels, int) or data.ndim > result.ndim or not np.issubdtype(data.dtype, np.floating):
        return None
    if not np.isfinite(data).all():
        return None
    shape = (1,) * (result.ndim - data.ndim) + data.shape
    if any(size != 1 for k, size in enumerate(shape) if k != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(data.reshape(-1), (channels,)).copy()
