"""NDArray: a tensor in host memory, as the modules exchange it.

It wraps a numpy array without a copy, and takes and gives numpy, ``__dlpack__`` and the buffer protocol. ``bfloat16``
and the types of 8, 4 and 2 bits need the ``ml_dtypes`` package, which registers them with numpy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from byoc.runtime.core.device import Device, cpu
from byoc.runtime.core.errors import UserError
from byoc.runtime.core.small_types import BITS, extension_dtype

ALIGNMENT = 64  # bytes: where arrays begin that are handed to generated code, and a line of a processor's cache


@functools.lru_cache(maxsize=256)
def numpy_dtype(name: str) -> np.dtype:
    """The numpy dtype called *name*. Raises UserError for a name that numpy does not know."""
    if name in BITS:
        return extension_dtype(name)
    if name == "string":
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        raise UserError(f"unknown dtype {name!r}") from None


@functools.lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype) -> str:
    """The name of a numpy dtype as the compiler writes it: ``float32``, ``bool``, ``string``, …"""
    return "string" if dtype.kind in "OSUT" else dtype.name


_HOST = cpu()


class NDArray:
    """A tensor: a shape, a dtype, a device and the data.

    >>> NDArray(np.zeros((2, 3), "float32")).shape
    (2, 3)
    """

    __slots__ = ("_data", "device")

    def __init__(self, data: object, device: Device | None = None):
        self._data = data if isinstance(data, np.ndarray) else from_any(data)
        self.device = device or _HOST

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
        """Overwrite the data with *source*, of the same shape.

        This class is ``tvm.nd.NDArray`` too, and copies as that does: from another NDArray the bytes, whatever dtype
        they are of there; from anything else the numbers, converted. The inputs of a library, an executor of byoc or
        the command line are held to their dtypes before. Raises UserError where the shapes, or the bytes of two
        NDArrays, are not as many.
        """
        array = from_any(source)
        is_array = isinstance(source, NDArray)
        if array.shape != self.shape or (is_array and array.nbytes != self._data.nbytes):
            raise UserError(
                f"cannot copy {dtype_name(array.dtype)}{list(array.shape)} into {self.dtype}{list(self.shape)}"
            )
        same = array.dtype == self._data.dtype or array.dtype.hasobject or self._data.dtype.hasobject
        np.copyto(
            self._data,
            np.asarray(array, order="C").view(self._data.dtype) if is_array and not same else array,
            casting="unsafe",
        )
        return self

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """A copy on a device, or into another array, which is returned. Source: ``NDArray.copyto``."""
        if isinstance(target, Device):
            return NDArray(self._data.copy(), target)
        return target.copyfrom(self)

    def same_as(self, other: object) -> bool:
        """Whether *other* is this very array. Source: ``NDArray.same_as``."""
        return self is other

    def __setitem__(self, key: object, value: object) -> None:
        """``array[:] = value``: overwrite the data with an array, or with one number. Raises UserError for a part."""
        whole = (slice(None),) * max(self.ndim, 1)
        if key is not Ellipsis and key != slice(None) and key != whole:
            raise UserError("a part of an array cannot be set, only the whole: array[:] = value")
        if isinstance(value, (bool, int, float, np.generic)):
            self._data[...] = value
        else:
            self.copyfrom(np.asarray(from_any(value), self._data.dtype))

    def to_dlpack(self) -> object:
        """The array as a DLPack capsule over the same memory. Source: ``NDArray.to_dlpack``."""
        return self._data.__dlpack__()

    def _create_view(self, shape: Sequence[int], dtype: str | None = None, relative_byte_offset: int = 0) -> NDArray:
        """The same memory in another shape, of *dtype*. Raises UserError where it does not fit."""
        wanted = numpy_dtype(dtype or self.dtype)
        size = math.prod(shape) * wanted.itemsize
        if relative_byte_offset + size > self.nbytes or not self._data.flags.c_contiguous:
            raise UserError(f"{wanted}{list(shape)} is no view of {self.dtype}{list(self.shape)}")
        flat = self._data.reshape(-1).view(np.uint8)[relative_byte_offset : relative_byte_offset + size]
        return NDArray(flat.view(wanted).reshape(tuple(shape)), self.device)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        result: np.ndarray = np.array(self._data, dtype=dtype, copy=copy)
        return result

    def __dlpack__(self, **options: Any) -> object:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    @property
    def data(self) -> memoryview:
        """The data by the buffer protocol; from Python 3.12 on ``memoryview(array)`` gives the same."""
        return self._data.data

    def __buffer__(self, flags: int) -> memoryview:
        return self._data.data

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


def read_only(array: NDArray) -> NDArray:
    """The same memory as an array that numpy does not write to: what a constant is, in process as from an artefact."""
    if not array.numpy().flags.writeable:
        return array
    view = array.numpy().view()
    view.flags.writeable = False
    return NDArray(view, array.device)


class _Capsule:
    """A DLPack capsule as numpy takes it: by an object that gives it, once."""

    def __init__(self, capsule: object):
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def from_dlpack(dltensor: object) -> NDArray:
    """An array over the memory of a DLPack capsule, or of an object that gives one. Source: ``tvm.nd.from_dlpack``."""
    return NDArray(np.from_dlpack(dltensor if hasattr(dltensor, "__dlpack__") else _Capsule(dltensor)))


def numpyasarray(np_data: np.ndarray) -> NDArray:
    """An array over the memory of a numpy array. Source: ``tvm.nd.numpyasarray``."""
    return NDArray(np_data)


def array(value: object, device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """An NDArray that owns a copy of *value*. Source: ``tvm.nd.array``."""
    return NDArray(np.array(from_any(value)), device)


def empty(
    shape: Sequence[int], dtype: str = "float32", device: Device | None = None, mem_scope: str | None = None
) -> NDArray:
    """An NDArray with unset elements. Source: ``tvm.nd.empty``."""
    return NDArray(np.empty(tuple(int(d) for d in shape), numpy_dtype(str(dtype))), device)


PackedFunction = Callable[..., object]
