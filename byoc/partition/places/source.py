"""Kernels as source: one function in C or a kernel in OpenCL C, compiled for each call with what is known of it.

Both write the name as ``KERNEL``, take a pointer for each input, then one for each output, and end their parameters
with ``SIZES`` (nothing where all sizes are known, else the free ones); they give nothing back::

    void KERNEL(const IN0_TYPE *x, OUT0_TYPE *out SIZES) {
      for (int64_t i = 0; i < OUT0_SIZE; ++i) out[i] = x[i] < 0 ? x[i] * ATTR_alpha : x[i];
    }

Before the text stand, for each tensor ``IN0``, ``IN1``, ..., ``OUT0``: ``IN0_TYPE``, ``IN0_SIZE`` (elements),
``IN0_NDIM``, ``IN0_DIM0``, ...; for each attribute ``ATTR_<name>`` (a number, ``{1, 2}`` for a sequence with
``ATTR_<name>_0``, ..., a text in quotes; none for None), and ``UNIQUE(name)``, a name for helpers of the kernel's own.
Tensors are in C order. An attribute that the text does not name must have the operator's default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from byoc.errors import PartitionError
from byoc.relay.expr import Call


@dataclass(frozen=True)
class CSource:
    """A kernel in C: *text* defines ``void KERNEL(inputs, outputs SIZES)``. Raises PartitionError where it does not."""

    text: str

    def __post_init__(self) -> None:
        _check(self.text, "a CSource", "void KERNEL(const float *x, float *out SIZES) { ... }")


@dataclass(frozen=True)
class OpenCLSource:
    """A kernel in OpenCL C 1.2: *text* defines ``__kernel void KERNEL(inputs, outputs SIZES)``.

    It is launched with one work-item for each element of the first output, or with *items* of a call that many. With
    *local* (a power of two) these are rounded up to whole groups of so many, and the kernel leaves out those that are
    too many (``if (get_global_id(0) < OUT0_SIZE)``). Raises PartitionError for a text without ``__kernel`` or
    ``KERNEL``, and for another *local*.
    """

    text: str
    items: Callable[[Call], int] | None = None
    local: int | None = None

    def __post_init__(self) -> None:
        example = "__kernel void KERNEL(__global const float *x, __global float *out SIZES)"
        _check(self.text, "an OpenCLSource", example)
        if re.search(r"\b(__)?kernel\b", self.text) is None:
            raise PartitionError(f"an OpenCLSource has no function that is a __kernel: write it as in {example}")
        if self.local is not None and (self.local < 1 or self.local & (self.local - 1)):
            raise PartitionError(f"an OpenCLSource has groups of {self.local}: expected a power of two")


def _check(text: str, what: str, example: str) -> None:
    missing = next((word for word in ("KERNEL", "SIZES") if word not in text), None)
    if missing is not None:
        raise PartitionError(f"{what} does not name {missing}: write it as in {example}")
