"""A node has the element types, attributes, inputs and outputs that its operator's schema lists, and no others."""

import re

import onnx
import onnx.parser
import onnxruntime
import pytest

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx.schemas import allowed_types
from byoc.relay.frontend.onnx_importer import import_onnx


def _model(body: str, inputs: str, opset: int = 13) -> onnx.ModelProto:
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    return onnx.parser.parse_model(f"{header} g ({inputs}) => (float[] y) {{ {body} }}")


REFUSED = {
    "average of integers": ("y = AveragePool <kernel_shape: ints = [2]> (x)", "int32[1,1,4] x"),
    "global average of bytes": ("y = GlobalAveragePool (x)", "uint8[1,1,4] x"),
    "root of integers": ("y = Sqrt (x)", "int64[4] x"),
    "softmax of integers": ("y = Softmax (x)", "int32[4] x"),
    "indices that are floats": ("y = Gather (x, i)", "float[4] x, float[2] i"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_element_type_that_the_schema_does_not_list_is_refused_by_one_sentence(name):
    body, inputs = REFUSED[name]
    sentence = r"input \d \(\w+\) is \w+, and \w+ of opset 13 takes .*: cast it before"
    with pytest.raises(ImportModelError, match=sentence):
        import_onnx(_model(body, inputs))


def test_an_element_type_of_a_later_opset_is_taken_from_there():
    assert "bfloat16" not in dict(allowed_types("", "Relu", 7)[0])["X"]
    assert "bfloat16" in dict(allowed_types("", "Relu", 13)[0])["X"]
    with pytest.raises(ImportModelError, match="input 0 .X. is int32, and Relu of opset 13 takes"):
        import_onnx(_model("y = Relu (x)", "int32[4] x"))
    import_onnx(_model("z = Relu (x) y = Cast <to: int = 1> (z)", "int32[4] x", opset=14))


def test_operators_without_a_schema_and_old_ones_are_left_alone():
    assert allowed_types("com.microsoft", "FusedGemm", 1) is None
    assert allowed_types("", "Tile", 6) is None
    assert allowed_types("", "Concat", 13)[1]


FORMS = {
    "inputs that the operator does not have": ("y = Relu (x, x)", "Relu of opset 13 has at most 1 input, got 2"),
    "outputs that the operator does not have": ("y, z = Relu (x)", "Relu of opset 13 has at most 1 output, got 2"),
    "a misspelled attribute": ("y = LeakyRelu <alfa = 0.5> (x)", "has no attribute 'alfa': did you mean 'alpha'?"),
    "an attribute of nothing alike": ("y = Relu <q = 3> (x)", "Relu of opset 13 has no attribute 'q': it has none"),
    "a float for an integer": ("y = Softmax <axis = 0.5> (x)", "the attribute 'axis' is of type INT, got FLOAT"),
    "in a branch": (
        "y = If (c) <then_branch = t () => (float[4] v) { v = Relu <q = 3> (x) },"
        " else_branch = e () => (float[4] w) { w = Identity (x) }>",
        "Relu of opset 13 has no attribute 'q'",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_the_schema_does_not_have_is_refused_as_onnxruntime_does(name):
    body, sentence = FORMS[name]
    model = _model(body, "float[4] x, bool c")
    with pytest.raises(ImportModelError, match=re.escape(sentence)):
        import_onnx(model)
    with pytest.raises(Exception, match=r"INVALID_GRAPH|Type Error|FAIL"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_a_left_out_input_and_an_attribute_of_a_tool_are_no_mistakes():
    model = _model("y = Clip <__origin = 3> (x, , )", "float[4] x")
    import_onnx(model)


def test_an_output_declared_with_another_element_type_is_refused():
    model = _model("y = Relu (x)", "double[4] x")
    with pytest.raises(ImportModelError, match="output 'y' is declared as float32, and the model makes float64"):
        import_onnx(model)
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
    import_onnx(model)
