"""Kernels that take their attributes as one object are called, and read back, by the attributes' names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels import KERNELS, NumpyKernel, get_kernel
from byoc.runtime.kernels.core.attributes import KernelAttributes, by_keywords
from byoc.runtime.kernels.nn.conv import ConvAttributes, conv


@dataclass(frozen=True, kw_only=True)
class Scaling(KernelAttributes):
    factor: float
    offset: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Rounding(Scaling):
    digits: int = 0


def rounded(data: np.ndarray, *, attrs: Rounding) -> np.ndarray:
    """data * factor + offset, rounded."""
    return np.round(data * attrs.factor + attrs.offset, attrs.digits)


def of_keywords(data: np.ndarray, *, factor: float, attrs: str = "x") -> np.ndarray:
    """A kernel one of whose own attributes is called attrs."""
    return data * factor * len(attrs)


def test_the_fields_are_the_attributes_with_their_types():
    kernel = NumpyKernel.of("rounded", rounded)
    assert dict(kernel.attributes) == {"factor": "float", "offset": "float", "digits": "int"}
    assert kernel.required == {"factor"} and kernel.positional == 1


def test_attributes_are_given_by_name_and_unknown_ones_are_ignored():
    kernel = NumpyKernel.of("rounded", rounded)
    np.testing.assert_array_equal(kernel(np.array([1.26]), factor=1, digits=1, other=3), [2.3])


def test_a_missing_attribute_is_reported_by_its_name():
    with pytest.raises(KernelError, match="attribute factor is missing"):
        NumpyKernel.of("rounded", rounded)(np.array([1.0]), offset=2.0)


def test_a_kernel_with_keywords_is_left_as_it_is():
    assert by_keywords(of_keywords) is of_keywords
    kernel = NumpyKernel.of("of_keywords", of_keywords)
    np.testing.assert_array_equal(kernel(np.array([2.0]), factor=3.0, attrs="yy"), [12.0])


def test_kernels_call_each_other_with_the_object():
    data, weight = np.arange(16.0).reshape(1, 1, 4, 4), np.ones((1, 1, 2, 2))
    attrs = ConvAttributes(strides=(2,), data_layout="NCHW", kernel_layout="OIHW")
    by_name = get_kernel("nn.conv2d")(data, weight, strides=(2,), data_layout="NCHW", kernel_layout="OIHW")
    np.testing.assert_array_equal(conv(data, weight, attrs=attrs), by_name)
    np.testing.assert_array_equal(by_name, [[[[10, 18], [42, 50]]]])


def test_no_kernel_has_an_object_among_its_attributes():
    assert [name for name, kernel in KERNELS.items() if "attrs" in kernel.attributes] == []
