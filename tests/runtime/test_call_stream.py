"""``Library.map``: outputs in order, for sizes that change and arrays that are filled again; what goes wrong."""

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import byoc
from byoc import relay
from byoc.errors import InputError
from byoc.runtime.core.errors import DeviceError, RunTimeoutError
from byoc.runtime.executors import call_stream
from byoc.runtime.opencl import pinned
from byoc.runtime.opencl.devices import import_pyopencl, open_device

DIGITS = "examples/digits/digits.onnx"
on_opencl = pytest.mark.needs_opencl


@pytest.fixture
def own_memory(monkeypatch):
    """The device as one that does not share the host's memory, and calls of any size as worth a stream."""
    monkeypatch.setattr(pinned, "shares_memory", lambda opened: False)
    pieces = pinned.PinnedPieces(import_pyopencl(), open_device())
    monkeypatch.setattr(pinned, "pieces_of", lambda cl, opened: pieces)
    monkeypatch.setattr(call_stream, "LEAST_COPIES", 0)


@pytest.fixture
def begun(monkeypatch):
    """Of each call of a stream whether it is put into the device's queues."""
    found = []
    is_worth_it = call_stream._Call._is_worth_it

    def noted(call, run):
        found.append(is_worth_it(call, run))
        return found[-1]

    monkeypatch.setattr(call_stream._Call, "_is_worth_it", noted)
    return found


def images(*batches):
    return [np.random.default_rng(k).standard_normal((n, 1, 8, 8)).astype("float32") for k, n in enumerate(batches)]


def wanted(given):
    session = onnxruntime.InferenceSession(DIGITS, providers=["CPUExecutionProvider"])
    return [session.run(None, {"image": x})[0] for x in given]


@on_opencl
def test_outputs_come_in_order_for_sizes_that_change_and_an_array_that_is_filled_again(own_memory, begun):
    given, again = images(4, 4, 1, 4, 4, 7, 4, 4, 4), np.empty((4, 1, 8, 8), "float32")

    def calls():
        for x in given:
            if x.shape == again.shape:
                again[...] = x
            yield {"image": again if x.shape == again.shape else x}

    library = byoc.compile(DIGITS, targets="opencl")
    for _ in range(2):
        found = [outputs[0] for outputs in library.map(calls())]
        for got, want in zip(found, wanted(given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert begun == [True] * 2 * len(given)


@on_opencl
def test_a_second_round_makes_no_kernel_and_allocates_nothing(own_memory):
    library = byoc.compile(DIGITS, targets="opencl")
    calls = [{"image": x} for x in images(4, 4, 4, 4, 4)]
    list(library.map(calls))
    before = library.device_counts
    list(library.map(calls * 4))
    after = library.device_counts
    assert [after[k] - before[k] for k in ("kernels", "allocations", "programs")] == [0, 0, 0]
    assert after["bytes_in"] - before["bytes_in"] == 20 * calls[0]["image"].nbytes


@on_opencl
def test_three_calls_are_at_work_and_more_are_not_asked_for(own_memory):
    library, asked = byoc.compile(DIGITS, targets="opencl"), []

    def calls():
        for k, x in enumerate(images(*[2] * 8)):
            asked.append(k)
            yield {"image": x}

    stream = library.map(calls())
    for k in range(8):
        next(stream)
        assert len(asked) == min(k + 1 + call_stream.AHEAD, 8)
    with pytest.raises(StopIteration):
        next(stream)


@on_opencl
def test_a_mistake_is_raised_in_its_turn_and_the_next_round_is_right(own_memory):
    library, given = byoc.compile(DIGITS, targets="opencl"), images(2, 2, 2, 2)

    def wrong():
        yield {"image": given[0]}
        yield {"image": given[1]}
        yield {"image": given[2][:, :, :3]}
        yield {"image": given[3]}

    def broken():
        yield {"image": given[0]}
        raise KeyError("the caller's own")

    stream = library.map(wrong())
    for want in wanted(given[:2]):
        np.testing.assert_allclose(next(stream)[0], want, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match=r"input 'image': expected shape \[batch, 1, 8, 8\]"):
        next(stream)
    stream = library.map(broken())
    np.testing.assert_allclose(next(stream)[0], wanted(given[:1])[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(KeyError, match="the caller's own"):
        next(stream)
    with pytest.raises(InputError, match="^the model has no input 'picture'; its inputs are image$"):
        next(library.map([{"picture": given[0]}]))
    stream = library.map({"image": x} for x in given)
    next(stream)
    stream.close()  # with two calls at work
    for got, want in zip(library.map({"image": x} for x in given), wanted(given), strict=True):
        np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-6)


class Failing:
    """pyopencl, of which one function fails in its turn."""

    def __init__(self, name, turn):
        self._name, self._left = name, turn

    def __getattr__(self, name):
        cl = import_pyopencl()
        if name != self._name:
            return getattr(cl, name)
        self._left -= 1
        if self._left:
            return getattr(cl, name)

        def fail(*words, **named):
            raise cl.RuntimeError(f"injected: {name}")

        return fail


@on_opencl
@pytest.mark.parametrize("stands_in", [False, True])
def test_a_device_that_fails_in_the_middle(own_memory, monkeypatch, stands_in):
    library, given = byoc.compile(DIGITS, targets="opencl", fallback=stands_in), images(2, 2, 2, 2, 2)
    list(library.map([{"image": given[0]}]))
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    monkeypatch.setattr(module.session(module.symbols[0]), "_cl", Failing("enqueue_nd_range_kernel", 3))
    stream, expected = library.map({"image": x} for x in given), wanted(given)
    for k in range(5 if stands_in else 2):
        np.testing.assert_allclose(next(stream)[0], expected[k], rtol=1e-5, atol=1e-6)
    if stands_in:
        assert [f.stage for f in library.fallbacks] == ["launch"]
        return
    with pytest.raises(DeviceError, match=r"failed at launch: .*injected: enqueue_nd_range_kernel"):
        next(stream)


@on_opencl
def test_a_call_that_takes_too_long_ends_in_its_turn(own_memory, monkeypatch):
    library, given = byoc.compile(DIGITS, targets="opencl"), images(2, 2, 2)
    calls = [{"image": x} for x in given]
    list(library.map(calls))
    with pytest.raises(RunTimeoutError):
        list(library.map(calls, timeout=1e-9))
    for got, want in zip(library.map(calls, timeout=60), wanted(given), strict=True):
        np.testing.assert_allclose(got[0], want, rtol=1e-5, atol=1e-6)


@on_opencl
def test_several_outputs_an_input_that_is_one_and_one_that_nothing_reads(own_memory, begun):
    x, y, unused = (relay.var(name, shape=(3, 5), dtype="float32") for name in ("x", "y", "unused"))
    results = relay.Tuple([relay.nn.relu(x) + y, x, relay.reshape(relay.exp(y), (15,))])
    library = byoc.compile(byoc.IRModule.from_expr(relay.Function([x, y, unused], results)), targets="opencl")
    random = np.random.default_rng(0)
    calls = [{n: random.standard_normal((3, 5)).astype("float32") for n in ("x", "y", "unused")} for _ in range(5)]
    for inputs, (total, same, powers) in zip(calls, library.map(calls), strict=True):
        np.testing.assert_allclose(total, np.maximum(inputs["x"], 0) + inputs["y"], rtol=1e-6)
        np.testing.assert_array_equal(same, inputs["x"])
        assert not np.shares_memory(same, inputs["x"])
        np.testing.assert_allclose(powers, np.exp(inputs["y"]).ravel(), rtol=1e-5)
    assert all(begun)


@on_opencl
@pytest.mark.parametrize(("least", "most"), [(1 << 30, 1 << 30), (0, 16)])
def test_calls_of_few_bytes_or_large_inputs_are_made_at_once(own_memory, begun, monkeypatch, least, most):
    monkeypatch.setattr(call_stream, "LEAST_COPIES", least)
    monkeypatch.setattr(call_stream, "LARGEST_INPUTS", most)
    library, given = byoc.compile(DIGITS, targets="opencl"), images(2, 3, 2)
    stream = library.map({"image": x} for x in given)
    for count, want in enumerate(wanted(given), start=1):
        np.testing.assert_allclose(next(stream)[0], want, rtol=1e-5, atol=1e-6)
        assert begun == [False] * count


@pytest.mark.parametrize("targets", [["c"], pytest.param(["opencl"], marks=on_opencl)])
def test_where_nothing_is_won_by_it_calls_are_runs(monkeypatch, targets):
    library, given, asked = byoc.compile(DIGITS, targets=targets), images(2, 1, 3), []

    def calls():
        for k, x in enumerate(given):
            asked.append(k)
            yield {"image": x}

    stream = library.map(calls())
    for k, want in enumerate(wanted(given)):
        np.testing.assert_allclose(next(stream)[0], want, rtol=1e-5, atol=1e-6)
        assert asked == list(range(k + 1))
    assert next(stream, None) is None
    bound = []
    monkeypatch.setattr(library, "bind", bound.append)
    again = [outputs[0] for outputs in library.map({"image": x} for x in given)]
    assert not bound  # it is known whether anything is won
    for got, want in zip(again, wanted(given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


CHILD = """
import sys
import numpy as np
import byoc.runtime
from byoc.runtime.executors import call_stream
from byoc.runtime.opencl import pinned
pinned.shares_memory, call_stream.LEAST_COPIES = lambda opened: False, 0
library = byoc.runtime.load(sys.argv[1])
with np.load(sys.argv[2]) as given:
    calls = [{"image": given[name]} for name in given.files]
np.savez(sys.argv[3], *(outputs[0] for outputs in library.map(calls)))
"""


@on_opencl
def test_a_saved_model_in_a_process_with_the_runtime(tmp_path):
    given = images(4, 4, 2, 4)
    path = byoc.compile(DIGITS, targets="opencl").save(tmp_path / "m.byoc")
    np.savez(tmp_path / "in.npz", *given)
    words = [sys.executable, "-c", CHILD, str(path), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as found:
        for got, want in zip([found[name] for name in found.files], wanted(given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
