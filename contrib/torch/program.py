"""One step of a region's program computed by PyTorch."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from byoc.contrib.torch.kernels import Step
from byoc.contrib.torch.table import KERNELS
from byoc.runtime.core.errors import KernelError
from byoc.runtime.core.signature import TensorSpec


def computed(symbol: str, written: Mapping[str, Any], tensors: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
    """The results of one step. Raises KernelError where they are not of the types that its operator has."""
    torch: Any = importlib.import_module("torch")
    specs = [TensorSpec(result["name"], tuple(result["shape"]), result["dtype"]) for result in written["results"]]
    shapes, dtypes = [spec.concrete_shape(sizes) for spec in specs], [spec.dtype for spec in specs]
    if not any(0 not in shape for shape in shapes):
        return [
            torch.empty(shape, dtype=getattr(torch, dtype), device=tensors[0].device)
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
    step = Step({**written["attributes"], "operator": written["operator"]}, shapes, dtypes)
    given = KERNELS[written["operator"]].compute(step, *tensors)
    results = list(given) if isinstance(given, (list, tuple)) else [given]
    for value, shape, dtype in zip(results, shapes, dtypes, strict=True):
        if tuple(value.shape) != shape or value.dtype != getattr(torch, dtype):
            raise KernelError(
                f"{symbol}: {written['operator']} gave {value.dtype}{list(value.shape)}, expected {dtype}{list(shape)}"
            )
    return results
