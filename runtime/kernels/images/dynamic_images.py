"""Numpy kernels of padding and resizing by numbers that inputs hold."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.images.image import (
    InterpolationAttributes,
    ResizeAttributes,
    resize,
    upsampling,
    upsampling3d,
)
from byoc.runtime.kernels.nn.pad import pad


@kernel("dyn.image.resize2d")
def dyn_resize2d(
    data: np.ndarray,
    size: np.ndarray,
    roi: np.ndarray,
    *,
    attrs: InterpolationAttributes,
) -> np.ndarray:
    """Resize height and width to *size*."""
    sizes, region = tuple(int(s) for s in size), tuple(float(r) for r in roi)
    return resize(data, attrs=ResizeAttributes(size=sizes, roi=region, **asdict(attrs)))


@kernel("dyn.nn.upsampling")
def dyn_upsampling(
    data: np.ndarray,
    scale_h: np.ndarray,
    scale_w: np.ndarray,
    *,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> np.ndarray:
    """Enlarge height and width."""
    scales = {"scale_h": float(scale_h.reshape(())), "scale_w": float(scale_w.reshape(()))}
    return upsampling(data, **scales, layout=layout, method=method, align_corners=align_corners)


@kernel("dyn.nn.upsampling3d")
def dyn_upsampling3d(
    data: np.ndarray,
    scale_d: np.ndarray,
    scale_h: np.ndarray,
    scale_w: np.ndarray,
    *,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> np.ndarray:
    """Enlarge depth, height and width."""
    d, h, w = (float(s.reshape(())) for s in (scale_d, scale_h, scale_w))
    return upsampling3d(
        data,
        scale_d=d,
        scale_h=h,
        scale_w=w,
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
    )


@kernel("dyn.nn.pad")
def dyn_pad(
    data: np.ndarray, pad_width: np.ndarray, pad_value: np.ndarray, *, pad_mode: str = "constant"
) -> np.ndarray:
    """Pad each axis before and after."""
    pairs = tuple((int(before), int(after)) for before, after in pad_width)
    return pad(data, pad_value, pad_width=pairs, pad_mode=pad_mode)
