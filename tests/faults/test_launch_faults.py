"""A device that refuses a launch, lies about its limits, or never ends a kernel; the next run is right."""

import contextlib
import subprocess
import sys
import time

import numpy as np
import pytest
from injection import DIGITS
from test_device_faults import Failing, X, failure

import byoc
from byoc.errors import DeviceError, RunTimeoutError
from byoc.runtime.core.errors import DeviceMemoryError
from byoc.runtime.opencl import build, ready_kernels, session
from byoc.runtime.opencl.devices import import_pyopencl, open_device

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl]
REFUSED = {
    "a work-group size": ("enqueue_nd_range_kernel", "LogicError", "INVALID_WORK_GROUP_SIZE", DeviceError),
    "local memory that it said it has": ("enqueue_nd_range_kernel", "RuntimeError", "OUT_OF_RESOURCES", DeviceError),
    "memory that it gave before": (
        "enqueue_nd_range_kernel",
        "MemoryError",
        "MEM_OBJECT_ALLOCATION_FAILURE",
        DeviceMemoryError,
    ),
    "a copy": ("enqueue_copy", "RuntimeError", "DEVICE_NOT_AVAILABLE", DeviceError),
}


@pytest.fixture(scope="module")
def expected():
    return byoc.compile(DIGITS, ["c"])(X)


def compiled(**options):
    return byoc.compile(DIGITS, ["opencl", "c"], backend_options={"opencl": {"mode": "record=none"}}, **options)


def session_of(library):
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    return module.session(module.symbols[0])


@pytest.mark.parametrize("refused", REFUSED)
def test_a_launch_that_the_device_refuses_is_one_sentence_and_the_next_run_is_right(monkeypatch, expected, refused):
    name, kind, code, error = REFUSED[refused]
    library = compiled()
    library(X)
    with monkeypatch.context() as patched:
        patched.setattr(session_of(library), "_cl", Failing(**{name: failure(kind, code)}))
        for _ in range(2):
            with pytest.raises(error, match=rf"region .* on opencl failed at .*{code}.*; compile with fallback=True"):
                library(X)
    np.testing.assert_allclose(library(X), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("refused", REFUSED)
def test_a_launch_that_the_device_refuses_is_the_hosts_with_its_record(monkeypatch, expected, refused):
    name, kind, code, _ = REFUSED[refused]
    library = compiled(fallback=True)
    library(X)
    monkeypatch.setattr(session_of(library), "_cl", Failing(**{name: failure(kind, code)}))
    for _ in range(2):
        np.testing.assert_allclose(library(X), expected, rtol=1e-4, atol=1e-6)
    (record,) = library.fallbacks
    assert (record.stage, code in record.message) == ("launch", True)
    assert record.shapes == (X.shape,)


def test_kernels_that_take_fewer_work_items_than_the_device_says_get_smaller_groups(monkeypatch, expected):
    monkeypatch.setattr(ready_kernels, "most_items", lambda cl, kernel, device, most: 4)
    library = compiled()
    np.testing.assert_allclose(library(X), expected, rtol=1e-4, atol=1e-6)
    (binding,) = session_of(library).bindings._made.values()
    assert {ready.local_size for ready in binding.launches.kernels} <= {(1,), (2,), (4,)}


def test_a_kernel_that_needs_more_work_items_than_it_may_have_is_one_sentence_or_the_hosts(monkeypatch, expected):
    monkeypatch.setattr(ready_kernels, "most_items", lambda cl, kernel, device, most: 4)
    options = {"opencl": {"schedules": "gpu"}}
    library = byoc.compile(DIGITS, ["opencl", "c"], backend_options=options)
    exact = [
        v
        for m in library.module.walk()
        if m.type_key == "opencl"
        for p in m.plans
        for launch in p.launches
        for v in launch.variants
        if v.exact
    ]
    assert exact, "no kernel of this model has groups of one size"
    with pytest.raises(DeviceError, match=r"has work-groups of \d+ work-items, and the device takes 4"):
        library(X)
    stands_in = byoc.compile(DIGITS, ["opencl", "c"], backend_options=options, fallback=True)
    np.testing.assert_allclose(stands_in(X), expected, rtol=1e-4, atol=1e-6)
    assert "the device takes 4" in str(stands_in.fallbacks[0])


def test_kernels_that_the_driver_refuses_at_the_first_run_are_the_hosts_with_their_record(monkeypatch, expected):
    library = compiled(fallback=True)
    build._built.cache_clear()
    monkeypatch.setenv("BYOC_OPENCL_CACHE_MB", "0")
    with monkeypatch.context() as patched:
        refused = Failing(Program=failure("RuntimeError", "BUILD_PROGRAM_FAILURE"))
        patched.setattr(build, "import_pyopencl", lambda: refused)
        np.testing.assert_allclose(library(X), expected, rtol=1e-4, atol=1e-6)
    assert "refused the generated kernels" in str(library.fallbacks[0])
    build._built.cache_clear()
    np.testing.assert_allclose(compiled()(X), expected, rtol=1e-4, atol=1e-6)


@contextlib.contextmanager
def endless(library):
    """A kernel in the queue of *library* that does not end inside, as the device sees it."""
    cl, held = import_pyopencl(), session_of(library)
    gate = cl.UserEvent(open_device().context)
    cl.enqueue_barrier(held._queue, wait_for=[gate])
    try:
        yield
    finally:
        gate.set_status(0)


def test_a_kernel_that_never_ends_is_given_up_within_the_callers_time_and_the_next_run_is_right(expected):
    library = compiled()
    library(X)
    inputs = {library.inputs[0].name: X}
    with endless(library):
        start = time.monotonic()
        with pytest.raises(RunTimeoutError, match=r"its timeout of 0\.3 s .*while the OpenCL device .* computed"):
            library.run(inputs, timeout=0.3)
        with pytest.raises(RunTimeoutError, match=r"while the OpenCL device .* finished an earlier call"):
            library.run(inputs, timeout=0.3)
        assert time.monotonic() - start < 30  # a bound on hangs, not a measurement
    np.testing.assert_allclose(library.run(inputs, timeout=60)[0], expected, rtol=1e-4, atol=1e-6)


def test_a_kernel_that_never_ends_is_the_hosts_after_the_regions_time(expected):
    library = compiled(fallback=True, region_timeout=0.3)
    library(X)
    with endless(library):
        np.testing.assert_allclose(library(X), expected, rtol=1e-4, atol=1e-6)
    assert "0.3 s" in str(library.fallbacks[0])


def test_a_device_that_says_it_has_more_memory_than_it_gives_is_one_sentence_and_the_next_run_is_right(
    monkeypatch, expected
):
    library = compiled()
    with monkeypatch.context() as patched:
        real = import_pyopencl().Buffer

        def buffer(context, flags, size, **named):
            if size > 4096:
                raise import_pyopencl().MemoryError("injected: MEM_OBJECT_ALLOCATION_FAILURE")
            return real(context, flags, size, **named)

        patched.setattr(session, "import_pyopencl", lambda: Failing(Buffer=buffer))
        with pytest.raises(
            DeviceMemoryError, match="MEM_OBJECT_ALLOCATION_FAILURE; use smaller inputs, or a device with"
        ):
            library(X)
    np.testing.assert_allclose(library(X), expected, rtol=1e-4, atol=1e-6)


ENDLESS = '''
import sys
import numpy as np
import byoc
from byoc import relay
from byoc.errors import RunTimeoutError
from byoc.kernels import OpenCLSource, kernel

SOURCE = """
__kernel void KERNEL(__global const float *x, __global float *out SIZES) {
  volatile int forever = x[0] > 100.0f;
  while (forever) ;
  out[get_global_id(0)] = x[get_global_id(0)] + 1.0f;
}
"""
kernel("nn.relu", "opencl/any/any")(OpenCLSource(SOURCE))
v = relay.var("v", shape=(4, 16))
stands_in = sys.argv[1] == "stands in"
library = byoc.compile(
    byoc.IRModule.from_expr(relay.Function([v], relay.nn.relu(v))),
    ["opencl_kernels", "c"],
    fallback=stands_in,
    region_timeout=2.0 if stands_in else 0.0,
)
endless = np.full((4, 16), 200, "float32")
if stands_in:
    np.testing.assert_array_equal(library.run({"v": endless})[0], endless)
    np.testing.assert_array_equal(library.run({"v": -endless})[0], np.zeros((4, 16), "float32"))
else:
    try:
        library.run({"v": endless}, timeout=2.0)
    except RunTimeoutError as error:
        print(error)
print("leaving", flush=True)
'''


@pytest.mark.parametrize("then", ["stands in", "an error"])
def test_a_process_ends_whose_kernel_never_does(then):
    """A real one: nothing lets it go on, and the end of Python waits for nobody who asks whether it is done."""
    ended = subprocess.run([sys.executable, "-c", ENDLESS, then], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and ended.stdout.endswith("leaving\n"), ended.stderr
    assert "atexit" not in ended.stderr
    assert then == "stands in" or "took longer than its timeout of 2 s" in ended.stdout
