"""What a step of a region is, and the table of functions that compute one with PyTorch.

PyTorch is imported when a step is first computed: the names of the table, and the element types that each takes, are
asked where models are planned, and there it may be missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from byoc.contrib.region_program import Operation

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
NUMBERS = (*FLOATS, *INTEGERS)
BOOL = ("bool",)
DTYPES = (*NUMBERS, *BOOL)
DENSE_BIAS, CONV_BIAS = "torch.dense_bias", "torch.conv_bias"

Tensor = Any  # a torch.Tensor: no package is imported for its name


class _Torch:
    """The package ``torch``, imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked by what looks at any object, as doctest does
            raise AttributeError(name)
        found = getattr(importlib.import_module("torch"), name)
        setattr(self, name, found)
        return found


torch: Any = _Torch()


class TorchStep(Operation):
    """One operator, as a kernel is given it."""

    @property
    def dtype(self) -> Any:
        """PyTorch's type of the first result."""
        return getattr(torch, self.dtypes[0])


Compute = Callable[..., Any]  # (step, *tensors) -> a tensor, or a sequence of them for several results


@dataclass(frozen=True)
class TorchKernel:
    """What computes an operator, and the element types of operands for which it is right."""

    compute: Compute
    dtypes: Sequence[str]


KERNELS: dict[str, TorchKernel] = {}


def kernel(*names: str, dtypes: Sequence[str] = DTYPES) -> Callable[[Compute], Compute]:
    """Put a function into the table, for operators (or composites) of these *names* on *dtypes*."""

    def register(compute: Compute) -> Compute:
        for name in names:
            assert name not in KERNELS, name
            KERNELS[name] = TorchKernel(compute, tuple(dtypes))
        return compute

    return register


def along(vector: Tensor, axis: int, ndim: int) -> Tensor:
    """*vector* ``[C]`` shaped to stand along *axis* of a tensor of *ndim* axes."""
    return vector.reshape([-1 if k == axis % ndim else 1 for k in range(ndim)])
