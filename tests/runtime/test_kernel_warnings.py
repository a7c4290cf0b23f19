"""Numpy kernels compute with infinities and NaNs in silence, as compiled code does."""

import warnings

import numpy as np
import pytest

import byoc.runtime.kernels  # noqa: F401 - registers the kernels
from byoc.runtime.kernels.core.registry import get_kernel


@pytest.mark.parametrize("name", ["nn.softmax", "nn.log_softmax", "nn.l2_normalize", "divide", "log"])
def test_a_kernel_warns_of_no_number(name):
    row = np.full((2, 5), -np.inf, "float16")
    attrs = {"nn.l2_normalize": {"eps": 0.0, "axis": (1,)}}.get(name, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = get_kernel(name)(*([row, row] if name == "divide" else [row]), **attrs)
    assert np.isnan(result).all()
