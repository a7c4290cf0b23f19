"""Numpy kernels on data without an element: where no output has one either, the type says all there is to say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import byoc.relay.op  # noqa: F401 - registers the operators
from byoc.errors import UserError
from byoc.ir.op import OPS, Op, Sample
from byoc.ir.types import Any, TensorType, TupleType, Type, tensor_types
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.kernels.core.registry import get_kernel

SAMPLED = [name for name in sorted(OPS) if OPS[name].samples and OPS[name].kernel and not name.startswith("test_")]
# what another input of the sample, which is as before, still says of the data that is gone
CONTRADICTIONS = {
    "dft": "a transform needs a point",
    "match_shape": "the sizes are to be equal",
    "nn.contrib_conv2d_gemm_without_weight_transform": "the weight has other channels than the attribute",
    "strided_set": "the values have another shape than the slice",
    "variance": "the mean has another batch",
    "scatter_elements": "indices outside",
    "scatter_nd": "indices outside",
    "sparse_reshape": "no dimension to reshape to",
    "nn.sparse_add": "indices outside",
    "vision.proposal": "two images have boxes",
}


def type_of(value: object) -> Type:
    """The type of an array, or of the arrays of a tuple."""
    if isinstance(value, list):
        return TupleType([type_of(v) for v in value])
    array = np.asarray(value)
    return TensorType(array.shape, dtype_name(array.dtype))


def without(value: object, size: int | None = None) -> object:
    """*value* with nothing along its first axis, where that has *size*."""
    if isinstance(value, list):
        return [without(v, size) for v in value]
    array = np.asarray(value)
    return array[:0] if array.ndim and size in (None, array.shape[0]) else array


def emptied(sample: Sample) -> Iterator[list[object]]:
    """The inputs without the first one's first axis: that input alone, and with each that has so many first."""
    arrays = sample.arrays()
    if not arrays:
        return
    first = np.asarray(arrays[0][0] if isinstance(arrays[0], list) else arrays[0])
    if not first.ndim:
        return
    yield [without(arrays[0]), *arrays[1:]]
    yield [without(arrays[0]), *(without(a, first.shape[0]) for a in arrays[1:])]


def accepted(op: Op, inputs: list[object], attrs: object) -> list[TensorType]:
    """The types of the outputs where none has an element, else nothing."""
    try:
        types = tensor_types(op.rel([type_of(i) for i in inputs], attrs))
    except (TypeError, ValueError, IndexError, ZeroDivisionError, UserError):
        return []
    return types if all(0 in t.shape for t in types) else []


@pytest.mark.parametrize("name", [n for n in SAMPLED if n not in CONTRADICTIONS])
def test_a_kernel_gives_nothing_of_nothing_in_the_shape_of_its_type(name):
    op = OPS[name]
    for sample in op.samples:
        attrs = op.attrs_type(**sample.attrs) if op.attrs_type else None
        for inputs in emptied(sample):
            types = accepted(op, inputs, attrs)
            if not types:
                continue
            with np.errstate(all="ignore"):
                found = get_kernel(op.kernel)(*inputs, **(attrs.as_dict() if attrs else {}))
            for array, ty in zip(found if isinstance(found, (tuple, list)) else [found], types, strict=True):
                assert all(isinstance(d, Any) or d == n for d, n in zip(ty.shape, array.shape, strict=True))
                assert dtype_name(array.dtype) == ty.dtype


@pytest.mark.parametrize("operator", ["nn.conv1d", "nn.conv2d", "nn.conv1d_transpose", "nn.conv2d_transpose"])
def test_a_convolution_without_filters_has_no_channel(operator):
    """``channels`` may be 0 where each group has no filter."""
    n = int(operator[len("nn.conv")])
    transposed = operator.endswith("transpose")
    weight = np.zeros((4, 0, *(2,) * n) if transposed else (0, 2, *(2,) * n), "float32")
    letters = "NCDHW"[:2] + "DHW"[3 - n :]
    attrs = {"data_layout": letters, "kernel_layout": ("IO" if transposed else "OI") + "DHW"[3 - n :], "groups": 2}
    found = get_kernel(OPS[operator].kernel)(np.ones((3, 4, *(5,) * n), "float32"), weight, **attrs)
    assert found.shape == (3, 0, *(6 if transposed else 4,) * n)
