"""An index outside its dimension is an error of the run on every backend, just where it is one of ONNX Runtime."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.errors import IndexOutsideError
from byoc.runtime.core.errors import EMPTY_PLACE, index_outside

ort = pytest.importorskip("onnxruntime")
OF_ORT = ort.capi.onnxruntime_pybind11_state
REFUSALS = (OF_ORT.InvalidArgument, OF_ORT.Fail, OF_ORT.RuntimeException)  # the last: GatherElements until 1.23
INDICES = (0, -5, 2, 4, 5, -6, 99, -(2**63), 2**63 - 1)
# the shapes of the data, the indices, the result, and of the updates where there are any
OPERATORS = {
    "Gather": ((5, 3), (2, 2), (2, 2, 3), None),
    "GatherElements": ((5, 3), (2, 3), (2, 3), None),
    "GatherND": ((5, 3), (2, 2), (2,), None),
    "ScatterElements": ((5, 3), (2, 3), (5, 3), (2, 3)),
    "ScatterND": ((5, 3), (2, 2), (5, 3), (2,)),
}
TARGETS = {
    "c": ["c"],
    "json": ["json", "c"],
    "opencl": pytest.param(["opencl", "c"], marks=pytest.mark.needs_opencl, id="opencl"),
}
value = helper.make_tensor_value_info


def saved(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def model_of(op, is_free=False):
    data, indices, result, updates = OPERATORS[op]
    shape = ["N", *data[1:]] if is_free else data
    inputs = [value("x", TensorProto.FLOAT, shape), value("i", TensorProto.INT64, indices)]
    inputs += [value("u", TensorProto.FLOAT, updates)] if updates else []
    out = value("y", TensorProto.FLOAT, ["N", *result[1:]] if is_free and updates else result)
    return saved([helper.make_node(op, [v.name for v in inputs], ["y"], name="here")], inputs, [out])


def reference(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def inputs_of(op, index):
    data, indices, _, updates = OPERATORS[op]
    rng = np.random.default_rng(1)
    places = np.ones(indices, "int64")
    places.flat[index % places.size] = index
    inputs = {"x": rng.standard_normal(data).astype("float32"), "i": places}
    return inputs | ({"u": rng.standard_normal(updates).astype("float32")} if updates else {})


def check_against_onnxruntime(model, library, op):
    session = reference(model)
    for index in INDICES:
        inputs = inputs_of(op, index)
        try:
            wanted = session.run(None, inputs)[0]
        except REFUSALS:
            wanted = None
        if wanted is None:
            sentence = rf"^node here \({op}\) along axis \d: index {index} is outside"
            with pytest.raises(IndexOutsideError, match=sentence):
                library.run(inputs)
        else:
            np.testing.assert_array_equal(library.run(inputs)[0], wanted)


@pytest.mark.needs_cc
@pytest.mark.parametrize("targets", TARGETS.values())
@pytest.mark.parametrize("op", OPERATORS)
def test_every_backend_refuses_the_indices_that_onnxruntime_refuses(op, targets):
    model = model_of(op)
    library = byoc.compile(model, targets=targets)
    for threads in (1, 2):
        library.threads = threads
        library._idle.clear()
        check_against_onnxruntime(model, library, op)


@pytest.mark.needs_cc
@pytest.mark.parametrize("op", OPERATORS)
def test_a_dimension_of_free_size_is_looked_at_when_the_model_runs(op):
    model = model_of(op, is_free=True)
    check_against_onnxruntime(model, byoc.compile(model), op)


@pytest.mark.needs_cc
def test_a_known_index_into_a_free_dimension_is_an_error_where_that_is_too_small():
    index = onnx.numpy_helper.from_array(np.array([3]), "i")
    model = saved(
        [helper.make_node("Gather", ["x", "i"], ["y"], name="here")],
        [value("x", TensorProto.FLOAT, ["N", 700])],
        [value("y", TensorProto.FLOAT, [1, 700])],
        [index],
    )
    library = byoc.compile(model)
    x = np.arange(2800, dtype="float32").reshape(4, 700)
    np.testing.assert_array_equal(library(x), x[3:])
    for rows in (3, 0):
        with pytest.raises(IndexOutsideError, match=f"index 3 is outside a dimension of {rows};"):
            library(x[:rows])
    np.testing.assert_array_equal(library(x), x[3:])


@pytest.mark.needs_cc
def test_an_int32_index_and_each_executor_give_the_same_sentence():
    model = saved(
        [helper.make_node("Gather", ["x", "i"], ["y"], name="here", axis=1)],
        [value("x", TensorProto.FLOAT, [2, 5]), value("i", TensorProto.INT32, [3])],
        [value("y", TensorProto.FLOAT, [2, 3])],
    )
    library = byoc.compile(model)
    inputs = {"x": np.zeros((2, 5), "float32"), "i": np.array([1, -9, 7], "int32")}
    for run in (library.run, library.graph_executor(), byoc.compile(model, targets=["json", "c"]).run):
        with pytest.raises(IndexOutsideError) as caught:
            run(inputs)
        assert str(caught.value) == (
            "node here (Gather) along axis 1: index -9 is outside a dimension of 5; give indices from -5 to 4"
        )


@pytest.mark.needs_cc
def test_the_loss_of_a_target_that_is_no_class_is_an_error():
    model = saved(
        [helper.make_node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"], name="here")],
        [value("x", TensorProto.FLOAT, [3, 4]), value("t", TensorProto.INT64, [3])],
        [value("y", TensorProto.FLOAT, [])],
    )
    library, x = byoc.compile(model), np.ones((3, 4), "float32")
    assert library.run({"x": x, "t": np.array([0, 3, 1])})[0] == -1
    with pytest.raises(IndexOutsideError, match="index 4 is outside a dimension of 4"):
        library.run({"x": x, "t": np.array([0, 4, 1])})


@pytest.mark.needs_cc
@pytest.mark.parametrize("sizes", [([2, 2], [6]), (["n", 2], [6]), (["n", "m"], ["k"])], ids=["fixed", "rows", "free"])
@pytest.mark.parametrize("axis", [None, 0])
def test_a_condition_longer_than_what_it_chooses_from_is_cut_as_onnxruntime_does(axis, sizes):
    attributes = {} if axis is None else {"axis": axis}
    model = saved(
        [helper.make_node("Compress", ["x", "c"], ["y"], **attributes)],
        [value("x", TensorProto.FLOAT, sizes[0]), value("c", TensorProto.BOOL, sizes[1])],
        [value("y", TensorProto.FLOAT, None)],
    )
    inputs = {"x": np.arange(4, dtype="float32").reshape(2, 2), "c": np.array([False, True, False, True, True, True])}
    wanted = reference(model).run(None, inputs)[0]
    np.testing.assert_array_equal(byoc.compile(model).run(inputs)[0], wanted)


LOADED = """
import sys, numpy as np, byoc.runtime as runtime
library = runtime.load(sys.argv[1], threads=2)
x = np.arange(15, dtype="float32").reshape(5, 3)
try:
    library.run({"x": x, "i": np.array([[0, 5], [1, 1]])})
except runtime.IndexOutsideError as error:
    print(error)
assert (library.run({"x": x, "i": np.array([[0, -5], [1, 1]])})[0] == x[[[0, 0], [1, 1]]]).all()
assert "byoc.codegen" not in sys.modules
"""


@pytest.mark.needs_cc
def test_a_saved_model_refuses_the_index_in_a_new_process(tmp_path):
    path = byoc.compile(model_of("Gather")).save(tmp_path / "m.byoc")
    done = subprocess.run([sys.executable, "-c", LOADED, str(path)], capture_output=True, text=True, timeout=120)
    sentence = "node here (Gather) along axis 0: index 5 is outside a dimension of 5; give indices from -5 to 4\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, sentence, "")


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
def test_an_index_on_a_device_is_the_callers_and_no_reason_to_run_on_the_host():
    library = byoc.compile(model_of("Gather"), targets=["opencl", "c"], fallback=True)
    with pytest.raises(IndexOutsideError):
        library.run(inputs_of("Gather", 5))
    assert library.fallbacks == []


def test_a_place_reports_the_index_that_was_given():
    assert "index -7 is outside a dimension of 5;" in str(index_outside("n", 2**64 - 2, 5))
    assert "index 0 is outside a dimension of 0; it has no element" in str(index_outside("n", EMPTY_PLACE, 0))
