"""NDArray: a tensor in host memory, as the modules exchange it.

It wraps a numpy array without a copy, and takes and gives numpy, ``__dlpack__`` and the buffer protocol. ``bfloat16``
needs the ``ml_dtypes`` package, which registers that dtype with numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.runtime.device import Device, cpu
from byoc.runtime.errors import UserError


def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype called *name*. Raises UserError for a name that numpy does not know."""
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise UserError("bfloat16 arrays need the package ml_dtypes: pip install ml_dtypes") from None
        return np.dtype(ml_dtypes.bfloat16)
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        raise UserError(f"unknown dtype {name!r}") from None


def dtype_name(dtype: np.dtype) -> str:
    """The name of a numpy dtype as the compiler writes it: ``float32``, ``bool``, ``string``, …"""
    return "string" if dtype.kind in "OSUT" else dtype.name


class NDArray:
    """A tensor: a shape, a dtype, a device and the data.

    >>> NDArray(np.zeros((2, 3), "float32")).shape
    (2, 3)
    """

    __slots__ = ("_data", "device")

    def __init__(self, data: object, device: Device | None = None):
        self._data = data if isinstance(data, np.ndarray) else from_any(data)
        self.device = device or cpu()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def dtype(self) -> str:
        return dtype_name(self._data.dtype)

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    def numpy(self) -> np.ndarray:
        """The data as numpy, without a copy."""
        return self._data

    asnumpy = numpy

    def copyfrom(self, source: object) -> NDArray:
        """Overwrite the data with *source*, of the same shape and dtype. Raises UserError when they differ."""
        array = from_any(source)
        if array.shape != self.shape or dtype_name(array.dtype) != self.dtype:
            raise UserError(
                f"cannot copy {dtype_name(array.dtype)}{list(array.shape)} into {self.dtype}{list(self.shape)}"
            )
        np.copyto(self._data, array)
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """A copy on a device, or into another array, which is returned."""
        if isinstance(target, Device):
            return NDArray(self._data.copy(), target)
        return target.copyfrom(self._data)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._data, dtype=dtype, copy=copy if copy is not None else None)

    def __dlpack__(self, **options: object) -> object:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    @property
    def data(self) -> memoryview:
        """The data by the buffer protocol; from Python 3.12 on ``memoryview(array)`` gives the same."""
        return memoryview(self._data)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"NDArray({self.dtype}{list(self.shape)}, {self.device})\n{self._data}"


def from_any(value: object) -> np.ndarray:
    """A numpy array over *value* without a copy where possible: numpy, NDArray, ``__dlpack__``, buffers, sequences."""
    if isinstance(value, NDArray):
        return value.numpy()
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def array(value: object, device: Device | None = None) -> NDArray:
    """An NDArray that owns a copy of *value*. Source: ``tvm.nd.array``."""
    return NDArray(np.array(from_any(value)), device)


def empty(shape: Sequence[int], dtype: str = "float32", device: Device | None = None) -> NDArray:
    """An NDArray with unset elements. Source: ``tvm.nd.empty``."""
    return NDArray(np.empty(tuple(shape), numpy_dtype(dtype)), device)
