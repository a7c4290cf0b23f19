"""Tensors of no dimension as inputs, constants and outputs: every backend and executor, in process and saved."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.driver.vm import compile_module
from byoc.relay.frontend.onnx import import_onnx
from byoc.runtime import cpu
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.files.weights import read_weights, write_weights
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.params import load_param_dict, save_param_dict
from byoc.runtime.vm import Executable, VirtualMachine

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl]
TARGETS = (["c"], ["json", "c"], ["c", "c"], ["opencl", "c"], ["blas", "c"], ["c", "opencl", "c"], ["json"])


def scalars():
    """An input, a constant and outputs of rank 0 beside a tensor; one output is the input, one the constant."""
    nodes = [
        helper.make_node("Mul", ["s", "k"], ["scaled"]),
        helper.make_node("Add", ["x", "scaled"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0),
        helper.make_node("Exp", ["scaled"], ["e"]),
        helper.make_node("Identity", ["s"], ["same"]),
        helper.make_node("Identity", ["k"], ["number"]),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2, 3]), ("s", []))]
    outputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3] if n == "y" else [])
        for n in ("y", "total", "e", "same", "number")
    ]
    constants = [numpy_helper.from_array(np.array(1.5, "float32"), "k")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def wanted(x, s):
    y = x + s * np.float32(1.5)
    return [y, y.sum(), np.exp(s * np.float32(1.5)), s, np.float32(1.5)]


def check(found, expected):
    for got, want in zip(found, expected, strict=True):
        got = np.asarray(got)
        assert got.shape == np.shape(want) and got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-5)


FEEDS = {"x": np.arange(6, dtype="float32").reshape(2, 3), "s": np.array(0.25, "float32")}


@pytest.mark.parametrize("targets", TARGETS, ids="-".join)
def test_tensors_of_no_dimension_pass_through_every_backend_and_executor(targets, tmp_path):
    if "blas" in targets:
        pytest.importorskip("byoc.contrib.blas")
    library = byoc.compile(scalars(), targets)
    loaded = byoc.runtime.load(library.save(tmp_path / "m.byoc"))
    for each in (library, loaded):
        check(each.run(FEEDS), wanted(**FEEDS))
        check(each.graph_executor()(FEEDS), wanted(**FEEDS))


def test_a_number_of_another_form_is_taken_where_the_model_has_no_dimension(tmp_path):
    library = byoc.compile(scalars(), ["c"])
    for number in (np.float32(0.25), np.array([0.25, 9.0], "float32")[0], np.full((1, 1), 0.25, "float32")[:, 0][0]):
        check(library.run({**FEEDS, "s": number}), wanted(**FEEDS))


def test_the_interpreter_gives_tensors_of_no_dimension():
    from byoc.relay.interpreter import evaluate

    check(evaluate(import_onnx(scalars()), FEEDS), wanted(**FEEDS))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_constants_keep_their_rank_wherever_they_are_written(shape):
    array = NDArray(np.full(shape, 2.0, "float32"))
    for read in (
        read_weights(memoryview(write_weights({"a": array})), "here"),
        load_param_dict(save_param_dict({"a": array})),
    ):
        assert read["a"].shape == shape
    assert MetadataModule({"a": array}, {}).constant_arrays["a"].shape == shape


def test_a_constant_of_no_dimension_is_given_to_a_region_of_c():
    from byoc.runtime.core.signature import Signature, TensorSpec
    from byoc.runtime.dso.module import DsoModule

    scalar = TensorSpec("k", (), "float32")
    module = DsoModule(b"", [Signature("f", (), (), (scalar,))], "")
    module.initialize("f", [NDArray(np.array(2.0, "float32"))])
    assert module.constants_of("f")[0].shape == ()


def test_a_virtual_machine_takes_and_gives_tensors_of_no_dimension(tmp_path):
    condition = onnx.helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    x, y = (onnx.helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in "xy")
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["x", "x"], [f"{name}_y"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [])],
        )
        for name, op in (("then", "Add"), ("else", "Mul"))
    }
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "g", [condition, x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    executable = compile_module(import_onnx(model))
    code, functions = executable.save()
    functions.export_library(tmp_path / "lib.so")
    loaded = Executable.load_exec(code, byoc.runtime.load_module_tree(tmp_path / "lib.so"))
    for machine in (VirtualMachine(executable, cpu()), VirtualMachine(loaded, cpu())):
        for taken, expected in ((True, 6.0), (False, 9.0)):
            found = machine.run(np.array(taken), np.array(3.0, "float32"))
            assert found.shape == () and float(found.numpy()) == expected
