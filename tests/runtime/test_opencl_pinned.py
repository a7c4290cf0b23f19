"""Pinned memory: results that pass through it, and inputs that callers keep in it."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.errors import DeviceError
from byoc.runtime.opencl import pinned
from byoc.runtime.opencl.devices import import_pyopencl, open_device

pytestmark = pytest.mark.needs_opencl


@pytest.fixture
def own_memory(monkeypatch):
    """The device as one that does not share the host's memory; its pieces, which no test has used."""
    monkeypatch.setattr(pinned, "shares_memory", lambda opened: False)
    pieces = pinned.PinnedPieces(import_pyopencl(), open_device())
    monkeypatch.setattr(pinned, "pieces_of", lambda cl, opened: pieces)
    return pieces


def library(shape=(3, 5), count=2):
    x = relay.var("x", shape=shape, dtype="float32")
    results = [relay.nn.relu(x) + relay.const(float(k)) for k in range(count)]
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.Tuple(results)))
    return byoc.compile(mod, targets="opencl", fallback=False)


def expected(x, count=2):
    return [np.maximum(x, 0) + k for k in range(count)]


def test_results_that_pass_through_pieces_are_the_callers_own(own_memory):
    run = library()
    inputs = [np.random.default_rng(k).standard_normal((3, 5)).astype("float32") for k in range(6)]
    found = [run(x) for x in inputs]
    for x, results in zip(inputs, found, strict=True):
        for got, wanted in zip(results, expected(x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
            assert not isinstance(got.base, pinned._Piece)
    assert [len(free) for free in own_memory._free.values()] == [2]  # one for each result, used again


def test_what_another_region_reads_or_is_filled_again_comes_straight(own_memory):
    """Regions begin one behind the other by events of the device, before the host has copied anything."""
    x = relay.var("x", shape=(16, 33), dtype="float32")
    value, shared = relay.nn.relu(x), []
    for k in range(6):
        value = relay.tanh(value + relay.const(np.float32(0.1 * k)))
        shared.append(relay.exp(value))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([value, *shared])))
    plan = byoc.plan(mod, targets="opencl", limits={"opencl": byoc.Limits(max_operators=1)})
    assert len(plan.regions) > 6
    run = byoc.compile(mod, plan=plan, fallback=False)
    for k in range(3):
        given = np.random.default_rng(k).standard_normal((16, 33)).astype("float32")
        wanted, more = np.maximum(given, 0), []
        for step in range(6):
            wanted = np.tanh(wanted + np.float32(0.1 * step))
            more.append(np.exp(wanted))
        for got, right in zip(run(given), [wanted, *more], strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-5)


def test_a_result_that_is_large_or_empty_comes_straight(own_memory, monkeypatch):
    taken = []
    monkeypatch.setattr(own_memory, "take", lambda shape, dtype: taken.append(shape))
    monkeypatch.setattr(pinned, "LARGEST_RESULT", 16)
    x = np.ones((3, 5), "float32")
    np.testing.assert_allclose(library(count=1)(x), x)
    assert taken == []


def test_where_there_is_no_more_memory_results_come_straight(own_memory, monkeypatch):
    def refuse(size):
        raise import_pyopencl().MemoryError("create_buffer", -4)

    monkeypatch.setattr(own_memory, "_made", refuse)
    x = np.ones((3, 5), "float32")
    for got, wanted in zip(library()(x), expected(x), strict=True):
        np.testing.assert_allclose(got, wanted)
    with pytest.raises(DeviceError, match=r"gives no pinned memory for int8\[7\]: .*; use an ordinary array"):
        pinned.pinned_array(7, "int8")


def test_a_device_that_shares_the_hosts_memory_uses_none():
    opened = open_device()
    if not pinned.shares_memory(opened):
        pytest.skip("the device here has memory of its own")
    assert pinned.result_pieces(import_pyopencl(), opened) is None


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "bool"])
def test_a_pinned_array_is_an_array_and_takes_part_in_calls(dtype):
    array = pinned.pinned_array((4, 6), dtype)
    assert array.shape == (4, 6) and array.dtype == dtype and array.flags.c_contiguous and array.flags.writeable
    array[...] = np.arange(24).reshape(4, 6) % 2
    x = relay.var("x", shape=(4, 6), dtype=dtype)
    run = byoc.compile(byoc.IRModule.from_expr(relay.Function([x], relay.transpose(x))), targets="opencl")
    np.testing.assert_array_equal(run(array), array.T)


def test_arrays_have_memory_of_their_own_until_the_last_view_of_them_goes(own_memory):
    first, second = pinned.pinned_array(100, "float32"), pinned.pinned_array(100, "float32")
    first[:], second[:] = 1, 2
    assert (first == 1).all()
    view, place = first[50:], first.__array_interface__["data"][0]
    del first
    third = pinned.pinned_array(100, "float32")
    third[:] = 3
    assert (view == 1).all()
    del view
    assert pinned.pinned_array((10, 10), "float32").__array_interface__["data"][0] == place


def test_a_device_that_there_is_not_is_an_error():
    with pytest.raises(DeviceError, match="no such device"):
        pinned.pinned_array(4, device="no such device")
