"""Numpy kernels in blocked layouts: data is brought to the layout without blocks and the result brought back.

Kernels that do so are registered by :func:`kernel_in_blocks`. Calls without blocks are not touched.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

import numpy as np

from byoc.runtime.kernels.core.attributes import by_keywords
from byoc.runtime.kernels.core.registry import Arrays, F, KernelFunction, kernel
from byoc.runtime.kernels.movement.layouts import layout_attributes, layout_transform, whole_layout


def in_blocks(function: KernelFunction) -> KernelFunction:
    """*function*, a kernel whose attributes name layouts, also for layouts with blocks."""
    function = by_keywords(function)
    inputs, results = layout_attributes(inspect.signature(function).parameters)

    @functools.wraps(function)
    def run(*arrays: np.ndarray, **attrs: object) -> Arrays:
        given = {key: str(attrs.get(key, "")) for key in (*inputs, *results)}
        if not any(c.islower() for layout in given.values() for c in layout):
            return function(*arrays, **attrs)
        whole = {key: whole_layout(layout) for key, layout in given.items()}
        plain = [
            layout_transform(x, src_layout=given[key], dst_layout=whole[key])
            for x, key in zip(arrays, inputs, strict=False)
        ]
        result = function(*plain, *arrays[len(plain) :], **{**attrs, **{k: v for k, v in whole.items() if k in attrs}})
        key = next(key for key in results if given[key])
        return layout_transform(np.asarray(result), src_layout=whole[key], dst_layout=given[key])

    return run


def kernel_in_blocks(*names: str) -> Callable[[F], F]:
    """Register a numpy kernel, as :func:`kernel` does, that takes layouts with blocks too."""

    def register(function: F) -> F:
        for name in names:
            kernel(name)(in_blocks(function))
        return function

    return register
