"""An operator takes the element types that its schema lists, and no others."""

import onnx
import onnx.parser
import pytest

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx.element_types import allowed_types
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
    import_onnx(_model("y = Relu (x)", "int32[4] x", opset=14))


def test_operators_without_a_schema_and_old_ones_are_left_alone():
    assert allowed_types("com.microsoft", "FusedGemm", 1) is None
    assert allowed_types("", "Tile", 6) is None
    assert allowed_types("", "Concat", 13)[1]
