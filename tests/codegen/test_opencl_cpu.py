"""Kernels for processors, C's schedules in OpenCL C: their numbers on awkward sizes, what is written and launched."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc import relay
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl import emit
from byoc.codegen.opencl.backend import compile_functions
from byoc.codegen.opencl.cpu import blocks
from byoc.codegen.opencl.cpu.block_space import SHARES
from byoc.codegen.opencl.cpu.machine import prepared_for
from byoc.codegen.opencl.device.processor import machine_of
from byoc.codegen.opencl.device.profile import ANY_CPU, DeviceProfile
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var, const
from byoc.runtime.opencl.module import OpenCLModule

RNG = np.random.default_rng(11)
CPU = {"opencl": {"schedules": "cpu"}}
WIDTHS = [1, 4, 8, 16]  # float32 of a vector


def model(nodes, inputs, constants=(), kinds=TensorProto.FLOAT) -> bytes:
    """Nodes over f32 *inputs* by name and shape, as ONNX; the last result is ``y``."""
    graph = helper.make_graph(
        nodes,
        "cpu",
        [helper.make_tensor_value_info(name, kinds, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", kinds, None)],
        [numpy_helper.from_array(data, name) for name, data in constants],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9).SerializeToString()


def wanted(onnx_model: bytes, feeds):
    return onnxruntime.InferenceSession(onnx_model, providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def schedules_of(library: byoc.Library) -> list[str]:
    found = [m for m in library.lib.imported_modules if isinstance(m, OpenCLModule)]
    return [v.schedule for m in found for p in m.plans for launch in p.launches for v in launch.variants]


PRODUCTS = [(1, 1, 1), (3, 5, 7), (33, 17, 65), (64, 64, 64), (127, 3, 9), (5, 300, 2), (1, 257, 129)]


@pytest.mark.needs_opencl
@pytest.mark.parametrize("rows, terms, columns", PRODUCTS)
def test_products_are_numpys(rows, terms, columns):
    a, b, weight = normal(rows, terms), normal(terms, columns), normal(columns, 11)
    nodes = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("MatMul", ["c", "w"], ["y"])]
    made = model(nodes, {"a": a.shape, "b": b.shape}, [("w", weight)])
    library = byoc.compile(made, targets=["opencl"], backend_options=CPU)
    want = a.astype("float64") @ b @ weight
    np.testing.assert_allclose(library.run({"a": a, "b": b})[0], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    assert set(schedules_of(library)) == {"block"}


@pytest.mark.needs_opencl
@pytest.mark.parametrize("size", [100, 103, 3])  # vectors whose last one is not full
def test_every_second_element_is_taken_by_vectors_and_a_rest(size):
    x = normal(2, size, 2)
    nodes = [helper.make_node("Gather", ["x", "one"], ["g"], axis=2), helper.make_node("Neg", ["g"], ["y"])]
    library = byoc.compile(
        model(nodes, {"x": x.shape}, [("one", np.array(1))]), targets=["opencl"], backend_options=CPU
    )
    np.testing.assert_array_equal(library.run({"x": x})[0], -x[..., 1])


CONVOLUTIONS = [  # data, weight, attributes
    ((1, 3, 33, 31), (13, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 5, 29, 30), (7, 5, 3, 3), {"strides": [2, 2]}),
    ((1, 32, 30, 30), (32, 32, 3, 3), {"pads": [1, 1, 1, 1]}),  # Winograd's method
    ((1, 6, 35, 35), (10, 6, 3, 3), {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    ((3, 24, 20, 19), (24, 1, 5, 5), {"group": 24, "pads": [2, 2, 2, 2]}),
    ((1, 12, 9, 11), (8, 4, 1, 1), {"group": 3}),
    ((1, 40, 7, 7), (9, 40, 1, 1), {}),
    ((2, 3, 21), (5, 3, 4), {"strides": [3], "pads": [2, 1]}),
    ((1, 2, 9, 8, 7), (4, 2, 3, 3, 3), {"pads": [1] * 6}),
]


@pytest.mark.needs_opencl
@pytest.mark.parametrize("shape, kernel, attrs", CONVOLUTIONS)
def test_convolutions_are_what_onnx_runtime_gives(shape, kernel, attrs, tmp_path):
    kernel = (kernel[0] // attrs.get("group", 1) * attrs.get("group", 1), *kernel[1:])
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **attrs), helper.make_node("Relu", ["c"], ["y"])]
    made = model(nodes, {"x": shape}, [("w", normal(*kernel)), ("b", normal(kernel[0]))])
    feeds = {"x": normal(*shape)}
    library = byoc.compile(made, targets=["opencl"], backend_options=CPU)
    want = wanted(made, feeds)
    library.save(tmp_path / "m.byoc")
    for one in (library, byoc.load(tmp_path / "m.byoc")):
        np.testing.assert_allclose(one.run(feeds)[0], want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


LOADED = """
import sys, numpy, byoc.runtime
library = byoc.runtime.load(sys.argv[1])
numpy.save(sys.argv[3], library.run({"x": numpy.load(sys.argv[2])})[0])
"""


@pytest.mark.needs_opencl
def test_a_saved_network_gives_the_same_numbers_in_a_new_process(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["l"]),
        helper.make_node("Softmax", ["l"], ["y"]),
    ]
    made = model(nodes, {"x": (2, 3, 19, 23)}, [("w", normal(17, 3, 3, 3)), ("v", normal(17, 10))])
    feeds = {"x": normal(2, 3, 19, 23)}
    library = byoc.compile(made, targets=["opencl"], backend_options=CPU)
    library.save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", feeds["x"])
    command = [sys.executable, "-c", LOADED, *(str(tmp_path / name) for name in ("m.byoc", "x.npy", "y.npy"))]
    subprocess.run(command, check=True, capture_output=True)
    got = np.load(tmp_path / "y.npy")
    np.testing.assert_array_equal(got, library.run(feeds)[0])
    np.testing.assert_allclose(got, wanted(made, feeds), rtol=1e-4, atol=1e-6)


@pytest.mark.needs_opencl
def test_free_sizes_are_right_for_every_call():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Erf", ["p"], ["e"]),
        helper.make_node("Softmax", ["e"], ["y"], axis=1),
    ]
    made = model(nodes, {"x": ("batch", "length", 9)}, [("w", normal(9, 13))])
    library = byoc.compile(made, targets=["opencl"], backend_options=CPU)
    for batch, length in ((1, 1), (3, 31), (2, 64), (5, 7)):
        feeds = {"x": normal(batch, length, 9)}
        np.testing.assert_allclose(library.run(feeds)[0], wanted(made, feeds), rtol=2e-5, atol=1e-6)


@pytest.mark.needs_opencl
def test_attention_keeps_no_scores_and_is_right():
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]
    shapes = {"q": (2, 3, 70, 16), "k": (2, 3, 16, 70), "v": (2, 3, 70, 16)}
    made = model(nodes, shapes)
    feeds = {name: normal(*shape) for name, shape in shapes.items()}
    library = byoc.compile(made, targets=["opencl"], backend_options=CPU)
    np.testing.assert_allclose(library.run(feeds)[0], wanted(made, feeds), rtol=1e-4, atol=1e-5)
    (found,) = [m for m in library.lib.imported_modules if isinstance(m, OpenCLModule)]
    (plan,) = found.plans
    scores = 2 * 3 * 70 * 70 * 4
    own = len(plan.signature.inputs) + len(plan.signature.constants) + len(plan.signature.outputs)
    assert all(b.bytes < scores for b in plan.buffers[own:])


@pytest.mark.needs_opencl
def test_products_of_bytes_wrap_and_sum_as_numpys():
    a = RNG.integers(0, 256, (37, 70), dtype="uint8")
    b = RNG.integers(-128, 128, (70, 19), dtype="int8")
    nodes = [helper.make_node("MatMulInteger", ["a", "b"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(b, "b")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=9).SerializeToString()
    library = byoc.compile(made, targets=["opencl"], backend_options=CPU)
    np.testing.assert_array_equal(library.run({"a": a})[0], a.astype("int32") @ b.astype("int32"))


def convolution(channels: int = 32) -> Function:
    x = Var("data", TensorType((1, 16, 24, 24)))
    weight = const(np.ones((channels, 16, 3, 3), "float32"))
    body = relay.nn.relu(relay.nn.conv2d(x, weight, padding=(1, 1), channels=channels, kernel_size=(3, 3)))
    return Function([x], body, attrs={"global_symbol": "region_0", "Compiler": "opencl"})


def emitted(function: Function, lanes: int):
    program = prepared_for(lower_function(fuse_body(function), "region_0"), machine_of(lanes))
    return emit.emit_programs([program], DeviceProfile("cpu", 4, 256 << 10, 4096, lanes))


def test_sums_of_a_convolution_are_vectors_by_name_in_loops_shared_by_work_groups():
    source, (plan,) = emitted(convolution(), 8)
    assert re.search(r"f32x8 \w+ = \{\};", source)
    assert re.search(r"^ +(\w+) = \1 \+ .*load_f32x8", source, re.MULTILINE) or "splat_f32x8" in source
    assert "get_group_id(0)" in source and "get_num_groups(0)" in source
    assert all(
        v.schedule == "block" and v.groups and v.exact and v.local == 1 for n in plan.launches for v in n.variants
    )
    assert [v.extent for n in plan.launches for v in n.variants] == [SHARES * 4] * len(plan.launches)


@pytest.mark.parametrize("lanes", WIDTHS)
def test_every_width_of_vector_is_written(lanes):
    source, _ = emitted(convolution(), lanes)
    wide = {int(n) for n in re.findall(r"\bf32x(\d+)\b", source)}
    assert wide and max(wide) <= max(lanes, 4)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("lanes", WIDTHS)
def test_every_width_of_vector_is_right_on_this_device(lanes):
    weight = normal(24, 16, 3, 3)
    x = Var("data", TensorType((1, 16, 15, 17)))
    body = relay.sigmoid(relay.nn.conv2d(x, const(weight), padding=(1, 1), channels=24, kernel_size=(3, 3)))
    function = Function([x], body, attrs={"global_symbol": "region_0"})
    program = prepared_for(lower_function(fuse_body(function), "region_0"), machine_of(lanes))
    source, plans = emit.emit_programs([program], DeviceProfile("cpu", 2, 256 << 10, 4096, lanes))
    arrays = {s.name: a for s, (_, a) in zip(program.signature.constants, program.constants, strict=True)}
    data, out = normal(1, 16, 15, 17), np.empty((1, 24, 15, 17), "float32")
    OpenCLModule(source, plans, arrays)["region_0"](data, out)
    made = model(
        [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Sigmoid", ["c"], ["y"])],
        {"x": data.shape},
        [("w", weight)],
    )
    np.testing.assert_allclose(out, wanted(made, {"x": data}), rtol=1e-4, atol=1e-5)


def test_equal_groups_have_one_kernel():
    x = Var("data", TensorType((1, 8, 20, 20)))
    body = x
    for k in range(3):
        weight = const(np.full((8, 8, 3, 3), k, "float32"))
        body = relay.nn.relu(relay.nn.conv2d(body, weight, padding=(1, 1), channels=8, kernel_size=(3, 3)))
    source, (plan,) = emitted(Function([x], body, attrs={"global_symbol": "region_0"}), 8)
    names = [v.kernel for launch in plan.launches for v in launch.variants]
    assert len(names) == 3 * len(set(names))
    assert len(re.findall(r"^__kernel", source, re.MULTILINE)) == len(set(names))


@pytest.mark.needs_opencl
def test_what_blocks_cannot_write_takes_the_schedule_of_work_items(monkeypatch):
    full = blocks.block_language

    def without_powers(opencl):
        language = full(opencl)
        functions = {name: text for name, text in language.functions.items() if name[0] != "pow"}
        return dataclasses.replace(language, functions=functions)

    monkeypatch.setattr(blocks, "block_language", without_powers)
    x, y = (Var(name, TensorType((5, 33))) for name in "xy")
    function = Function([x, y], relay.power(x, y) + relay.nn.relu(y), attrs={"global_symbol": "f"})
    module = compile_functions({"f": fuse_body(function)}, {"schedules": "cpu"})
    assert {v.schedule for p in module.plans for launch in p.launches for v in launch.variants} == {"item"}
    data, power, out = np.abs(normal(5, 33)), normal(5, 33), np.empty((5, 33), "float32")
    module["f"](data, power, out)
    np.testing.assert_allclose(out, data**power + np.maximum(power, 0), rtol=1e-5)


def test_emitted_blocks_are_those_of_the_golden_file(golden):
    program = prepared_for(lower_function(fuse_body(convolution()), "region_0"), ANY_CPU.machine)
    source, plans = emit.emit_programs([program], ANY_CPU)
    golden("opencl_block_conv2d_relu.cl", source)
    golden("opencl_block_conv2d_relu.json", OpenCLModule(source, plans, {}).get_source("plan"))
