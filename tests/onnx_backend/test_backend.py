"""byoc behind ONNX's interface of backends: models and single nodes, what is refused, and ONNX's own test runner."""

import unittest

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test import BackendTest
from onnx.reference import ReferenceEvaluator

import byoc.onnx_backend
from byoc.errors import ImportModelError, InputError, UserError
from byoc.onnx_backend import ModelRefusedError
from byoc.onnx_backend.cases import SuiteCase, difference
from byoc.onnx_backend.conformance import main
from byoc.onnx_backend.page import page, sections_of
from byoc.onnx_backend.survey import Outcome, Survey, outcome

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


def model(*nodes, inputs=("x",), outputs=("y",), initializers=()):
    def typed(names):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in names]

    graph = helper.make_graph(list(nodes), "g", typed(inputs), typed(outputs), list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.fixture
def softmax():
    return model(helper.make_node("Softmax", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"]), outputs=("y", "z"))


@pytest.mark.parametrize("device", ["NUMPY", pytest.param("CPU", marks=pytest.mark.needs_cc)])
def test_a_prepared_model_gives_the_outputs_of_the_reference_in_order_and_by_name(device, softmax):
    prepared = byoc.onnx_backend.prepare(softmax, device)
    found = prepared.run([X])
    for one, other in zip(found, ReferenceEvaluator(softmax).run(None, {"x": X}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    np.testing.assert_array_equal(found["z"], found[1])
    np.testing.assert_array_equal(prepared.run({"x": X})[0], found[0])
    np.testing.assert_array_equal(byoc.onnx_backend.run_model(softmax, X, device)["z"], found[1])


@pytest.mark.needs_opencl
def test_a_model_runs_on_opencl(softmax):
    prepared = byoc.onnx_backend.prepare(softmax, "OPENCL:0")
    assert prepared.library.plan.targets == ("opencl",)
    np.testing.assert_allclose(prepared.run([X])[0], ReferenceEvaluator(softmax).run(None, {"x": X})[0], rtol=1e-5)


def test_which_devices_there_are():
    backend = byoc.onnx_backend
    assert backend.supports_device("NUMPY") and not backend.supports_device("CUDA")
    with pytest.raises(UserError, match="device 'CUDA' is none of byoc's: CPU, OPENCL, NUMPY"):
        backend.prepare(model(helper.make_node("Neg", ["x"], ["y"])), "CUDA")


def test_what_byoc_does_not_take_is_refused_in_a_sentence_and_is_a_skipped_test():
    unknown = model(helper.make_node("Blur", ["x"], ["y"], domain="com.acme"))
    unknown.opset_import.append(helper.make_opsetid("com.acme", 1))
    assert not byoc.onnx_backend.is_compatible(unknown, "NUMPY")
    assert byoc.onnx_backend.is_compatible(model(helper.make_node("Neg", ["x"], ["y"])), "NUMPY")
    with pytest.raises(ModelRefusedError, match=r"not supported: Blur \(domain com.acme, opset 1\)") as caught:
        byoc.onnx_backend.prepare(unknown, "NUMPY")
    assert isinstance(caught.value, unittest.SkipTest)


def test_another_number_of_inputs_is_said(softmax):
    with pytest.raises(InputError, match=r"takes 1 inputs \(x\), got 2"):
        byoc.onnx_backend.prepare(softmax, "NUMPY").run([X, X])


def test_a_node_runs_alone_with_its_axes_given_as_an_input():
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    found = byoc.onnx_backend.run_node(node, [X, np.array([1])], "NUMPY")
    np.testing.assert_allclose(found[0], X.sum(1), rtol=1e-5)


def test_a_node_may_leave_an_input_out_and_read_one_twice():
    clip = helper.make_node("Clip", ["x", "", "high"], ["y"])
    high = np.float32(0.5)
    for inputs in ([X, high], [X, None, high]):
        np.testing.assert_array_equal(byoc.onnx_backend.run_node(clip, inputs, "NUMPY")[0], np.minimum(X, high))
    twice = byoc.onnx_backend.run_node(helper.make_node("Mul", ["x", "x"], ["y"]), [X, X], "NUMPY")
    np.testing.assert_array_equal(twice.y, X * X)


def test_a_node_takes_the_version_of_its_operator_set():
    old = helper.make_node("Softmax", ["x"], ["y"], axis=0)  # until 12 over all axes from this one on
    ones = np.zeros((2, 3), "float32")
    assert byoc.onnx_backend.run_node(old, [ones], "NUMPY", opset_version=12)[0][0, 0] == np.float32(1 / 6)
    assert byoc.onnx_backend.run_node(old, [ones], "NUMPY", opset_version=13)[0][0, 0] == np.float32(1 / 2)


def test_a_node_that_onnx_does_not_allow_is_said():
    with pytest.raises(ImportModelError, match="ONNX does not allow it: .*Nonsense"):
        byoc.onnx_backend.run_node(helper.make_node("Nonsense", ["x"], ["y"]), [X], "NUMPY")
    with pytest.raises(InputError, match="node Add has 2 inputs, got 1"):
        byoc.onnx_backend.run_node(helper.make_node("Add", ["x", "y"], ["z"]), [X], "NUMPY")


@pytest.mark.needs_cc
def test_onnx_s_own_runner_takes_the_module_as_a_backend():
    tests = BackendTest(byoc.onnx_backend, __name__)
    tests.include("^test_(softsign|gelu_tanh_1|nonmaxsuppression_identical_boxes)_(cpu|cuda)$")
    chosen = unittest.TestSuite(t for t in tests.test_suite if hasattr(t, "_testMethodName"))
    result = unittest.TestResult()
    chosen.run(result)
    assert result.errors == result.failures == []
    shown = {test.id().rpartition(".")[2]: reason for test, reason in result.skipped}
    assert "test_softsign_cpu" not in shown and "test_gelu_tanh_1_cpu" not in shown
    assert "Backend doesn't support device CUDA" in shown["test_softsign_cuda"]


def test_the_command_counts_by_operator_and_lists_what_is_refused(capsys):
    assert main(["--device", "NUMPY", "--only", "^test_sce_mean_expanded$", "--only", "^Softsign$"]) == 0
    out = capsys.readouterr().out
    assert "SoftmaxCrossEntropyLoss" in out and "Softsign" in out and " 0 wrong (" in out
    assert main(["--only", "("]) == 2
    assert "not a regular expression" in capsys.readouterr().err
    assert main(["--device", "NUMPY", "--only", "NoSuchOperator"]) == 2
    assert main(["--title", "a GPU"]) == 2
    assert "give --page" in capsys.readouterr().err
    assert main(["--page", "page.md", "--only", "Relu"]) == 2
    assert "leave --only out" in capsys.readouterr().err


def test_the_page_keeps_the_sections_of_other_devices():
    first = page("", Survey("CPU", [Outcome("test_a", "A", "passed")]))
    both = page(first, Survey("NUMPY", [Outcome("test_b", "B", "refused", "no B")]))
    assert list(sections_of(both)) == ["NUMPY", "CPU"] and "no B (1)" in both
    assert page(both, Survey("CPU", [Outcome("test_a", "A", "passed")])) == both
    third = page(both, Survey("CPU", [Outcome("test_c", "C", "passed")]), "CPU of another machine")
    assert list(sections_of(third)) == ["NUMPY", "CPU", "CPU of another machine"]
    assert {name: text for name, text in sections_of(third).items() if name in ("NUMPY", "CPU")} == sections_of(both)


def case(nodes, wanted, inputs=(X,)):
    return SuiteCase("test_it", "It", model(*nodes), [(inputs, wanted)], 1e-3, 1e-7)


def test_another_result_is_wrong_and_a_refusal_is_not():
    negated = [helper.make_node("Neg", ["x"], ["y"])]
    assert outcome(case(negated, [-X]), "NUMPY").kind == "passed"
    assert outcome(case(negated, [X]), "NUMPY").reason == "other numbers"
    assert outcome(case(negated, [-X, X]), "NUMPY").reason == "1 outputs instead of 2"
    late = outcome(case(negated, [-X], [X, X]), "NUMPY")  # one input too many
    assert late.kind == "wrong" and late.reason.startswith("InputError: ")
    unknown = outcome(case([helper.make_node("Nonsense", ["x"], ["y"])], [X]), "NUMPY")
    assert (unknown.kind, unknown.reason) == ("refused", "no Nonsense (domain ai.onnx, opset 20)")


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        (X, X + np.float32(1e-8), ""),
        (X, X.astype("float64"), "float32(3, 4) instead of float64(3, 4)"),
        (X, X[:2], "float32(3, 4) instead of float32(2, 4)"),
        (None, X, "nothing instead of ndarray"),
        ([X], [X, X], "a sequence of 1 instead of a sequence of 2"),
        ([X, X], [X, X + 1], "other numbers"),
        (np.array(["a", "b"]), np.array(["a", "b"], object), ""),
        (np.array(["a", "b"]), np.array(["a", "c"], object), "other text"),
    ],
)
def test_differences(found, wanted, expected):
    assert difference(found, wanted, 1e-3, 1e-7) == expected


def test_low_precision_is_compared_by_its_values():
    low = onnx.numpy_helper.to_array(helper.make_tensor("t", TensorProto.BFLOAT16, [2], [1.0, 3.0]))
    assert difference(low, low.copy(), 1e-3, 1e-7) == ""
    step = (low.astype("float32") * np.float32(1 + 2**-5)).astype(low.dtype)
    assert difference(step, low, 1e-3, 1e-7) == "other numbers"
