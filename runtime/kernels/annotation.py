"""Annotations compute nothing: their value is their argument."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.registry import kernel


@kernel("annotation.compiler_begin", "annotation.compiler_end")
def annotated(data: np.ndarray, *, compiler: str = "") -> np.ndarray:
    """*data* itself, whatever *compiler* it is annotated for."""
    return data


@kernel("annotation.stop_fusion")
def stop_fusion(data: np.ndarray) -> np.ndarray:
    """*data* itself."""
    return data


@kernel("annotation.checkpoint")
def checkpoint(*data: np.ndarray | list[np.ndarray]) -> np.ndarray | tuple[np.ndarray, ...]:
    """The tensor or the tensors of the tuple themselves."""
    flat = [array for item in data for array in (item if isinstance(item, (list, tuple)) else [item])]
    return flat[0] if len(flat) == 1 else tuple(flat)


@kernel("on_device", "device_copy")
def placed(data: np.ndarray) -> np.ndarray:
    """*data* itself, wherever it shall be: the numpy kernels are on one device."""
    return data
