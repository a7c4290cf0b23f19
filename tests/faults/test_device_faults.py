"""A device that is lost, full, refuses kernels or never ends building: one sentence, or the host where it stands in."""

import threading

import numpy as np
import pytest
from injection import DIGITS

import byoc
from byoc.errors import DeviceError, UnavailableError
from byoc.runtime.core import time_limit
from byoc.runtime.opencl import build, session
from byoc.runtime.opencl.devices import import_pyopencl

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl]
X = np.linspace(-1, 1, 128, dtype="float32").reshape(2, 1, 8, 8)


class Failing:
    """pyopencl, but for what fails."""

    def __init__(self, **instead):
        self.__dict__.update(instead)

    def __getattr__(self, name):
        return getattr(import_pyopencl(), name)


def failure(kind, code):
    """A function that raises the error *kind* of pyopencl with the status *code*."""
    cl = import_pyopencl()

    def fail(*words, **named):
        raise getattr(cl, kind)(f"injected: {code}")

    return fail


LOST = {
    "lost at the launch": ("enqueue_nd_range_kernel", "RuntimeError", "OUT_OF_RESOURCES"),
    "lost at a copy": ("enqueue_copy", "LogicError", "INVALID_COMMAND_QUEUE"),
    "full": ("Buffer", "MemoryError", "MEM_OBJECT_ALLOCATION_FAILURE"),
    "out of host memory": ("Kernel", "MemoryError", "OUT_OF_HOST_MEMORY"),
}


def built(monkeypatch, fallback, **instead):
    """A library whose sessions see *instead* of pyopencl's functions, and put kernels into the queue one by one."""
    options = {"opencl": {"mode": "record=none"}}
    library = byoc.compile(DIGITS, ["opencl", "c"], fallback=fallback, backend_options=options)
    monkeypatch.setattr(session, "import_pyopencl", lambda: Failing(**instead))
    return library


@pytest.mark.parametrize("lost", LOST)
def test_a_device_that_is_lost_or_full_in_the_middle_is_one_sentence_with_the_region(monkeypatch, lost):
    name, kind, code = LOST[lost]
    library = built(monkeypatch, False, **{name: failure(kind, code)})
    with pytest.raises(DeviceError, match=rf"region .* \(nodes .*\) on opencl failed at .*{code}"):
        library(X)


@pytest.mark.parametrize("lost", LOST)
def test_where_the_host_stands_in_it_computes_instead_and_the_library_reports_it(monkeypatch, lost):
    expected = byoc.compile(DIGITS, ["c"])(X)
    name, kind, code = LOST[lost]
    library = built(monkeypatch, True, **{name: failure(kind, code)})
    np.testing.assert_allclose(library(X), expected, rtol=1e-4, atol=1e-6)
    assert code in str(library.fallbacks[0])


def test_an_event_that_ends_with_an_error_is_one_sentence(monkeypatch):
    library = byoc.compile(DIGITS, ["opencl", "c"])
    library(X)
    real = session.StartedCall

    class Lost:
        command_execution_status = -5
        wait = staticmethod(failure("RuntimeError", "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"))

    monkeypatch.setattr(session, "StartedCall", lambda owner, event, *rest: real(owner, Lost(), *rest))
    with pytest.raises(DeviceError, match="failed at .*EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"):
        library(X)


def test_kernels_that_the_driver_refuses_are_one_sentence_when_loading(tmp_path, monkeypatch):
    path = byoc.compile(DIGITS, ["opencl", "c"]).save(tmp_path / "m.byoc")
    build._built.cache_clear()
    refused = Failing(Program=failure("RuntimeError", "BUILD_PROGRAM_FAILURE"))
    monkeypatch.setattr(build, "import_pyopencl", lambda: refused)
    with pytest.raises(UnavailableError, match="refused the generated kernels: .*BUILD_PROGRAM_FAILURE"):
        byoc.runtime.load(path)
    build._built.cache_clear()


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_build_that_never_ends_is_one_sentence(monkeypatch, tmp_path, is_kept):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    build._built.cache_clear()
    if is_kept:
        build.build_program(build._PROBE, build.open_device())
    for_ever = threading.Event()

    class Program:
        def __init__(self, *words):
            pass

        def get_info(self, *words):
            return 1

        def build(self, *words):
            for_ever.wait()

    build._built.cache_clear()
    monkeypatch.setenv("BYOC_COMPILER_SECONDS", "0.2")
    monkeypatch.setattr(build, "import_pyopencl", lambda: Failing(Program=Program))
    try:
        with pytest.raises(DeviceError, match=r"OpenCL compiler of '.*' did not end within 0\.2 s: give it more by"):
            build.build_program(build._PROBE, build.open_device())
    finally:
        for_ever.set()
        build._built.cache_clear()


def test_what_is_bounded_gives_its_result_and_its_error():
    assert time_limit.bounded(lambda: 3, 10.0) == 3
    with pytest.raises(ZeroDivisionError):
        time_limit.bounded(lambda: 1 // 0, 10.0)


def test_what_is_bounded_runs_here_where_no_thread_can_be_started(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert time_limit.bounded(threading.get_ident, 10.0) == threading.get_ident()
