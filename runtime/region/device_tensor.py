"""A tensor that lies on a device, as executors hand it from one region to the next and from one call to another.

A function of a region that takes such tensors in the place of arrays has ``empty_on_device(shape, dtype)``, which makes
one for an output, ``holds(tensor)``, which says whether a tensor lies on its device, and ``start``, which takes both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from byoc.runtime.region.call import Pending


class DeviceTensor:
    """A tensor on a device: its shape and dtype are known to the host, its elements are copied by :meth:`numpy`.

    Its memory is free for others when nobody holds it any more.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype):
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """A copy of its elements, once what makes them is done. Raises DeviceError, RunTimeoutError."""
        raise NotImplementedError

    def reshape(self, shape: Sequence[int]) -> DeviceTensor:
        """The same elements in another shape, without a copy."""
        raise NotImplementedError

    def host_array(self) -> np.ndarray:
        """A new array of the host, of this shape and dtype, from and to which the device copies fastest."""
        return np.empty(self.shape, self.dtype)

    def start_write(self, array: np.ndarray) -> Pending:
        """Begin to copy *array*, of this shape and dtype, to the device, behind all that reads or writes it there.

        *array* must not change until it has been waited for. Raises DeviceError.
        """
        raise NotImplementedError

    def start_read(self, array: np.ndarray) -> Pending:
        """Begin to copy the elements, once what makes them is done, into *array*, of this shape and dtype.

        Raises DeviceError.
        """
        raise NotImplementedError

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dtype.name}{list(self.shape)})"


class OnDeviceFunction(Protocol):
    """The function of a region that takes tensors on its device.

    ``has_own_memory`` says that its memory is not the host's, so that tensors are worth copying beside its work, which
    ``start_write`` and ``start_read`` of its tensors do.
    """

    has_own_memory: bool

    def empty_on_device(self, shape: Sequence[int], dtype: np.dtype) -> DeviceTensor:
        """Memory for a tensor that a call is to fill. Raises DeviceError."""

    def to_device(self, array: np.ndarray) -> DeviceTensor:
        """A copy of *array* on the device. Raises DeviceError."""

    def holds(self, tensor: DeviceTensor) -> bool:
        """Whether *tensor* lies where the function can read it."""

    def start(self, arrays: Sequence[np.ndarray | DeviceTensor], after: Sequence[Pending]) -> Pending:
        """Begin a call on inputs, then outputs, as ``region/call.py`` says. Raises DeviceError, InputError."""


def on_device_function(function: object) -> OnDeviceFunction | None:
    """*function* where it takes tensors on its device."""
    return cast("OnDeviceFunction", function) if hasattr(function, "empty_on_device") else None
