"""A function on a device once more with other constants, as trials of kernels have them in several places."""

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import constant_arrays, fuse_body
from byoc.codegen.opencl.device.profile import ANY_GPU
from byoc.codegen.opencl.emit import emit_programs
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var, const
from byoc.runtime.core.errors import DeviceMemoryError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.opencl.build import build_program
from byoc.runtime.opencl.counts import DeviceCounts
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.other_constants import with_constants
from byoc.runtime.opencl.session import Session

pytestmark = pytest.mark.needs_opencl
X, W = (np.random.default_rng(k).standard_normal((3, 5)).astype("float32") for k in range(2))


@pytest.fixture
def session():
    x = Var("x", TensorType((3, 5)))
    program = lower_function(fuse_body(Function([x], relay.multiply(x, const(W)))), "f")
    source, (plan,) = emit_programs([program], ANY_GPU)
    opened = open_device()
    constants = [constant_arrays([program])[spec.name] for spec in plan.signature.constants]
    assert [c.numpy().tolist() for c in constants] == [W.tolist()]
    return Session(plan, build_program(source, opened), opened, constants, counts=DeviceCounts())


def run(session):
    y = np.full((3, 5), np.nan, "float32")
    session(X, y)
    return y


def test_other_constants_take_memory_of_their_own_and_nothing_else(session):
    np.testing.assert_array_equal(run(session), X * W)
    before = session._counts.allocations
    other = with_constants(session, [NDArray(2 * W)])
    np.testing.assert_array_equal(run(other), X * (2 * W))
    assert session._counts.allocations == before + 1, "buffers of a call are shared"
    np.testing.assert_array_equal(run(session), X * W)


def test_a_device_without_room_for_them_says_so(session, monkeypatch):
    def full(count, flags=None):
        raise DeviceMemoryError("no room")

    monkeypatch.setattr(session._memory, "allocate", full)
    with pytest.raises(
        DeviceMemoryError, match=r"^f cannot take the constants again on the OpenCL device .*smaller inputs"
    ):
        with_constants(session, [NDArray(W)])
