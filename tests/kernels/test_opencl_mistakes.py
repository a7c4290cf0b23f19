"""Mistakes in kernels that a vendor declares in OpenCL C, each reported in a sentence that names the kernel."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.errors import CompileError, PartitionError
from byoc.kernels import OpenCLSource, kernel
from byoc.runtime.errors import DeviceError

pytestmark = pytest.mark.needs_opencl
PLACE = "opencl/float/any"
HEAD = "__kernel void KERNEL(__global const float *x, __global float *out%s) "
BODY = "{ const long i = get_global_id(0); if (i < OUT0_SIZE) out[i] = exp(x[i]); }"


def compiled():
    x = relay.var("x", shape=(relay.Any("n"), 8))
    return byoc.compile(byoc.IRModule.from_expr(relay.Function([x], relay.exp(x))), targets=["opencl", "c"])


@pytest.mark.parametrize("items", [-1, 1 << 60, 2.5, None, True])
def test_a_number_of_work_items_that_is_none_is_refused_when_compiling(items):
    kernel("exp", PLACE)(OpenCLSource(HEAD % " SIZES" + BODY, items=lambda call: items))
    words = r"items= of kernel exp:def@opencl/float/any gave .*: expected a number of work-items, 0 to \d+"
    with pytest.raises(CompileError, match=words):
        compiled()


def test_a_number_of_numpys_is_one():
    kernel("exp", PLACE)(OpenCLSource(HEAD % " SIZES" + BODY, items=lambda call: np.int64(64)))
    np.testing.assert_allclose(compiled()(np.ones((2, 8), "float32")), np.full((2, 8), np.e), rtol=1e-5)


@pytest.mark.parametrize(
    ("parameters", "count"), [(", const long n /* no SIZES */, const long m", 4), (" /* no SIZES */", 2)]
)
def test_another_number_of_parameters_is_reported_with_what_is_given(parameters, count):
    kernel("exp", PLACE)(OpenCLSource(HEAD % parameters + "{ out[0] = x[0]; }"))
    words = (
        rf"exp:def@opencl/float/any takes {count} arguments and is given 3: a pointer for each of its 2 inputs and "
        r"outputs, then a long for each of its sizes \(n\); SIZES at the end"
    )
    with pytest.raises(DeviceError, match=words):
        compiled()(np.ones((2, 8), "float32"))


def test_a_text_without_a_kernel_is_refused_where_it_is_declared():
    with pytest.raises(PartitionError, match="no function that is a __kernel: write it as in __kernel void KERNEL"):
        OpenCLSource((HEAD % " SIZES").removeprefix("__kernel ") + BODY)
