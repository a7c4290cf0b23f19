"""Softmax, norms and argmax as one kernel of rows, for GPUs and for processors, against ONNX Runtime and NumPy."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.backend import compile_functions
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var
from byoc.runtime.opencl.module import OpenCLModule

pytestmark = pytest.mark.needs_opencl
KINDS = ("cpu", "gpu")
LENGTHS = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 70)
RNG = np.random.default_rng(3)


def model(node, shapes, constants=(), kind=TensorProto.FLOAT, opset=21) -> bytes:
    """One node over inputs of *shapes* by name, as ONNX; its result is ``y``."""
    graph = helper.make_graph(
        [node],
        "rows",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(data, name) for name, data in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def wanted(onnx_model: bytes, feeds) -> np.ndarray:
    return onnxruntime.InferenceSession(onnx_model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def compiled(onnx_model: bytes, kind: str) -> byoc.Library:
    return byoc.compile(onnx_model, targets=["opencl"], backend_options={"opencl": {"schedules": kind}})


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def module_of(make, *shapes, kind: str) -> OpenCLModule:
    """The region ``make(inputs)`` over inputs of *shapes*; its functions are filled into memory of the caller."""
    inputs = [Var(f"x{k}", TensorType(shape)) for k, shape in enumerate(shapes)]
    return compile_functions({"f": groups_of(Function(inputs, make(*inputs)))}, {"schedules": kind})


def groups_of(function: Function) -> Function:
    return fuse_body(function.with_attr({"global_symbol": "f"}))


def launches(module: OpenCLModule) -> int:
    (plan,) = module.plans
    return len(plan.launches)


def poisoned(shape, dtype="float32", edge: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Memory for a result between two edges of a number that nothing computes, and the whole of it."""
    count = int(np.prod(shape))
    whole = np.full(count + 2 * edge, 77, dtype)
    return whole[edge : edge + count].reshape(shape), whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [2, 1])
def test_softmax_of_every_length_is_one_kernel_and_right(kind, axis):
    for length in LENGTHS:
        shape = (3, 5, length) if axis == 2 else (3, length, 5)
        module = module_of(lambda x: relay.nn.softmax(x, axis=axis), shape, kind=kind)
        assert launches(module) == 1 or length == 1
        data = normal(*shape)
        out, _ = poisoned(shape)
        module["f"](data, out)
        powers = np.exp(data.astype("float64") - data.max(axis, keepdims=True))
        np.testing.assert_allclose(out, powers / powers.sum(axis, keepdims=True), rtol=2e-6, atol=1e-7)


NORMS = {
    "layer": (helper.make_node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1), [4, 6, 70], 70),
    "instance": (helper.make_node("InstanceNormalization", ["x", "g", "b"], ["y"]), [2, 5, 7, 9], 5),
    "group": (helper.make_node("GroupNormalization", ["x", "g", "b"], ["y"], num_groups=3), [2, 6, 7, 9], 6),
    "log-softmax": (helper.make_node("LogSoftmax", ["x"], ["y"], axis=1), [3, 40, 5], None),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NORMS)
def test_a_norm_is_one_kernel_and_what_onnx_runtime_gives(kind, name):
    node, shape, size = NORMS[name]
    scales = [] if size is None else [("g", normal(*np.atleast_1d(size))), ("b", normal(*np.atleast_1d(size)))]
    made = model(node, {"x": shape}, scales)
    library = compiled(made, kind)
    feeds = {"x": normal(*shape) + 3}
    np.testing.assert_allclose(library.run(feeds)[0], wanted(made, feeds), rtol=2e-5, atol=2e-5)
    assert launch_count(library) == 1


def launch_count(library: byoc.Library) -> int:
    modules = [m for m in library.module.imports if isinstance(m, OpenCLModule)]
    return sum(len(plan.launches) for module in modules for plan in module.plans)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equals_and_the_first_nan_have_the_position(kind, name):
    for length in (1, 5, 31, 32, 33, 70, 300):
        data = RNG.integers(-2, 3, (9, length)).astype("float32")
        data[1] = np.inf if name == "argmin" else -np.inf  # every element is what the search begins with
        data[2, length // 2 :] = np.inf
        data[3, -1] = np.nan
        data[4, length // 3 :: 2] = np.nan
        data[5] = 1.0
        module = module_of(lambda x: getattr(relay, name)(x, axis=1), data.shape, kind=kind)
        out, whole = poisoned((9,), "int32")
        module["f"](data, out)
        np.testing.assert_array_equal(out, getattr(np, name)(data, axis=1))
        assert (whole[:64] == 77).all() and (whole[-64:] == 77).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_softmax_of_infinities_and_nans_is_what_numpy_gives(kind):
    data = normal(6, 45)
    data[0, 3] = np.nan
    data[1] = -np.inf
    data[2, 7] = np.inf
    data[3, :44] = -np.inf
    module = module_of(lambda x: relay.nn.softmax(x), data.shape, kind=kind)
    out, _ = poisoned(data.shape)
    module["f"](data, out)
    with np.errstate(invalid="ignore"):
        powers = np.exp(data - data.max(1, keepdims=True))
        np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=3e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_free_number_and_length_are_right(kind):
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    made = model(node, {"x": ["m", "n"]})
    library = compiled(made, kind)
    for rows, length in ((1, 1), (3, 31), (70, 32), (2, 1000), (33, 65)):
        feeds = {"x": normal(rows, length)}
        np.testing.assert_allclose(library.run(feeds)[0], wanted(made, feeds), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_too_long_for_local_memory_lies_in_its_result(kind):
    data = normal(2, 30011)
    module = module_of(lambda x: relay.nn.softmax(x), data.shape, kind=kind)
    assert launches(module) == 1
    out, _ = poisoned(data.shape)
    module["f"](data, out)
    powers = np.exp(data.astype("float64") - data.max(1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_elementwise_around_a_softmax_is_in_its_kernel(kind):
    shape = (5, 40)
    module = module_of(lambda x, y: relay.nn.relu(relay.nn.softmax(x) - y), shape, shape, kind=kind)
    assert launches(module) == 1
    data, less = normal(*shape), np.abs(normal(*shape)) * 0.01
    out, _ = poisoned(shape)
    module["f"](data, less, out)
    powers = np.exp(data - data.max(1, keepdims=True))
    np.testing.assert_allclose(out, np.maximum(powers / powers.sum(1, keepdims=True) - less, 0), rtol=2e-5, atol=1e-7)
