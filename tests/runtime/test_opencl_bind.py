"""Inputs and outputs that stay on the device from call to call: no byte of a cache crosses, and numbers are right."""

import subprocess
import sys
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.runtime.core.errors import DeviceError, InputError
from byoc.runtime.opencl.device_array import DeviceArray
from byoc.runtime.opencl.devices import import_pyopencl

pytestmark = pytest.mark.needs_opencl
D, STEPS = 16, 7


def tensor(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_of(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def growing_decoder():
    """One step of attention over a cache that grows: ``x, past -> y, present``."""
    weight = np.random.default_rng(3).standard_normal((D, D)).astype("float32") / 4
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["key"], name="key"),
        helper.make_node("Concat", ["past", "key"], ["present"], axis=1, name="present"),
        helper.make_node("Transpose", ["present"], ["turned"], perm=[0, 2, 1], name="turned"),
        helper.make_node("MatMul", ["x", "turned"], ["scores"], name="scores"),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1, name="shares"),
        helper.make_node("MatMul", ["shares", "present"], ["y"], name="y"),
    ]
    inputs = [tensor("x", 1, 1, D), tensor("past", 1, "N", D)]
    outputs = [tensor("y", 1, 1, D), tensor("present", 1, "M", D)]
    return model_of(nodes, inputs, outputs, [onnx.numpy_helper.from_array(weight, "w")])


def turning_state():
    """A state of one size: ``x, state -> y, next``; what the host computes between stands apart by ``exclude``."""
    nodes = [
        helper.make_node("Add", ["x", "state"], ["sum"], name="sum"),
        helper.make_node("Tanh", ["sum"], ["next"], name="next"),
        helper.make_node("Exp", ["next"], ["powers"], name="powers"),
        helper.make_node("Sigmoid", ["powers"], ["y"], name="y"),
    ]
    return model_of(nodes, [tensor("x", 4, D), tensor("state", 4, D)], [tensor("y", 4, D), tensor("next", 4, D)])


def token(step):
    return np.random.default_rng(step).standard_normal((1, 1, D)).astype("float32")


def decoded(model, steps=STEPS):
    """What ONNX Runtime gives for each step, with the cache handed on."""
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    cache, found = np.ones((1, 1, D), "float32"), []
    for step in range(steps):
        y, cache = reference.run(None, {"x": token(step), "past": cache})
        found.append((y, cache))
    return found


def growth(before, after):
    return {name: after[name] - before[name] for name in after}


def test_a_growing_cache_goes_round_and_only_tokens_cross():
    model = growing_decoder()
    library = byoc.compile(model, ["opencl"])
    bound = library.bind(["present"])
    cache = np.ones((1, 1, D), "float32")
    before = library.device_counts
    for step, (y, present) in enumerate(decoded(model)):
        if step == 1:
            before = library.device_counts
        got, cache = bound.run({"x": token(step), "past": cache})
        assert isinstance(cache, DeviceArray)
        assert cache.shape == present.shape
        np.testing.assert_allclose(got, y, rtol=1e-5, atol=1e-6)
    counted = growth(before, library.device_counts)
    readers = sum(len(m.symbols) for m in library.module.imports if m.type_key == "opencl")
    assert counted["bytes_out"] == (STEPS - 1) * D * 4
    assert counted["bytes_in"] <= (STEPS - 1) * D * 4 * readers
    np.testing.assert_allclose(cache.numpy(), present, rtol=1e-5, atol=1e-6)
    assert growth(before, library.device_counts)["bytes_out"] == (STEPS - 1) * D * 4 + present.nbytes


CHILD = """
import sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
bound = library.bind(["next"])
state, x = np.zeros((4, 16), "float32"), np.load(sys.argv[2])
for step in range(3):
    y, state = bound.run({"x": x, "state": state})
before = library.device_counts
for step in range(20):
    y, state = bound.run({"x": x, "state": state})
after = library.device_counts
made = [after[k] - before[k] for k in ("allocations", "kernels", "programs")]
assert made == [0, 0, 0], made
assert after["bytes_in"] - before["bytes_in"] == 20 * x.nbytes
np.savez(sys.argv[3], y=y, state=state.numpy())
"""


def test_a_saved_model_with_a_state_that_goes_round_allocates_nothing_and_makes_no_kernel(tmp_path):
    model = turning_state()
    path = byoc.compile(model, ["opencl"]).save(tmp_path / "m.byoc")
    x = np.linspace(-1, 1, 4 * D, dtype="float32").reshape(4, D)
    np.save(tmp_path / "x.npy", x)
    words = [sys.executable, "-c", CHILD, str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    state = np.zeros_like(x)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for _ in range(23):
        y, state = reference.run(None, {"x": x, "state": state})
    with np.load(tmp_path / "y.npz") as found:
        np.testing.assert_allclose(found["y"], y, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["state"], state, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("exclude", [["tanh"], ["exp"], ["add", "sigmoid"]])
def test_what_the_host_computes_between_regions_gets_copies(exclude):
    model = turning_state()
    library = byoc.compile(model, ["opencl"], exclude=exclude)
    bound = library.bind(["next"])
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    state = found = np.zeros((4, D), "float32")
    for step in range(4):
        x = np.random.default_rng(step).standard_normal((4, D)).astype("float32")
        y, found = bound.run({"x": x, "state": found})
        want, state = reference.run(None, {"x": x, "state": state})
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.asarray(found), state, rtol=1e-5, atol=1e-6)


def test_an_input_that_stays_is_copied_once_and_an_output_may_be_another_librarys_input():
    first, second = (byoc.compile(turning_state(), ["opencl"]) for _ in range(2))
    one, two = first.bind(["next"]), second.bind()
    x = np.linspace(-1, 1, 4 * D, dtype="float32").reshape(4, D)
    held = one.to_device(x)
    before = first.device_counts["bytes_in"], second.device_counts["bytes_in"]
    _, state = one.run({"x": held, "state": held})
    y, final = two.run({"x": held, "state": state})
    assert (first.device_counts["bytes_in"], second.device_counts["bytes_in"]) == before
    np.testing.assert_allclose(final, np.tanh(x + np.tanh(x + x)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-np.exp(final))), rtol=1e-5, atol=1e-6)


def test_threads_with_states_of_their_own_do_not_mix_them():
    library = byoc.compile(turning_state(), ["opencl"])
    wrong = []

    def work(seed):
        bound = library.bind(["next"])
        x = np.random.default_rng(seed).standard_normal((4, D)).astype("float32")
        state, want = np.zeros_like(x), np.zeros_like(x)
        for _ in range(30):
            _, state = bound.run({"x": x, "state": state})
            want = np.tanh(x + want)
        if not np.allclose(state.numpy(), want, rtol=1e-4, atol=1e-5):
            wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Failing:
    """pyopencl, of which one function fails."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        cl = import_pyopencl()

        def fail(*words, **named):
            raise cl.RuntimeError(f"injected: {name}")

        return fail if name == self._name else getattr(cl, name)


def test_a_device_that_fails_in_the_middle_is_one_sentence_and_the_next_run_is_right(monkeypatch):
    library = byoc.compile(turning_state(), ["opencl"])
    bound = library.bind(["next"])
    x = np.linspace(-1, 1, 4 * D, dtype="float32").reshape(4, D)
    _, state = bound.run({"x": x, "state": x})
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    with monkeypatch.context() as patched:
        patched.setattr(module.session(module.symbols[0]), "_cl", Failing("enqueue_nd_range_kernel"))
        with pytest.raises(DeviceError, match=r"region .* on opencl failed at launch: .*injected: enqueue_nd_range"):
            bound.run({"x": x, "state": state})
    y, state = bound.run({"x": x, "state": state})
    want = np.tanh(x + np.tanh(x + x))
    np.testing.assert_allclose(y, 1 / (1 + np.exp(-np.exp(want))), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.numpy(), want, rtol=1e-5, atol=1e-6)


def test_the_host_stands_in_for_a_run_whose_state_is_on_the_device(monkeypatch):
    library = byoc.compile(turning_state(), ["opencl"], fallback=True)
    bound = library.bind(["next"])
    x = np.linspace(-1, 1, 4 * D, dtype="float32").reshape(4, D)
    _, state = bound.run({"x": x, "state": x})
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    monkeypatch.setattr(module.session(module.symbols[0]), "_cl", Failing("enqueue_nd_range_kernel"))
    _, host = bound.run({"x": x, "state": state})
    assert isinstance(host, np.ndarray)
    np.testing.assert_allclose(host, np.tanh(x + np.tanh(x + x)), rtol=1e-5, atol=1e-6)
    assert [f.stage for f in library.fallbacks] == ["launch"]


def test_mistakes_are_one_sentence():
    library = byoc.compile(turning_state(), ["opencl"])
    with pytest.raises(InputError, match="the model has no output 'past'; its outputs are y, next"):
        library.bind(["past"])
    bound = library.bind(["next"])
    x = np.zeros((4, D), "float32")
    with pytest.raises(InputError, match="^input 'state' is missing; the inputs are x: "):
        bound.run({"x": x})
    _, state = bound.run({"x": x, "state": x})
    with pytest.raises(InputError, match=r"input 'x': expected shape \[4, 16\], got \[64\]"):
        bound.run({"x": state.reshape((64,)), "state": state})
    with pytest.raises(DeviceError, match="no region of this model runs on a device that keeps tensors"):
        byoc.compile(turning_state(), ["c"]).bind().to_device(x)


def test_a_call_waits_once_for_what_another_queue_wrote(monkeypatch):
    pyopencl = import_pyopencl()
    bound = byoc.compile(turning_state(), ["opencl"]).bind(["next"])
    waits, barrier = [], pyopencl.enqueue_barrier

    def counted(queue, wait_for=None):
        waits.append(len(wait_for))
        return barrier(queue, wait_for=wait_for)

    first, second = np.random.default_rng(1).standard_normal((2, 4, D)).astype("float32")
    there = {"x": bound.to_device(first), "state": bound.to_device(second)}
    monkeypatch.setattr(pyopencl, "enqueue_barrier", counted)
    for k in range(4):
        _, state = bound.run(there)
        np.testing.assert_allclose(state.numpy(), np.tanh(first + second), rtol=1e-6)
        assert waits == [2], k
    waits.clear()
    there["x"].fill(second)
    _, state = bound.run(there)
    assert waits, "another queue wrote it anew"
    np.testing.assert_allclose(state.numpy(), np.tanh(second + second), rtol=1e-6)
    waits.clear()
    _, after = bound.run({"x": there["x"], "state": state})
    assert not waits, "the same queue made it"
    np.testing.assert_allclose(after.numpy(), np.tanh(second + np.tanh(2 * second)), rtol=1e-6)
    other = byoc.compile(turning_state(), ["opencl"]).bind(["next"])
    _, after = other.run({"x": there["x"], "state": after})
    assert waits, "of another library's queue"
    last = np.tanh(second + np.tanh(second + np.tanh(2 * second)))
    np.testing.assert_allclose(after.numpy(), last, rtol=1e-6)
