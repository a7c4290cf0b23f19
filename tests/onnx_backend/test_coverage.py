"""What the survey says of numpy kernels, of the host, and of operators that have generated code."""

import json

import numpy as np
import pytest
from onnx import helper, parser

from byoc.codegen.opencl.backend import LEAST_ELEMENTS, worth_a_launch
from byoc.ir.passes.pass_context import PassContext
from byoc.onnx_backend.backend import TARGETS, prepare_for
from byoc.onnx_backend.cases import SuiteCase
from byoc.onnx_backend.coverage import WORTH, Coverage, coverage, generated_operators, missing_operators
from byoc.onnx_backend.page import causes, coverage_text, section
from byoc.onnx_backend.survey import Bar, Outcome, Survey, survey


def covered(text, given, device):
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {text}')
    prepared, _ = prepare_for(model, given, device)
    prepared.run(given)
    return coverage(prepared.model, prepared.library, TARGETS[device])


X = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
DISTINCT = "g (float[2, 3] x) => (float[r, 3] y, float[2, 3] z) { y = Unique<axis = 0> (x)  z = Exp (x) }"
RANKED = """g (float[2, 3] x) => (float[2, 2] y, int64[2, 2] z) {
    k = Constant<value = int64[1] {2}>()
    y, z = TopK (x, k)
}"""
RESHAPED = "g (float[2, 3] x, int64[2] s) => (float[a, b] y) { y = Reshape (x, s) }"
CHOSEN = """g (bool c, float[2, 3] x) => (float[a, b] y) {
    y = If (c) <then_branch = t () => (float[a, b] p) { p = Unique <axis = 0> (x) },
                else_branch = e () => (float[a, b] q) { q = Exp (x) }>
}"""


@pytest.mark.needs_cc
def test_an_operator_without_generated_code_is_missing_and_its_function_is_reported_with_the_reason():
    found = covered(DISTINCT, [X], "CPU")
    assert not found.generated and found.missing == ("unique_slices",)
    assert any("unique_slices has no tensor expression" in reason for reason in found.kernels.values())
    assert found.host == {}


@pytest.mark.needs_cc
def test_an_operator_that_is_a_routine_in_c_is_generated_on_the_host():
    found = covered(RANKED, [X], "CPU")
    assert (found.generated, found.whole, found.missing, found.kernels) == (True, True, (), {})


@pytest.mark.needs_cc
def test_a_form_without_generated_code_of_an_operator_that_has_some_counts():
    found = covered(RESHAPED, [X, np.array([3, 2])], "CPU")
    assert found.generated and len(found.kernels) == 1 and not found.whole
    whole = covered("g (float[2, 3] x) => (float[2, 3] y) { y = Exp (x) }", [X], "CPU")
    assert (whole.generated, whole.whole, whole.kernels) == (True, True, {})


@pytest.mark.needs_cc
def test_the_parts_of_control_flow_are_looked_into():
    found = covered(CHOSEN, [np.array(False), X], "CPU")
    assert "unique_slices" in found.missing
    assert any("/" in name and "unique_slices" in reason for name, reason in found.kernels.items())


@pytest.mark.needs_opencl
def test_integers_that_are_too_small_are_distinguished_from_what_opencl_lacks():
    small = covered("g (int32[6] x) => (int32[6] y) { y = Add (x, x) }", [np.arange(6, dtype="int32")], "OPENCL")
    assert list(small.host.values()) == [WORTH] and small.generated and small.where == "on the host"
    with PassContext(config={LEAST_ELEMENTS: 1}):
        every = covered("g (int32[6] x) => (int32[6] y) { y = Add (x, x) }", [np.arange(6, dtype="int32")], "OPENCL")
    assert every.whole and every.launches == 1 and not every.idle and every.where == "on the device"
    lacking = covered(RESHAPED, [X, np.array([3, 2])], "OPENCL")
    assert "shape" in ", ".join(lacking.host.values()) and not lacking.whole


def test_the_code_of_what_is_too_small_is_that_of_opencl_s_constraint():
    assert worth_a_launch.code == WORTH


def test_operators_have_generated_code_by_the_tables_of_their_backends():
    c, opencl = (generated_operators(name) for name in ("c", "opencl"))
    assert {"exp", "reinterpret", "check_indices", "nn.lstm_sequence"} <= c
    assert {"exp", "reinterpret", "check_indices", "bitwise_and", "nn.lstm_sequence"} <= opencl
    assert "topk" in c - opencl  # a routine of the host's
    assert not {"unique_slices", "sequence.at"} & (c | opencl)


def test_an_operator_is_generated_whose_form_of_known_shapes_is():
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    inputs = [helper.make_tensor_value_info("x", 1, [2, 3]), helper.make_tensor_value_info("s", 7, [2])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, ["a", "b"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    assert missing_operators(model, ("c",)) == ()


UNKNOWN = "Tensor[(?,), float32] has no size (node D_0)"
SURVEY = Survey(
    "OPENCL",
    [
        Outcome("test_a", "A", "passed", coverage=Coverage()),
        Outcome("test_b", "B", "passed", coverage=Coverage(host={"add 0": WORTH})),
        Outcome("test_c", "C", "as constants", coverage=Coverage(host={"sort 0": "expression"})),
        Outcome(
            "test_d",
            "D",
            "passed",
            coverage=Coverage({"f": "Tensor[(?,), float32] has no size (node D_0)"}, {"d 0": "shape"}),
        ),
        Outcome("test_e", "E", "passed", coverage=Coverage({"f": "sort has no tensor expression"}, {}, ("sort",))),
        Outcome("test_f", "F", "refused", "no F"),
    ],
)


def test_the_bar_counts_the_cases_whose_operators_are_generated():
    assert SURVEY.bar() == Bar(cases=4, kernels=3, device=1)
    text = coverage_text(SURVEY)
    assert text.startswith("Of 5 cases that pass, 4 have only operators") and "3 of these (75.0 %)" in text
    assert "1 (25.0 %) nothing on the host either" in text
    assert text.endswith("All cases that pass: 0 on the device, 0 in parts, 4 on the host, 1 nothing to compute.")


def test_causes_are_grouped_without_names_of_nodes_and_sizes():
    found = causes(SURVEY)
    assert found["numpy kernels: a tensor of float32 has no size"] == {"D": 1}
    assert found[f"host: {WORTH}"] == {"B": 1}
    page = section(SURVEY)
    assert "| host: expression | 1 | `C` |" in page and coverage_text(SURVEY) in page


@pytest.mark.needs_cc
def test_the_survey_has_it_as_data():
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]> {DISTINCT}')
    case = SuiteCase("test_it", "Unique", model, [((X,), (X, np.exp(X)))], 1e-3, 1e-7)
    shown = json.loads(json.dumps(survey([case], "CPU").to_json()))
    assert shown["generated code"] == {"cases": 0, "kernels": 0, "device": 0}
    assert shown["cases"][0]["kind"] == "passed"
    assert shown["cases"][0]["coverage"]["missing"] == ["unique_slices"] and shown["cases"][0]["coverage"]["kernels"]
